"""Ever more sessions on one server, each stepping an environment that sleeps for a second; run as a process of its own.

``python -m benchmarks.crowd URL STEP_COUNT MOST`` speaks plain WebSocket frames, prints how many sessions were held.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import time
from collections import deque
from urllib.parse import urlsplit

#: Sessions that are added at once, and seconds after which their effect is looked at.
_PAUSE_S = 1.5
#: What still counts as held.
_P99_S = 1.5
_FAILURES = 0.001
_ENOUGH = 200


def _frame(text: bytes) -> bytes:
    """A masked text frame; the mask is zeros."""
    size = len(text)
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
    return head + bytes(4) + text


_RESET, _STEP = _frame(b'{"type":"reset","data":{}}'), _frame(b'{"type":"step","data":{}}')


class Crowd:
    """All sessions, and what they have seen lately."""

    def __init__(self) -> None:
        self.taken: deque[tuple[float, float]] = deque()
        self.failed = self.begun = 0

    def held(self, since: float) -> bool:
        """Whether the steps that ended after ``since`` were as quick as they must be, and none too many failed."""
        while self.taken and self.taken[0][0] < since:
            self.taken.popleft()
        seconds = sorted(taken for _, taken in self.taken)
        return (
            len(seconds) >= _ENOUGH
            and seconds[int(0.99 * (len(seconds) - 1))] <= _P99_S
            and self.failed <= _FAILURES * self.begun
        )


class Session(asyncio.Protocol):
    """One session: opens, resets, then steps without end."""

    def __init__(self, crowd: Crowd, host: str) -> None:
        self.crowd, self.host = crowd, host
        self.open = self.over = False
        self.left = b""
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET /ws HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self.transport.write(f"{head}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        data = self.left + data
        if not self.open:
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self.left = head
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self._fail()
                return
            self.open = True
            self.transport.write(_RESET)
        while len(data) >= 2:
            size, start = data[1] & 0x7F, 2
            if size == 126:
                size, start = int.from_bytes(data[2:4], "big"), 4
            if len(data) < start + size:
                break
            kind, message, data = data[0] & 0x0F, data[start : start + size], data[start + size :]
            if kind == 1:
                self._take(message)
            elif kind == 8:
                self._fail()
        self.left = data

    def _take(self, message: bytes) -> None:
        now = time.monotonic()
        if b'"error"' in message[:40]:
            self._fail()
            return
        if self.sent:
            self.crowd.taken.append((now, now - self.sent))
        self.sent = now
        self.crowd.begun += 1
        self.transport.write(_STEP)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail()

    def _fail(self) -> None:
        if not self.over:
            self.over = True
            self.crowd.failed += 1


async def main(url: str, some: int, most: int) -> int:
    """How many sessions were held before steps became slow, or sessions failed."""
    parts, crowd, loop = urlsplit(url), Crowd(), asyncio.get_running_loop()
    held = count = 0
    sessions: list[Session] = []
    while count < most:
        for _ in range(some):
            try:
                _, session = await asyncio.wait_for(
                    loop.create_connection(lambda: Session(crowd, parts.netloc), parts.hostname, parts.port), 5
                )
                sessions.append(session)
            except (OSError, TimeoutError):
                crowd.failed += 1
        count += some
        await asyncio.sleep(_PAUSE_S)
        if not crowd.held(time.monotonic() - 1.0):
            # A moment's stumble, as at the opening of so many at once, is no end yet.
            await asyncio.sleep(3.0)
            if not crowd.held(time.monotonic() - 1.0):
                break
        held = count
    return held


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
    os._exit(0)  # closing so many sockets in order is of no interest
