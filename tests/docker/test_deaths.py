"""A container that dies says why, soon, and nothing of it stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from docker import DockerClient

from openenv.containers import LocalDockerProvider
from openenv.core.errors import ContainerDied, ContainerError, ContainerNotReady, ContainerStartFailed
from tests.docker.conftest import SERVE, eventually


def started(provider: LocalDockerProvider, image: str, **options: Any) -> None:
    """Start and wait, as a client does, with a limit that must not be waited out."""
    try:
        provider.wait_for_ready(provider.start_container(image, **options), 60)
    finally:
        provider.stop_container()


def python(code: str) -> list[str]:
    return ["python", "-c", code]


def test_death_at_birth_has_exit_code_and_log_tail_within_two_seconds(
    provider: LocalDockerProvider, image: str, left: Callable[..., list[str]]
) -> None:
    before = left()
    code = "import sys, time; print('loading the model'); time.sleep(0.3); sys.stderr.write('no weights'); sys.exit(3)"
    url = provider.start_container(image, command=python(code))
    start = time.monotonic()
    with pytest.raises(ContainerStartFailed, match="ended with exit code 3 before it was ready") as caught:
        provider.wait_for_ready(url, 60)
    assert time.monotonic() - start < 2
    assert (caught.value.exit_code, caught.value.oom_killed) == (3, False)
    assert "loading the model" in caught.value.logs
    assert "no weights" in str(caught.value)
    assert "trusted=True" in caught.value.remedy
    provider.stop_container()
    assert left() == before


def test_a_container_that_ends_at_once_is_told_with_its_output(
    provider: LocalDockerProvider, image: str, left: Callable[..., list[str]]
) -> None:
    before = left()
    with pytest.raises(ContainerStartFailed, match="exit code 0") as caught:
        started(provider, image, command=["echo", "that was all"])
    assert "that was all" in caught.value.logs
    assert left() == before


def test_a_command_that_does_not_exist_is_named(
    provider: LocalDockerProvider, image: str, left: Callable[..., list[str]]
) -> None:
    before = left()
    with pytest.raises(ContainerError, match="nonsense"):
        started(provider, image, command=["nonsense", "--port"])
    assert left() == before


def test_an_import_that_fails_shows_the_traceback(provider: LocalDockerProvider, image: str) -> None:
    with pytest.raises(ContainerStartFailed, match="No module named 'missing_library'"):
        started(provider, image, command=python("import missing_library"))


def test_out_of_memory_is_called_so(provider: LocalDockerProvider, image: str) -> None:
    with pytest.raises(ContainerStartFailed, match="out of memory") as caught:
        started(provider, image, command=python("x = []\nwhile True: x.append(bytearray(1 << 20))"), memory="32m")
    assert caught.value.oom_killed
    assert caught.value.exit_code == 137
    assert "memory=" in caught.value.remedy
    assert "32m" in caught.value.remedy


def test_a_server_on_another_port_is_not_ready_and_the_port_that_it_listens_on_is_named(
    provider: LocalDockerProvider, image: str
) -> None:
    url = provider.start_container(image, command=[*SERVE, "7860"])
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"was not ready within 1\.5 s") as caught:
        provider.wait_for_ready(url, 1.5)
    assert time.monotonic() - start < 5
    assert isinstance(caught.value, ContainerNotReady)
    assert "container_port=7860" in caught.value.remedy
    assert "listening on 7860" in caught.value.logs


def test_a_server_that_listens_on_its_own_loopback_is_told_so(provider: LocalDockerProvider, image: str) -> None:
    code = "import http.server as h; h.HTTPServer(('127.0.0.1', 8000), h.SimpleHTTPRequestHandler).serve_forever()"
    url = provider.start_container(image, command=python(code))
    with pytest.raises(ContainerNotReady) as caught:
        provider.wait_for_ready(url, 1.5)
    assert "0.0.0.0" in caught.value.remedy


def test_a_server_that_never_listens_shows_what_it_printed(provider: LocalDockerProvider, image: str) -> None:
    url = provider.start_container(image, command=python("import time; print('busy', flush=True); time.sleep(60)"))
    with pytest.raises(ContainerNotReady, match="busy"):
        provider.wait_for_ready(url, 1.0)


def test_death_after_it_was_ready_is_a_container_that_died(
    provider: LocalDockerProvider, image: str, engine: DockerClient
) -> None:
    provider.wait_for_ready(provider.start_container(image, command=SERVE))
    assert provider.failure() is None
    engine.api.kill(provider._container_id or "", signal="SIGKILL")
    assert eventually(provider.failure, 2)
    failure = provider.failure()
    assert isinstance(failure, ContainerDied)
    assert (failure.exit_code, failure.oom_killed, failure.episode_lost) == (137, False, True)
    assert "SIGKILL" in str(failure)
    assert "listening on 8000" in failure.logs


def test_a_server_that_ignores_sigterm_is_killed_when_its_time_is_over(
    image: str, left: Callable[..., list[str]], engine: DockerClient
) -> None:
    code = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    provider = LocalDockerProvider(stop_timeout_s=1)
    provider.start_container(image, command=python(code), init=False)
    assert eventually(lambda: b"deaf" in engine.api.logs(provider._container_id or ""), 20)
    name = f"/{provider._container_name}"
    start = time.monotonic()
    provider.stop_container()
    assert time.monotonic() - start < 5
    assert name not in left()


def test_endless_output_is_cut_to_its_end(provider: LocalDockerProvider, image: str) -> None:
    code = "import sys\nfor i in range(20000): print('line', i, 'x' * 60)\nsys.exit(9)"
    with pytest.raises(ContainerStartFailed) as caught:
        started(provider, image, command=python(code))
    assert "line 19999" in caught.value.logs
    assert len(caught.value.logs) <= 8192
