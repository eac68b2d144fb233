"""A step of an Atari game, from the action to an array with the frame."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any

from benchmarks.frame import Bench, Case, Must, Unavailable, repeated, times
from benchmarks.processes import our_server, peer_client, peer_server

OURS, PEER, LOCAL = "AtariEnv, our server", "peer, its server", "gymnasium in this process"
#: As on the peer's side (``peer/kit.py``).
GAME, SEED, ACTIONS, FRAMESKIP = "breakout", 7, 4, 4

MUSTS = [
    Must("atari_vs_peer", "a step takes the peer so many times as long", times(PEER, OURS), at_least=25),
    Must("atari_vs_gymnasium", "steps per second, as a share of gymnasium's", times(LOCAL, OURS), at_least=0.5),
]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with the peer's typed client and server, and with gymnasium without any server."""
    try:
        import ale_py
        import gymnasium
        import numpy
    except ImportError as error:
        raise Unavailable(f"{error}; pip install '.[bench]'") from error
    from envs.atari_env import AtariAction, AtariEnv

    gymnasium.register_envs(ale_py)
    with ExitStack() as stack:
        url, our_pid = stack.enter_context(our_server("envs.atari_env.server.app:app", ATARI_GAME=GAME))
        peer_url, peer_pid = stack.enter_context(peer_server("atari"))
        peer = stack.enter_context(peer_client("atari", peer_url))
        env = stack.enter_context(AtariEnv(url))
        local = gymnasium.make("ALE/Breakout-v5", frameskip=FRAMESKIP, repeat_action_probability=0.0)
        stack.callback(local.close)
        env.reset(seed=SEED)
        local.reset(seed=SEED)
        actions = cycle(range(ACTIONS))

        def our_step() -> bool:
            result = env.step(AtariAction(next(actions)))
            if not isinstance(result.observation.screen, numpy.ndarray):
                raise TypeError(f"the screen is a {type(result.observation.screen).__name__}")
            return result.done

        def local_step() -> bool:
            _, _, terminated, truncated, _ = local.step(next(actions))
            return bool(terminated or truncated)

        steps = 30 if quick else 100
        yield Bench(
            f"a step of {GAME}, rgb, frameskip {FRAMESKIP}",
            {
                OURS: _episodes(our_step, env.reset, steps),
                PEER: lambda: peer.steps(3 if quick else 10),
                LOCAL: _episodes(local_step, local.reset, steps),
            },
            reference=OURS,
            blocks=5 if quick else 20,
            musts=MUSTS,
            processes={
                OURS: {"client": os.getpid(), "server": our_pid},
                PEER: {"client": peer.pid, "server": peer_pid},
                LOCAL: {"client": os.getpid()},
            },
        )


def _episodes(step: Callable[[], bool], reset: Callable[[], Any], count: int) -> Case:
    """Steps of one episode after the other; a reset counts as part of the step before it."""

    def step_on() -> None:
        if step():
            reset()

    return repeated(step_on, count)
