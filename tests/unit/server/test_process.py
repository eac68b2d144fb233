"""Whole server processes under uvicorn."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.unit.server.asgi import ID
from tests.unit.server.processes import ECHO, PATIENCE_S, REPO, ended, free_port, serving, start

SLEEPY = "tests.unit.server.served:app"


def step(url: str, session: str, sleep: float, **options: Any) -> requests.Response:
    body = {"action": {"sleep": sleep}, **options}
    return requests.post(f"{url}/step", json=body, headers={"OpenEnv-Session": session}, timeout=PATIENCE_S)


def reset(url: str, session: str) -> None:
    reply = requests.post(f"{url}/reset", json={}, headers={"OpenEnv-Session": session}, timeout=PATIENCE_S)
    assert reply.status_code == 200, reply.text


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    return tmp_path


def test_it_says_where_it_listens_and_plays_an_episode() -> None:
    with serving() as (_, url):
        assert requests.get(f"{url}/health", timeout=PATIENCE_S).json()["name"] == "echo_env"
        assert requests.post(f"{url}/reset", timeout=PATIENCE_S).status_code == 200
        reply = requests.post(f"{url}/step", json={"action": {"message": "Hello"}}, timeout=PATIENCE_S)
        assert reply.json()["observation"]["echoed_message"] == "Hello"


def test_it_listens_on_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with serving(ECHO, "--uds", path) as (_, url):
        assert url == f"unix:{path}"
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            line.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert line.recv(100).startswith(b"HTTP/1.1 200")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with ended(start("openenv.server", ECHO, "--port", str(port))) as process:
            _, log = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1
            assert f"cannot listen on 127.0.0.1:{port}".encode() in log


@pytest.mark.parametrize(
    ("arguments", "env", "count"),
    [(["--workers", "2"], {}, 2), ([], {"WEB_CONCURRENCY": "3"}, 3)],
    ids=["--workers", "WEB_CONCURRENCY"],
)
def test_several_workers_are_refused_with_the_remedy(arguments: list[str], env: dict[str, str], count: int) -> None:
    with ended(start("uvicorn", ECHO, "--port", str(free_port()), *arguments, **env)) as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert f"started with {count} workers, but a session lives in one process".encode() in log
    assert b"Run N processes on N ports instead" in log


def test_one_worker_is_welcome() -> None:
    port = free_port()
    with ended(start("uvicorn", ECHO, "--port", str(port), "--workers", "1")):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                assert requests.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
                break
            except requests.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.05)


@pytest.mark.parametrize("module", ["openenv.server", "uvicorn"])
def test_sigterm_answers_what_is_in_flight_and_closes_every_environment(closed: Path, module: str) -> None:
    port = free_port()
    with ended(start(module, SLEEPY, "--port", str(port), CLOSED_DIR=str(closed))) as process:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url)
        sessions = [f"{ID}-{number}" for number in range(3)]
        for session in sessions:
            reset(url, session)
        with ThreadPoolExecutor() as pool:
            quick = pool.submit(step, url, sessions[0], 1.0)
            stuck = pool.submit(step, url, sessions[1], 600.0)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert quick.result().json()["observation"] == {"slept": 1.0}
            assert stuck.result().json()["error"]["code"] == "SHUTTING_DOWN"
        _, log = process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - began < 10, "docker stop kills after ten seconds"
    assert sorted(path.name for path in closed.iterdir()) == ["1", "2", "3"], log


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            requests.get(f"{url}/health", timeout=5)
            return
        except requests.ConnectionError:
            assert time.monotonic() < deadline, "the server did not come up"
            time.sleep(0.05)


def test_health_is_quick_while_every_session_steps(closed: Path) -> None:
    with serving(SLEEPY, CLOSED_DIR=str(closed)) as (_, url):
        sessions = [f"{ID}-{number}" for number in range(16)]
        for session in sessions:
            reset(url, session)
        with ThreadPoolExecutor(16) as pool:
            steps = [pool.submit(step, url, session, 3.0) for session in sessions]
            time.sleep(0.5)
            took = []
            for _ in range(20):
                began = time.monotonic()
                health = requests.get(f"{url}/health", timeout=PATIENCE_S).json()
                took.append(time.monotonic() - began)
            assert health["sessions"] == {"active": 16, "max": 16}
            assert not any(future.done() for future in steps), "the steps were over before /health was asked"
            assert sorted(took)[10] < 0.25
            assert {future.result().status_code for future in steps} == {200}


def test_an_idle_connection_is_kept(closed: Path) -> None:
    with serving(SLEEPY, CLOSED_DIR=str(closed)) as (_, url):
        line = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
        line.request("GET", "/health")
        line.getresponse().read()
        before = line.sock
        time.sleep(6)  # uvicorn's own limit is five seconds
        line.request("GET", "/health")
        assert line.getresponse().read()
        assert line.sock is before
        line.close()


def test_a_body_over_the_limit_is_413_and_the_client_reads_it(closed: Path) -> None:
    with serving(SLEEPY, CLOSED_DIR=str(closed)) as (_, url):
        line = requests.Session()
        for data in (b" " * 5_000_000, iter([b" " * 60_000] * 20)):
            reply = line.post(
                f"{url}/reset", data=data, headers={"Content-Type": "application/json"}, timeout=PATIENCE_S
            )
            assert (reply.status_code, reply.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
        assert line.post(f"{url}/reset", json={}, timeout=PATIENCE_S).status_code == 200
        line.close()


def test_a_refusal_before_a_100_continue_hangs_up(closed: Path) -> None:
    with serving(SLEEPY, CLOSED_DIR=str(closed)) as (_, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as line:
            line.sendall(
                b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 500000\r\nExpect: 100-continue\r\n\r\n"
            )
            said = b""
            while more := line.recv(1000):
                said += more
        assert said.startswith(b"HTTP/1.1 413")


def test_a_client_that_vanishes_in_a_step_is_not_logged(closed: Path) -> None:
    with serving(SLEEPY, CLOSED_DIR=str(closed)) as (process, url):
        reset(url, ID)
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps({"action": {"sleep": 0.5}}).encode()
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /step HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"OpenEnv-Session: %b\r\nContent-Length: %d\r\n\r\n%b" % (ID.encode(), len(body), body)
            )
            time.sleep(0.2)
        time.sleep(0.6)
        assert step(url, ID, 0.0).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)
    assert log == b""


def test_the_client_side_loads_no_server() -> None:
    code = "import sys, openenv.server; print('uvicorn' in sys.modules, 'starlette' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPO)
    assert done.stdout.split() == ["False", "False"]


def test_several_processes_have_an_address_each_and_end_together() -> None:
    command = [sys.executable, "-m", "openenv", "serve", "echo_env", "--port", "0", "--processes", "3"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        urls = {process.stdout.readline().removeprefix("OPENENV_READY ").strip() for _ in range(3)}
        told = [requests.get(f"{url}/health", timeout=PATIENCE_S).json()["instance"] for url in urls]
        assert len(set(told)) == 3
        victim = _children_of(process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        assert "ended with -9" in process.stderr.readline()
        assert sum(_answers(url) for url in urls) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert not any(_answers(url) for url in urls)


def test_several_processes_do_not_outlive_the_one_that_was_killed() -> None:
    command = [sys.executable, "-m", "openenv", "serve", "echo_env", "--port", "0", "--processes", "2"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls = [process.stdout.readline().removeprefix("OPENENV_READY ").strip() for _ in range(2)]
        process.kill()
        process.wait()
    deadline = time.monotonic() + 6
    while any(_answers(url) for url in urls) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_answers(url) for url in urls)


def _children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [
        child for child in map(int, text.split()) if b"openenv.server" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=PATIENCE_S).ok
    except requests.ConnectionError:
        return False
