"""What the coding environment says and hears."""

from __future__ import annotations

from dataclasses import dataclass

from openenv.core.types import Action, Observation, State


@dataclass
class CodeAction(Action):
    """Run ``code``, Python statements."""

    code: str


@dataclass(kw_only=True)
class CodeObservation(Observation):
    """What the code wrote, and how it ended.

    Attributes:
        stdout: What it and the processes that it started wrote there.
        stderr: Likewise, with the traceback of an exception, and a line of the environment's own where it had to end
            the code.
        exit_code: 0 where it ran to its end, 1 after an exception, what ``sys.exit`` was given, 124 where it took too
            long, 128 plus the signal that ended the interpreter.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


@dataclass(kw_only=True)
class CodeState(State):
    """Where the episode stands; ``last_exit_code`` is that of the last step."""

    last_exit_code: int = 0
