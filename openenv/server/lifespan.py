"""Start and end of a server process."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from types import FrameType
from typing import Any

from openenv.server.engine import Engine

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_REMEDY = "Run N processes on N ports instead, and give clients their N addresses."


class Lifespan:
    """The ASGI lifespan of an engine.

    Calls in flight when SIGTERM comes get a few seconds: ASGI tells of the end only when they are answered, so the
    signal is noticed here as well.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._handlers: dict[int, Any] = {}

    async def __call__(self, receive: Any, send: Any) -> None:
        await receive()
        if (reason := several_workers()) is not None:
            await send({"type": "lifespan.startup.failed", "message": f"{reason} {_REMEDY}"})
            return
        self._engine.begin()
        self._notice_signals()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._engine.shutdown()
        self._forget_signals()
        await send({"type": "lifespan.shutdown.complete"})

    def _notice_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if callable(before):  # the server's own handler, which goes on to do its work

                def handle(received: int, frame: FrameType | None, before: Any = before) -> None:
                    loop.call_soon_threadsafe(self._engine.drain)
                    before(received, frame)

                self._handlers[number] = (handle, before)
                signal.signal(number, handle)

    def _forget_signals(self) -> None:
        for number, (handle, before) in self._handlers.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, before)
        self._handlers.clear()


def several_workers() -> str | None:
    """Why this process must not serve: it shares its port with others. ``None`` where it does not.

    A session lives in one process, and the kernel picks a process for each connection.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        for name in ("self", "config"):
            owner = frame.f_locals.get(name)
            count = _workers(owner)
            if count > 1:
                return f"This server was started with {count} workers, but a session lives in one process."
        frame = frame.f_back
    return None


def _workers(owner: Any) -> int:
    """The number of processes that a server, its worker or its configuration was told to have."""
    kind = type(owner).__module__.partition(".")[0]
    if kind not in ("uvicorn", "uvicorn_worker", "gunicorn", "hypercorn"):
        return 1
    for holder in (owner, getattr(owner, "cfg", None), getattr(owner, "config", None)):
        count = getattr(holder, "workers", None)
        if isinstance(count, int) and count > 1:
            return count
    return 1
