"""The server over WebSockets, as the peers' servers since 0.2.0: one socket is one session, answers come in order.

A call runs off the event loop where its environment blocks, so pings are answered meanwhile, and the end of a socket
is noticed while a call runs.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import Any, Final

from openenv.core import codec
from openenv.core.errors import ProtocolError
from openenv.core.frames import MSGPACK_SUBPROTOCOL
from openenv.server import mcp
from openenv.server.access import Access
from openenv.server.engine import Engine
from openenv.server.http import Message, Receive, Send
from openenv.server.session import RESET, STATE, STEP, Call, Reply, encode, error_reply

_OPS: Final = {"reset": RESET, "step": STEP, "state": STATE, "mcp": STEP}
_ANSWERS: Final = {"reset": "observation", "step": "observation", "state": "state", "mcp": "mcp"}
#: Calls of one socket that may wait for their turn before no more is read from it.
_WAITING: Final = 32
_NORMAL, _GOING_AWAY, _TOO_BIG = 1000, 1001, 1009


class Sockets:
    """The ASGI application of ``/ws``.

    Args:
        engine: Its sessions.
        access: Who may speak.
        most: The largest message, in bytes.
    """

    def __init__(self, engine: Engine, access: Access, most: int) -> None:
        self._engine, self._access, self._most = engine, access, most
        self._ids = itertools.count(1)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        headers: dict[bytes, bytes] = dict(scope["headers"])
        path = scope["path"].removeprefix(scope.get("root_path") or "")
        refused = self._access.refuse(headers)
        if path != "/ws":
            refused = 404, "NOT_FOUND", f"there is no WebSocket at {path}; sessions are at /ws"
        if refused is not None:
            await _refuse(scope, send, error_reply(*refused, codec.JSON, b"", {}))
            return
        agreed = MSGPACK_SUBPROTOCOL if MSGPACK_SUBPROTOCOL in scope.get("subprotocols", ()) else None
        await send({"type": "websocket.accept", "subprotocol": agreed})
        session_id = b"ws:%d" % next(self._ids)  # no id that a client may choose
        await _Socket(self._engine, session_id, agreed is not None, self._most, receive, send).serve()


async def _refuse(scope: Message, send: Send, reply: Reply) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _NORMAL})  # the server makes a bare 403 of it
        return
    headers = [(b"content-type", reply.media.encode()), (b"content-length", b"%d" % len(reply.body))]
    await send({"type": "websocket.http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": reply.body})


class _Refused(Exception):
    """A message that is no call; the socket may live on."""

    def __init__(self, code: str, message: str, *, fatal: bool = False, **detail: Any) -> None:
        self.data = {"message": message, "code": code, **detail}
        self.fatal = fatal


class _Socket:
    """One socket and its session."""

    def __init__(
        self, engine: Engine, session_id: bytes, binary: bool, most: int, receive: Receive, send: Send
    ) -> None:
        self._engine, self._id, self._most = engine, session_id, most
        self._binary = binary
        self._media = codec.MSGPACK if binary else codec.JSON
        self._receive, self._send = receive, send
        #: Answers that are not sent yet, in their order.
        self._waiting: deque[asyncio.Task[None]] = deque()
        self._over = False

    async def serve(self) -> None:
        try:
            failure = await self._engine.open(self._id, self._media, self._ended)
            if failure is not None:
                await self._say_error(failure)
                await self._close(_NORMAL)
                return
            while not self._over:
                message = await self._receive()
                if message["type"] == "websocket.disconnect":
                    self._over = True
                elif not await self._take(message):
                    await self._close(_NORMAL)
        finally:
            self._over = True
            for task in self._waiting:
                task.cancel()
            self._engine.close(self._id)

    def _ended(self) -> None:
        """The session ended by itself: it was idle for too long, or the server stops."""
        if not self._over:
            asyncio.get_running_loop().create_task(self._close(_GOING_AWAY))

    async def _close(self, code: int) -> None:
        if not self._over:
            self._over = True
            await self._send({"type": "websocket.close", "code": code})

    async def _take(self, message: Message) -> bool:
        """Do what a message says; whether the socket lives on."""
        data = message.get("bytes") or message.get("text") or ""
        try:
            if len(data) > self._most:
                raise _Refused("SESSION_ERROR", f"a message is larger than {self._most} bytes", fatal=True)
            kind, call, reading = self._read(data)
        except _Refused as refused:
            if self._waiting:
                await asyncio.gather(*self._waiting)
            await self._say("error", encode(refused.data, self._media))
            return not refused.fatal
        if kind == "close":
            if self._waiting:
                await asyncio.gather(*self._waiting)
            return False
        outcome = self._engine.submit(call) if call is not None else reading.answer()
        if isinstance(outcome, Reply) and not self._waiting:
            await self._answer(kind, outcome, reading)
            return True
        before = self._waiting[-1] if self._waiting else None
        task = asyncio.get_running_loop().create_task(self._answer_later(kind, outcome, reading, before))
        self._waiting.append(task)
        task.add_done_callback(self._waiting.remove)
        if len(self._waiting) >= _WAITING:
            await self._waiting[0]
        return True

    def _read(self, data: str | bytes) -> tuple[str, Call | None, Any]:
        """The type of a message, the call that it makes, and what becomes of its answer where that is not plain."""
        raw = data.encode() if isinstance(data, str) else data
        try:
            message = codec.from_msgpack(raw) if isinstance(data, bytes) and self._binary else codec.from_json(raw)
        except ProtocolError as error:
            raise _Refused("INVALID_JSON", f"Invalid JSON: {error.message}") from None
        if not isinstance(message, dict):
            raise _Refused("SESSION_ERROR", "a message must be an object", fatal=True)
        kind = message.get("type")
        if kind == "close":
            return "close", None, None
        op = _OPS.get(kind) if isinstance(kind, str) else None
        if op is None:
            raise _Refused("UNKNOWN_TYPE", f"Unknown message type: {kind}")
        value = message.get("data")
        if not isinstance(value, dict) and not (value is None and op is not STEP):
            told = f"data must be an object; got {value!r:.60}"
            raise _Refused("VALIDATION_ERROR", "Invalid message", errors=[{"loc": ["data"], "msg": told}])
        reading = None
        if kind == "mcp" and value is not None:
            reading = mcp.Request(value)
            value = reading.action
            if value is None:
                return "mcp", None, reading
        body = {"action": value} if op is STEP else value or {}
        return str(kind), Call(op, self._id, None, b"", body, media=self._media), reading

    async def _answer_later(
        self, kind: str, outcome: Reply | asyncio.Future[Reply], reading: Any, before: asyncio.Task[None] | None
    ) -> None:
        reply = outcome if isinstance(outcome, Reply) else await outcome
        if before is not None:
            await asyncio.wait([before])
        if not self._over:
            await self._answer(kind, reply, reading)

    async def _answer(self, kind: str, reply: Reply, reading: Any) -> None:
        if reading is not None:
            reply = reading.reply(reply, self._media)
        if reply.error is not None:
            await self._say_error(reply)
        else:
            await self._say(_ANSWERS[kind], reply.body)

    async def _say_error(self, reply: Reply) -> None:
        error = reply.error or {}
        data = {"message": error.get("message"), "code": error.get("code"), **(error.get("detail") or {})}
        await self._say("error", encode(data, self._media))

    async def _say(self, kind: str, data: bytes) -> None:
        """Send a frame; ``data`` is encoded already."""
        if self._binary:
            name = kind.encode()
            frame = b"\x82\xa4type%c%b\xa4data%b" % (0xA0 | len(name), name, data)
            await self._send({"type": "websocket.send", "bytes": frame})
        else:
            text = f'{{"type":"{kind}","data":{data.decode()}}}'
            await self._send({"type": "websocket.send", "text": text})
