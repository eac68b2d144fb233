"""Server processes for tests, on ports that the system picks."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

REPO = Path(__file__).parents[3]
ECHO = "envs.echo_env.server.app:app"
#: For what is promised to happen soon, on a machine that is busy.
PATIENCE_S = 30.0


def start(*arguments: str, **env: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": path, **env},
    )


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Whatever happens, ``process`` is gone afterwards."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(app: str = ECHO, *arguments: str, **env: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """``python -m openenv.server app``, and its address once it listens."""
    with ended(start("openenv.server", app, *(arguments or ("--port", "0")), **env)) as process:
        assert process.stdout is not None
        line = read_line(process.stdout)
        assert line.startswith("OPENENV_READY "), f"{line!r}, and the log: {process.communicate(timeout=5)[1]!r}"
        yield process, line.split()[1]


def read_line(stream: IO[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE_S
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        got = os.read(stream.fileno(), 1) if ready else b""
        if not got:
            break
        line += got
    return line.decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
