"""The echo environment, except that the word "die" ends its process and "stumble" makes it raise."""

from __future__ import annotations

import os

from envs.echo_env import EchoAction, EchoEnv, EchoObservation
from envs.echo_env.server.environment import EchoEnvironment
from openenv.server.app import create_app


class Mortal(EchoEnvironment):
    def step(self, action: EchoAction) -> EchoObservation:
        if action.message == "die":
            os._exit(3)
        if action.message == "stumble":
            raise ValueError("a stone was in the way")
        return super().step(action)


class MortalEnv(EchoEnv): ...


app = create_app(Mortal, EchoAction, EchoObservation)
