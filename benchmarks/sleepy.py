"""The server of an environment that sleeps for a second on the event loop: ``python -m benchmarks.sleepy``."""

from __future__ import annotations

import asyncio
from typing import Any

from openenv.core.types import State
from openenv.server import Environment, create_app


class Sleepy(Environment[dict[str, Any], dict[str, Any], State]):
    """Each step takes a second in which the server can do something else."""

    def __init__(self) -> None:
        self.state = State()

    async def reset(self) -> dict[str, Any]:
        return {}

    async def step(self, action: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1.0)
        return {"reward": 1.0}


app = create_app(Sleepy, dict, dict, max_sessions=50_000)
