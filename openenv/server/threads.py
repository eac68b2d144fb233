"""Threads for what blocks.

Not ``concurrent.futures``: its threads are joined when the interpreter exits, so one step that never returns would
keep the process alive; and an environment may want one thread for all its calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

#: Seconds after which a thread that nobody used ends.
IDLE_S = 30.0

_Work = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Worker:
    """One thread. Used from the event loop only."""

    def __init__(self, workers: Workers, loop: asyncio.AbstractEventLoop) -> None:
        self.kept = False
        self.idle_since = 0.0
        self._workers = workers
        self._loop = loop
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        threading.Thread(target=self._main, name="openenv-environment", daemon=True).start()

    def run(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Call ``function`` on this thread, after what was given to it before."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._work.put((future, function, arguments))
        return future

    def end(self) -> None:
        """Let the thread end when it has done what it was given."""
        self._work.put(None)

    def _main(self) -> None:
        while (work := self._work.get()) is not None:
            future, function, arguments = work
            result: Any = None
            error: BaseException | None = None
            try:
                result = function(*arguments)
            except BaseException as raised:  # noqa: BLE001  # whoever waits for the future gets it
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._deliver, future, result, error)
            except RuntimeError:
                return  # the loop is closed; nobody waits any more
            # An idle thread must not keep the last environment alive.
            del work, future, function, arguments, result, error

    def _deliver(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        if not self.kept:
            self._workers.give_back(self)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future refuses it
            future.set_exception(RuntimeError(f"StopIteration: {error}"))
        else:
            future.set_exception(error)


class Workers:
    """As many threads as there are calls that block at the same time."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self.count = 0

    def take(self) -> Worker:
        """An idle thread, or a new one. It comes back by itself after its work, unless ``kept`` is set."""
        if self._idle:
            return self._idle.pop()
        self.count += 1
        return Worker(self, asyncio.get_running_loop())

    def give_back(self, worker: Worker) -> None:
        worker.kept = False
        worker.idle_since = asyncio.get_running_loop().time()
        self._idle.append(worker)

    def run(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Call ``function`` on any thread."""
        return self.take().run(function, *arguments)

    def end_idle(self, longer_than_s: float = IDLE_S) -> None:
        """End the threads that have been idle for ``longer_than_s`` seconds."""
        now = asyncio.get_running_loop().time()
        for worker in [w for w in self._idle if now - w.idle_since >= longer_than_s]:
            self._idle.remove(worker)
            self.count -= 1
            worker.end()
