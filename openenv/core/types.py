"""The values that travel: actions, observations, states and the result of a step.

They are dataclasses with the dataclasses-json mixin, so that people have ``to_dict``, ``from_dict``, ``to_json`` and
``schema``. The wire itself is decoded by :mod:`openenv.core.codec`, which is checked and a hundred times faster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

from dataclasses_json import DataClassJsonMixin
from typing_extensions import TypeVar

#: What an environment pays: ``None`` is "nothing said", which is not 0; ints and bools stay what they are.
Reward = bool | int | float | None


@dataclass(kw_only=True)
class Action(DataClassJsonMixin):
    """What an agent does. Subclass it as a dataclass; ``metadata`` is not sent while it is empty."""

    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Observation(DataClassJsonMixin):
    """What an agent sees. Subclass it as a dataclass.

    ``metadata`` also holds every key that a newer server sent and the class does not know.
    """

    done: bool = False
    reward: Reward = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class State(DataClassJsonMixin):
    """Where an episode stands. ``step_count`` is the number of steps since the last reset."""

    episode_id: str | None = None
    step_count: int = 0


ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT", default=State)


@dataclass
class StepResult(Generic[ObsT]):
    """What ``reset`` and ``step`` return.

    Attributes:
        observation: What the agent sees.
        reward: What the server sent, uncoerced; ``None`` where it said nothing.
        done: Whether the episode is over, for whatever reason.
        metadata: What the server said beside the observation, keys unknown to this version included.
        terminated: Whether the environment itself ended the episode; ``None`` where the server does not say.
        truncated: Whether a limit from outside ended it; ``None`` where the server does not say.
    """

    observation: ObsT
    reward: Reward = None
    done: bool = False
    metadata: dict[str, Any] | None = None
    terminated: bool | None = None
    truncated: bool | None = None
