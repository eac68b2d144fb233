"""An environment for pools: it counts, ends, sleeps and fails as its actions say."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from openenv.core import HTTPEnvClient, TypedHooks
from openenv.core.types import Action, Observation, State
from openenv.server import Environment, create_app


@dataclass(kw_only=True)
class Do(Action):
    sleep: float = 0.0
    end: bool = False
    fail: str = ""


@dataclass(kw_only=True)
class Seen(Observation):
    count: int = 0
    seed: int | None = None
    level: int = 0


class Counting(Environment[Do, Seen, State]):
    """Blocks, on threads."""

    def __init__(self) -> None:
        self.state = State()
        self.seed: int | None = None
        self.level = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, level: int = 0) -> Seen:
        self.state = State(episode_id=episode_id)
        self.seed, self.level = seed, level
        return Seen(seed=seed, level=level)

    def step(self, action: Do) -> Seen:
        time.sleep(action.sleep)
        return self._act(action)

    def _act(self, action: Do) -> Seen:
        if action.fail:
            raise ValueError(action.fail)
        self.state.step_count += 1
        return Seen(
            count=self.state.step_count,
            seed=self.seed,
            level=self.level,
            reward=float(self.state.step_count),
            done=action.end,
        )


class Async(Counting):
    """Sleeps on the event loop."""

    async def step(self, action: Do) -> Seen:  # type: ignore[override]
        await asyncio.sleep(action.sleep)
        return self._act(action)


class CountingEnv(TypedHooks[Do, Seen, State], HTTPEnvClient[Do, Seen, State]):
    """Its client."""


def app(kind: type[Counting] = Counting, **options: Any) -> Any:
    return create_app(kind, Do, Seen, State, **{"max_sessions": 64, **options})
