"""`openenv doctor`: each thing that can be wrong is found, its cause told, and a remedy given."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from envs.echo_env.server.app import app
from openenv.cli import main
from openenv.doctor import engine, machine, server
from openenv.doctor.finding import Finding
from openenv.server.thread import serve_in_thread
from tests.wire.servers import Reply, Request, ScriptedServer


def only(found: Iterator[Finding], check: str) -> Finding:
    (one,) = [finding for finding in found if finding.check == check]
    return one


def test_python_that_is_too_old() -> None:
    assert machine.python((3, 10, 2)).status == "problem"
    assert machine.python((3, 14, 0)).status == "ok"


def test_a_proxy_that_would_be_asked_for_this_machine() -> None:
    found = machine.proxies({"https_proxy": "http://me:pw@proxy:3128"})
    assert (found.status, found.remedy) == ("warning", "export NO_PROXY=localhost,127.0.0.1,::1")
    assert "http://***@proxy:3128" in found.found
    assert "pw" not in found.found
    assert machine.proxies({"HTTP_PROXY": "http://proxy:1", "no_proxy": "localhost,127.0.0.1"}).status == "ok"
    assert machine.proxies({}).status == "ok"


@pytest.mark.parametrize(("free", "status"), [(100 << 20, "problem"), (1 << 30, "warning"), (50 << 30, "ok")])
def test_a_disk_that_is_full(free: int, status: str) -> None:
    found = machine.room("images", "/var/lib/docker", free)
    assert found.status == status
    assert "/var/lib/docker" in found.found


@pytest.mark.parametrize(("ahead_s", "status"), [(0, "ok"), (3600, "warning"), (-60, "warning")])
def test_an_engine_whose_clock_is_wrong(ahead_s: float, status: str) -> None:
    told = (datetime.now(UTC) + timedelta(seconds=ahead_s)).isoformat().replace("+00:00", "987Z")
    found = engine.clock("engine's clock", told, time.time())
    assert found.status == status
    assert bool(found.remedy) == (status != "ok")


def test_a_time_that_cannot_be_read_is_said_to_be_so() -> None:
    assert engine.clock("engine's clock", "yesterday", time.time()).status == "skipped"


@pytest.mark.parametrize(("api", "status"), [("1.40", "warning"), ("1.41", "ok"), ("1.54", "ok")])
def test_an_engine_that_is_too_old(api: str, status: str) -> None:
    assert engine.engine_version({"Version": "x", "ApiVersion": api}).status == status


def test_podman_is_named() -> None:
    told = {"Version": "4.3.1", "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}
    assert engine.engine_version(told).found.startswith("Podman Engine 4.3.1")


def test_an_image_for_another_processor() -> None:
    found = engine.architecture("atari-env:latest", "arm64", "x86_64")
    assert found.status == "warning"
    assert "atari-env:latest is for arm64, the engine is x86_64" in found.found
    assert engine.architecture("a", "amd64", "x86_64").status == "ok"


def test_an_engine_that_cannot_limit() -> None:
    found = next(engine.shortcomings({"MemoryLimit": False, "CpuCfsQuota": True, "PidsLimit": False}))
    assert (found.status, found.found) == ("warning", "this engine cannot hold a container to memory=, pids_limit=")
    assert next(engine.shortcomings({"MemoryLimit": True})).status == "ok"


def test_a_socket_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    (found,) = engine.docker_engine()
    assert found.status == "problem"
    assert "there is no such socket" in found.found
    assert "Install Docker or start it" in found.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be played by root")
def test_a_socket_that_this_user_may_not_use(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    os.chmod(tmp_path, 0o755)
    for folder in (tmp_path.parent, tmp_path.parent.parent):
        os.chmod(folder, 0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            os.setuid(65534)
            os.environ["DOCKER_HOST"] = f"unix://{path}"
            (found,) = engine.docker_engine()
            os.write(write, found.found.encode())
            os._exit(0)
        os.close(write)
        told = os.read(read, 4096).decode()
        os.close(read)
        os.waitpid(child, 0)
    assert "this user may not use it (add the user to the group `docker`" in told


def test_a_context_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONTEXT", "far-away")
    (found,) = engine.docker_engine()
    assert (found.status, found.remedy) == ("problem", "See `docker context ls`.")
    assert "'far-away'" in found.found


def test_a_server_that_is_not_there() -> None:
    (found,) = server.server("http://127.0.0.1:9")
    assert found.status == "problem"
    assert "Connection refused" in found.found
    assert "Max retries" not in found.found


def test_a_url_that_is_none() -> None:
    (found,) = server.server("localhost:8000")
    assert (found.status, found.remedy) == ("problem", "Write it like http://localhost:8000.")


def foreign(**replies: Reply) -> ScriptedServer:
    def answer(request: Request) -> Reply:
        return replies.get(request.path.strip("/"), Reply(status=404, body={"detail": "Not Found"}))

    return ScriptedServer(answer)


def test_something_else_that_answers() -> None:
    with foreign(health=Reply(status=502, body="bad gateway")) as other:
        found = only(server.server(other.url), "server")
    assert (found.status, found.remedy) == ("problem", "A proxy answers, and the server behind it does not.")


def test_a_server_of_another_generation_and_without_websocket() -> None:
    with foreign(
        health=Reply(status=200, body={"status": "healthy"}),
        metadata=Reply(status=200, body={"name": "EchoEnvironment"}),
    ) as other:
        found = {finding.check: finding for finding in server.server(other.url)}
    assert found["protocol"].status == "warning"
    assert "plain HTTP keeps no episode there" in found["protocol"].found
    assert found["websocket"].status == "warning"
    assert "/ws answers 404 instead of opening" in found["websocket"].found
    with foreign(health=Reply(status=200, body={"status": "healthy"})) as first:
        assert "first generation" in only(server.server(first.url), "protocol").found


def test_a_server_whose_clock_is_wrong() -> None:
    reply = Reply(status=200, body={"status": "healthy"}, headers=[("Date", "Tue, 01 Jan 2019 00:00:00 GMT")])
    with foreign(health=reply) as other:
        assert only(server.server(other.url), "server's clock").status == "warning"


def test_the_command_ends_with_1_where_there_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--url", "http://127.0.0.1:9"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {"check", "status", "found", "remedy"} == set(told[0])
    assert [one["check"] for one in told if one["status"] == "problem"] == ["server"]


def test_a_server_of_this_package_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    with serve_in_thread(app) as url:
        assert main(["doctor", "--url", url]) == 0
    printed = capsys.readouterr().out
    assert "protocol 1: sessions, and no step runs twice" in printed
    assert "websocket: opens, and a ping came back" in printed
