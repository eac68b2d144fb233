"""The test's side: starts the processes of the peer (and our servers), drives its clients, and ends them all."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

ANSWER_LIMIT_S = 45.0


class PeerError(Exception):
    """An exception that a client of the peer raised: `kind` and `bases` are names of its classes."""

    def __init__(self, kind: str, bases: list[str], message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.bases, self.message = kind, bases, message


class PeerHost:
    """One process of the peer's interpreter, or of ours; servers and clients are its children and end with it."""

    def __init__(self, interpreter: Path, version: str, directory: Path) -> None:
        self.version, self._directory, self._count = version, directory, 0
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OPENENV"))}
        self._process = subprocess.Popen(
            [str(interpreter), "-I", str(HERE / "peer" / "host.py"), version],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=directory,
            env=environment,
            text=True,
        )
        self._read_line()

    def start(self, what: str, **request: Any) -> tuple[int, str, Path]:
        """Fork a child: its process id, its address and its log."""
        self._count += 1
        log = self._directory / f"{self.version}-{what}-{self._count}.log"
        log.touch()
        answer = self.ask(do=what, log=str(log), **request)
        return answer["pid"], answer["address"], log

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read_line()

    def _read_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(ANSWER_LIMIT_S):
                self._process.kill()
                raise TimeoutError(f"the host of peer {self.version} said nothing for {ANSWER_LIMIT_S:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the host of peer {self.version} ended with code {self._process.wait(5)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)
        self._process.kill()
        self._process.wait(10)


@dataclass
class PeerServer:
    """A server, the peer's or (version "ours") our own, in a process of its own."""

    version: str
    url: str
    pid: int
    log_file: Path
    host: PeerHost

    @property
    def websocket_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/ws"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.host.ask(do="end", pid=self.pid)

    def freeze(self) -> None:
        """Stop the process without ending it: it accepts connections and answers nothing."""
        self.host.ask(do="signal", pid=self.pid, signal=int(signal.SIGSTOP))

    def thaw(self) -> None:
        self.host.ask(do="signal", pid=self.pid, signal=int(signal.SIGCONT))


class PeerClient:
    """A client of the peer in a process of its own; its methods are called by name and answer JSON values."""

    def __init__(self, host: PeerHost, url: str, **options: Any) -> None:
        self.version = host.version
        self.pid, address, self._log = host.start("client", url=url, options=options)
        self._host, self.seconds = host, 0.0
        name, _, port = address.rpartition(":")
        self._socket = socket.create_connection((name, int(port)), timeout=ANSWER_LIMIT_S)
        self._stream = self._socket.makefile("rw", encoding="utf-8", newline="\n")

    def call(self, method: str, *args: Any, on: str = "main", keep: str | None = None, **kwargs: Any) -> Any:
        """The answer of `method` of the client called `on`; `seconds` then says how long it took over there.

        Raises:
            PeerError: the method raised.
        """
        request = {"on": on, "call": method, "args": args, "kwargs": kwargs} | ({"keep": keep} if keep else {})
        self._stream.write(json.dumps(request) + "\n")
        self._stream.flush()
        line = self._stream.readline()
        if not line:
            raise RuntimeError(f"the client of peer {self.version} ended:\n{self._log.read_text()[-3000:]}")
        answer = json.loads(line)
        self.seconds = answer["seconds"]
        if "error" in answer:
            raise PeerError(**answer["error"])
        return answer["value"]

    def reset(self, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.call("reset", **options)
        return result

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.call("step", action)
        return result

    def state(self) -> dict[str, Any]:
        result: dict[str, Any] = self.call("state")
        return result

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._host.ask(do="end", pid=self.pid)
        self._stream.close()
        self._socket.close()
