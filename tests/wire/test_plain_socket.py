"""The WebSocket of plain code: read by its caller, looked after between calls."""

from __future__ import annotations

import multiprocessing
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode
from websockets.sync.server import ServerConnection, serve

from openenv.core.ws_socket import PlainSocket, connect

WATCHER = "openenv-websockets"


@contextmanager
def serving(handler: Callable[[ServerConnection], None], **options: Any) -> Iterator[str]:
    with serve(handler, "127.0.0.1", 0, compression=None, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/ws"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def connected(url: str, **options: Any) -> Iterator[PlainSocket]:
    socket = connect(url, 5.0, {"compression": None, **options})
    try:
        yield socket
    finally:
        socket.close()


def echo(connection: ServerConnection) -> None:
    for message in connection:
        connection.send(message)


def watchers() -> int:
    return sum(thread.name == WATCHER for thread in threading.enumerate())


def wait_until(true: Callable[[], bool], limit_s: float = 5.0) -> bool:
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_text_and_bytes_come_back_as_what_they_were() -> None:
    with serving(echo) as url, connected(url) as socket:
        for message in ("grüße", b"\x00\xff", "", b"x" * 300_000):
            socket.send(message, 5)
            assert socket.recv(5) == message


def test_a_message_in_pieces_with_a_ping_between_them_is_one_message() -> None:
    def pieces(connection: ServerConnection) -> None:
        connection.recv()

        def parts() -> Iterator[str]:
            yield "one "
            connection.ping()
            yield "and "
            yield "two"

        connection.send(parts())
        connection.recv()

    with serving(pieces) as url, connected(url) as socket:
        socket.send("go")
        assert socket.recv(5) == "one and two"


def test_the_pings_of_a_server_are_answered_between_calls() -> None:
    with serving(echo, ping_interval=0.3, ping_timeout=1.5) as url, connected(url) as socket:
        time.sleep(3)
        socket.send("still here")
        assert socket.recv(5) == "still here"


def test_the_way_is_kept_open_by_pings_of_our_own() -> None:
    pinged = threading.Event()

    def listen(connection: ServerConnection) -> None:
        whole = connection.process_event

        def process(event: Any) -> None:
            if getattr(event, "opcode", None) is Opcode.PING:
                pinged.set()
            whole(event)

        connection.process_event = process  # type: ignore[method-assign]
        echo(connection)

    with serving(listen) as url, connected(url, ping_interval=0.2):
        assert pinged.wait(5)


def test_many_sockets_share_one_thread_which_ends_with_the_last_of_them() -> None:
    assert wait_until(lambda: watchers() == 0)
    with serving(echo) as url:
        with connected(url), connected(url), connected(url):
            assert watchers() == 1
        assert wait_until(lambda: watchers() == 0)
        with connected(url):
            assert watchers() == 1


def test_a_socket_that_was_forgotten_is_not_kept_by_the_thread_that_looks_after_it() -> None:
    with serving(echo) as url:
        forgotten = connect(url, 5.0, {"compression": None})
        near = forgotten.socket
        del forgotten
        assert wait_until(lambda: watchers() == 0)
        near.close()


def test_nothing_within_the_limit_is_a_time_out() -> None:
    with serving(lambda connection: time.sleep(2)) as url, connected(url) as socket:
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            socket.recv(0.3)
        assert 0.25 < time.monotonic() - start < 1.5


def test_a_goodbye_between_calls_is_known_without_waiting() -> None:
    with serving(lambda connection: connection.close(1001, "going")) as url, connected(url) as socket:
        assert wait_until(lambda: not socket.is_open())
        with pytest.raises(ConnectionClosed, match="going"):
            socket.send("hello")
        with pytest.raises(ConnectionClosed, match="going"):
            socket.recv(5)


def test_a_cut_is_noticed_by_whoever_waits() -> None:
    def cut(connection: ServerConnection) -> None:
        connection.recv()
        connection.socket.shutdown(sockets.SHUT_RDWR)

    with serving(cut) as url, connected(url) as socket:
        socket.send("go")
        with pytest.raises(ConnectionClosed):
            socket.recv(10)


def test_an_end_that_says_no_goodbye_is_not_waited_for() -> None:
    with sockets.create_server(("127.0.0.1", 0)) as listener:

        def half_a_server() -> None:
            from websockets.http11 import Request
            from websockets.server import ServerProtocol

            near, _ = listener.accept()
            protocol = ServerProtocol()
            protocol.receive_data(near.recv(4096))
            request = protocol.events_received()[0]
            assert isinstance(request, Request)
            protocol.send_response(protocol.accept(request))
            near.sendall(b"".join(protocol.data_to_send()))
            while near.recv(4096):  # deaf and dumb from now on
                pass
            near.close()

        thread = threading.Thread(target=half_a_server)
        thread.start()
        socket = connect(f"ws://127.0.0.1:{listener.getsockname()[1]}/ws", 5.0, {"compression": None})
        start = time.monotonic()
        socket.close()
        assert time.monotonic() - start < 2
        thread.join(5)


def test_a_refusal_is_websockets_own_error_and_leaves_no_socket() -> None:
    def refuse(connection: ServerConnection, _: Any) -> Any:
        return connection.respond(403, "no\n")

    with serving(echo, process_request=refuse) as url, pytest.raises(InvalidStatus, match="403"):
        connect(url, 5.0, {"compression": None})


def _child(socket: PlainSocket, seen: Any) -> None:
    time.sleep(1.2)  # two looks, if there were any
    seen.put(watchers())


def test_a_forked_child_does_not_read_the_sockets_of_its_parent() -> None:
    with serving(echo) as url, connected(url) as socket:
        context = multiprocessing.get_context("fork")
        seen: Any = context.Queue()
        child = context.Process(target=_child, args=(socket, seen))
        child.start()
        for number in range(20):
            socket.send(str(number))
            assert socket.recv(5) == str(number)
            time.sleep(0.05)
        assert seen.get(timeout=10) == 0
        child.join(10)
