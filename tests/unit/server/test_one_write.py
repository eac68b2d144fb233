"""The HTTP protocol of our server: what a client gets in one segment, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("httptools")

from uvicorn.server import ServerState

from envs.echo_env.models import EchoAction, EchoObservation
from envs.echo_env.server.environment import EchoEnvironment
from openenv.server import create_app
from openenv.server.one_write import HeadHolder, OneWriteProtocol
from openenv.server.run import config


class Transport(asyncio.Transport):
    """Notes what is written: one entry for each system call."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.written.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def protocol(app: Any) -> tuple[OneWriteProtocol, Transport]:
    settings = config(app, lifespan="off")
    settings.load()
    made, transport = OneWriteProtocol(config=settings, server_state=ServerState(), app_state={}), Transport()
    made.connection_made(transport)
    return made, transport


def request(path: str, seq: int, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nOpenEnv-Session: {'a' * 22}\r\nOpenEnv-Seq: {seq}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


STEP = b'{"action": {"message": "hi"}}'


async def begun() -> tuple[OneWriteProtocol, Transport]:
    made, transport = protocol(create_app(EchoEnvironment, EchoAction, EchoObservation))
    made.data_received(request("/reset", 1, b"{}"))
    while not transport.written:
        await asyncio.sleep(0.001)
    transport.written.clear()
    return made, transport


def test_a_step_is_answered_in_one_segment() -> None:
    async def scenario() -> None:
        made, transport = await begun()
        made.data_received(request("/step", 2, STEP))
        while not transport.written:
            await asyncio.sleep(0.001)
        [answer] = transport.written
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b'"echoed_message":"hi"' in answer

    asyncio.run(scenario())


def test_a_step_whose_body_comes_later_is_answered_when_it_is_there() -> None:
    async def scenario() -> None:
        made, transport = await begun()
        whole = request("/step", 2, STEP)
        made.data_received(whole[:-5])
        await asyncio.sleep(0)
        assert transport.written == []
        made.data_received(whole[-5:])
        while not transport.written:
            await asyncio.sleep(0.001)
        assert len(transport.written) == 1

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_pipelined_steps_are_answered_in_their_order() -> None:
    async def scenario() -> None:
        made, transport = await begun()
        made.data_received(request("/step", 2, STEP) + request("/step", 3, STEP))
        while len(transport.written) < 2:
            await asyncio.sleep(0.001)
        for number, answer in zip((2, 3), transport.written, strict=True):
            assert b"openenv-seq: %d\r\n" % number in answer

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_head_without_a_body_in_the_same_turn_is_sent_at_its_end() -> None:
    async def scenario() -> None:
        transport = Transport()
        holder = HeadHolder(transport, asyncio.get_running_loop())
        holder.write(b"HTTP/1.1 200 OK\r\n\r\n")
        assert transport.written == []
        await asyncio.sleep(0)
        assert transport.written == [b"HTTP/1.1 200 OK\r\n\r\n"]

    asyncio.run(scenario())


def test_closing_sends_the_head_that_waits() -> None:
    async def scenario() -> None:
        transport = Transport()
        holder = HeadHolder(transport, asyncio.get_running_loop())
        holder.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        holder.close()
        assert transport.written == [b"HTTP/1.1 204 No Content\r\n\r\n"]
        assert transport.closed

    asyncio.run(scenario())


def test_a_100_continue_does_not_wait() -> None:
    async def scenario() -> None:
        transport = Transport()
        HeadHolder(transport, asyncio.get_running_loop()).write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert len(transport.written) == 1

    asyncio.run(scenario())
