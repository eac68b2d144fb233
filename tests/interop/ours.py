"""The names that our own package has for what the test environments need; as `peer/era_*` for the peer's."""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import field as _field
from dataclasses import make_dataclass
from functools import partial
from typing import Any

from openenv.core import Action, Observation, State
from openenv.server import create_app
from openenv.server.environment import Environment
from openenv.server.run import run
from openenv.server.tools import ToolEnvironment, ToolError, tool

__all__ = ["Action", "Environment", "Observation", "State", "app", "build_census", "build_tools", "model", "serve"]


def model(name: str, base: type, **fields: Any) -> type:
    """A model class with these fields, each `type` (required) or `(type, default)`."""
    members: list[Any] = []
    for key, value in fields.items():
        if isinstance(value, tuple):
            members.append((key, value[0], _field(default_factory=partial(copy.deepcopy, value[1]))))
        else:
            members.append((key, value))
    return make_dataclass(name, members, bases=(base,), kw_only=True)


class Tools(ToolEnvironment):
    """The tools of `environments`, as our own server has them."""

    called = 0

    def begin(self, seed: int | None, options: dict[str, Any]) -> dict[str, Any]:
        self.called = 0
        return {}

    @tool
    def add(self, a: int, b: int) -> int:
        """Add two integers."""
        self.called += 1
        return a + b

    @tool
    def calls(self) -> int:
        """How often `add` was called in this session."""
        return self.called

    @tool
    def fail(self, reason: str) -> str:
        """Always fails."""
        raise ToolError(f"tool failed: {reason}")


def build_tools(options: dict[str, Any]) -> tuple[type, type, type, type]:
    """The factory and the models of the tool environment."""
    return Tools, dict, dict, State


def build_census(options: dict[str, Any]) -> tuple[type, type, type, type]:
    """An environment that says how many of its kind, and how many tasks, there are in the server's process."""
    action = model("CensusAction", Action, seconds=(float, 0.0))
    observation = model("CensusObservation", Observation, environments=(int, 0), tasks=(int, 0))

    class Census(Environment[Any, Any, Any]):
        alive = 0

        def __init__(self) -> None:
            Census.alive += 1
            self.state = State()

        async def reset(self) -> Any:
            return observation(environments=Census.alive, tasks=len(asyncio.all_tasks()))

        def step(self, action: Any) -> Any:
            time.sleep(action.seconds)
            return observation()

        def close(self) -> None:
            Census.alive -= 1

    return Census, action, observation, State


def app(factory: Any, action: type, observation: type, state: type, options: dict[str, Any]) -> Any:
    """Options: `capacity`, `idle_s`."""
    limits = {"max_sessions": options.get("capacity", 32), "session_idle_s": options.get("idle_s")}
    return create_app(factory, action, observation, state, **limits)


def serve(application: Any, port: int) -> None:
    """Serve as `python -m openenv.server` does; says `OPENENV_READY url` on standard output."""
    run(application, port=port)
