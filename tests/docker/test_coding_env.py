"""Code that runs, and code that attacks, in a real container: as nobody in particular, and as root."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from envs.coding_env import CodeAction, CodeObservation, CodingEnv
from tests.docker.images import build


@pytest.fixture(scope="session")
def coding_image(image: str, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENENV_BASE_IMAGE", image)
        return build("coding_env", tmp_path_factory, worker_id)


KINDS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "root": {"user": "0:0", "trusted": True},
    "root without capabilities": {"user": "0:0"},
}


@pytest.fixture(scope="module", params=list(KINDS))
def container(request: pytest.FixtureRequest, coding_image: str) -> Iterator[CodingEnv]:
    with CodingEnv.from_docker_image(
        coding_image, memory="1500m", env_vars={"CODING_TIMEOUT_S": "3"}, **KINDS[request.param]
    ) as env:
        yield env


@pytest.fixture
def env(container: CodingEnv) -> Iterator[CodingEnv]:
    with CodingEnv(container.base_url) as session:
        session.reset()
        yield session


def run(env: CodingEnv, code: str) -> CodeObservation:
    return env.step(CodeAction(code)).observation


def test_variables_persist_until_reset(env: CodingEnv) -> None:
    assert run(env, "x = 41").exit_code == 0
    assert run(env, "print(x + 1)").stdout == "42\n"
    assert env.state().step_count == 2
    env.reset()
    assert run(env, "print(x)").exit_code == 1
    assert env.state().last_exit_code == 1


def test_the_user_is_never_root_where_that_can_be_helped(env: CodingEnv, request: pytest.FixtureRequest) -> None:
    uid = int(run(env, "import os; print(os.getuid())").stdout)
    kind = request.node.callspec.params["container"]
    assert (uid == 0) is (kind == "root without capabilities")
    capabilities = "import re; print(re.findall('Cap(?:Eff|Prm):.*?([1-9a-f])', open('/proc/self/status').read()))"
    assert run(env, capabilities).stdout == "[]\n"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import subprocess\nsubprocess.run(['bash', '-c', ':(){ :|:& };:; sleep 60'])",
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()",
        "import os\nwhile True:\n    if os.fork() == 0: os.setsid()",
        "while True: pass",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "import os\nwhile True: os.write(1, bytes(1 << 20))",
        "import os\nos._exit(0)",
        "import os\nos.closerange(0, 4096)",
        "import os\nfor pid in os.listdir('/proc'):\n    if pid.isdigit(): os.kill(int(pid), 9)",
        "import os\nos.kill(-1, 9)",
        "import os\nfor _ in range(9):\n    if os.fork(): os._exit(0)\n    os.setsid()\nbytes(400 << 20)",
        "import os\nwhile True: os.open('/dev/null', 0)",
    ],
)
def test_no_code_stops_its_session_or_its_server(env: CodingEnv, container: CodingEnv, code: str) -> None:
    before = container.health()["instance"]
    start = time.monotonic()
    seen = run(env, code)
    assert seen.exit_code != 0
    assert seen.stderr
    assert time.monotonic() - start < 12
    assert run(env, "print('alive')").stdout == "alive\n"
    env.reset()
    assert run(env, "print('alive')").stdout == "alive\n"
    left = "import os; print(sum(pid.isdigit() for pid in os.listdir('/proc')) < 20)"
    assert run(env, left).stdout == "True\n"
    assert container.health()["instance"] == before


def test_a_gigabyte_of_output_is_counted_and_cut(env: CodingEnv) -> None:
    env.reset(step_timeout_s=60)
    code = "import os\nblock = bytes(1_000_000)\nfor _ in range(1000): os.write(1, block)"
    seen = env.step(CodeAction(code), timeout_s=90).observation
    assert seen.exit_code == 0
    assert seen.stdout.endswith("\n[coding_env] cut here: 1,048,576 of 1,000,000,000 bytes are kept\n")
    assert run(env, "print('alive')").stdout == "alive\n"


def test_the_memory_of_the_server_is_out_of_reach(env: CodingEnv) -> None:
    code = """
import os
for pid in filter(str.isdigit, os.listdir('/proc')):
    if b'openenv.server' in open(f'/proc/{pid}/cmdline', 'rb').read() and int(pid) > 1:
        for name in ('mem', 'environ', 'maps'):
            try:
                open(f'/proc/{pid}/{name}', 'rb').read(1)
                print('read', name)
            except PermissionError:
                print('refused')
"""
    assert run(env, code).stdout.split() == ["refused"] * 3


def test_health_is_answered_while_code_spins(env: CodingEnv, container: CodingEnv) -> None:
    import threading

    spinning = threading.Thread(target=run, args=(env, "while True: pass"))
    spinning.start()
    slowest = 0.0
    while spinning.is_alive():
        start = time.monotonic()
        assert container.health()["status"] == "healthy"
        slowest = max(slowest, time.monotonic() - start)
    assert slowest < 2
