"""verifiers' own OpenEnv environment plays against a server: ``verifiers_run.py URL``. Only the model is made up."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from verifiers.v1.tasksets.openenv.taskset import OpenEnvConfig, OpenEnvEnv, OpenEnvTaskset

REPLIES = iter(['{"message": "hello"}', "ab", ""])
heard: list[dict[str, Any]] = []
rewards: dict[str, float] = {}


class Segment:
    terminated = False

    def __init__(self, reply: str) -> None:
        self.last_reply = reply


class Trace:
    def stop(self, why: str) -> None:
        heard.append({"stopped": why})

    def record_reward(self, name: str, value: float) -> None:
        rewards[name] = value


class Interaction:
    trace = Trace()

    async def __aenter__(self) -> Interaction:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def turn(self, payload: str) -> Segment:
        heard.append(json.loads(payload))
        return Segment(next(REPLIES))


class Player:
    def interaction(self, task: object) -> Interaction:
        return Interaction()


class Agents:
    player = Player()


(task,) = OpenEnvTaskset(OpenEnvConfig(base_url=sys.argv[1], resets=[{"seed": 1}])).load()
asyncio.run(OpenEnvEnv.__new__(OpenEnvEnv).run(task, Agents()))
print(json.dumps({"heard": heard, "rewards": rewards}))
