"""Replies of every shape, read by our client and by ``http.client`` from the same bytes: the same result, or both fail.

python -m tests.fuzz.replies --minutes 10 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator

import requests

from openenv.core.errors import OpenEnvError
from openenv.core.exchange import Exchange
from openenv.core.protocol import BaseURL
from openenv.core.timing import Deadline

BODY = b'{"observation":{"x":1},"done":false}'
_TYPE = b"Content-Type: application/json\r\n"
_LENGTH = b"Content-Length: %d\r\n" % len(BODY)
TEMPLATES = [
    b"HTTP/1.1 200 OK\r\n" + _TYPE + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 200 OK\r\n" + _LENGTH + b"Connection: close\r\n\r\n" + BODY,
    b"HTTP/1.0 200 OK\r\n" + _TYPE + b"\r\n" + BODY,
    b"HTTP/1.1 200\r\n" + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n"
    + BODY[:16]
    + b"\r\n14\r\n"
    + BODY[16:]
    + b"\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\n" + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\n" + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 3\r\n\r\noh!",
    b"HTTP/1.1 200 OK\r\n" + _LENGTH + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n" + _LENGTH + b"\r\n" + BODY,
    b"HTTP/1.1 200 OK\r\n" + _LENGTH + b"\r\n" + BODY + b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!",
    b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 70_000 + b"\r\n" + _LENGTH + b"\r\n" + BODY,
]
_PIECES = [b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"-1", b"+5", b"1_0", b"\xff", b"0", b"9" * 30, b"chunked"]
_PIECES += [b"content-length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]


def mutated(chance: random.Random) -> bytes:
    """A template, changed in a few places."""
    data = bytearray(chance.choice(TEMPLATES))
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at:at] = chance.choice(_PIECES)
            case 1:
                del data[at : at + chance.randrange(1, 6)]
            case 2 if data:
                data[at % len(data)] = chance.randrange(256)
            case 3:
                del data[at:]
            case 4:
                other = chance.choice(TEMPLATES)
                data[at:at] = other[: chance.randrange(60)]
    return bytes(data)


def reference(data: bytes) -> tuple[int, bytes] | None:
    """Status and body as ``http.client`` reads them; ``None`` where it fails."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = threading.Thread(target=_feed, args=(theirs, [data]))
        writer.start()
        reply = http.client.HTTPResponse(ours, method="POST")
        try:
            reply.begin()
            return reply.status, reply.read()
        except (OSError, ValueError, OverflowError, MemoryError, http.client.HTTPException):
            return None
        finally:
            reply.close()
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)
            writer.join()


def by_requests(server: Server) -> tuple[int, bytes] | None:
    """Status and body as requests reads them by itself; ``None`` where it fails."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    try:
        reply = requests.post(server.url + "/step", data=b"{}", headers=headers, timeout=5, allow_redirects=False)
    except (requests.RequestException, ValueError, OverflowError, MemoryError):
        return None
    return reply.status_code, reply.content


def _feed(sock: socket.socket, parts: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        for part in parts:
            sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)


class Server:
    """Answers each request with the bytes that are due, in the fragments that are due, then hangs up."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.due: list[bytes] = []
        self.requests = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, contextlib.suppress(OSError):
                    seen = b""
                    while b"\r\n\r\n{}" not in seen:
                        more = client.recv(1 << 16)
                        if not more:
                            break
                        seen += more
                    self.requests += 1
                    _feed(client, self.due)
                    while client.recv(1 << 16):
                        pass

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


def check(server: Server, chance: random.Random) -> None:
    """One reply, read both ways.

    Raises:
        AssertionError: They disagree; the message holds the bytes.
    """
    data = mutated(chance)
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 3))))
    server.due = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    before = server.requests
    exchange = Exchange(BaseURL(server.url), {}, None, None, 1 << 20)
    try:
        reply = exchange.send("POST", "/step", {"Content-Type": "application/json"}, b"{}", Deadline(5), 5)
        got: tuple[int, bytes] | None = (reply.status, bytes(reply.body))
        encoded = "content-encoding" in reply.headers
    except OpenEnvError:
        got, encoded = None, False
    finally:
        exchange.close()
    expected = reference(data)
    assert server.requests - before <= 1, f"sent more than once: {data!r}"
    if got == expected or encoded:
        return
    if got is None and (cut_in_head(data) or len(lengths(data)) > 1):
        return  # stricter on purpose: http.client takes a cut head for a whole one, and the first of two lengths
    if got == by_requests(server):
        return  # what is unusual is read by requests, which is urllib3 on top of http.client
    raise AssertionError(f"we read {got!r}, http.client {expected!r}, of {data!r}")


def cut_in_head(data: bytes) -> bool:
    """Whether the last head has no end."""
    last = data[data.rfind(b"HTTP/1.") :]
    return not any(end in last for end in (b"\r\n\r\n", b"\n\n", b"\n\r\n"))


def lengths(data: bytes) -> set[bytes]:
    """The different lengths that the reply claims."""
    return {match.strip() for match in re.findall(rb"(?i)content-length[^:\n]*:([^\r\n]*)", data)}


def run(seed: int, *, cases: int | None = None, seconds: float | None = None) -> int:
    """Check so many cases, or for so long; how many there were."""
    chance, count, ends = random.Random(seed), 0, time.monotonic() + (seconds or 0)
    with serving() as server:
        while count < cases if cases is not None else time.monotonic() < ends:
            check(server, chance)
            count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.stdout.write(f"{run(args.seed, seconds=args.minutes * 60)} replies, seed {args.seed}: no disagreement\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
