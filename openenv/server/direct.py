"""uvicorn's HTTP over httptools, with a short way for the calls of clients.

For every request uvicorn makes a scope, a task and a cycle of events, and it writes the head of the answer before the
body. A request to a route of ours that came whole needs none of that: the application is asked as a plain function, and
the answer leaves in one write. Whatever is less simple (other routes, slow bodies, upgrades, pipelined requests that
have to wait, clients that do not read) goes uvicorn's way, from the beginning.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openenv.server.http import METHODS, App, Request
from openenv.server.session import Reply

_ROUTES: Final = {path.encode(): path for path in METHODS}
_STATUS: Final = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_WORTH_NO_COPY: Final = 1 << 14
_HANG_UP: Final = b"connection: close\r\n"


class DirectProtocol(HttpToolsProtocol):
    """What ``uvicorn.Config`` takes as ``http``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        plain = not (self.config.access_log or self.root_path or self.limit_concurrency is not None)
        self._own = self.app if isinstance(self.app, App) and plain else None
        self._request: Request | None = None
        self._parts: list[bytes] = []
        self._left = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._request is not None and not self.transport.is_closing():
            self._go_uvicorns_way()  # the rest of the body is still on its way

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._request = None

    def on_headers_complete(self) -> None:
        app, path = self._own, _ROUTES.get(self.url)
        if app is not None and path is not None and self._is_simple():
            method = self.parser.get_method().decode("ascii")
            if method in METHODS[path]:
                request, refused = app.request(method, path, dict(self.headers), self.client)
                if refused is None:
                    self._request, self._left = request, app.max_body_bytes
                    self._parts.clear()
                    return
        self._go_uvicorns_way()

    def _is_simple(self) -> bool:
        parser, before = self.parser, self._before()
        return (
            (before is None or before.response_complete)
            and not self.expect_100_continue
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.flow.write_paused
            and parser.get_http_version() == "1.1"
        )

    def _before(self) -> Any:
        """The exchange before this one on the connection, or ``None``."""
        return self.cycle

    def on_body(self, body: bytes) -> None:
        if self._request is None:
            super().on_body(body)
            return
        self._parts.append(body)
        self._left -= len(body)
        if self._left < 0:
            self._go_uvicorns_way()

    def on_message_complete(self) -> None:
        request, app = self._request, self._own
        if request is None or app is None:
            super().on_message_complete()
            return
        self._request = None
        outcome = app.answer(request, b"".join(self._parts))
        if isinstance(outcome, Reply):
            self._write(request, outcome)
            self.on_response_complete()
        else:
            waiting: Any = _Waiting()
            self.cycle = waiting
            outcome.add_done_callback(partial(self._answered, request, waiting))

    def _go_uvicorns_way(self) -> None:
        """Begin this request again as uvicorn does, with what has come of it."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        came, self._request = self._request is not None, None
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()
        if came and self._parts:
            super().on_body(b"".join(self._parts))

    # --- answers ---

    def _answered(self, request: Request, waiting: _Waiting, outcome: asyncio.Future[Reply]) -> None:
        waiting.response_complete = True
        if self.transport.is_closing() or outcome.cancelled():
            self.transport.close()
            return
        self._write(request, outcome.result(), keep_alive=waiting.keep_alive)
        self.on_response_complete()

    def _write(self, request: Request, reply: Reply, *, keep_alive: bool = True) -> None:
        assert self._own is not None
        headers, body = self._own.render(request, reply)
        lines = [b"%b: %b\r\n" % pair for pair in (*self.server_state.default_headers, *headers)]
        if not keep_alive:
            lines.append(_HANG_UP)
        head = b"%b%b\r\n" % (_STATUS[reply.status], b"".join(lines))
        if request.method == "HEAD":
            body = b""
        if len(body) < _WORTH_NO_COPY:
            self.transport.write(head + body)
        else:
            self.transport.writelines((head, body))
        if not keep_alive:
            self.transport.close()


class _Waiting:
    """Stands where uvicorn keeps the cycle of the request that is being answered."""

    def __init__(self) -> None:
        self.response_complete = False
        self.disconnected = False
        self.keep_alive = True
        self.message_event = asyncio.Event()
