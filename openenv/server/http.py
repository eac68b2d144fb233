"""The server over HTTP: a bare ASGI callable around the engine.

The routes of every step go through one coroutine, before any framework; the others are Starlette's
(:mod:`openenv.server.cold`).
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from openenv.core import codec
from openenv.server import answers, batch
from openenv.server import body as bodies
from openenv.server.access import Access, Refused
from openenv.server.body import Unusable
from openenv.server.compress import LEAST, deflated
from openenv.server.engine import Engine, is_id
from openenv.server.lifespan import Lifespan
from openenv.server.session import DEFAULT, RESET, STATE, STEP, Call, Reply, encode, error_reply

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

_CALLS: Final = {"/reset": RESET, "/step": STEP, "/state": STATE}
#: Every route of this module and its methods, in the order in which ``Allow`` names them.
METHODS: Final = {
    "/reset": ("POST",),
    "/step": ("POST",),
    "/state": ("GET", "POST"),
    "/batch": ("POST",),
    "/health": ("GET", "HEAD"),
    "/session": ("DELETE",),
    "/session/close": ("POST",),
}
_TYPES: Final = {
    codec.JSON: (b"content-type", b"application/json"),
    codec.MSGPACK: (b"content-type", b"application/msgpack"),
}
_REPLAYED: Final = (b"openenv-replayed", b"true")
_HANG_UP: Final = (b"connection", b"close")
_DEFLATE: Final = (b"content-encoding", b"deflate")
_LONGEST_REQUEST_ID: Final = 128
#: The member of a body that carries the ids past a proxy that strips headers.
_IN_BODY: Final = "openenv"
PROTOCOL: Final = 1


class Request:
    """What the head of a request says."""

    __slots__ = ("began", "client", "headers", "ids_in_body", "media", "method", "path", "request_id")

    def __init__(self, method: str, path: str, headers: dict[bytes, bytes], request_id: bytes, client: object) -> None:
        self.client = client
        self.method = method
        self.path = path
        self.headers = headers
        self.request_id = request_id
        self.ids_in_body = False
        #: When it came, for those who want to know how long it took.
        self.began = time.perf_counter() if b"openenv-timing" in headers else 0.0
        self.media = codec.MSGPACK if b"application/msgpack" in headers.get(b"accept", b"") else codec.JSON

    def error(self, status: int, code: str, message: str, **detail: Any) -> Reply:
        return error_reply(status, code, message, self.media, self.request_id, detail)


class App:
    """An ASGI application that serves an environment.

    Args:
        engine: Its sessions.
        access: Who may speak to it.
        cold: The application of all routes that are not in :data:`METHODS`.
        sockets: The application of WebSockets.
        name: How the environment is called.
        max_body_bytes: The largest request.
    """

    def __init__(
        self, engine: Engine, access: Access, cold: ASGIApp, sockets: ASGIApp, *, name: str, max_body_bytes: int
    ) -> None:
        self.engine = engine
        self._access = access
        self._cold = cold
        self._sockets = sockets
        self._lifespan = Lifespan(engine)
        self.max_body_bytes = max_body_bytes
        self._instance = (b"openenv-instance", engine.instance)
        self._ids = itertools.count(1)
        self._id_prefix = engine.instance[:6]
        head = {
            "status": "healthy",
            "protocol": PROTOCOL,
            "batch": True,
            "instance": engine.instance.decode(),
            "name": name,
        }
        self._health_head = codec.to_json(head)[:-1]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._no_request(scope, receive, send)
            return
        path: str = scope["path"]
        if path not in METHODS and (root := scope.get("root_path")):
            path = path.removeprefix(root)
        request, refused = self.request(scope["method"], path, dict(scope["headers"]), scope.get("client"))
        if refused is not None:
            # Whoever waits for "100 Continue" has not sent the body that would have to be read.
            await self._send(send, request, request.error(*refused), hang_up=b"expect" in request.headers)
        elif request.method not in METHODS.get(path, ()):
            await self._elsewhere(scope, request, receive, send)
        else:
            await self._call(request, receive, send)

    async def _no_request(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._sockets(scope, receive, send)

    def _health(self) -> bytes:
        environments = self.engine.environments
        return b'%b,"sessions":{"active":%d,"max":%d}}' % (self._health_head, environments.count, environments.most)

    def request(
        self, method: str, path: str, headers: dict[bytes, bytes], client: object
    ) -> tuple[Request, Refused | None]:
        """What the head of a request says, and why the request is refused, where it is."""
        request_id = headers.get(b"x-request-id")
        if request_id is None or len(request_id) > _LONGEST_REQUEST_ID:
            request_id = b"%b-%x" % (self._id_prefix, next(self._ids))
        refused = self._access.refuse(headers, needs_token=path != "/health")
        return Request(method, path, headers, request_id, client), refused

    async def _call(self, request: Request, receive: Receive, send: Send) -> None:
        headers, raw = request.headers, b""
        try:
            if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
                raw = await bodies.read(receive, headers, self.max_body_bytes)
        except Unusable as unusable:
            reply = request.error(*unusable.refused, **unusable.detail)
            await self._send(send, request, reply, hang_up=reply.status == 408 or b"expect" in headers)
            return
        outcome = self.answer(request, raw)
        await self._send(send, request, outcome if isinstance(outcome, Reply) else await outcome)

    def answer(self, request: Request, raw: bytes) -> Reply | asyncio.Future[Reply]:
        """What a whole request to a route of :data:`METHODS` is answered with, at once or later."""
        if request.path == "/health":
            return Reply(200, self._health(), codec.JSON)
        try:
            if request.path == "/batch":
                sent_as = bodies.media(request.headers.get(b"content-type", b""))
                return batch.answer(self.engine, request.media, request.request_id, raw, sent_as)
            value = bodies.parse(raw, request.headers.get(b"content-type", b"")) if raw else None
            call = read_call(request, raw, value)
        except Unusable as unusable:
            return request.error(*unusable.refused, **unusable.detail)
        return self.engine.submit(call) if call.op else self._close_session(request, call)

    def _close_session(self, request: Request, call: Call) -> Reply:
        if call.session_id == DEFAULT:
            return answers.session_required(call)
        if not is_id(call.session_id):
            return answers.invalid_id(call)
        closed = self.engine.delete(call.session_id)
        reply = Reply(200, encode({"closed": closed}, request.media), request.media)
        reply.session_id = call.session_id
        return reply

    def _with_ids(self, reply: Reply) -> Reply:
        """The same answer, the ids in its body."""
        session = None if reply.session_id is None else (reply.session_id or b"default").decode()
        ids = {"session": session, "instance": self.engine.instance.decode(), "seq": reply.seq}
        other = reply.again()
        other.replayed = reply.replayed
        other.body = bodies.with_member(reply.body, reply.media, _IN_BODY, ids)
        return other

    async def _elsewhere(self, scope: Message, request: Request, receive: Receive, send: Send) -> None:
        """Anything but the routes of this module."""
        path, methods = request.path, METHODS.get(request.path)
        if methods is not None:
            allowed = ", ".join(methods)
            reply = request.error(405, "METHOD_NOT_ALLOWED", f"{path} takes {allowed}; got {request.method}")
            await self._send(send, request, reply, (b"allow", allowed.encode("ascii")))
        elif path.rstrip("/") in METHODS:
            query = scope.get("query_string", b"")
            target = f"{scope.get('root_path', '')}{path.rstrip('/')}".encode("ascii")
            location = target + (b"?" + query if query else b"")
            await self._send(send, request, Reply(307, b"", codec.JSON), (b"location", location))
        else:
            scope["openenv.request"] = request
            await self._cold(scope, receive, send)

    async def _send(
        self, send: Send, request: Request, reply: Reply, *more: tuple[bytes, bytes], hang_up: bool = False
    ) -> None:
        headers, body = self.render(request, reply)
        headers.extend(more)
        if hang_up:
            headers.append(_HANG_UP)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def render(self, request: Request, reply: Reply) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The headers and the body of the answer to ``request``."""
        if request.ids_in_body:
            reply = self._with_ids(reply)
        body = reply.body
        headers = [
            _TYPES[reply.media],
            (b"x-request-id", request.request_id),
            self._instance,
        ]
        if len(body) >= LEAST and (small := deflated(body, request.headers, request.client)) is not None:
            body = small
            headers.append(_DEFLATE)
        headers.append((b"content-length", b"%d" % len(body)))
        if request.began:
            headers.append((b"server-timing", b"app;dur=%.3f" % ((time.perf_counter() - request.began) * 1e3)))
        if reply.session_id is not None:
            headers.append((b"openenv-session", reply.session_id or b"default"))
            if reply.seq is not None:
                headers.append((b"openenv-seq", b"%d" % reply.seq))
            if reply.replayed:
                headers.append(_REPLAYED)
        return headers, body


def read_call(request: Request, raw: bytes, value: Any) -> Call:
    """The call that a request makes; notes in ``request`` whether its ids came in the body.

    Raises:
        Unusable: An id or a limit is malformed.
    """
    headers = request.headers
    op = _CALLS.get(request.path, "")
    call = Call(op, DEFAULT, None, raw, value, None, request.media, request.request_id)
    session_id, seq = headers.get(b"openenv-session"), headers.get(b"openenv-seq")
    if value is None:
        call.value = {}
    elif not isinstance(value, dict):
        call.value, call.flaw = {}, {"loc": [], "msg": "the body must be an object"}
    elif (ids := value.pop(_IN_BODY, None)) is not None and not session_id:
        request.ids_in_body = True
        session_id, seq = _ids_in_body(ids)
    if session_id:
        call.session_id = session_id
        if seq is not None and op is not STATE:
            call.seq = bodies.number(seq)
    if op is STEP:
        call.limit, call.flaw = (None, call.flaw) if call.flaw else bodies.step_limit(call.value)
    else:
        said = headers.get(b"openenv-timeout")
        call.limit = bodies.STATE_S if op is STATE else None
        if said is not None:
            call.limit = bodies.seconds(said)
    if op is not STATE and call.seq is None:
        call.repeat_id = call.value.get("request_id")
    return call


def _ids_in_body(ids: Any) -> tuple[bytes, bytes | None]:
    session_id = ids.get("session") if isinstance(ids, dict) else None
    if not isinstance(session_id, str):
        raise bodies.invalid(_IN_BODY, f'must be {{"session": ID, "seq": N}}; got {ids!r:.60}')
    seq = ids.get("seq")
    return session_id.encode("utf-8", "replace"), None if seq is None else str(seq).encode("utf-8", "replace")
