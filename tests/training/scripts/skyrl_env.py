"""An environment of SkyRL's gym in the manner of its OpenEnv recipe, made and driven by SkyRL's own ``make``."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from envs.echo_env import EchoAction, EchoEnv


class Spoken(BaseTextEnv):
    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.max_turns = (extras or {})["max_turns"]
        self.env = EchoEnv.from_docker_image((extras or {})["env_name"] + ":latest")
        self.initial_step_result = self.env.reset()

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        said = re.search(r"<action>(.*?)</action>", action, re.DOTALL)
        result = self.env.step(EchoAction(message=said[1] if said else ""))
        assert result.observation
        return BaseTextEnvStepOutput(
            observations=[{"role": "user", "content": str(result.observation)}],
            reward=result.reward,
            done=result.done or self.turns >= self.max_turns,
            metadata={},
        )

    def close(self) -> None:
        self.env.close()


skyrl_gym.register(id="spoken", entry_point=Spoken)
env = skyrl_gym.make("spoken", env_config=None, extras={"env_name": sys.argv[1], "max_turns": 2})
env.init([{"role": "user", "content": "Speak."}])
steps = [env.step("<action>hello</action>"), env.step("<action>ab</action>")]
env.close()
print(json.dumps([[step["reward"], step["done"], step["observations"][0]["content"]] for step in steps]))
