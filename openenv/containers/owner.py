"""What this process has started, and that nothing of it stays when it ends, however it ends.

Leaving ``with``, ``close()`` and garbage collection are the providers' own work. Here is the rest: the interpreter's
exit (Ctrl-C included), SIGTERM, and, by the :mod:`~openenv.containers.lease`, everything that no handler can see.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import signal
import threading
import uuid
import weakref
from types import FrameType
from typing import Protocol

from openenv.containers.engine import Address
from openenv.containers.lease import Lease
from openenv.containers.reaper import started
from openenv.core.logs import logger

log = logger("containers")


class Owned(Protocol):
    """Something that this process must end."""

    def abandon(self) -> None:
        """End it at once; nobody will use it again."""


class Owner:
    """This process. A forked child is another owner, and begins with nothing."""

    def __init__(self) -> None:
        self._hooked = False
        self._masked = threading.local()
        self._begin()

    def _begin(self) -> None:
        self.session = uuid.uuid4().hex
        self.lock = threading.RLock()
        self._lease = Lease()
        self._live: weakref.WeakSet[Owned] = weakref.WeakSet()
        self._doubt = False

    def watch_engine(self, address: Address, owned: Owned) -> None:
        """Before a container is made on the engine at ``address``."""
        engine = dataclasses.asdict(address)
        with self.lock:
            self._hook()
            self._live.add(owned)
            self._lease.tell({"engine": engine, "session": self.session})

    def watch_process(self, pid: int, owned: Owned) -> None:
        """After a child process that leads its own group was started."""
        with self.lock:
            self._hook()
            self._live.add(owned)
            self._lease.tell({"process": pid, "started": started(pid)})

    def process_ended(self, pid: int, since: str) -> None:
        """The child process needs no watching any more."""
        with self.lock:
            self._lease.forget({"process": pid, "started": since}, {"ended": pid})

    def doubt(self) -> None:
        """Something may exist that nobody here knows by id; the reaper shall look when this process ends."""
        self._doubt = True

    def end(self) -> None:
        """End everything that is left."""
        for owned in list(self._live):
            try:
                owned.abandon()
            except Exception as error:  # noqa: BLE001 - the others have to be ended too
                self._doubt = True
                log.warning("%r could not be ended: %s", owned, error)
        with self.lock:
            self._lease.end(done=not self._doubt)

    def _hook(self) -> None:
        if self._hooked:
            return
        self._hooked = True
        atexit.register(self.end)
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork_here, after_in_child=self._after_fork_in_child
        )
        # Whoever has a handler of his own ends in an orderly way, and so by atexit.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    def _terminated(self, number: int, _: FrameType | None) -> None:
        """End everything, then die of the signal as if there had been no handler."""
        signal.signal(number, signal.SIG_DFL)
        self.end()
        os.kill(os.getpid(), number)

    def _before_fork(self) -> None:
        # Python forgets signals that arrive in a child before it runs, and a child that had no handler would have died
        # of them; so they wait until ours is taken off there.
        self._masked.before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _after_fork_here(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masked.before)

    def _after_fork_in_child(self) -> None:
        self._lease.leave()
        self._begin()
        # signal() works in the main thread only, which the forking thread has just become.
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._after_fork_here()


OWNER = Owner()
