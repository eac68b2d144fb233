"""LocalProcessProvider: the same contract with a child process, and nothing left of it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envs.echo_env import EchoAction, EchoEnv
from openenv.containers import LocalProcessProvider
from openenv.containers import process as process_module
from openenv.containers.process import app_of
from openenv.core.errors import (
    ConfigurationError,
    ContainerDied,
    ContainerError,
    ContainerNotReady,
    ContainerStartFailed,
)

ROOT = Path(__file__).parents[3]
APP = "envs.echo_env.server.app:app"


@pytest.fixture
def provider() -> Iterator[LocalProcessProvider]:
    with LocalProcessProvider() as made:
        yield made


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes an application of this code, importable here only, as in a notebook that changed ``sys.path``."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def make(code: str) -> str:
        (tmp_path / "own_app.py").write_text(code)
        return "own_app:app"

    return make


def pid_of(provider: LocalProcessProvider) -> int:
    assert provider._process is not None
    return provider._process.pid


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_an_episode_in_a_child_process() -> None:
    with EchoEnv.from_process() as env:
        env.reset()
        assert env.step(EchoAction(message="hello")).reward == 0.5
        pid = pid_of(env._provider)
    assert gone(pid)


def test_the_images_name_stands_for_the_environment() -> None:
    with EchoEnv.from_docker_image("echo-env:latest", LocalProcessProvider()) as env:
        env.reset()


def test_the_contract_of_providers(provider: LocalProcessProvider) -> None:
    provider.stop_container()
    url = provider.start_container(APP)
    assert url.startswith("http://127.0.0.1:")
    provider.wait_for_ready(url)
    assert provider.failure() is None
    with pytest.raises(ContainerError, match="already"):
        provider.start_container(APP)
    pid = pid_of(provider)
    provider.stop_container()
    assert gone(pid)
    provider.stop_container()
    provider.wait_for_ready(provider.start_container(APP))


def test_environment_variables_and_directory_reach_the_server(
    provider: LocalProcessProvider, app: Callable[[str], str], tmp_path: Path
) -> None:
    name = app("import os; print(os.environ['A'], os.getcwd(), os.environ['OPENENV_TRACEBACKS'], flush=True); exit(4)")
    with pytest.raises(ContainerStartFailed) as caught:
        provider.start_container(name, env_vars={"A": "=x y"}, cwd=str(tmp_path))
    assert f"=x y {tmp_path} 1" in caught.value.logs


def test_an_application_that_cannot_be_imported_shows_its_traceback(provider: LocalProcessProvider) -> None:
    start = time.monotonic()
    with pytest.raises(ContainerStartFailed, match="No module named 'nonsense'") as caught:
        provider.start_container("nonsense.server:app")
    assert time.monotonic() - start < 10
    assert caught.value.exit_code == 1


def test_a_server_that_never_listens_is_not_ready_and_is_ended(app: Callable[[str], str]) -> None:
    provider = LocalProcessProvider(start_timeout_s=4, stop_timeout_s=0.1)
    name = app("import time; print('thinking', flush=True); time.sleep(60)")
    with pytest.raises(ContainerNotReady, match="did not listen within 4 s") as caught:
        provider.start_container(name)
    assert isinstance(caught.value, TimeoutError)
    assert "thinking" in caught.value.logs
    assert provider._process is None


def test_a_server_that_is_killed_is_a_container_that_died(provider: LocalProcessProvider) -> None:
    provider.wait_for_ready(provider.start_container(APP))
    os.kill(pid_of(provider), signal.SIGKILL)
    assert gone(pid_of(provider))
    failure = provider.failure()
    assert isinstance(failure, ContainerDied)
    assert failure.exit_code == 137
    assert "SIGKILL" in str(failure)


def test_the_client_names_the_death_in_mid_episode() -> None:
    env = EchoEnv.from_process()
    env.reset()
    os.kill(pid_of(env._provider), signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(ContainerDied):
        env.step(EchoAction(message="x"))
    assert time.monotonic() - start < 2
    env.close()


def test_a_server_that_ignores_sigterm_is_killed_with_what_it_started(app: Callable[[str], str]) -> None:
    provider = LocalProcessProvider(stop_timeout_s=0.3)
    name = app(
        "import signal, subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] == 'lifespan':\n"
        "        while (message := await receive())['type'] != 'lifespan.shutdown':\n"
        "            await send({'type': 'lifespan.startup.complete'})\n"
        "        import time; time.sleep(600)\n"
        "    body = str(child.pid).encode()\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "    await send({'type': 'http.response.body', 'body': body})\n"
    )
    import requests

    url = provider.start_container(name)
    provider.wait_for_ready(url)
    child = int(requests.get(url, timeout=10).text)
    pid = pid_of(provider)
    start = time.monotonic()
    provider.stop_container()
    assert time.monotonic() - start < 5
    assert gone(pid)
    assert gone(child)


def test_endless_output_neither_blocks_the_server_nor_fills_the_memory(
    provider: LocalProcessProvider, app: Callable[[str], str]
) -> None:
    name = app(f"print('x' * 3_000_000, flush=True)\nfrom {APP.partition(':')[0]} import app")
    provider.wait_for_ready(provider.start_container(name))
    assert len(provider._tail.text()) <= 8192


OWNER_CODE = """
import os, signal, sys, threading, time
from openenv.containers import LocalProcessProvider
provider = LocalProcessProvider()
provider.start_container("envs.echo_env.server.app:app")
print(provider._process.pid, flush=True)
"""


@pytest.mark.parametrize(
    ("ending", "number"),
    [
        ("", None),
        ("raise KeyboardInterrupt", None),
        ("time.sleep(600)", signal.SIGTERM),
        ("time.sleep(600)", signal.SIGKILL),
        ("os.kill(provider._process.pid, signal.SIGSTOP); time.sleep(600)", signal.SIGKILL),
    ],
    ids=["exit", "interrupt", "SIGTERM", "SIGKILL", "SIGKILL-with-a-stopped-server"],
)
def test_the_server_ends_with_its_owner(ending: str, number: int | None) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", OWNER_CODE + ending], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    pid = int(other.stdout.readline())
    if number is not None:
        time.sleep(0.1)
        other.send_signal(number)
    other.communicate(timeout=30)
    assert gone(pid)


def test_a_server_started_in_a_thread_outlives_the_thread() -> None:
    import threading

    provider = LocalProcessProvider()
    thread = threading.Thread(target=provider.start_container, args=(APP,))
    thread.start()
    thread.join()
    with provider:
        assert not gone(pid_of(provider), 0.3)


def test_a_forked_child_does_not_stop_its_parents_server(provider: LocalProcessProvider) -> None:
    provider.start_container(APP)
    child = os.fork()
    if child == 0:
        try:
            provider.stop_container()
            provider.failure()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert provider.failure() is None


def test_configuration_travels_and_the_server_does_not(provider: LocalProcessProvider) -> None:
    provider.start_timeout_s = 33.0
    provider.start_container(APP)
    copy = pickle.loads(pickle.dumps(provider))
    assert copy.start_timeout_s == 33.0
    copy.stop_container()
    assert provider.failure() is None


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_NEEDED", ("starlette", "not_there"))
    with pytest.raises(ContainerStartFailed, match=r"not_there.*pip install 'openenv-client\[server\]'"):
        LocalProcessProvider().start_container(APP)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("echo-env:latest", APP), ("echo_env", APP), ("reg.example/x/echo-env", APP), ("my.pkg:app", "my.pkg:app")],
)
def test_names_that_stand_for_an_application(written: str, meant: str) -> None:
    assert app_of(written) == meant


@pytest.mark.parametrize("written", ["nonsense", "a/b:c", "x-y:1", ""])
def test_names_that_stand_for_none(written: str) -> None:
    with pytest.raises(ConfigurationError, match="neither an environment of the package envs nor MODULE:APP"):
        app_of(written)


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="did you mean cwd"):
        LocalProcessProvider().start_container(APP, cdw="/")
