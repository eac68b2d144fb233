"""The servers of a fault run, and what may happen to them.

A slot is a place where players find a server: one in a container, in a child process, or in a child process behind a
proxy that is unkind to connections. A fault breaks a slot; afterwards the slot is whole again, with the same server or
with a new one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound

from openenv.containers import ContainerProvider, LocalDockerProvider, LocalProcessProvider
from openenv.containers.owner import OWNER
from openenv.core.errors import ContainerError

APP = "envs.echo_env.server.app:app"
SLOTS = {"MAX_CONCURRENT_ENVS": "64", "OPENENV_SESSION_IDLE": "20"}


class Slot:
    """A place with a server.

    Attributes:
        url: Where it is; players read it before each episode.
        provider: What runs it.
    """

    def __init__(self, kind: str, client: DockerClient, image: str) -> None:
        self.kind, self.image, self._client = kind, image, client
        self.lock = threading.Lock()
        self.provider: ContainerProvider
        self.url = ""
        self.start()

    def start(self) -> None:
        if self.kind == "container":
            self.provider = LocalDockerProvider(self._client, stop_timeout_s=1)
            url = self.provider.start_container(self.image, env_vars=SLOTS, trusted=False)
        else:
            self.provider = LocalProcessProvider()
            url = self.provider.start_container(APP, env_vars=SLOTS)
        self.provider.wait_for_ready(url, 30)
        self.url = url

    def replace(self) -> None:
        """The server is gone, or may be: put another in its place."""
        self.stop()
        self.start()

    def stop(self) -> None:
        with contextlib.suppress(ContainerError):  # that it had died is what was wanted
            self.provider.stop_container()

    @property
    def container(self) -> str:
        return str(getattr(self.provider, "_container_id", "") or "")

    @property
    def pid(self) -> int:
        """The server's process, as this machine counts them."""
        if self.kind == "container":
            return int(self._client.api.inspect_container(self.container)["State"]["Pid"])
        process: subprocess.Popen[bytes] = self.provider._process  # type: ignore[attr-defined]
        return process.pid


# --- faults ------------------------------------------------------------------------------------------------------


def kill(slot: Slot, engine: DockerClient, chance: random.Random) -> None:
    """The server dies at once."""
    if slot.kind == "container":
        engine.api.kill(slot.container)
    else:
        os.killpg(slot.pid, signal.SIGKILL)
    time.sleep(chance.uniform(0, 0.5))
    slot.replace()


def terminate(slot: Slot, engine: DockerClient, chance: random.Random) -> None:
    """The server is asked to end, in the middle of whatever it does."""
    if slot.kind == "container":
        engine.api.stop(slot.container, timeout=2)
    else:
        os.kill(slot.pid, signal.SIGTERM)
        time.sleep(1)
    slot.replace()


def restart(slot: Slot, engine: DockerClient, _: random.Random) -> None:
    """The same container with a new server in it."""
    if slot.kind != "container":
        return
    engine.api.restart(slot.container, timeout=1)
    port = engine.api.inspect_container(slot.container)["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"]
    slot.url = f"http://127.0.0.1:{port}"
    slot.provider.wait_for_ready(slot.url, 30)


def freeze(slot: Slot, engine: DockerClient, chance: random.Random) -> None:
    """Everything in the server stands still for a while."""
    still_s = chance.choice([0.1, 0.5, 2.0, 4.0])
    if slot.kind == "container":
        engine.api.pause(slot.container)
        time.sleep(still_s)
        engine.api.unpause(slot.container)
    else:
        pid = slot.pid
        os.killpg(pid, signal.SIGSTOP)
        time.sleep(still_s)
        os.killpg(pid, signal.SIGCONT)


@contextlib.contextmanager
def _rule(slot: Slot, *words: str) -> Iterator[None]:
    """A rule of the packet filter within the network of a container."""
    inside = ["nsenter", "-t", str(slot.pid), "-n"]
    subprocess.run([*inside, "iptables", "-I", *words], check=True, capture_output=True)
    try:
        yield
    finally:
        # The namespace may be gone with its container.
        subprocess.run([*inside, "iptables", "-D", *words], check=False, capture_output=True)


def black_hole(slot: Slot, _: DockerClient, chance: random.Random) -> None:
    """Packets to and from the container vanish for a while."""
    if slot.kind == "container":
        side = chance.choice(["INPUT", "OUTPUT"])
        with _rule(slot, side, "-p", "tcp", "-j", "DROP"):
            time.sleep(chance.choice([0.2, 1.0, 4.0]))


def reset_connections(slot: Slot, _: DockerClient, chance: random.Random) -> None:
    """Every connection to the container is cut as soon as something is said on it."""
    if slot.kind == "container":
        with _rule(slot, "INPUT", "-p", "tcp", "--dport", "8000", "-j", "REJECT", "--reject-with", "tcp-reset"):
            time.sleep(chance.choice([0.05, 0.3, 1.0]))


def narrow(slot: Slot, _: DockerClient, chance: random.Random) -> None:
    """The container's network becomes a very thin line for a while."""
    if slot.kind != "container":
        return
    inside = ["nsenter", "-t", str(slot.pid), "-n", "tc", "qdisc"]
    thin = ["root", "tbf", "rate", "256kbit", "burst", "8kbit", "latency", "300ms"]
    subprocess.run([*inside, "add", "dev", "eth0", *thin], check=True, capture_output=True)
    time.sleep(chance.choice([0.5, 2.0]))
    subprocess.run([*inside, "del", "dev", "eth0", "root"], check=False, capture_output=True)


def unplug(slot: Slot, engine: DockerClient, chance: random.Random) -> None:
    """The container is taken off its network, and put back."""
    if slot.kind != "container":
        return
    networks = list(engine.api.inspect_container(slot.container)["NetworkSettings"]["Networks"])
    for network in networks:
        engine.api.disconnect_container_from_network(slot.container, network)
    time.sleep(chance.uniform(0.1, 1))
    for network in networks:
        engine.api.connect_container_to_network(slot.container, network)


def kill_reaper(*_: Any) -> None:
    """The process that removes containers after a crash is gone; the next container brings another."""
    process = OWNER._lease._process
    if process is not None:
        process.kill()


FAULTS: list[Callable[[Slot, DockerClient, random.Random], None]] = [
    kill,
    terminate,
    restart,
    freeze,
    black_hole,
    reset_connections,
    narrow,
    unplug,
    kill_reaper,
]


def break_one(slots: list[Slot], engine: DockerClient, chance: random.Random, only: list[Any] | None = None) -> str:
    """Let one thing happen to one slot, and mend it: what it was."""
    fault, slot = chance.choice(only or FAULTS), chance.choice(slots)
    with slot.lock:
        try:
            fault(slot, engine, chance)
        except (APIError, NotFound, ProcessLookupError, subprocess.CalledProcessError) as error:
            slot.replace()  # it was gone already, by the fault before this one
            return f"{fault.__name__} {slot.kind}: {type(error).__name__}"
    return f"{fault.__name__} {slot.kind}"
