"""Eight Atari games stepped together, to frames in numpy arrays, against gymnasium's own processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter

from benchmarks.atari import ACTIONS, FRAMESKIP, GAME, SEED
from benchmarks.frame import Bench, Must, Unavailable, times
from benchmarks.processes import our_server

LANES = 8
POOL, VECTOR = "EnvPool, 2 servers", "gymnasium's AsyncVectorEnv, shared memory"

MUSTS = [
    Must("pool_atari_vs_gymnasium", "steps per second, as a share of gymnasium's", times(VECTOR, POOL), at_least=0.7),
]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Seconds for one step of one game. The emulator holds the interpreter, so each core has a server."""
    try:
        import ale_py
        import gymnasium
        import numpy
    except ImportError as error:
        raise Unavailable(f"{error}; pip install '.[bench]'") from error
    from envs.atari_env import AtariAction, AtariEnv
    from openenv.pool import EnvPool

    gymnasium.register_envs(ale_py)
    with ExitStack() as stack:
        app = "envs.atari_env.server.app:app"
        urls = [stack.enter_context(our_server(app, ATARI_GAME=GAME))[0] for _ in range(2)]
        pool = stack.enter_context(EnvPool(AtariEnv, urls, LANES, autoreset="next_step"))
        vector = gymnasium.make_vec(
            "ALE/Breakout-v5",
            LANES,
            vectorization_mode="async",
            vector_kwargs={"shared_memory": True},
            frameskip=FRAMESKIP,
            repeat_action_probability=0.0,
        )
        stack.callback(vector.close)
        pool.reset(seeds=SEED).raise_errors()
        vector.reset(seed=SEED)
        steps = 20 if quick else 60

        def ours() -> float:
            start = perf_counter()
            for number in range(steps):
                result = pool.step([AtariAction((number + lane) % ACTIONS) for lane in range(LANES)])
                frames = [told.observation.screen for told in result if told is not None]
                if len(frames) != LANES or not isinstance(frames[0], numpy.ndarray):
                    raise RuntimeError(f"{len(frames)} frames, errors {result.errors}")
            return (perf_counter() - start) / steps / LANES

        def theirs() -> float:
            start = perf_counter()
            for number in range(steps):
                vector.step(numpy.array([(number + lane) % ACTIONS for lane in range(LANES)]))
            return (perf_counter() - start) / steps / LANES

        yield Bench(
            f"a step of {LANES} games of {GAME}, per game",
            {POOL: ours, VECTOR: theirs},
            reference=POOL,
            blocks=6 if quick else 20,
            musts=MUSTS,
        )
