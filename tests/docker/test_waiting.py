"""When a container counts as ready is the caller's to say; that it died is always noticed first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from docker import DockerClient

from openenv.containers import LocalDockerProvider
from openenv.containers.wait import HTTP, Healthy, Listening, LogLine, Wait
from openenv.core.errors import ContainerNotReady, ContainerStartFailed
from openenv.core.timing import Deadline
from tests.docker.conftest import SERVE

LATE = """
import http.server, sys, threading, time
time.sleep(0.7)
print("warming up", flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        late = time.monotonic() - start > 0.5
        self.send_response(204 if late else 503)
        self.end_headers()
    def log_message(self, *_): pass
start = time.monotonic()
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler)
print("ready to serve", flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize(
    "wait",
    [
        HTTP("/ready", 204),
        HTTP(status=[200, 204]),
        LogLine("^ready to serve"),
        Listening(),
        LogLine("warm") & HTTP("/", 204),
    ],
    ids=["path", "statuses", "log line", "port", "both"],
)
def test_what_is_waited_for_has_come(provider: LocalDockerProvider, image: str, wait: Wait) -> None:
    url = provider.start_container(image, command=["python", "-c", LATE], wait=wait)
    start = time.monotonic()
    provider.wait_for_ready(url, 20)
    assert time.monotonic() - start > 0.3
    assert wait.look(url, provider, Deadline(5.0)) == ""


@pytest.mark.parametrize(
    ("wait", "told"),
    [
        (HTTP("/", 418), "GET http"),
        (LogLine("never printed"), "the log has 'never printed' 0 times"),
        (Healthy(), "no health check"),
        (Listening(), "closed at once"),
    ],
    ids=["http", "log line", "health check", "port"],
)
def test_what_does_not_come_is_told_with_what_came_instead(
    provider: LocalDockerProvider, image: str, wait: Wait, told: str
) -> None:
    command = ["sleep", "60"] if isinstance(wait, Listening) else SERVE
    url = provider.start_container(image, command=command, wait=wait)
    with pytest.raises(ContainerNotReady, match=r"within 1\.5 s") as caught:
        provider.wait_for_ready(url, 1.5)
    assert told in str(caught.value)


@pytest.mark.parametrize("wait", [HTTP(), LogLine("x"), Healthy(), Listening()], ids=lambda wait: type(wait).__name__)
def test_a_container_that_dies_is_not_waited_for(provider: LocalDockerProvider, image: str, wait: Wait) -> None:
    url = provider.start_container(image, command=["sh", "-c", "sleep 0.3; echo gone; exit 3"], wait=wait)
    start = time.monotonic()
    with pytest.raises(ContainerStartFailed, match="exit code 3") as caught:
        provider.wait_for_ready(url, 30)
    assert time.monotonic() - start < 4
    assert "gone" in caught.value.logs


def test_the_health_check_of_an_image(
    provider: LocalDockerProvider, engine: DockerClient, image: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM {image}\nHEALTHCHECK --interval=200ms CMD test -f /tmp/up\n"
        "CMD sh -c 'sleep 1; touch /tmp/up; sleep 60'\n"
    )
    made, _ = engine.images.build(path=str(tmp_path), rm=True)
    assert made.id is not None
    try:
        url = provider.start_container(made.id, wait=Healthy())
        provider.wait_for_ready(url, 20)
        assert provider.inspect()["State"]["Health"]["Status"] == "healthy"
    finally:
        provider.stop_container()
        engine.images.remove(made.id, force=True)


def test_only_a_strategy_is_taken_as_one(provider: LocalDockerProvider) -> None:
    with pytest.raises(TypeError, match=r"strategy.*'ready'"):
        provider.start_container("x", wait="ready")
