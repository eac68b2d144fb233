"""Servers and clients in processes of their own: ours, and the peer's in its own virtual environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.frame import Unavailable

ROOT = Path(__file__).parent.parent
PEER = "0.10.0"
READY = "OPENENV_READY "
_END_S = 10.0
#: In the directory of the peer's side, where no package of ours is on its path.
_PEER_SIDE = ROOT / "benchmarks" / "peer"


@contextmanager
def child(command: list[str], *, cwd: Path = ROOT, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A child process that is ended on the way out."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def server(command: list[str], *, cwd: Path = ROOT, **variables: str) -> Iterator[tuple[str, int]]:
    """A server that says ``OPENENV_READY URL``: its URL and its process id."""
    with child(command, cwd=cwd, **variables) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(READY):
                yield line.removeprefix(READY).strip(), process.pid
                return
        raise RuntimeError(f"{' '.join(command)} ended with {process.wait()} before it was ready")


def our_server(app: str, **variables: str) -> Any:
    """Our server of ``app``, with its defaults."""
    return server([sys.executable, "-m", "openenv.server", app, "--port", "0"], cwd=ROOT, **variables)


def peer_python() -> str:
    """The interpreter of the peer's virtual environment.

    Raises:
        Unavailable: It is not there and cannot be made.
    """
    from tests.interop.venvs import VenvError, python

    try:
        return str(python(PEER))
    except VenvError as error:
        raise Unavailable(f"there is no environment with the peer {PEER}: {error}") from error


def peer_server(kind: str) -> Any:
    """The peer's server of the environment ``kind``, with its defaults."""
    command = [peer_python(), "-I", str(_PEER_SIDE / "serve.py"), kind, *_shared(kind)]
    return server(command, cwd=_PEER_SIDE)


@contextmanager
def peer_client(kind: str, url: str) -> Iterator[PeerClient]:
    """The peer's synchronous client of the environment ``kind``, in an episode."""
    command = [peer_python(), "-I", str(_PEER_SIDE / "call.py"), kind, url, *_shared(kind)]
    with child(command, cwd=_PEER_SIDE) as process:
        yield PeerClient(process)


@contextmanager
def peer_clients(url: str, count: int) -> Iterator[PeerClient]:
    """As many of the peer's synchronous clients of the echo environment, each in a thread and in an episode."""
    command = [peer_python(), "-I", str(_PEER_SIDE / "many.py"), url, str(count)]
    with child(command, cwd=_PEER_SIDE) as process:
        yield PeerClient(process)


def _shared(kind: str) -> list[str]:
    """Where the peer's side finds the emulator and numpy, which are ours as well."""
    if kind != "atari":
        return []
    import ale_py

    return [str(Path(ale_py.__file__).parent.parent)]


class PeerClient:
    """A client that steps when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._in: IO[str] = process.stdin
        self._out: IO[str] = process.stdout

    def steps(self, count: int) -> list[float]:
        """Seconds that each of ``count`` steps took."""
        self._in.write(f"{count}\n")
        self._in.flush()
        line = self._out.readline()
        if not line:
            raise RuntimeError("the peer's client has ended")
        taken: list[float] = json.loads(line)
        return taken
