"""HTTP/1.1 on a connected socket: what a plain reply looks like, within a deadline and a size.

:func:`read_plain` reads what servers say nearly always, a bare 200 with a length. Anything else is :class:`Unusual`
and is read by ``http.client`` from the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from openenv.core.errors import ProtocolError
from openenv.core.timing import Deadline

CHUNK = 1 << 16
_MAX_HEAD = 1 << 18


class Head(Mapping[str, str]):
    """The headers of a plain reply, parsed one by one when they are asked for."""

    __slots__ = ("_lines", "_lower")

    def __init__(self, head: bytes, lower: bytes) -> None:
        self._lines, self._lower = head, lower

    def __getitem__(self, name: str) -> str:
        start = self._lower.find(b"\r\n" + name.lower().encode("latin-1") + b":")
        if start < 0:
            raise KeyError(name)
        start = self._lines.index(b":", start) + 1
        end = self._lines.find(b"\r\n", start)
        return self._lines[start : end if end >= 0 else None].strip().decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (line.partition(b":")[0].decode("latin-1") for line in self._lines.split(b"\r\n")[1:])

    def __len__(self) -> int:
        return self._lines.count(b"\r\n")


class Line:
    """What a call holds while it is in flight, so that another thread can cut it."""

    def __init__(self) -> None:
        self.socket: Any = None
        self.cut = False

    def abort(self) -> None:
        """Cut the call in flight; a call that begins later is refused."""
        self.cut = True
        if self.socket is not None:
            with contextlib.suppress(OSError):  # it is closed already
                self.socket.shutdown(socket.SHUT_RDWR)


class TotalReader(io.RawIOBase):
    """Bytes that were read ahead, then the socket, each read within what is left of the deadline."""

    def __init__(self, ahead: bytes, sock: Any, deadline: Deadline) -> None:
        self._ahead, self._sock, self._deadline = ahead, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            return count
        limit_socket(self._sock, self._deadline)
        return int(self._sock.recv_into(buffer))


class Readable:
    """What ``http.client`` wants of a socket."""

    def __init__(self, raw: TotalReader) -> None:
        self._raw = raw

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(self._raw)


def limit_socket(sock: Any, deadline: Deadline) -> None:
    left = deadline.left()
    if left is not None and left <= 0:
        raise TimeoutError("the limit of the call passed")
    sock.settimeout(left)


class Unusual(Exception):
    """A reply that http.client shall read: not a bare 200 with a length."""

    def __init__(self, ahead: bytes) -> None:
        self.ahead = ahead


def read_plain(sock: Any, deadline: Deadline, most: int) -> tuple[Head, bytearray, bool]:
    """The head and body of a bare 200 with a length, and whether the connection can be used again."""
    limit_socket(sock, deadline)
    data = sock.recv(CHUNK)
    if not data:
        raise ConnectionResetError("the server closed the connection without an answer")
    while (end := data.find(b"\r\n\r\n")) < 0:
        if len(data) > _MAX_HEAD:
            raise Unusual(data)
        limit_socket(sock, deadline)
        more = sock.recv(CHUNK)
        if not more:
            raise Unusual(data)
        data += more
    head = data[:end]
    lower = head.lower()
    mark = lower.find(b"\r\ncontent-length:")
    if (
        not head.startswith(b"HTTP/1.1 200")
        or mark < 0
        or b"\r\ncontent-length:" in lower[mark + 17 :]
        or b"-encoding:" in lower
        or b"\r\nset-cookie" in lower
        or b"\r\n " in head
        or b"\r\n\t" in head
        or b"\n" in head.replace(b"\r\n", b"")
    ):
        raise Unusual(data)
    stop = lower.find(b"\r\n", mark + 17)
    digits = lower[mark + 17 : stop if stop >= 0 else None].strip()
    if not digits.isdigit() or len(digits) > 15:
        raise Unusual(data)
    size = int(digits)
    if size > most:
        raise too_large(size, most)
    rest = data[end + 4 :]
    body = bytearray(rest[:size])
    if (have := len(body)) < size:
        body.extend(bytes(size - have))
        view = memoryview(body)
        while have < size:
            limit_socket(sock, deadline)
            count = sock.recv_into(view[have:])
            if not count:
                raise ConnectionResetError(f"the connection broke after {have} of {size} bytes of the answer")
            have += count
    keep = b"\r\nconnection:" not in lower or b"\r\nconnection: keep-alive" in lower
    return Head(head, lower), body, keep and len(rest) <= size


def too_large(size: int | None, most: int) -> ProtocolError:
    got = f"{size} bytes" if size else "more"
    return ProtocolError(
        f"the answer is larger than max_reply_bytes={most}: {got}", remedy="Raise max_reply_bytes of the client."
    )


def render_head(method: str, target: str, url: str, headers: Mapping[str, str]) -> bytes:
    """A request's head as ``http.client`` writes it, without the empty line that ends it."""
    lines = [f"{method} {target} HTTP/1.1"]
    if not any(name.lower() == "host" for name in headers):
        lines.append(f"Host: {urlsplit(url).netloc.rpartition('@')[2]}")
    for name, value in headers.items():
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, ""]).encode("latin-1")
