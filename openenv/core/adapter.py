"""requests' adapter with limits that are totals, and the connection of one call.

The connection comes from the pool of the adapter, as requests' own do. Head and body of a request leave in one write.
"""

from __future__ import annotations

import http.client
import select
from contextlib import suppress
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.connection import is_connection_dropped

from openenv.core.timing import Deadline
from openenv.core.wire import CUT_IN_HEAD, Line, Readable, TotalReader, limit_socket, render_head


def _connect(conn: Any, pool: Any, limit: float | None) -> None:
    conn.timeout = limit
    if pool.proxy is not None and conn.proxy is not None and pool.scheme == "https":
        pool._prepare_proxy(conn)
    else:
        conn.connect()


class TotalAdapter(HTTPAdapter):
    """requests' adapter with limits that are totals and calls that can be cut from another thread.

    A :class:`Deadline` may be given as ``timeout``; anything else goes the ordinary way.
    """

    def __init__(self, line: Line) -> None:
        self.line = line
        super().__init__()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.line = Line()  # the client's own; it does not travel
        super().__setstate__(state)  # type: ignore[misc]

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):  # type: ignore[no-untyped-def]
        if not isinstance(timeout, Limits):
            return super().send(request, stream, timeout, verify, cert, proxies)
        pool = pool_of(self, request, verify, cert, proxies)
        target = self.request_url(request, proxies)
        self.add_headers(request, stream=stream, timeout=timeout, verify=verify, cert=cert, proxies=proxies)
        head = render_head(request.method, target, request.url, request.headers)
        body = request.body or b""
        data = head + b"\r\n" + (body.encode("utf-8") if isinstance(body, str) else body)
        sock = timeout.talk(pool, data)
        return ordinary(self, request, b"", sock, timeout)


def ordinary(adapter: HTTPAdapter, request: Any, ahead: bytes, sock: Any, limits: Limits) -> requests.Response:
    """The reply as ``http.client`` reads it, from what was read ahead and the socket, as a requests response."""
    try:
        parsed = _parsed(ahead, sock, limits.deadline, request.method)
        raw = urllib3.HTTPResponse(
            body=parsed,
            headers=urllib3.HTTPHeaderDict(parsed.msg.items()),
            status=parsed.status,
            version=parsed.version,
            reason=parsed.reason,
            preload_content=False,
            decode_content=False,
            original_response=parsed,
            request_method=request.method,
        )
        response = adapter.build_response(request, raw)
    except BaseException:
        limits.done(False)
        raise
    response.openenv_parsed = parsed  # type: ignore[attr-defined]
    # The body is read by the caller within the same call; the connection is given back after that.
    response.openenv_done = lambda ok: limits.done(ok and not parsed.will_close and parsed.isclosed())  # type: ignore[attr-defined]
    return response


def _parsed(ahead: bytes, sock: Any, deadline: Deadline, method: str) -> http.client.HTTPResponse:
    """A reply of which the head has been read."""
    reader = TotalReader(ahead, sock, deadline)
    readable: Any = Readable(reader)
    parsed = http.client.HTTPResponse(readable, method=method)
    try:
        _begin(parsed, reader)
    except BaseException:
        parsed.close()  # here, not by the garbage collector in an order of its own
        raise
    return parsed


def _begin(parsed: http.client.HTTPResponse, reader: TotalReader) -> None:
    """Read the head of a reply."""
    try:
        parsed.begin()
    except http.client.BadStatusLine as error:
        line = str(error)
        if not reader.ended or not line.startswith("HTTP/1."[: len(line)]):
            raise
    if reader.ended:  # http.client would take what came for a whole reply
        raise ConnectionResetError(CUT_IN_HEAD)


class Limits:
    """What one call is allowed, and the connection that it holds: handed to :class:`TotalAdapter` as ``timeout``."""

    __slots__ = ("_conn", "_pool", "connect", "deadline", "line", "sent")

    def __init__(self, deadline: Deadline, connect: float | None, line: Line) -> None:
        self.deadline, self.connect, self.line = deadline, connect, line
        self.sent = False
        self._conn: Any = None
        self._pool: Any = None

    def talk(self, pool: Any, data: bytes) -> Any:
        """Send ``data`` on a connection of ``pool``: the socket to read the answer from. Then say :meth:`done`."""
        self._pool, self._conn = pool, _take(pool)
        try:
            conn = self._conn
            if conn.sock is None:
                _connect(conn, pool, self.deadline.sooner(self.connect))
            sock = self.line.socket = conn.sock
            if self.line.cut:
                raise ConnectionAbortedError("the client was closed")
            limit_socket(sock, self.deadline)
            self.sent = True
            with suppress(BrokenPipeError):  # it may have answered before it read everything, as with 413
                sock.sendall(data)
            return sock
        except BaseException:
            self.done(False)
            raise

    def done(self, reusable: bool) -> None:
        """Give the connection back, closed if nothing more can be said on it. May be said again."""
        conn, self._conn = self._conn, None
        if conn is not None:
            self.line.socket = None
            if not reusable:
                conn.close()
            _give_back(self._pool, conn)


def _take(pool: Any) -> Any:
    """A connection of ``pool``, none that the server has closed.

    As urllib3's own ``_get_conn``, which costs three times as much: locks for pools that make their users wait, and a
    new ``poll`` object each time.
    """
    idle = getattr(pool.pool, "queue", None)
    if pool.block or not idle:
        return pool._get_conn()
    conn = idle.pop()
    if conn is None:
        return pool._new_conn()
    if conn.sock is not None and _has_ended(conn):
        conn.close()
    return conn


def _give_back(pool: Any, conn: Any) -> None:
    idle = getattr(pool.pool, "queue", None)
    if pool.block or idle is None or len(idle) >= pool.pool.maxsize:
        pool._put_conn(conn)
    else:
        idle.append(conn)


def _has_ended(conn: Any) -> bool:
    """Whether the server closed an idle connection: there is something to read where nothing should be."""
    poll: Any
    known, poll = getattr(conn, "openenv_poll", (None, None))
    if known is not conn.sock:
        if not hasattr(select, "poll"):
            return bool(is_connection_dropped(conn))
        poll = select.poll()
        poll.register(conn.sock, select.POLLIN)
        conn.openenv_poll = conn.sock, poll
    return bool(poll.poll(0))


def pool_of(adapter: Any, request: requests.PreparedRequest, verify: Any, cert: Any, proxies: Any) -> Any:
    """The pool of ``adapter`` for the host of ``request``."""
    pool = adapter.get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
    adapter.cert_verify(pool, request.url, verify, cert)
    return pool
