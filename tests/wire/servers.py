"""An HTTP server of raw sockets for tests: it records each request byte for byte and plays replies as they are told.

A server asks its `answer`, a callable from :class:`Request` to :class:`Reply`, what to play. `tests.wire.behaviours`
has answers that behave like whole servers.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlsplit

from openenv.core import codec

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    target: str
    headers: Headers
    body: bytes
    connection: int
    head: bytes

    @property
    def path(self) -> str:
        """The path alone, also where a proxy was asked for a whole URL."""
        return urlsplit(self.target).path

    def header(self, name: str) -> str | None:
        """The value of the last header called `name`."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[-1] if found else None

    def value(self) -> Any:
        """The body, decoded by its content type; `None` where it is empty."""
        if not self.body:
            return None
        if self.header("Content-Type") == codec.MSGPACK:
            return codec.from_msgpack(self.body)
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a server plays.

    Attributes:
        body: Bytes as they are; anything else as JSON.
        delay: Seconds before the first byte; the server's end ends the wait.
        trickle_head: Seconds between the bytes of status line and headers.
        trickle_body: Seconds between the bytes of the body.
        length: The Content-Length to claim instead of the true one.
        cut: Send no more than this many bytes of the whole reply, then cut the connection; 0 is no reply at all, below
            0 counts from its end.
        reset: Cut with RST rather than FIN.
        close: Close the connection after the reply: "said" in a header, or "silently".
        endless: Repeat the body, chunked, until the client goes.
        held: Never reply; the connection stays open.
    """

    status: int = 200
    body: Any = b""
    headers: Headers = ()
    delay: float = 0
    trickle_head: float = 0
    trickle_body: float = 0
    chunked: bool = False
    gzip: bool = False
    length: int | None = None
    cut: int | None = None
    reset: bool = False
    close: str = ""
    endless: bool = False
    held: bool = False

    def parts(self) -> tuple[bytes, bytes]:
        """Head and body as they go over the wire."""
        body, kind = self.body, None
        if not isinstance(body, bytes):
            body, kind = json.dumps(body, ensure_ascii=False).encode(), "application/json"
        headers = list(self.headers)
        named = {name.lower() for name, _ in headers}
        if kind is not None and "content-type" not in named:
            headers.append(("Content-Type", kind))
        if self.gzip:
            body = gzip.compress(body)
            headers.append(("Content-Encoding", "gzip"))
        if self.chunked or self.endless:
            headers.append(("Transfer-Encoding", "chunked"))
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in _pieces(body, 1 << 16))
            body = body if self.endless else body + b"0\r\n\r\n"
        elif self.status != 304 and self.status >= 200:
            headers.append(("Content-Length", str(len(body) if self.length is None else self.length)))
        if self.close == "said":
            headers.append(("Connection", "close"))
        try:
            reason = HTTPStatus(self.status).phrase
        except ValueError:
            reason = "Unheard Of"
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{name}: {value}" for name, value in headers), "", ""]
        return "\r\n".join(lines).encode("latin-1"), body


Answer = Callable[[Request], Reply]

#: Cut off after the request was read, before any byte of a reply.
NO_REPLY = Reply(cut=0)
HTML = Reply(body=b"<html><body><h1>Bad gateway</h1></body></html>", headers=[("Content-Type", "text/html")])


def in_order(*replies: Reply) -> Answer:
    """Plays `replies` one after the other, whatever is asked; after the last one says 599."""
    left = iter(replies)
    return lambda _: next(left, Reply(status=599, body=b"the script is over"))


def always(reply: Reply) -> Answer:
    return lambda _: reply


@dataclass
class ScriptedServer:
    """Plays what `answer` says, one thread a connection, on a port that the system picks."""

    answer: Answer
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    #: Connections that were accepted so far.
    connections: int = 0

    def __post_init__(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.create_server((self.host, 0), family=family, backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._ended = threading.Event()
        self._seen = threading.Condition()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = 0
        self._start(self._accept)

    @property
    def url(self) -> str:
        return self.at(f"[{self.host}]" if ":" in self.host else self.host)

    def at(self, host: str) -> str:
        """The URL of this server under another name of its host."""
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def posts(self, path: str | None = None) -> list[Request]:
        """The POSTs so far, to `path` alone where it is given."""
        return [r for r in self.requests if r.method == "POST" and path in (None, r.path)]

    def of(self, method: str, path: str) -> list[Request]:
        return [r for r in self.requests if r.method == method and r.path == path]

    def wait_for(self, path: str, count: int = 1, within: float = 10) -> None:
        """Waits until `count` requests to `path` have been read whole."""
        self._wait(lambda: sum(r.path == path for r in self.requests) >= count, f"{count} of {path}", within)

    def wait_closed(self, count: int = 1, within: float = 10) -> None:
        """Waits until this side has closed `count` connections."""
        self._wait(lambda: self._closed >= count, f"{count} closed connections", within)

    def close(self) -> None:
        self._ended.set()
        # A thread in accept() does not notice that another one closed the listener.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._seen:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, true: Callable[[], bool], what: str, within: float) -> None:
        with self._seen:
            assert self._seen.wait_for(true, within), f"not within {within} s: {what}; came: {self.requests}"

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True, name="scripted-server")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._seen:
                self.connections += 1
                self._open.add(connection)
            self._start(self._serve, connection, self.connections)

    def _serve(self, connection: socket.socket, number: int) -> None:
        served = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                served = self.tls.wrap_socket(connection, server_side=True)
            with served.makefile("rb") as stream:
                while (request := read_request(stream, number)) is not None:
                    with self._seen:
                        self.requests.append(request)
                        self._seen.notify_all()
                    if not self._play(served, self.answer(request)):
                        return
        except OSError:
            pass  # the client went away, as some tests want it to
        finally:
            with self._seen:
                self._open.discard(connection)
                self._closed += 1
            served.close()
            with self._seen:
                self._seen.notify_all()

    def _play(self, connection: socket.socket, reply: Reply) -> bool:
        """Plays one reply; whether the connection lives on."""
        if reply.held:
            self._ended.wait()
            return False
        if reply.delay and self._ended.wait(reply.delay):
            return False
        head, body = reply.parts()
        if reply.cut is not None:
            connection.sendall((head + body)[: reply.cut])
            if reply.reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        self._send(connection, head, reply.trickle_head)
        self._send(connection, body, reply.trickle_body)
        while reply.endless and not self._ended.is_set():
            self._send(connection, body, reply.trickle_body)
        return not reply.close

    def _send(self, connection: socket.socket, data: bytes, pause: float) -> None:
        if not pause:
            connection.sendall(data)
            return
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            if self._ended.wait(pause):
                return


def read_request(stream: Any, connection: int = 0) -> Request | None:
    """Reads one request from `stream`; `None` where it ended before a whole one."""
    head = _read_head(stream)
    if head is None:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:] if line)]
    named = {name.lower(): value for name, value in headers}
    if "chunked" in named.get("transfer-encoding", ""):
        body = _read_chunks(stream)
    else:
        length = int(named.get("content-length", 0))
        body = stream.read(length)
        if len(body) < length:
            return None
    return Request(method, target, headers, body, connection, head)


def _read_head(stream: Any) -> bytes | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline(1 << 16)
        if not line:
            return None
        head += line
    return head


def _read_chunks(stream: Any) -> bytes:
    body = b""
    while size := int(stream.readline(1 << 10).split(b";")[0], 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
