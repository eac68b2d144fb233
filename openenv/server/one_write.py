"""uvicorn's HTTP over httptools, with the head and the body of an answer in one segment.

uvicorn writes them one after the other: two system calls, and a client that wakes up for the first of them has nothing
to do but wait for the second.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class OneWriteProtocol(HttpToolsProtocol):
    """What ``uvicorn.Config`` takes as ``http``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        held: Any = HeadHolder(transport, self.loop)
        super().connection_made(held)

    def handle_websocket_upgrade(self) -> None:
        held: Any = self.transport
        self.transport = held.inner
        super().handle_websocket_upgrade()


class HeadHolder:
    """A transport on which the head of an answer waits for the write that follows it, or for the end of the turn.

    Args:
        inner: The transport.
        loop: Its event loop.
    """

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.inner, self._loop = inner, loop
        self._head = b""
        self._turn_ends = False

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self.inner.writelines((head, data))
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
            if not self._turn_ends:
                self._turn_ends = True
                self._loop.call_soon(self._end_turn)
        else:
            self.inner.write(data)

    def close(self) -> None:
        self._flush()
        self.inner.close()

    def _end_turn(self) -> None:
        self._turn_ends = False
        self._flush()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self.inner.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
