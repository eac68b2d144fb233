"""Environments for the tests of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openenv.core.types import Action, Observation, State
from openenv.server.environment import Environment
from tests.unit.server.asgi import SimulatedWorkers


@dataclass(kw_only=True)
class Say(Action):
    message: str


@dataclass(kw_only=True)
class Heard(Observation):
    message: str = ""
    count: int = 0


class Counting(Environment[Say, Heard, State]):
    """Counts its steps, on the event loop."""

    blocking = False

    def __init__(self) -> None:
        self.state = State(episode_id="made")
        self.closed = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, level: int = 1) -> Heard:
        self.state = State(episode_id=episode_id or "begun")
        return Heard(message="begun", metadata={"seed": seed, "level": level})

    def step(self, action: Say) -> Heard:
        self.state.step_count += 1
        return Heard(message=action.message, count=self.state.step_count, reward=1)

    def close(self) -> None:
        self.closed += 1


class World:
    """Simulated environments that note what happens to them.

    A step does what its action says: ``{"block": seconds, "raise": text}``; so does a reset by its options.
    """

    def __init__(self) -> None:
        self.workers = SimulatedWorkers()
        self.made: list[Blocking] = []
        self.factory_blocks = 0.0
        self.factory_fails = ""
        self.close_blocks = 0.0

    def factory(self) -> Blocking:
        self.workers.block(self.factory_blocks)
        if self.factory_fails:
            raise OSError(self.factory_fails)
        self.made.append(Blocking(self))
        return self.made[-1]

    @property
    def open(self) -> int:
        """Environments that were made and not closed."""
        return sum(env.closed == 0 for env in self.made)


class Blocking(Environment[dict[str, Any], dict[str, Any], State]):
    def __init__(self, world: World) -> None:
        self.world = world
        self.state = State(episode_id=f"env-{len(world.made)}")
        self.resets = 0
        self.steps: list[Any] = []
        self.closed = 0

    def _act(self, what: dict[str, Any]) -> None:
        self.world.workers.block(what.get("block", 0.0))
        if "raise" in what:
            raise ValueError(what["raise"])

    def reset(self, **options: Any) -> dict[str, Any]:
        self.resets += 1
        self.steps.clear()
        self._act(options)
        return {"steps": 0, "env": self.state.episode_id}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        self.steps.append(action)
        self._act(action)
        return {"steps": len(self.steps), "env": self.state.episode_id, "reward": 1}

    def close(self) -> None:
        self.closed += 1
        self.world.workers.block(self.world.close_blocks)
