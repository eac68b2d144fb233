"""The short way of requests through uvicorn answers as uvicorn's own way does, and gives way to it."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from envs.echo_env import EchoAction, EchoObservation
from envs.echo_env.server.environment import EchoEnvironment
from openenv.server import Environment, create_app
from openenv.server.direct import DirectProtocol
from openenv.server.thread import serve_in_thread

ID = "abcdefghijklmnopqrstuv"
HOST = b"Host: localhost\r\n"


class Slow(Environment[EchoAction, EchoObservation, Any]):
    """Takes its time, on a thread."""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> EchoObservation:
        return EchoObservation(echoed_message="", message_length=0)

    def step(self, action: EchoAction) -> EchoObservation:
        time.sleep(float(action.message))
        return EchoObservation(echoed_message=action.message, message_length=1)

    @property
    def state(self) -> dict[str, Any]:
        return {}


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with serve_in_thread(create_app(EchoEnvironment, EchoAction, EchoObservation, max_body_bytes=5000)) as url:
        yield url


@pytest.fixture(scope="module")
def slow() -> Iterator[str]:
    with serve_in_thread(create_app(Slow, EchoAction, EchoObservation)) as url:
        yield url


@contextmanager
def line_to(url: str) -> Iterator[socket.socket]:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        yield line


def post(path: str, body: bytes = b"{}", *more: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
    return head + HOST + "".join(f"{line}\r\n" for line in more).encode() + b"\r\n" + body


def in_session(path: str, seq: int, body: bytes = b"{}", session: str = ID) -> bytes:
    return post(path, body, f"OpenEnv-Session: {session}", f"OpenEnv-Seq: {seq}")


def replies(line: socket.socket, count: int) -> list[tuple[int, dict[bytes, bytes], bytes]]:
    got = []
    stream = line.makefile("rb")
    for _ in range(count):
        status = int(stream.readline().split()[1])
        headers: dict[bytes, bytes] = {}
        while (row := stream.readline().strip()) != b"":
            name, _, value = row.partition(b":")
            headers[name.lower()] = value.strip()
        got.append((status, headers, stream.read(int(headers[b"content-length"]))))
    return got


def say(text: str) -> bytes:
    return b'{"action":{"message":"%b"}}' % text.encode()


def test_calls_that_came_together_are_answered_in_their_order(slow: str) -> None:
    with line_to(slow) as line:
        line.sendall(
            in_session("/reset", 1, session=ID[::-1])
            + in_session("/step", 2, say("0.3"), ID[::-1])
            + in_session("/step", 3, say("0"), ID[::-1])
            + b"GET /health HTTP/1.1\r\n"
            + HOST
            + b"\r\n"
        )
        statuses = replies(line, 4)
    assert [status for status, _, _ in statuses] == [200] * 4
    assert [headers.get(b"openenv-seq") for _, headers, _ in statuses] == [b"1", b"2", b"3", None]
    assert b"healthy" in statuses[3][2]


def test_a_body_in_pieces_is_read_to_its_end(echo: str) -> None:
    with line_to(echo) as line:
        for piece in re.findall(rb"(?s).{1,17}", post("/reset", b"{" + b" " * 100 + b"}")):
            line.sendall(piece)
            time.sleep(0.002)
        (status, _, _), *_ = replies(line, 1)
    assert status == 200


def test_a_chunked_body_is_read_as_well(echo: str) -> None:
    head = b"POST /reset HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
    with line_to(echo) as line:
        line.sendall(head + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")
        line.sendall(head + b"1\r\n{\r\n")
        time.sleep(0.05)
        line.sendall(b"1\r\n}\r\n0\r\n\r\n")
        assert [status for status, _, _ in replies(line, 2)] == [200, 200]


@pytest.mark.parametrize("in_one_go", [True, False])
def test_a_body_over_the_limit_is_413_however_it_comes(echo: str, in_one_go: bool) -> None:
    size = b"%x\r\n" % 6000
    head = b"POST /reset HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n"
    with line_to(echo) as line:
        if in_one_go:
            line.sendall(post("/reset", b" " * 6000))
        else:
            line.sendall(head + size + b" " * 6000 + b"\r\n0\r\n\r\n")
        (status, _, body), *_ = replies(line, 1)
    assert status == 413
    assert b"5000" in body


def test_a_client_that_waits_for_100_continue_gets_it(echo: str) -> None:
    with line_to(echo) as line:
        line.sendall(
            b"POST /reset HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
            + HOST
            + b"\r\n"
        )
        assert line.recv(4096).startswith(b"HTTP/1.1 100")
        line.sendall(b"{}")
        assert replies(line, 1)[0][0] == 200


@pytest.mark.parametrize("head", [b"POST /reset HTTP/1.0\r\n", b"POST /reset HTTP/1.1\r\nConnection: close\r\n"])
def test_who_wants_the_connection_closed_gets_it_closed(echo: str, head: bytes) -> None:
    with line_to(echo) as line:
        line.sendall(head + b"Content-Type: application/json\r\nContent-Length: 2\r\n" + HOST + b"\r\n{}")
        whole = b""
        while piece := line.recv(4096):
            whole += piece
    assert b" 200 " in whole.split(b"\r\n")[0]
    assert b"connection: close" in whole.lower()


def test_head_gets_no_body(echo: str) -> None:
    with line_to(echo) as line:
        line.sendall(b"HEAD /health HTTP/1.1\r\n" + HOST + b"\r\n" + post("/reset"))
        stream = line.makefile("rb")
        assert b"200" in stream.readline()
        while stream.readline().strip():
            pass
        assert stream.readline().startswith(b"HTTP/1.1 200")


def test_a_client_that_hung_up_does_not_take_the_others_along(slow: str) -> None:
    with line_to(slow) as line:
        line.sendall(in_session("/reset", 1) + in_session("/step", 2, say("0.3")))
        time.sleep(0.1)
    with line_to(slow) as line:
        time.sleep(0.4)
        line.sendall(in_session("/step", 3, say("0")))
        assert replies(line, 1)[0][0] == 200


def test_a_call_in_flight_at_shutdown_is_answered_and_told_to_hang_up() -> None:
    with serve_in_thread(create_app(Slow, EchoAction, EchoObservation)) as url:
        line = socket.create_connection((url.rpartition("/")[2].split(":")[0], int(url.rpartition(":")[2])), timeout=10)
        line.sendall(in_session("/reset", 1))
        assert replies(line, 1)[0][0] == 200
        line.sendall(in_session("/step", 2, say("0.6")))
        time.sleep(0.2)
    (status, headers, _), *_ = replies(line, 1)
    line.close()
    assert status == 200
    assert headers[b"connection"] == b"close"


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_answer_alike(seed: int) -> None:
    """The same bytes, cut at random, to this server and to one on uvicorn's own protocol: the same answers."""
    chance = random.Random(seed)
    session = f"{seed:022d}"
    calls: list[bytes] = [in_session("/reset", 1, b'{"seed":1}', session)]
    for seq in range(2, 12):
        calls += chance.choices(
            [
                in_session("/step", seq, say("hello"), session),
                in_session("/step", seq + 4, say("gap"), session),
                in_session("/step", seq, b"{", session),
                in_session("/step", seq, b"[]", session),
                in_session("/step", 1, say("again"), session),
                post("/step", say("default")),
                post("/step/", say("default")),
                post("/nowhere"),
                post("/step", say("x"), "OpenEnv-Session: short"),
                post("/step", say("x"), "Origin: http://elsewhere.example"),
                post("/step?x=1", say("query")),
                b"GET /state HTTP/1.1\r\n" + HOST + f"OpenEnv-Session: {session}\r\n\r\n".encode(),
                b"DELETE /step HTTP/1.1\r\n" + HOST + b"\r\n",
                b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            ],
            k=3,
        )
    whole = b"".join(calls)
    cuts = sorted(chance.sample(range(1, len(whole)), 25))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    def play(url: str) -> list[Any]:
        with line_to(url) as line:
            for part in parts:
                line.sendall(part)
                time.sleep(0.001)
            return [_comparable(reply) for reply in replies(line, len(calls))]

    mine, other = (create_app(EchoEnvironment, EchoAction, EchoObservation) for _ in range(2))
    with serve_in_thread(mine) as here, serve_in_thread(other, http="httptools") as there:
        assert play(here) == play(there)


def _comparable(reply: tuple[int, dict[bytes, bytes], bytes]) -> Any:
    status, headers, body = reply
    own = {b"date", b"x-request-id", b"openenv-instance", b"content-length", b"server"}
    kept = sorted((name, value) for name, value in headers.items() if name not in own)
    told = re.sub(rb'"(request_id|instance|episode_id)":"[^"]*"', b"", body)
    return status, kept, re.sub(rb'"active":\d+', b"", told)


def test_only_an_application_of_ours_is_asked_directly() -> None:
    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    settings = uvicorn.Config(wrapped, http=DirectProtocol)
    settings.load()

    async def make() -> DirectProtocol:
        return DirectProtocol(config=settings, server_state=ServerState(), app_state={})

    assert asyncio.run(make())._own is None
