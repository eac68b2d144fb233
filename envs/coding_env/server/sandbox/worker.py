"""The process that runs the code. It keeps what the code defines from step to step."""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import socket
import struct
import sys
import traceback
import types
from typing import Any, NoReturn

from . import channel

#: A step: the mark that its answer must carry, and how many bytes of code follow. Its answer: mark and exit code.
MARK = 16
REQUEST = struct.Struct(f">{MARK}sI")
ANSWER = struct.Struct(f">{MARK}si")


class Worker:
    """Runs steps that come over ``control``, until that ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._steps = 0
        self._pid = os.getpid()
        self._saved = [os.dup(fd) for fd in (0, 1, 2)]
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self._names = module.__dict__
        # As for a script: modules that the code has written can be imported.
        sys.path[0] = ""
        sys.argv = [""]

    def serve(self) -> NoReturn:
        """Run until the supervisor is gone."""
        while (head := channel.exactly(self._control, REQUEST.size)) is not None:
            mark, length = REQUEST.unpack(head)
            code = channel.exactly(self._control, length)
            if code is None:
                break
            self._renew_streams()
            exit_code = self._run(code.decode("utf-8", "surrogatepass"))
            self._flush()
            if os.getpid() != self._pid:  # a copy, made by the code, must not answer in the place of its original
                os._exit(exit_code & 0xFF)
            self._control.sendall(ANSWER.pack(mark, exit_code))
        os._exit(0)

    def _run(self, code: str) -> int:
        self._steps += 1
        name = f"<step {self._steps}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                exec(compile(code, name, "exec", dont_inherit=True), self._names)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        except SystemExit as exit_:
            return self._exit_code(exit_.code)
        except BaseException as error:  # noqa: BLE001  # it is the code's, and is told to whoever sent it
            self._tell(error)
            return 1
        return 0

    def _exit_code(self, given: Any) -> int:
        if given is None:
            return 0
        if isinstance(given, int):
            return given & 0xFF
        self._write(f"{given}\n")
        return 1

    def _tell(self, error: BaseException) -> None:
        # The first frame is the one above; the code's own begin after it.
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        try:
            text = "".join(traceback.format_exception(type(error), error, trace))
        except BaseException:  # noqa: BLE001  # its own __str__ may raise, or memory be short
            text = f"{type(error).__name__}\n"
        self._write(text)

    def _write(self, text: str) -> None:
        self._flush()
        with contextlib.suppress(OSError):
            data = text.encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(2, data) :]

    def _renew_streams(self) -> None:
        """Undo what the code did to descriptors 0 to 2, and to ``sys.stdout`` and the like where they are closed."""
        for fd, saved in enumerate(self._saved):
            os.dup2(saved, fd)
        for fd, name in enumerate(("stdin", "stdout", "stderr")):
            if getattr(getattr(sys, name, None), "closed", True):
                mode, buffering = ("r", -1) if fd == 0 else ("w", 1 if fd == 2 else -1)
                stream = open(fd, mode, buffering, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
