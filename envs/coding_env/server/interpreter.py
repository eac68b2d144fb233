"""The sandbox as the server sees it: give it code, get what the code wrote and how it ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.coding_env.server.sandbox import channel, confine
from envs.coding_env.server.settings import Settings

_BOOT = (
    "import sys, json; sys.path.insert(0, sys.argv[1]); from sandbox import supervisor; "
    "supervisor.main(json.loads(sys.argv[2]))"
)
#: Seconds that the supervisor has beyond the limit of a step, to end what is left.
_BEYOND_S = 10.0
_RESET_S = 30.0
_END_S = 10.0
_CHUNK = 1 << 20
_SANDBOX_LOST = "The sandbox was ended or did not answer; variables are lost and the next step begins with a new one."
#: Users of sessions where the server is root: one each.
_FIRST_UID, _UIDS = 40000, 20000
_uids = itertools.count(os.getpid() * 64)
#: What the code's environment keeps of the server's. Nothing else: there may be secrets.
_KEPT = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH")
#: Libraries of numbers start a thread for each processor, which counts against the limits.
_SET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        stdout: What was written there, cut at the limit.
        stderr: Likewise, with a note of why the code was ended, where it was.
        exit_code: 0 is success.
        lost: The variables are gone.
    """

    stdout: str
    stderr: str
    exit_code: int
    lost: bool


class Interpreter:
    """One sandbox, started when it is first needed. Used by one thread at a time; ``close`` by any.

    Args:
        settings: What code may use.
        python: The interpreter that runs the code.
    """

    def __init__(self, settings: Settings, python: str = sys.executable) -> None:
        self._settings = settings
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket
        self._outputs: list[int] = []
        self._folder = ""
        # Held while there is a question: what it uses is not closed before it is answered.
        self._asking = threading.Lock()

    def reset(self) -> None:
        """End all that runs, forget all variables and files.

        Raises:
            RuntimeError: No sandbox can be started.
        """
        told = ""
        for _ in range(2):  # the one that there is may have been killed
            answer, _, err = self._ask({"reset": True}, _RESET_S)
            if answer is not None:
                return
            self.close()
            told = err.text().strip()
        raise RuntimeError(f"the sandbox cannot be started with {self._python}: {told or 'it ended without a word'}")

    def run(self, code: str, limit_s: float) -> Outcome:
        """Run ``code`` for at most ``limit_s`` seconds. Never raises for what the code does."""
        answer, out, err = self._ask({"code": code, "limit_s": limit_s}, limit_s + _BEYOND_S)
        if answer is None:
            self.close()
            return Outcome(out.text(), _with_note(err.text(), _SANDBOX_LOST), 1, True)
        note = str(answer["note"])
        text = err.text()
        return Outcome(out.text(), _with_note(text, note) if note else text, answer["exit_code"], answer["lost"])

    def close(self) -> None:
        """End all that runs. Harmless when nothing does."""
        process, self._process = self._process, None
        if process is None:
            return
        # It ends all that is below it when it sees this.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # Where it was killed it could not.
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._asking:
            self._socket.close()
            for fd in self._outputs:
                os.close(fd)

    def _ask(self, question: dict[str, Any], limit_s: float) -> tuple[dict[str, Any] | None, _Capture, _Capture]:
        """The supervisor's answer, ``None`` where there is none, and what was written until then."""
        with self._asking:
            return self._converse(question, limit_s)

    def _converse(self, question: dict[str, Any], limit_s: float) -> tuple[dict[str, Any] | None, _Capture, _Capture]:
        captures = _Capture(self._settings.output_bytes), _Capture(self._settings.output_bytes)
        if self._process is None:
            self._start()
        sinks = dict(zip(self._outputs, captures, strict=True))
        answer = None
        try:
            channel.send(self._socket, question)
            if self._pump(sinks, limit_s):
                answer = channel.receive(self._socket)
        except (OSError, ValueError):
            answer = None  # it is gone; the caller starts another
        for fd, capture in sinks.items():
            while capture.take(fd):
                pass
        return answer, *captures

    def _pump(self, sinks: dict[int, _Capture], limit_s: float) -> bool:
        """Take what is written until there is an answer; whether there is one in time."""
        poll = select.poll()
        for fd in (self._socket.fileno(), *sinks):
            poll.register(fd, select.POLLIN)
        deadline = time.monotonic() + limit_s
        while (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(left * 1000):
                if fd == self._socket.fileno():
                    return True
                if not sinks[fd].take(fd):
                    poll.unregister(fd)
        return False

    def _start(self) -> None:
        # Code may run as the same user as this process, which has secrets.
        confine.hide_memory()
        ours, theirs = socket.socketpair()
        pipes = os.pipe(), os.pipe()
        settings = self._settings
        self._folder = os.path.join(tempfile.gettempdir(), f"coding-{secrets.token_hex(8)}")
        told = {
            "memory": settings.memory_bytes,
            "processes": settings.processes,
            "file": settings.file_bytes,
            "folder": self._folder,
            "uid": _FIRST_UID + next(_uids) % _UIDS,
        }
        try:
            self._process = subprocess.Popen(
                [self._python, "-I", "-X", "utf8", "-c", _BOOT, str(Path(__file__).parent), json.dumps(told)],
                stdin=theirs.fileno(),
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                cwd="/",
                env={**{name: os.environ[name] for name in _KEPT if name in os.environ}, **_SET},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            for pipe in pipes:
                os.close(pipe[0])
            raise RuntimeError(f"the sandbox cannot be started with {self._python}: {error}") from error
        finally:
            theirs.close()
            for pipe in pipes:
                os.close(pipe[1])
        self._socket = ours
        self._outputs = [pipe[0] for pipe in pipes]
        for fd in self._outputs:
            os.set_blocking(fd, False)


class _Capture:
    """The first bytes of a stream, and how many there were."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[bytes] = []
        self._left = most
        self._total = 0

    def take(self, fd: int) -> bool:
        """Take what is there now; whether there was something."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        self._total += len(data)
        if self._left and data:
            self._kept.append(data[: self._left])
            self._left -= len(self._kept[-1])
        return bool(data)

    def text(self) -> str:
        text = b"".join(self._kept).decode("utf-8", "replace")
        if self._total > self._most:
            text += f"\n[coding_env] cut here: {self._most:,} of {self._total:,} bytes are kept\n"
        return text


def _with_note(text: str, note: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}[coding_env] {note}\n"
