"""The coding environment itself."""

from __future__ import annotations

import sys
from uuid import uuid4

from envs.coding_env.models import CodeAction, CodeObservation, CodeState
from envs.coding_env.server.interpreter import Interpreter
from envs.coding_env.server.settings import Settings
from openenv.server.environment import Environment

#: Seconds before the caller's own limit at which a step is ended, so that the answer still arrives.
_MARGIN_S = 1.0


class CodingEnvironment(Environment[CodeAction, CodeObservation, CodeState]):
    """Runs code in an interpreter of the session's own.

    Args:
        settings: What code may use; by default what the variables say.
        python: The interpreter that runs the code.

    Raises:
        ValueError: A setting cannot work.
    """

    def __init__(self, settings: Settings | None = None, python: str = sys.executable) -> None:
        self._settings = Settings.from_variables() if settings is None else settings
        self._limit_s = self._settings.timeout_s
        self._interpreter = Interpreter(self._settings, python)
        self.state = CodeState(episode_id=str(uuid4()))

    def reset(self, episode_id: str | None = None, *, step_timeout_s: float | None = None) -> CodeObservation:
        """Begin with a fresh interpreter and an empty folder.

        Args:
            episode_id: What to call the episode.
            step_timeout_s: Seconds for each of its steps; by default the server's ``CODING_TIMEOUT_S``.

        Raises:
            ValueError: ``step_timeout_s`` is not a positive number.
        """
        self._limit_s = self._settings.timeout_s if step_timeout_s is None else _positive(step_timeout_s)
        self._interpreter.reset()
        self.state = CodeState(episode_id=episode_id or str(uuid4()))
        return CodeObservation(reward=0.0)

    def step(self, action: CodeAction, timeout_s: float | None = None) -> CodeObservation:
        """Run code; whatever it does, there is an observation of it.

        Args:
            action: The code.
            timeout_s: Seconds after which the caller does not wait any more.
        """
        limit_s = self._limit_s
        if timeout_s is not None:
            limit_s = min(limit_s, max(timeout_s - _MARGIN_S, timeout_s / 2))
        outcome = self._interpreter.run(action.code, limit_s)
        self.state.step_count += 1
        self.state.last_exit_code = outcome.exit_code
        return CodeObservation(
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            exit_code=outcome.exit_code,
            reward=0.0,
            metadata={"variables_lost": True} if outcome.lost else {},
        )

    def close(self) -> None:
        """End all that the code has started."""
        self._interpreter.close()


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"step_timeout_s must be a positive number of seconds; got {value!r}")
    return float(value)
