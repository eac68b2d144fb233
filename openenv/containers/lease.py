"""The owner's end of the pipe to its :mod:`~openenv.containers.reaper`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

_REAPER = Path(__file__).with_name("reaper.py")
#: Seconds that an owner that ends waits for the reaper: it has nothing to do, or containers to remove.
_DONE_S, _SWEEP_S = 2.0, 10.0


class Lease:
    """One reaper process, started when there is something to tell, and again if somebody killed it."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._broken = False

    def tell(self, message: dict[str, Any]) -> None:
        """Let the reaper know of something that must not outlive this process. Warns once if there can be none."""
        if message in self._told:
            if self._alive():
                return
        else:
            self._told.append(message)
        if self._broken:
            return
        try:
            if self._alive():
                try:
                    self._write([message])
                    return
                except BrokenPipeError:
                    pass
            self._start()
            self._write([{"path": [os.path.abspath(part) for part in sys.path]}, *self._told])
        except OSError as error:
            self._broken = True
            warnings.warn(
                f"the process that removes containers after a crash cannot be started ({error}); what this process "
                "leaves behind if it is killed has to be removed by hand",
                RuntimeWarning,
                stacklevel=2,
            )

    def forget(self, message: dict[str, Any], ended: dict[str, Any]) -> None:
        """Take back a ``message`` by telling that it ``ended``."""
        if message in self._told:
            self._told.remove(message)
            if self._alive():
                try:
                    self._write([ended])
                except BrokenPipeError:
                    self._process = None

    def end(self, *, done: bool) -> None:
        """Close the pipe at the end of this process; unless all is ``done``, wait for the reaper to do the rest."""
        if self._process is None:
            return
        if done and self._alive():
            try:
                self._write([{"done": True}])
            except BrokenPipeError:
                done = False
        self._close()
        try:
            self._process.wait(_DONE_S if done else _SWEEP_S)
        except subprocess.TimeoutExpired:
            # It goes on by itself; nobody shall be warned that it still runs.
            self._process.returncode = 0
        self._process = None

    def leave(self) -> None:
        """In a forked child: let go of the parent's pipe, so that it closes when the parent ends."""
        self._close()
        if self._process is not None:
            self._process.returncode = 0
            self._process = None
        self._told.clear()

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> None:
        self._close()
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable or "python3", "-I", str(_REAPER)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        self._pipe = writing

    def _write(self, messages: list[dict[str, Any]]) -> None:
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        while data:
            data = data[os.write(self._pipe, data) :]

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
