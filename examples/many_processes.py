"""One server, many workers: threads, forked and spawned processes, a PyTorch DataLoader where torch is installed.

``python -m examples.many_processes``. A client that is handed to another process (pickled, or inherited by fork) is
one of that process's own there: it has a session of its own, and never stops the server that its parent owns.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import multiprocessing
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from time import perf_counter

from examples.cart_pole import CartPoleEnv, Push

EPISODES, WORKERS = 8, 2


def play(client: CartPoleEnv, seed: int) -> float:
    """The return of one episode, pushing to where the pole leans; its session is freed at the end."""
    result = client.reset(seed=seed)
    total = 0.0
    while not result.done:
        result = client.step(Push(right=int(result.observation.motion[2] > 0)))
        total += float(result.reward or 0)
    client.disconnect()
    return total


def play_once(url: str, seed: int) -> float:
    """As :func:`play`, with a client made here: what a worker that knows only the URL does."""
    with CartPoleEnv(url) as client:
        return play(client, seed)


def in_threads(client: CartPoleEnv, seeds: Iterable[int]) -> list[float]:
    """A client for each call: one client belongs to one thread at a time."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(functools.partial(play_once, client.base_url), seeds))


def in_processes(method: str, client: CartPoleEnv, seeds: Iterable[int]) -> list[float]:
    """The client itself is sent to the workers."""
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context(method)) as pool:
        return list(pool.map(functools.partial(play, client), seeds))


def in_a_data_loader(client: CartPoleEnv, seeds: Iterable[int]) -> list[float]:
    """Each worker of the loader has a copy of the dataset, and so a client of its own."""
    from torch.utils.data import DataLoader

    from examples.episodes import Episodes

    loader = DataLoader(Episodes(client, list(seeds)), num_workers=WORKERS, batch_size=None)
    return [float(total) for total in loader]


def ways() -> dict[str, Callable[[CartPoleEnv, Iterable[int]], list[float]]]:
    """Every way that this machine has."""
    found: dict[str, Callable[[CartPoleEnv, Iterable[int]], list[float]]] = {"threads": in_threads}
    for method in multiprocessing.get_all_start_methods():
        found[method] = functools.partial(in_processes, method)
    if importlib.util.find_spec("torch") is not None:
        found["DataLoader"] = in_a_data_loader
    return found


def main(arguments: list[str] | None = None) -> int:
    """Play the same episodes in every way, and compare."""
    known = ways()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", default=list(known), help=f"of {', '.join(known)} (default: all)")
    given = parser.parse_args(arguments)

    seeds = range(EPISODES)
    with CartPoleEnv.from_process("examples.cart_pole:app") as client:
        expected = [play(client, seed) for seed in seeds]
        client.reset(seed=0)
        client.step(Push(right=0))
        for name in given.ways:
            began = perf_counter()
            same = known[name](client, seeds) == expected
            alone = client.state().step_count == 1  # nobody touched the episode of this process
            print(f"{name:<12} {perf_counter() - began:6.2f} s   {'the same returns' if same and alone else 'WRONG'}")
            if not (same and alone):
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
