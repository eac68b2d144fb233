"""Thirty containers at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from openenv.containers import LocalDockerProvider
from tests.docker.conftest import ROOT, SERVE

COUNT = 30


def test_thirty_at_once_clash_nowhere_and_leave_nothing(image: str, left: Callable[..., list[str]]) -> None:
    providers = [LocalDockerProvider(stop_timeout_s=1) for _ in range(COUNT)]

    def start(provider: LocalDockerProvider) -> str:
        url = provider.start_container(image, command=SERVE)
        provider.wait_for_ready(url, 100)
        return url

    try:
        with ThreadPoolExecutor(COUNT) as pool:
            urls = list(pool.map(start, providers))
    finally:
        names = {f"/{provider._container_name}" for provider in providers}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(LocalDockerProvider.stop_container, providers))
    assert len(set(urls)) == len(names) == COUNT
    assert not names & set(left())


def test_the_first_use_of_a_process_may_be_many_threads_at_once() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "from openenv.containers import LocalDockerProvider\n"
        "with Pool(16) as pool: list(pool.map(lambda _: LocalDockerProvider(), range(16)))\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
