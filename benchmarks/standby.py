"""A container that stands by, against one that has to be started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benchmarks.frame import Bench, Must, Unavailable, times
from envs.echo_env import EchoEnv

TAKEN, STARTED = "StandbyPool.take", "from_docker_image"
IMAGE = "echo-env:latest"

MUSTS = [
    Must("standby_vs_cold", "time to the first observation, as a share of a cold start", times(TAKEN, STARTED), 0.1)
]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare the time to the first observation."""
    from openenv.containers import LocalDockerProvider, StandbyPool
    from openenv.containers.build import build_environment
    from openenv.core.errors import ContainerError

    try:
        build_environment("echo_env", IMAGE, os.environ.get("OPENENV_BASE_IMAGE"), lambda line: None)
        standby = StandbyPool(IMAGE, 1, provider=lambda: LocalDockerProvider(stop_timeout_s=1))
        standby.wait_until_full()
    except ContainerError as error:
        raise Unavailable(error.message) from error

    def take() -> float:
        standby.wait_until_full()
        start = perf_counter()
        env = standby.take(EchoEnv)
        env.reset()
        taken = perf_counter() - start
        standby.wait_until_full()  # its successor is not started while something else is measured
        env.close()
        return taken

    def start() -> float:
        begin = perf_counter()
        with EchoEnv.from_docker_image(IMAGE, LocalDockerProvider(stop_timeout_s=1)) as env:
            env.reset()
            return perf_counter() - begin

    with standby:
        yield Bench(
            "from nothing to the first observation",
            {TAKEN: take, STARTED: start},
            reference=STARTED,
            blocks=4 if quick else 20,
            musts=MUSTS,
        )
