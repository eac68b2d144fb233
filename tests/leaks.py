"""Leaks, counted over many runs on a Docker engine.

``python -m tests.leaks kill --runs 20``: SIGKILL to a process that owns 20 containers, beside one with 5.
``python -m tests.leaks cycles --count 200``: starting and closing clients one after the other.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import docker
from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv
from openenv.containers.labels import SESSION

_OWNER = """
import sys, time
from openenv.containers import start_many
from openenv.containers.owner import OWNER
made = start_many(sys.argv[1], int(sys.argv[2]))
print(OWNER.session, flush=True)
time.sleep(3600)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.leaks", description=__doc__)
    parser.add_argument("what", choices=["kill", "cycles"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--image", default="echo-env:latest")
    args = parser.parse_args()
    engine = docker.from_env(timeout=120)
    return kill(engine, args.image, args.runs) if args.what == "kill" else cycles(engine, args.image, args.count)


def _own(image: str, count: int) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", _OWNER, image, str(count)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def _left(engine: DockerClient, session: str) -> int:
    return len(engine.api.containers(all=True, filters={"label": f"{SESSION}={session}"}))


def kill(engine: DockerClient, image: str, runs: int) -> int:
    """How long the containers of killed owners stay."""
    neighbour, neighbours = _own(image, 5)
    taken = []
    try:
        for _ in range(runs):
            owner, session = _own(image, 20)
            assert _left(engine, session) == 20
            owner.kill()
            owner.wait()
            start = time.monotonic()
            while _left(engine, session) and time.monotonic() - start < 60:
                time.sleep(0.02)
            taken.append(time.monotonic() - start)
            assert _left(engine, neighbours) == 5, "a neighbour's containers were touched"
            print(f"{taken[-1]:.2f} s", flush=True)
    finally:
        neighbour.kill()
        neighbour.wait()
    good = sum(seconds <= 5 for seconds in taken)
    print(
        f"{good} of {runs} runs: none of 20 left within 5 s (longest {max(taken):.2f} s); the neighbour's 5 untouched"
    )
    return 0 if good == runs else 1


def cycles(engine: DockerClient, image: str, count: int) -> int:
    """What grows with the number of clients that were started and closed."""
    for number in range(count + 1):
        with EchoEnv.from_docker_image(image) as env:
            env.reset()
            env.step(EchoAction(message="x"))
        if number == 10:
            _counts(engine)  # the connection that the counting itself needs is there from now on
            before = _counts(engine)
    after = _counts(engine)
    for name, value in after.items():
        print(f"{name}: {before[name]} after 10, {value} after {count}")
    grown = [name for name in after if name != "memory KiB" and after[name] > before[name]]
    return 1 if grown or after["memory KiB"] > before["memory KiB"] + 4096 else 0


def _counts(engine: DockerClient) -> dict[str, int]:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return {
        "file descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "memory KiB": int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]),
        "networks": len(engine.api.networks()),
        "volumes": len(engine.api.volumes()["Volumes"] or ()),
    }


if __name__ == "__main__":
    sys.exit(main())
