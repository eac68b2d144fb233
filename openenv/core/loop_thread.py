"""One event loop in a thread of its own, for plain code that waits for coroutines."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from openenv.core.errors import ClientClosed, ConcurrentUse
from openenv.core.logs import logger

log = logger("client")

T = TypeVar("T")

#: How long the end of a cancelled coroutine, a farewell, and the end of the thread are waited for, in seconds.
PATIENCE_S = 5.0


class LoopThread:
    """A running event loop and the calls on it. Daemon, so that it keeps no interpreter from exiting.

    Make it with :data:`starting` held.

    Attributes:
        loop: The event loop.
        thread: Its thread.
        calls: What callers wait for now.
        farewell: Awaited before the loop ends, where it is given.
        ended: It takes no more calls. True in a forked child, which has the loop but not its thread.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.calls: set[Call[Any]] = set()
        self.farewell: Callable[[], Awaitable[object]] | None = None
        self.ended = False
        self._stop = asyncio.Event()
        self.thread = threading.Thread(target=self._main, name=name, daemon=True)
        try:
            self.thread.start()
        except BaseException:
            self.loop.close()
            raise
        _alive.add(self)

    def run(self, coroutine: Awaitable[T]) -> T:
        """Run it on the loop and wait for it; what it raises is raised here, the same object.

        An exception in the waiting thread (Ctrl-C) cancels it first.

        Raises:
            ClientClosed: The loop ended before it did.
            ConcurrentUse: This is the loop's own thread.
        """
        if threading.get_ident() == self.thread.ident:
            discard(coroutine)
            raise ConcurrentUse(
                "a plain call from within a coroutine of the same client would wait for itself",
                remedy="Await the asynchronous client there.",
            )
        call = Call(self, coroutine)
        self.calls.add(call)
        try:
            self.post(call.begin)
            call.done.acquire()
        except BaseException:
            call.abandon()
            raise
        finally:
            self.calls.discard(call)
        return call.result()

    def post(self, callback: Callable[[], object]) -> None:
        """Have the loop call it.

        Raises:
            ClientClosed: The loop has ended.
        """
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError as error:
            raise _closed() from error

    def stop(self) -> None:
        """Say the farewell, cancel what runs, and end the loop. Waits for nothing."""
        with suppress(ClientClosed):
            self.post(self._stop.set)

    def join(self) -> None:
        """Wait for the thread to end, within limits: a coroutine may ignore that it was cancelled."""
        if threading.current_thread() is self.thread:
            return
        self.thread.join(PATIENCE_S)
        if self.thread.is_alive():
            log.warning("%s goes on after close: a coroutine or a job in its executor does not end", self.thread.name)

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                try:
                    runner.run(self._serve())
                finally:
                    self.ended = True
        finally:
            for call in self.calls.copy():
                call.fail(_closed())

    async def _serve(self) -> None:
        await self._stop.wait()
        farewell, self.farewell = self.farewell, None
        if farewell is not None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await farewell()
            except Exception as trouble:
                log.debug("the farewell of %s failed", self.thread.name, exc_info=trouble)


class Call(Generic[T]):
    """A coroutine on its way over the loop and back."""

    __slots__ = ("_coroutine", "_error", "_finished", "_on", "_task", "_value", "done")

    def __init__(self, on: LoopThread, coroutine: Awaitable[T]) -> None:
        self._on = on
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._value: T
        self._error: BaseException | None = None
        self._finished = False
        # A bare lock costs half of what a concurrent future does, which is a condition and a chain of callbacks.
        self.done = threading.Lock()
        self.done.acquire()

    def result(self) -> T:
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def abandon(self) -> None:
        """Cancel it, on behalf of the caller, and let it tidy up."""
        if self._finished:
            return
        try:
            self._on.post(self._cancel)
        except ClientClosed:
            discard(self._coroutine)
        else:
            self.done.acquire(timeout=PATIENCE_S)

    # --- on the loop ---

    def begin(self) -> None:
        if self._on.ended:
            self.fail(_closed())
        else:
            self._task = _start(self._drive(), self._on.loop)

    def fail(self, error: BaseException) -> None:
        """End it without having run."""
        if not self._finished:
            discard(self._coroutine)
            self._error = error
            self._finish()

    async def _drive(self) -> None:
        try:
            self._value = await self._coroutine
        except asyncio.CancelledError as error:
            self._error = _closed() if self._on.ended else error
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            self._error = error
        self._finish()

    def _cancel(self) -> None:
        if self._task is None:
            self.fail(asyncio.CancelledError())
        else:
            self._task.cancel()

    def _finish(self) -> None:
        self._finished = True
        self.done.release()


if sys.version_info >= (3, 12):

    def _start(coroutine: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        return asyncio.Task(coroutine, loop=loop, eager_start=True)  # one turn of the loop less

else:

    def _start(coroutine: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        return loop.create_task(coroutine)


def discard(coroutine: Awaitable[Any]) -> None:
    """Close a coroutine that will not run, so that nothing complains that nobody awaited it."""
    if inspect.iscoroutine(coroutine):
        coroutine.close()


def _closed() -> ClientClosed:
    return ClientClosed("the client was closed in the middle of the call", remedy="connect() or reset() begins again.")


#: Held over a fork too, so that a child finds no thread half started, nor this lock in the hands of one that it lacks.
starting = threading.Lock()
_alive: weakref.WeakSet[LoopThread] = weakref.WeakSet()


def _after_fork() -> None:
    """Set the parent's loops aside, unclosed: closing a copy would take the parent's wake-up off the shared epoll."""
    for driver in _alive:
        driver.ended = True
    _alive.clear()
    starting.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=starting.acquire, after_in_parent=starting.release, after_in_child=_after_fork)
