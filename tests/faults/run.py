"""A fault run: players, faults, and a look at what is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from docker import DockerClient

from openenv.containers.labels import SESSION
from openenv.containers.owner import OWNER
from tests.faults.players import Player, Score
from tests.faults.world import Slot, break_one

PLAYERS = 16

_VICTIM = """
import sys, time
from openenv.containers.owner import OWNER
from envs.echo_env import EchoAction, EchoEnv
print(OWNER.session, flush=True)
with EchoEnv.from_docker_image(sys.argv[1]) as env:
    print("ready", flush=True)
    while True:
        env.reset()
        for _ in range(50):
            env.step(EchoAction(message="until the end"))
"""


class Left:
    """What there is of us on this machine, to be compared before and after."""

    def __init__(self, engine: DockerClient) -> None:
        self.networks = {network["Name"] for network in engine.api.networks()}
        self.volumes = {volume["Name"] for volume in engine.api.volumes()["Volumes"] or ()}
        self.threads = {thread.name for thread in threading.enumerate()}
        self.children = set(_children())
        self.files = sum(1 for target in _open_files() if target not in _unix_sockets())


def _open_files() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(entry.readlink()))
    return found


def _unix_sockets() -> set[str]:
    """Connections to the engine, which its client keeps for later."""
    rows = Path("/proc/self/net/unix").read_text().splitlines()[1:]
    return {f"socket:[{row.split()[6]}]" for row in rows}


def _children() -> list[str]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return listed.read_text().split() if listed.exists() else []


def run(
    engine: DockerClient,
    image: str,
    *,
    seed: int,
    seconds: float,
    containers: int = 3,
    processes: int = 2,
    players: int = PLAYERS,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Score, list[str]]:
    """Play for ``seconds`` while things break: the score, and what was left behind, in words."""
    chance, score, stop = random.Random(seed), Score(), threading.Event()
    leftovers: list[str] = []
    # What is made once and kept, such as the shared network without a way out, is there before the first look.
    Slot("container", engine, image).stop()
    Slot("process", engine, image).stop()
    before = Left(engine)
    faults = 0
    with ExitStack() as stack:
        slots = []
        for kind in ["container"] * containers + ["process"] * processes:
            slots.append(Slot(kind, engine, image))
            stack.callback(slots[-1].stop)
        team = [Player(number, seed, slots, score, stop) for number in range(players)]
        for player in team:
            player.start()
        stack.callback(stop.set)
        end = time.monotonic() + seconds
        victim = time.monotonic() + min(15.0, seconds / 3)
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.1, 1.5))
            what = break_one(slots, engine, chance)
            faults += 1
            tell(f"{what}; {score.right} right, {sum(score.named.values())} named, {len(score.wrong)} wrong")
            if time.monotonic() > victim:
                victim = time.monotonic() + 60
                leftovers += _kill_an_owner(engine, image, chance)
        stop.set()
        for player in team:
            player.join(30)
            if player.is_alive():
                score.add(f"{player.name} never came back", 0)
    leftovers += _what_is_left(engine, before)
    tell(f"{faults} faults, {score.right} episodes right, {score.steps} steps, named: {dict(score.named)}")
    return score, leftovers


def _kill_an_owner(engine: DockerClient, image: str, chance: random.Random) -> list[str]:
    """A whole program that plays on a container of its own is killed: its container must go within 5 seconds."""
    victim = subprocess.Popen([sys.executable, "-c", _VICTIM, image], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    session = victim.stdout.readline().strip()
    if chance.random() < 0.7:  # else in the middle of starting
        victim.stdout.readline()
    time.sleep(chance.uniform(0, 0.5))
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    end = time.monotonic() + 8
    while names := _containers(engine, session):
        if time.monotonic() > end:
            return [f"containers of a killed owner: {names}"]
        time.sleep(0.1)
    return []


def _containers(engine: DockerClient, session: str) -> list[str]:
    found = engine.api.containers(all=True, filters={"label": f"{SESSION}={session}"})
    return [one["Names"][0] for one in found]


def _what_is_left(engine: DockerClient, before: Left) -> list[str]:
    """What is there that was not; threads and connections get a moment to end."""
    end = time.monotonic() + 10
    while True:
        after = Left(engine)
        found = {
            "containers": _containers(engine, OWNER.session),
            "networks": sorted(after.networks - before.networks),
            "volumes": sorted(after.volumes - before.volumes),
            "threads": sorted(after.threads - before.threads),
            # One more may be the reaper's that took the place of one that was killed.
            "children": sorted(after.children - before.children)[1:],
            "files": list(range(max(0, after.files - before.files - 2))),
        }
        left = [f"{what}: {which}" for what, which in found.items() if which]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)
