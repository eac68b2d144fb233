"""An engine that is reached over TCP, with proxies configured that must not be asked for the loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import docker
import pytest

from openenv.containers import LocalDockerProvider
from tests.docker.conftest import SERVE, OwnerProcess, eventually

SOCKET = "/var/run/docker.sock"


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _serve(listener: socket.socket) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.socket(socket.AF_UNIX)
        far.connect(SOCKET)

        def carry(near: socket.socket = near, far: socket.socket = far) -> None:
            with near, far:
                back = threading.Thread(target=_pump, args=(far, near), daemon=True)
                back.start()
                _pump(near, far)
                back.join()

        threading.Thread(target=carry, daemon=True).start()


@pytest.fixture
def tcp_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The local engine at a TCP port of the loopback, as DOCKER_HOST; and a proxy that nobody answers at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener,), daemon=True)
        thread.start()
        url = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("DOCKER_HOST", url)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        yield url
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_container_on_an_engine_over_tcp(tcp_engine: str, image: str) -> None:
    with LocalDockerProvider() as provider:
        assert provider._engine.address.url == tcp_engine
        url = provider.start_container(image, command=SERVE)
        assert url.startswith("http://127.0.0.1:")
        provider.wait_for_ready(url)


def test_a_client_of_the_callers_own_is_used_and_left_open(tcp_engine: str, image: str) -> None:
    client = docker.DockerClient(base_url=f"unix://{SOCKET}")
    try:
        with LocalDockerProvider(client) as provider:
            assert provider._engine.address.url == f"unix://{SOCKET}"
            provider.wait_for_ready(provider.start_container(image, command=SERVE))
        assert client.ping()
    finally:
        client.close()


def test_sigkill_leaves_nothing_there_either(
    tcp_engine: str, owner: Callable[[str], OwnerProcess], left: Callable[..., list[str]]
) -> None:
    other = owner("made = start(2)\ntell('ready')\ntime.sleep(600)")
    other.told()
    assert len(left(other.session)) == 2
    other.process.kill()
    other.end()
    assert eventually(lambda: not left(other.session), 5), left(other.session)
