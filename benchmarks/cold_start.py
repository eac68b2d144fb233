"""From nothing to the first observation of a container."""

from __future__ import annotations

import http.client
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benchmarks.frame import Bench, Must, Unavailable, times
from envs.echo_env import EchoEnv
from openenv.containers.spec import ContainerSpec

IMAGE = "echo-env:latest"
OURS, PLAIN = "from_docker_image and reset", "docker run, a poll every ms, one POST /reset"

MUSTS = [Must("cold_start_vs_docker_run", "its time as a multiple of docker's", times(OURS, PLAIN), at_most=1.15)]

_START_S = 60.0


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with ``docker run`` with the same flags. Removing the container is not part of it."""
    if shutil.which("docker") is None:
        raise Unavailable("there is no docker command here")
    if subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, check=False).returncode:
        raise Unavailable(f"there is no engine, or no image {IMAGE}; `openenv build echo_env` makes it")
    yield Bench(
        "from nothing to the first observation of a container",
        {OURS: _ours, PLAIN: _plain},
        reference=PLAIN,
        blocks=4 if quick else 20,
        musts=MUSTS,
    )


def _ours() -> float:
    start = perf_counter()
    with EchoEnv.from_docker_image(IMAGE) as env:
        env.reset()
        return perf_counter() - start


def _plain() -> float:
    start = perf_counter()
    container = _docker("run", "--detach", "--publish", "127.0.0.1::8000", *_flags(), IMAGE)
    try:
        address = _docker("port", container, "8000").splitlines()[0]
        while _status(address, "GET", "/health") != 200:
            if perf_counter() - start > _START_S:
                raise TimeoutError(f"{IMAGE} was not ready after {_START_S:g} s")
            time.sleep(0.001)
        if (status := _status(address, "POST", "/reset")) != 200:
            raise RuntimeError(f"reset was answered {status}")
        return perf_counter() - start
    finally:
        _docker("rm", "--force", container)


def _flags() -> list[str]:
    """On the command line, what our provider asks of the engine by default."""
    arguments = ContainerSpec(image=IMAGE).docker_arguments()
    flags = {
        "cap_drop": "--cap-drop=ALL",
        "init": "--init",
        "mem_limit": f"--memory={arguments.get('mem_limit')}",
        "memswap_limit": f"--memory-swap={arguments.get('memswap_limit')}",
        "pids_limit": f"--pids-limit={arguments.get('pids_limit')}",
        "security_opt": "--security-opt=no-new-privileges",
    }
    return [flags[name] for name in arguments if name != "image"]


def _docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, timeout=_START_S)
    return done.stdout.strip()


def _status(address: str, method: str, path: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=_START_S)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):  # it does not listen yet
        return 0
    finally:
        connection.close()
