"""Waiting until a server is ready."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from openenv.containers.ready import wait_until_ready
from openenv.core.errors import ContainerDied, ContainerNotReady

Answer = Callable[[int], bytes | None]


def reply(status: str, body: bytes = b"{}") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


OK = reply("200 OK")


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Answers the n-th connection with ``answer(n)``; ``None`` resets it. Gives its URL and the requests."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(65536))
                    data = answer(len(asked) - 1)
                    if data is None:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    else:
                        connection.sendall(data)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def wait(url: str, timeout_s: float = 10.0) -> None:
    wait_until_ready(url, timeout_s, failure=lambda: None)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_200_is_ready_and_asked_once_at_the_path_under_the_prefix() -> None:
    with server(lambda n: OK) as (url, asked):
        wait(f"{url}/some/prefix/")
    assert len(asked) == 1
    assert asked[0].startswith(b"GET /some/prefix/health HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "not_yet",
    [
        reply("503 Service Unavailable"),
        reply("500 Oops"),
        reply("404 Not Found"),
        reply("307 Moved"),
        b"",
        None,
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ncut",
        b"not HTTP at all\r\n\r\n",
    ],
    ids=["503", "500", "404", "redirect", "empty", "reset", "cut", "cut-chunk", "garbage"],
)
def test_anything_but_a_whole_200_is_not_yet(not_yet: bytes | None) -> None:
    with server(lambda n: not_yet if n < 3 else OK) as (url, asked):
        wait(url)
    assert len(asked) == 4


def test_an_answer_without_a_length_is_whole_when_the_connection_closes() -> None:
    with server(lambda n: b"HTTP/1.0 200 OK\r\n\r\nfine") as (url, _):
        wait(url)


def test_nothing_listening_is_a_timeout_error_that_names_the_url_the_limit_and_what_came() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=rf"{url} was not ready within 0\.3 s.*[Rr]efused"):
        wait(url, 0.3)
    assert 0.3 <= time.monotonic() - start < 2


def test_never_healthy_names_the_last_answer() -> None:
    with server(lambda n: reply("503 Busy", b"loading the model")) as (url, _):
        with pytest.raises(ContainerNotReady, match="503 loading the model"):
            wait(url, 0.2)


def test_a_server_that_accepts_and_says_nothing_does_not_outlast_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        start = time.monotonic()
        with pytest.raises(ContainerNotReady, match="no answer within"):
            wait(f"http://127.0.0.1:{listener.getsockname()[1]}", 0.3)
        assert time.monotonic() - start < 2


def test_the_pauses_grow_so_that_a_dead_port_is_not_hammered() -> None:
    with server(lambda n: reply("503 Busy")) as (url, asked):
        with pytest.raises(ContainerNotReady):
            wait(url, 1.0)
    assert 5 <= len(asked) <= 80


def test_a_failure_ends_the_waiting_before_anything_is_asked() -> None:
    with server(lambda n: OK) as (url, asked):
        with pytest.raises(ContainerDied, match="it is dead"):
            wait_until_ready(url, 10.0, failure=lambda: ContainerDied("it is dead"))
    assert asked == []


def test_a_configured_proxy_is_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with server(lambda n: OK) as (url, asked):
        wait(url.replace("127.0.0.1", "localhost"))
    assert len(asked) == 1
