"""Trains stable-baselines3's PPO on cart pole, on a server of its own, and says what it learned.

``python -m examples.train_cart_pole``; needs ``pip install 'openenv-client[server,examples]'``. A minute on two cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from examples.cart_pole import CartPoleEnv
from openenv.integrations.gymnasium import GymnasiumEnv, to_gymnasium


def mean_return(env: GymnasiumEnv, act: Callable[[Any], Any], episodes: int, seed: int) -> float:
    """The mean sum of rewards of ``episodes`` episodes."""
    total = 0.0
    for number in range(episodes):
        seen, _ = env.reset(seed=seed + number)
        over = False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(act(seen))
            total += reward
            over = terminated or truncated
    return total / episodes


def main(arguments: list[str] | None = None) -> int:
    """Train, and compare with pushing at random on the same episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30_000, help="steps of training (default: %(default)s)")
    parser.add_argument("--envs", type=int, default=8, help="environments at once (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of everything (default: %(default)s)")
    given = parser.parse_args(arguments)

    with CartPoleEnv.from_process("examples.cart_pole:app") as server:
        one = to_gymnasium(CartPoleEnv(server.base_url))
        one.action_space.seed(given.seed)
        random = mean_return(one, lambda seen: one.action_space.sample(), 20, given.seed + 1000)

        many = VecMonitor(DummyVecEnv([lambda: to_gymnasium(CartPoleEnv(server.base_url))] * given.envs))
        model = PPO(
            "MlpPolicy",
            many,
            n_steps=64,
            batch_size=256,
            n_epochs=20,
            gamma=0.98,
            gae_lambda=0.8,
            learning_rate=1e-3,
            seed=given.seed,
            device="cpu",
        )
        began = perf_counter()
        model.learn(given.steps)
        took = perf_counter() - began
        trained = mean_return(one, lambda seen: model.predict(seen, deterministic=True)[0], 20, given.seed + 1000)
        many.close()
        one.close()
    print(f"{given.steps:,} steps in {took:.1f} s, {given.steps / took:,.0f} steps/s")
    print(f"mean return at random {random:.1f}, after training {trained:.1f}")
    return 0 if trained > 3 * random else 1


if __name__ == "__main__":
    sys.exit(main())
