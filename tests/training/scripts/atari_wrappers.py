"""The usual wrappers of Atari, here and on the emulator itself: the same frames for the same actions."""

from __future__ import annotations

import json
from typing import Any

import ale_py
import gymnasium
import numpy as np
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, RecordEpisodeStatistics

from envs.atari_env import AtariEnv
from envs.atari_env.gym import to_gymnasium
from openenv.core.errors import ConfigurationError

STEPS = 300


def wrapped(env: Any, noop_max: int = 0) -> Any:
    # The emulator's own environment draws its seeds first, so that a seed stands for other numbers of no-ops there.
    plain = AtariPreprocessing(env, noop_max=noop_max, terminal_on_life_loss=True)
    return RecordEpisodeStatistics(FrameStackObservation(plain, 4))


gymnasium.register_envs(ale_py)
theirs = wrapped(gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0, obs_type="grayscale"))
with AtariEnv.from_process() as server:
    ours = wrapped(to_gymnasium(AtariEnv(server.base_url), game_name="breakout", obs_type="grayscale", frameskip=1))
    mine, his = ours.reset(seed=1)[0], theirs.reset(seed=1)[0]
    same, episodes, reward = [bool((mine == his).all())], 0, 0.0
    for number in range(STEPS):
        mine, his = ours.step(number % 4), theirs.step(number % 4)
        same.append(bool(np.array_equal(mine[0], his[0])) and mine[1:4] == his[1:4])
        reward += float(mine[1])
        if mine[2] or mine[3]:
            episodes += 1
            ours.reset(seed=episodes)
            theirs.reset(seed=episodes)
    shape = list(mine[0].shape)
    ours.close()
    idle = wrapped(to_gymnasium(AtariEnv(server.base_url), obs_type="rgb", frameskip=1), noop_max=30)
    try:
        idle.reset(seed=1)
        told = ""
    except ConfigurationError as error:  # rgb frames, where the wrapper asks for grey ones
        told = str(error)
    idle.close()
print(json.dumps({"same": all(same), "episodes": episodes, "reward": reward, "shape": shape, "told": told}))
