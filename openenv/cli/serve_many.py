"""``openenv serve --processes N``: the same server N times, each with a port and sessions of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

from openenv.containers.owner import OWNER
from openenv.containers.reaper import started

#: Seconds that the servers get to end.
_END_S = 10.0


class Child:
    """One server."""

    def __init__(self, app: str, host: str, port: int) -> None:
        command = [sys.executable, "-m", "openenv.server", app, "--host", host, "--port", str(port)]
        self.process = subprocess.Popen(command, start_new_session=True)
        self._since = started(self.process.pid)
        # Whatever becomes of this process, its servers do not outlive it.
        OWNER.watch_process(self.process.pid, self)

    def abandon(self) -> None:
        """Kill it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        OWNER.process_ended(self.process.pid, self._since)


def serve_many(app: str, host: str, port: int, count: int) -> int:
    """Serve until a signal comes; each server prints ``OPENENV_READY URL`` by itself.

    A server that ends is named on standard error; the others go on.

    Args:
        app: ``MODULE:APP``.
        host: The address to listen on.
        port: The port of the first; the others have those that follow. 0 lets the system pick all.
        count: How many.

    Returns:
        0 where a signal ended them, else 1.
    """
    asked = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    children = [Child(app, host, port + place if port else 0) for place in range(count)]
    running = list(children)
    try:
        while running and not asked.wait(0.2):
            for child in [one for one in running if one.process.poll() is not None]:
                running.remove(child)
                about = f"server {children.index(child) + 1} of {count}"
                print(f"openenv serve: {about} ended with {child.process.returncode}", file=sys.stderr, flush=True)
    finally:
        for child in running:
            child.process.terminate()
        deadline = time.monotonic() + _END_S
        for child in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
        for child in children:
            child.abandon()
    return 0 if asked.is_set() else 1
