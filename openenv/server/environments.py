"""The environments of a server: how many there may be, how they come and how they go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from openenv.core.logs import logger
from openenv.server import answers
from openenv.server.runner import Handle, Runner
from openenv.server.session import Call, Reply

log = logger("server")

#: Seconds that a reset waits for an environment that is being closed.
CLOSING_S = 5.0


class NoRoom(Exception):
    """There are as many environments as there may be."""


class Environments:
    """Counts every environment from before it is made until it is closed.

    A session that was just deleted still holds its slot while its environment closes. A reset that finds all slots
    taken waits for those, rather than refuse a client that had made room.

    Args:
        runner: How they are made and called.
        most: How many there may be.
    """

    def __init__(self, runner: Runner, most: int) -> None:
        self.runner = runner
        self.most = most
        self._held: set[Handle] = set()
        self._closing: set[Handle] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many there are, those included that nobody wants any more but that have not ended."""
        return len(self._held)

    def has_room(self) -> bool:
        """Whether one more may be had, now or when those that close are closed."""
        return len(self._held) - len(self._closing) + len(self._waiting) < self.most

    def no_room(self, call: Call) -> Reply:
        return answers.capacity(call, self.count, self.most)

    async def take(self) -> Handle:
        """A slot for an environment that is to be made.

        Raises:
            NoRoom: There is none, now or soon.
        """
        if len(self._held) + len(self._waiting) >= self.most:
            await self._wait_for_room()
        handle = Handle(self.runner)
        self._held.add(handle)
        return handle

    async def _wait_for_room(self) -> None:
        if not self.has_room():
            raise NoRoom
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(CLOSING_S):
                await turn
        except TimeoutError:
            raise NoRoom from None
        finally:
            self._waiting.remove(turn)

    def free(self, handle: Handle) -> None:
        """The environment of ``handle`` is closed, or was never made."""
        self._held.discard(handle)
        self._closing.discard(handle)
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
                break

    def drop(self, handle: Handle) -> None:
        """Nobody wants ``handle`` any more: close it now, or when what runs in it has ended."""
        if handle.busy:
            handle.abandoned = True
            handle.interrupt()
        else:
            self._closing.add(handle)
            self.spawn(self.close(handle))

    async def close(self, handle: Handle) -> None:
        self._closing.add(handle)
        try:
            await handle.close()
        finally:
            self.free(handle)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do ``work`` for an environment; :meth:`end` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self, limit_s: float) -> None:
        """Wait until all are closed; after ``limit_s`` seconds close those that are still in a call, too."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)
        stuck = self._held - self._closing
        if stuck:
            log.warning("%d environments are still in a call at shutdown; closing them all the same", len(stuck))
            forced = [self.spawn(handle.close_by_force()) for handle in stuck]
            await asyncio.wait(forced, timeout=limit_s / 3)
        self.runner.workers.end_idle(longer_than_s=0.0)
