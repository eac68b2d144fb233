"""Servers to put into containers, and ways to look at what is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker import DockerClient
from docker.errors import ImageNotFound

from openenv.containers import LocalDockerProvider
from openenv.containers.engine import Engine
from openenv.containers.labels import SESSION
from openenv.containers.owner import OWNER
from openenv.core.errors import EngineUnavailable

ROOT = Path(__file__).parents[2]
_LOCAL_BASE = "openenv-base:local"

#: A server that answers every path with its environment variables, on the port of its argument.
SERVER = """
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(dict(os.environ)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
print("listening on", port, flush=True)
http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
"""
SERVE = ["python", "-c", SERVER]


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    client = docker.from_env(timeout=120)
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: DockerClient) -> str:
    """An image with Python and nothing else of interest: the base of the environments' images."""
    if named := os.environ.get("OPENENV_BASE_IMAGE"):
        return named
    try:
        engine.images.get(_LOCAL_BASE)
    except ImageNotFound:
        return "python:3.11-slim"
    return _LOCAL_BASE


@pytest.fixture(scope="session", autouse=True)
def base_image(request: pytest.FixtureRequest) -> Iterator[None]:
    """`openenv build` builds on it too."""
    with pytest.MonkeyPatch.context() as patch:
        # Where no engine answers, the tests are skipped, and so is asking it.
        if _engine_answers():
            patch.setenv("OPENENV_BASE_IMAGE", request.getfixturevalue("image"))
        yield


def _engine_answers() -> bool:
    try:
        Engine.find().rest()
    except EngineUnavailable:
        return False
    return True


@pytest.fixture
def provider() -> Iterator[LocalDockerProvider]:
    with LocalDockerProvider(stop_timeout_s=1) as made:
        yield made


@pytest.fixture
def left(engine: DockerClient) -> Callable[..., list[str]]:
    """Names of the containers that are left of a session; of this process's by default."""

    def names(session: str | None = None) -> list[str]:
        filters = {"label": f"{SESSION}={session or OWNER.session}"}
        return [found["Names"][0] for found in engine.api.containers(all=True, filters=filters)]

    return names


class OwnerProcess:
    """Another process that owns containers. Its code has ``start(n)``, ``SERVE``, ``IMAGE`` and ``tell(*words)``."""

    _PRELUDE = """
import os, signal, sys, threading, time
from openenv.containers import LocalDockerProvider, LocalProcessProvider
from openenv.containers.owner import OWNER
from openenv.core.errors import EngineUnavailable
IMAGE, SERVER = sys.argv[1:]
SERVE = ["python", "-c", SERVER]
def tell(*words):
    print(*words, flush=True)
def start(count=1):
    made = [LocalDockerProvider() for _ in range(count)]
    for one in made:
        one.start_container(IMAGE, command=SERVE)
    return made
tell(OWNER.session)
"""

    def __init__(self, code: str, image: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self._PRELUDE + code, image, SERVER],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.session = self.told()

    def told(self) -> str:
        """The next line that it tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise AssertionError(f"it ended: {self.process.communicate(timeout=30)[1]}")
        return line

    def end(self, timeout_s: float = 30.0) -> tuple[int, str]:
        """Wait for its end; its exit code and what it complained of."""
        _, complaints = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, complaints


@pytest.fixture
def owner(image: str) -> Iterator[Callable[[str], OwnerProcess]]:
    made: list[OwnerProcess] = []

    def make(code: str) -> OwnerProcess:
        made.append(OwnerProcess(code, image))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate(timeout=30)


def eventually(found: Callable[[], Any], within_s: float) -> bool:
    """Whether ``found`` gives something true in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found():
            return True
        time.sleep(0.05)
    return bool(found())
