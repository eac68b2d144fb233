"""The processes below this one: found, counted, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

#: Seconds in which all must be gone.
_END_S = 5.0


def parent(pid: int) -> int:
    """The parent of the process, or of the thread, ``pid``; 0 where there is none."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def is_below(pid: int, top: int) -> bool:
    """Whether ``pid``, a process or a thread, is a descendant of the process ``top``."""
    while pid > 1:
        pid = parent(pid)
        if pid == top:
            return True
    return False


def below(top: int) -> set[int]:
    """The descendants of the process ``top`` that are not dead."""
    found: set[int] = set()
    todo = [top]
    while todo:
        fresh = set(_children(todo.pop())) - found
        found |= fresh
        todo += fresh
    return {pid for pid in found if _stat(pid)[:1] not in ([], ["Z"], ["X"])}


def count(top: int) -> int:
    """The processes below the process ``top`` and their threads."""
    threads = 0
    for pid in below(top):
        with contextlib.suppress(OSError):
            threads += len(os.listdir(f"/proc/{pid}/task"))
    return threads


def end(find: Callable[[], set[int]], reap: Callable[[], None]) -> bool:
    """End all that ``find`` finds; whether they are gone.

    They are stopped before any is killed: what is stopped cannot fork, and still counts against the limit.
    """
    deadline = time.monotonic() + _END_S
    stopped: set[int] = set()
    while (fresh := find() - stopped) and time.monotonic() < deadline:
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    while left := find():
        for pid in left:
            _signal(pid, signal.SIGKILL)
        reap()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                yield from map(int, file.read().split())


def _stat(pid: int) -> list[str]:
    """State, parent and so on of ``pid``; nothing where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
