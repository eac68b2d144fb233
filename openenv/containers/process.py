"""Servers as child processes of this interpreter, where no engine is or none is wanted."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import IO, Any

from openenv.containers.owner import OWNER
from openenv.containers.provider import ContainerProvider
from openenv.containers.ready import wait_until_ready
from openenv.containers.reaper import started
from openenv.containers.spec import environment, refuse_unknown
from openenv.core.errors import (
    ConfigurationError,
    ContainerDied,
    ContainerError,
    ContainerNotReady,
    ContainerStartFailed,
)
from openenv.core.timing import Deadline, seconds

_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ANNOUNCEMENT = re.compile(rb"^OPENENV_READY (http://\S+)\s", re.MULTILINE)
_TAIL = 8192
#: The server begins when it is told to, that is, when it is certain that it will not outlive its owner.
_BOOT = (
    "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); sys.stdin.read(1) or sys.exit(1); "
    "runpy.run_module('openenv.server', run_name='__main__', alter_sys=True)"
)
_NEEDED = ("starlette", "uvicorn")
#: Seconds that a server gets to end when its owner is ending.
_ABANDON_S = 1.0
_KILLED_S = 5.0


class LocalProcessProvider(ContainerProvider):
    """Runs the server of one environment as a child process, on a port of 127.0.0.1.

    The process ends with :meth:`stop_container`, or with this one, in whatever way this one ends.

    Args:
        start_timeout_s: Seconds that the server may take to get ready, where the caller gives no limit.
        stop_timeout_s: Seconds that it may take to end before it is killed with all that it started.
    """

    def __init__(self, *, start_timeout_s: float | None = 60.0, stop_timeout_s: float = 5.0) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self.start_timeout_s = seconds(start_timeout_s, "start_timeout_s")
        if not stop_timeout_s >= 0:
            raise ConfigurationError(f"stop_timeout_s must be seconds, 0 or more; got {stop_timeout_s!r}")
        self.stop_timeout_s = stop_timeout_s
        self._app, self._started, self._ready = "", "", False
        self._tail = _Tail()

    def start_container(
        self, image: str, port: int | None = None, env_vars: Mapping[str, str] | None = None, **options: Any
    ) -> str:
        """Start the server and return its base URL.

        Args:
            image: The ASGI application as ``module:name``; or the name of an environment of the package ``envs``,
                written as its image is (``echo-env:latest``) or as its folder is (``echo_env``).
            port: Port to listen on; by default one that is free.
            env_vars: Environment variables besides those of this process.
            **options: ``cwd``, the server's working directory; by default that of this process.

        Raises:
            TypeError: There is no such option.
            ConfigurationError: A value cannot work.
            ContainerStartFailed: The server ended before it listened; with exit code and log tail.
            ContainerNotReady: It did not listen within ``start_timeout_s`` seconds; also a ``TimeoutError``.
        """
        refuse_unknown(options, ("cwd", "port", "env_vars"))
        app = app_of(image)
        given = environment(env_vars or {})
        if self._mine():
            raise ContainerError(
                f"this provider runs {self._app} already", remedy="Stop it first, or make one provider for each server."
            )
        _need_server()
        self._forget()
        self._app = app
        deadline = Deadline(self.start_timeout_s)
        try:
            self._spawn(app, port or 0, given, options.get("cwd"))
            return self._announced(deadline)
        except BaseException:
            self.abandon()
            raise

    def stop_container(self) -> None:
        """End the server; kill it where it does not end. Does nothing where none runs."""
        self._end(self.stop_timeout_s)

    def wait_for_ready(self, base_url: str, timeout_s: float | None = 30.0) -> None:
        """Return when ``GET <base_url>/health`` answers 200; a server that ends is noticed at once.

        Raises:
            ContainerNotReady: It did not within ``timeout_s`` seconds; also a ``TimeoutError``.
            ContainerStartFailed: The server has ended; with exit code and log tail.
        """
        try:
            wait_until_ready(base_url, timeout_s, failure=self.failure)
        except ContainerNotReady as error:
            error.logs = self._tail.text()
            raise
        self._ready = True

    def failure(self) -> ContainerError | None:
        """Why the server is dead, if it is."""
        if not self._mine() or self._process is None or (code := self._process.poll()) is None:
            return None
        self._tail.ended.wait(_ABANDON_S)
        how = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
        when = "" if self._ready else " before it was ready"
        kind = ContainerDied if self._ready else ContainerStartFailed
        # As shells and containers have it.
        shown = code if code >= 0 else 128 - code
        text = f"the server process of {self._app} ended with {how}{when}"
        return kind(text, exit_code=shown, logs=self._tail.text())

    def logs(self, tail: int = 100) -> str:
        """The last lines that the server printed, at most ``tail`` and 8 KiB."""
        return "".join(self._tail.text().splitlines(keepends=True)[-tail:])

    def abandon(self) -> None:
        """End the server without patience."""
        self._end(min(_ABANDON_S, self.stop_timeout_s))

    def __del__(self) -> None:
        if getattr(self, "_process", None) is None or sys.is_finalizing() or not self._mine():
            return
        about = repr(self)
        self.abandon()
        # Last, for a warning may be an error.
        warnings.warn(f"{about} was never stopped", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        about = f"{self._app}, pid {self._process.pid}" if self._process is not None else "without a process"
        return f"<{type(self).__name__} {about}>"

    def __getstate__(self) -> dict[str, Any]:
        """Configuration travels; the server stays with the process that started it."""
        return {"start_timeout_s": self.start_timeout_s, "stop_timeout_s": self.stop_timeout_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # --- within ---

    def _mine(self) -> bool:
        """Whether there is a server, and it is a child of this process and not of the one that this was forked from."""
        return self._process is not None and self._pid == os.getpid()

    def _forget(self) -> None:
        if self._process is not None and self._pid != os.getpid():
            # Somebody else's child: nothing to wait for, nothing to warn of.
            self._process.returncode = 0
        self._process = None
        self._app, self._started, self._ready = "", "", False
        self._tail = _Tail()
        self._pid = os.getpid()

    def _spawn(self, app: str, port: int, env_vars: Mapping[str, str], cwd: str | None) -> None:
        path = json.dumps([os.path.abspath(part) for part in sys.path])
        command = [sys.executable, "-c", _BOOT, path, app, "--host", "127.0.0.1", "--port", str(port)]
        defaults = {"OPENENV_TRACEBACKS": "1", "PYTHONUNBUFFERED": "1"}
        self._process = process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**defaults, **os.environ, **env_vars},
            # Ctrl-C is for the owner, which then ends its server in order.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._started = started(process.pid)
        OWNER.watch_process(process.pid, self)
        drain = threading.Thread(
            target=self._tail.drain, args=(process.stdout,), name="openenv-server-log", daemon=True
        )
        drain.start()
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(b"\n")

    def _announced(self, deadline: Deadline) -> str:
        """The address that the server says it listens on."""
        while not self._tail.url:
            if (dead := self.failure()) is not None:
                raise dead
            if deadline.passed():
                raise ContainerNotReady(
                    f"the server process of {self._app} did not listen within {self.start_timeout_s:g} s",
                    remedy="Say LocalProcessProvider(start_timeout_s=...) if it only needs longer.",
                    logs=self._tail.text(),
                )
            self._tail.changed.wait(deadline.sooner(0.1))
            self._tail.changed.clear()
        return self._tail.url

    def _end(self, patience_s: float) -> None:
        process = self._process
        if process is None or not self._mine():
            self._forget()
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        # Its own children too, and itself if it is still there.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_KILLED_S)
        OWNER.process_ended(process.pid, self._started)
        self._tail.ended.wait(_ABANDON_S)
        self._forget()


class _Tail:
    """The last bytes that a server printed, read as they come so that it never blocks on a full pipe."""

    def __init__(self) -> None:
        self.url = ""
        self.changed = threading.Event()
        self.ended = threading.Event()
        self._data = b""

    def drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                whole = self._data + data
                if not self.url and (found := _ANNOUNCEMENT.search(whole)):
                    self.url = found[1].decode()
                self._data = whole[-_TAIL:]
                self.changed.set()
        self.ended.set()
        self.changed.set()

    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


def app_of(image: str) -> str:
    """The ASGI application that ``image`` names, as ``module:name``.

    Raises:
        ConfigurationError: It names none.
    """
    name = image.rpartition("/")[2].partition(":")[0].replace("-", "_")
    if name.isidentifier() and find_spec("envs") is not None and find_spec(f"envs.{name}") is not None:
        return f"envs.{name}.server.app:app"
    if not _APP.fullmatch(image):
        raise ConfigurationError(
            f"{image!r} is neither an environment of the package envs nor MODULE:APP",
            remedy="Say for example echo_env, or my_package.server.app:app.",
        )
    return image


def _need_server() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ContainerStartFailed(
            f"a server as a child process needs {' and '.join(missing)}, not installed for {sys.executable}",
            remedy="Install it: pip install 'openenv-client[server]'.",
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
