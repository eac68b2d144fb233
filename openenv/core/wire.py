"""HTTP/1.1 on a connected socket: what a plain reply looks like, within a deadline and a size.

:func:`read_plain` reads what servers say nearly always, a bare 200 with a length. Anything else is :class:`Unusual`
and is read by ``http.client`` from the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from openenv.core.errors import ConfigurationError, ProtocolError
from openenv.core.timing import Deadline

CHUNK = 1 << 16
CUT_IN_HEAD = "the connection broke before the head of the answer was whole"
# Within what http.client takes: lines of 64 KiB and 100 headers.
_MAX_HEAD = 1 << 16
_PLAIN = re.compile(rb"HTTP/1\.1 200(?: [^\r\n]*)?(?:\r\n[!-9;-~]+:[^\r\n]*){1,90}")
_BEGIN = b"HTTP/1.1 200"
_FIRST_READ = 1 << 20
_SAME_S = 0.001


class Head(Mapping[str, str]):
    """The headers of a plain reply, parsed one by one when they are asked for."""

    __slots__ = ("_lines", "_lower")

    def __init__(self, head: bytes, lower: bytes) -> None:
        self._lines, self._lower = head, lower

    def __getitem__(self, name: str) -> str:
        value: str | None = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        mark = _mark(name)
        start = self._lower.find(mark)
        if start < 0:
            return default
        start += len(mark)
        end = self._lines.find(b"\r\n", start)
        return self._lines[start : end if end >= 0 else None].strip().decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (line.partition(b":")[0].decode("latin-1") for line in self._lines.split(b"\r\n")[1:])

    def __len__(self) -> int:
        return self._lines.count(b"\r\n")


@lru_cache(maxsize=64)
def _mark(name: str) -> bytes:
    return b"\r\n%b:" % name.lower().encode("latin-1")


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
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            return count
        limit_socket(self._sock, self._deadline)
        count = int(self._sock.recv_into(buffer))
        self.ended = not count
        return count


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
    # Setting it is a system call, and one limit is much like the one before.
    now = sock.gettimeout()
    if left is None or now is None or not -_SAME_S < now - left < _SAME_S:
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
        if not _BEGIN.startswith(data[:12]) or b"\n\n" in data or b"\n\r\n" in data or len(data) > _MAX_HEAD:
            raise Unusual(data)
        limit_socket(sock, deadline)
        more = sock.recv(CHUNK)
        if not more:
            raise ConnectionResetError(CUT_IN_HEAD)
        data += more
    head = data[:end]
    lower = head.lower()
    mark = lower.find(b"\r\ncontent-length:")
    if (
        mark < 0
        or end > _MAX_HEAD
        or not _PLAIN.fullmatch(head)
        or b"\r\ncontent-length:" in lower[mark + 17 :]
        or b"-encoding:" in lower
        or b"\r\nset-cookie" in lower
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
    have = len(body)
    while have < size:
        if have == len(body):  # memory for what came already, not for what is promised
            body.extend(bytes(min(size - have, max(have, _FIRST_READ))))
        limit_socket(sock, deadline)
        count = sock.recv_into(memoryview(body)[have:])
        if not count:
            raise ConnectionResetError(f"the connection broke after {have} of {size} bytes of the answer")
        have += count
    keep = b"\r\nconnection:" not in lower or b"close" not in lower
    return Head(head, lower), body, keep and len(rest) <= size


def too_large(size: int | None, most: int) -> ProtocolError:
    got = f"{size} bytes" if size else "more"
    return ProtocolError(
        f"the answer is larger than max_reply_bytes={most}: {got}", remedy="Raise max_reply_bytes of the client."
    )


def render_head(method: str, target: str, url: str, headers: Mapping[str, str]) -> bytes:
    """A request's head as ``http.client`` writes it, without the empty line that ends it."""
    lines = [f"{method} {target} HTTP/1.1".encode("ascii")]
    if not any(name.lower() == "host" for name in headers):
        lines.append(f"Host: {urlsplit(url).netloc.rpartition('@')[2]}".encode("ascii"))
    lines += [_header_line(name, value) for name, value in headers.items()]
    return b"\r\n".join([*lines, b""])


def _header_line(name: str, value: str | bytes) -> bytes:
    try:
        line = name.encode("ascii") + b": " + (value if isinstance(value, bytes) else value.encode("latin-1"))
    except UnicodeEncodeError:
        line = b"\n"
    if b"\n" in line or b"\r" in line:
        raise ConfigurationError(
            f"the header {name!r} holds characters that HTTP does not carry: {value!r:.60}",
            remedy="Encode the text, with urllib.parse.quote for example.",
        )
    return line
