"""A small process that outlives its owner, to remove what the owner could not.

Run by path, with nothing but the standard library, by :mod:`openenv.containers.lease`. It reads lines of JSON from a
pipe whose other end only the owner holds. When the pipe closes, the owner has ended, however it did.

    {"path": [...]}                     the owner's ``sys.path``
    {"engine": {...}, "session": "..."} an engine on which the owner may have containers
    {"process": pid, "started": "..."}  a child process that leads a group of its own
    {"ended": pid}                      it has ended
    {"done": true}                      the owner has removed everything by itself
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any

#: Seconds between asking a group of processes to end and killing it.
_GRACE_S = 2.0


def started(pid: int) -> str:
    """When the process began, in the kernel's ticks since boot; empty where nobody can tell or it is no more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _signal(processes: dict[int, str], number: int) -> bool:
    """Signal the groups that are still those that were told of; whether there was any."""
    found = False
    for pid, since in processes.items():
        if since and started(pid) not in ("", since):
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
            found = True
    return found


def _end(processes: dict[int, str]) -> None:
    deadline = time.monotonic() + _GRACE_S
    alive = _signal(processes, signal.SIGTERM)
    while alive and time.monotonic() < deadline:
        time.sleep(0.05)
        alive = _signal(processes, 0)
    if alive:
        _signal(processes, signal.SIGKILL)


def main() -> None:
    # What ends the owner's group or terminal must not end this.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    engines: list[dict[str, Any]] = []
    processes: dict[int, str] = {}
    with open(0, "rb") as pipe:
        for line in pipe:
            told = json.loads(line)
            if "done" in told:
                return
            if "engine" in told:
                engines.append(told)
            if "process" in told:
                processes[told["process"]] = told["started"]
            processes.pop(told.get("ended"), None)
            sys.path[:] = told.get("path", sys.path)
    _end(processes)
    if engines:
        from openenv.containers.engine import Address
        from openenv.containers.sweep import sweep_session

        for told in engines:
            sweep_session(Address(**told["engine"]), told["session"])


if __name__ == "__main__":
    main()
