"""What a process may do, given up by itself before it runs other people's code."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator
from typing import NamedTuple

from . import filters

_SET_DUMPABLE, _SET_PDEATHSIG, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 4, 1, 36, 38
_CAPABILITY_VERSION_3 = 0x20080522
_NICE = 5
_OPEN_FILES = 256


class Limits(NamedTuple):
    """What the code may use.

    Attributes:
        memory: Bytes of address space, for each process.
        processes: Processes and threads.
        file: Bytes of the largest file that may be written.
    """

    memory: int
    processes: int
    file: int


def adopt_orphans() -> None:
    """Processes whose parent ends become children of this one, wherever they hide."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """No other process of the same user may look into this one, or into its copies."""
    _prctl(_SET_DUMPABLE, 0)


def can_be(uid: int) -> bool:
    """Whether this process may become the user ``uid``, who can then still use this interpreter."""
    if os.geteuid() != 0:
        return False
    try:
        with acting_as(uid):
            return all(os.access(path, os.R_OK, effective_ids=True) for path in (os.__file__, sys.executable))
    except OSError:
        return False


@contextlib.contextmanager
def acting_as(uid: int | None) -> Iterator[None]:
    """Do something with the rights of the user ``uid``; of nobody else where it is ``None``."""
    if uid is None:
        yield
        return
    gid = os.getegid()
    os.setegid(uid)
    try:
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
    finally:
        os.setegid(gid)


def confine(limits: Limits, uid: int | None, parent: int) -> int | None:
    """Give up everything that the code must not have.

    Args:
        limits: What it may use.
        uid: The user to become; ``None`` to stay.
        parent: The process that must not be outlived.

    Returns:
        What the supervisor judges signals by, see :mod:`filters`; ``None`` where there is no such thing.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, this goes first, not the server
    os.nice(_NICE)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, limits.memory)
    _limit(resource.RLIMIT_FSIZE, limits.file)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if uid is not None:
        # Counts all processes of a user, so it says nothing about those of a user that others share.
        _limit(resource.RLIMIT_NPROC, limits.processes)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if not sys.platform.startswith("linux"):
        return None
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    _drop_capabilities()
    _prctl(_SET_NO_NEW_PRIVS, 1)
    return filters.install()


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # Some systems have the name but not the limit.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, value))


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
