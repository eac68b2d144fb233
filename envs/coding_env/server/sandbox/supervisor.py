"""The trusted process between the server and the code. It starts the worker, watches it, and ends all that is below.

Started by the server with descriptor 0 as the channel to it, 1 and 2 as what the code writes to.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import channel, confine, filters, processes
from .worker import ANSWER, MARK, REQUEST, Worker

#: Exit code of a step that took too long, as of timeout(1).
TOO_LONG = 124
#: Seconds that interrupted code has to end by itself.
_GRACE_S = 0.5
#: Seconds between two counts of processes.
_WATCH_S = 0.05
#: Seconds that a worker may take to start.
_START_S = 10.0
#: Seconds in which a worker whose channel is closed is taken to be dying.
_DYING_S = 0.5
_GAP = "The interpreter ended between two steps; variables are lost and this step began with a new one."
_LOST = "The interpreter was ended; variables are lost and the next step begins with a new one."


class Lost(Exception):
    """The worker is of no more use; says why."""

    def __init__(self, exit_code: int, why: str) -> None:
        super().__init__(why)
        self.exit_code = exit_code


class _Child:
    """A worker as its parent knows it."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control
        self.listener: int | None = None
        self.status: int | None = None


class Supervisor:
    """Answers what the server asks."""

    def __init__(self, server: socket.socket, settings: dict[str, Any]) -> None:
        self._server = server
        self._limits = confine.Limits(settings["memory"], settings["processes"], settings["file"])
        uid = settings["uid"]
        self._uid = uid if confine.can_be(uid) else None
        self._folder: str = settings["folder"]
        self._child: _Child | None = None
        self._ready = False
        self._gap = ""

    def serve(self) -> NoReturn:
        """Answer until the server is gone; then leave nothing behind."""
        code = 0
        try:
            while (message := self._next_message()) is not None:
                if "reset" in message:
                    self._reset()
                    channel.send(self._server, {"ready": True})
                else:
                    channel.send(self._server, self._step(message["code"], message["limit_s"]))
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            code = 0 if self._end() else 1
        os._exit(code)

    def _next_message(self) -> dict[str, Any] | None:
        while True:
            ready = self._wait(None)
            self._judge(ready)
            if self._child is not None and self._child.control.fileno() in ready:
                # It ended between two steps, or says what nobody asked.
                self._end_worker()
                self._gap = _GAP
            if self._server.fileno() in ready:
                return channel.receive(self._server)

    def _reset(self) -> None:
        if not self._end():
            raise SystemExit("processes of the code cannot be ended")
        with confine.acting_as(self._uid):
            os.mkdir(self._folder, 0o700)
        self._ready = True
        self._gap = ""
        self._start()

    def _step(self, code: str, limit_s: float) -> dict[str, Any]:
        try:
            if not self._ready:
                self._reset()
            child = self._child or self._start()
            exit_code, note = self._run(child, code, limit_s)
            self._end_others(child)
            gap, self._gap = self._gap, ""
            return {"exit_code": exit_code, "note": f"{gap} {note}".strip(), "lost": bool(gap)}
        except Lost as error:
            self._end_worker()
            return {"exit_code": error.exit_code, "note": f"{error} {_LOST}", "lost": True}

    def _run(self, child: _Child, code: str, limit_s: float) -> tuple[int, str]:
        mark = os.urandom(MARK)
        data = code.encode("utf-8", "surrogatepass")
        deadline = time.monotonic() + limit_s
        interrupted = False
        answer = b""
        child.control.settimeout(limit_s + _GRACE_S)
        try:
            child.control.sendall(REQUEST.pack(mark, len(data)) + data)
        except OSError:
            raise self._dead(child) from None
        counted = time.monotonic()
        while True:
            now = time.monotonic()
            if now - counted > _WATCH_S:
                counted = now
                self._count()
            if now >= deadline:
                if interrupted:
                    raise Lost(TOO_LONG, f"The code ran longer than {limit_s:g} s and did not stop when interrupted.")
                interrupted, deadline = True, now + _GRACE_S
                self._interrupt(child)
            ready = self._wait(min(_WATCH_S, max(0.0, deadline - now)))
            self._judge(ready)
            if self._server.fileno() in ready:
                raise BrokenPipeError  # it never speaks during a step: it is gone
            if child.control.fileno() not in ready:
                if child.status is not None:  # somebody else holds its end of the channel
                    raise self._dead(child)
                continue
            try:
                more = child.control.recv(256)
            except ConnectionResetError:
                more = b""
            answer += more
            if not more:
                raise self._dead(child)
            if len(answer) > ANSWER.size or not mark.startswith(answer[:MARK]):
                raise Lost(1, "The code wrote to the channel by which its interpreter reports.")
            if len(answer) == ANSWER.size:
                if interrupted:
                    return TOO_LONG, f"The code ran longer than {limit_s:g} s and was interrupted. Variables are kept."
                return ANSWER.unpack(answer)[1], ""

    def _dead(self, child: _Child) -> Lost:
        """Why nothing more is to be heard of ``child``."""
        deadline = time.monotonic() + _DYING_S
        while child.status is None and time.monotonic() < deadline:
            time.sleep(0.001)
            self._reap()
        if child.status is None:
            return Lost(1, "The code closed the channel by which its interpreter reports.")
        if child.status < 0:
            number = -child.status
            return Lost(128 + number, f"The interpreter was killed by {_signal_name(number)}.")
        return Lost(child.status or 1, f"The interpreter exited with code {child.status} in the middle of the step.")

    def _count(self) -> None:
        # Those that were judged at the same moment may be a few too many.
        if processes.count(os.getpid()) > 2 * self._limits.processes:
            raise Lost(1, f"The code had more than {self._limits.processes} processes and threads.")

    def _wait(self, timeout_s: float | None) -> set[int]:
        waiting = [self._server.fileno()]
        if self._child is not None:
            waiting.append(self._child.control.fileno())
            if self._child.listener is not None:
                waiting.append(self._child.listener)
        poll = select.poll()
        for fd in waiting:
            poll.register(fd, select.POLLIN)
        events = poll.poll(None if timeout_s is None else timeout_s * 1000)
        # A listener that nobody can call any more has only hung up, and reading it would never end.
        listener = None if self._child is None else self._child.listener
        ready = {fd for fd, event in events if fd != listener or event & select.POLLIN}
        self._reap()
        return ready

    def _judge(self, ready: set[int]) -> None:
        child = self._child
        if child is not None and child.listener is not None and child.listener in ready:
            filters.judge(child.listener, os.getpid(), self._limits.processes)

    def _start(self) -> _Child:
        """A worker that is ready.

        Raises:
            Lost: It did not start.
        """
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_worker(theirs, parent)
        theirs.close()
        self._child = child = _Child(pid, ours)
        ours.settimeout(_START_S)
        try:
            said, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except OSError:
            said, descriptors = b"", []
        if said != b"+":
            raise Lost(1, "The interpreter could not be started; its own words may be above.")
        child.listener = descriptors[0] if descriptors else None
        return child

    def _become_worker(self, control: socket.socket, parent: int) -> NoReturn:
        try:
            os.setsid()
            with open(os.devnull) as null:
                os.dup2(null.fileno(), 0)  # in place of the channel to the server
            self._server.detach()
            os.closerange(3, control.fileno())
            os.closerange(control.fileno() + 1, 64)
            os.environ["HOME"] = os.environ["TMPDIR"] = self._folder
            os.environ["PWD"] = self._folder
            listener = confine.confine(self._limits, self._uid, parent)
            os.chdir(self._folder)
            worker = Worker(control)
            if listener is None:
                control.sendall(b"+")
            else:
                socket.send_fds(control, [b"+"], [listener])
                os.close(listener)
            worker.serve()
        except BaseException as error:  # noqa: BLE001  # this process must not go on as a second supervisor
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)

    def _end_others(self, child: _Child) -> None:
        me = os.getpid()
        if not self._end_all(lambda: processes.below(me) - {child.pid}):
            raise Lost(1, "Processes that the code started could not be ended.")

    def _end_worker(self) -> bool:
        child = self._child
        if child is None:
            return True
        me = os.getpid()
        gone = self._end_all(lambda: processes.below(me))
        if child.status is None:
            # Where /proc does not tell who is below, its group is what can be found.
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError), confine.acting_as(self._uid):
                    kill(child.pid, signal.SIGKILL)
            child.status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        child.control.close()
        if child.listener is not None:
            os.close(child.listener)
        self._child = None
        return gone

    def _end_all(self, find: Callable[[], set[int]]) -> bool:
        with confine.acting_as(self._uid):
            return processes.end(find, self._reap)

    def _end(self) -> bool:
        """End the worker and remove its folder."""
        gone = self._end_worker()
        with confine.acting_as(self._uid):
            shutil.rmtree(self._folder, ignore_errors=True)
        return gone

    def _interrupt(self, child: _Child) -> None:
        if child.status is None:
            with confine.acting_as(self._uid):
                os.kill(child.pid, signal.SIGINT)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._child is not None and pid == self._child.pid:
                self._child.status = os.waitstatus_to_exitcode(status)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def main(settings: dict[str, Any]) -> NoReturn:
    """Serve; descriptor 0 is the socket of the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    confine.adopt_orphans()
    confine.hide_memory()
    sys.dont_write_bytecode = True
    Supervisor(socket.socket(fileno=0), settings).serve()
