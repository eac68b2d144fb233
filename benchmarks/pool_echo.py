"""64 echo environments stepped together: the pool, single clients in threads, and the peer's clients in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from time import perf_counter

from benchmarks.echo_http import APP, MESSAGE
from benchmarks.frame import Bench, Must, times
from benchmarks.processes import our_server, peer_clients, peer_server
from envs.echo_env import EchoAction, EchoEnv
from openenv.pool import EnvPool

LANES = 64
POOL, SINGLE, PEER = "EnvPool.step, our server", "HTTPEnvClients in threads, our server", "peer's clients in threads"
FOREIGN = "EnvPool.step, the peer's server"

MUSTS = [
    Must(
        "pool_vs_peer",
        "a step of a lane takes the peer so many times as long",
        times(PEER, POOL),
        at_least=30,
    ),
    Must("pool_vs_single", "and single clients of ours so many times as long", times(SINGLE, POOL), at_least=4),
    Must("pool_on_peer_server", "the same, our pool on the peer's server", times(PEER, FOREIGN), at_least=1.5),
]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Seconds for one step of one lane, all lanes together."""
    with ExitStack() as stack:
        url, _ = stack.enter_context(our_server(APP, MAX_CONCURRENT_ENVS="200"))
        peer_url, _ = stack.enter_context(peer_server("echo"))
        foreign_url, _ = stack.enter_context(peer_server("echo"))
        peer = stack.enter_context(peer_clients(peer_url, LANES))
        pool = stack.enter_context(EnvPool(EchoEnv, url, LANES))
        foreign = stack.enter_context(EnvPool(EchoEnv, foreign_url, LANES))
        singles = [stack.enter_context(EchoEnv(url)) for _ in range(LANES)]
        threads = stack.enter_context(ThreadPoolExecutor(LANES))
        for one in (pool, foreign):
            one.reset().raise_errors()
        list(threads.map(lambda env: env.reset(), singles))
        rounds = 3 if quick else 5

        def many() -> float:
            start = perf_counter()
            list(threads.map(_play(rounds), singles))
            return (perf_counter() - start) / rounds / LANES

        yield Bench(
            f"a step of {LANES} echo environments, per lane",
            {
                POOL: lambda: _rounds(pool, 10 * rounds),
                SINGLE: many,
                PEER: lambda: [taken / rounds / LANES for taken in peer.steps(rounds)],
                FOREIGN: lambda: _rounds(foreign, rounds),
            },
            reference=POOL,
            blocks=6 if quick else 20,
            musts=MUSTS,
        )


def _rounds(pool: EnvPool[EchoAction, object, object], count: int) -> float:
    actions = [EchoAction(message=MESSAGE)] * len(pool)
    start = perf_counter()
    for _ in range(count):
        result = pool.step(actions)
    taken = perf_counter() - start
    result.raise_errors()
    return taken / count / len(pool)


def _play(count: int) -> Callable[[EchoEnv], None]:
    def play(env: EchoEnv) -> None:
        for _ in range(count):
            env.step(EchoAction(message=MESSAGE))

    return play
