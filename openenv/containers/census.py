"""The containers of this package on an engine, and whether their owners still live."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from openenv.containers.engine import Engine, engine_trouble
from openenv.containers.labels import (
    BOOT,
    CREATED,
    HOST,
    KEEP,
    NAMESPACE,
    PID,
    SDK,
    STARTED,
    boot_id,
    pid_namespace,
)
from openenv.containers.reaper import started
from openenv.containers.sweep import remove_container
from openenv.core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: ``unknown``: on another machine, in another container, or the labels do not say.
Owner = Literal["alive", "dead", "unknown"]


@dataclass(frozen=True)
class Found:
    """A container with our labels.

    Attributes:
        id: The engine's id.
        name: Its name.
        image: Name of its image.
        status: What the engine says of it, in words.
        ports: Addresses that the engine published, such as ``127.0.0.1:32768->8000``.
        owner: Whether the process that started it still lives.
        owner_pid: That process's id, in its own namespace.
        age_s: Seconds since it was made.
        kept: It was to be left running.
        service: Id of the service of a swarm that it belongs to; empty where there is none.
    """

    id: str
    name: str
    image: str
    status: str
    ports: list[str]
    owner: Owner
    owner_pid: str
    age_s: float
    kept: bool
    service: str = ""


def census(engine: Engine) -> list[Found]:
    """All containers of this package on ``engine``, the oldest first.

    Raises:
        EngineUnavailable: It does not answer.
    """
    with engine_trouble("listing containers", engine.address.url):
        listed = engine.client.api.containers(all=True, filters={"label": SDK})
    local = engine.address.url.startswith("unix:")
    found = []
    for item in listed:
        labels = item.get("Labels") or {}
        ports = [f"{p['IP']}:{p['PublicPort']}->{p['PrivatePort']}" for p in item.get("Ports") or [] if "IP" in p]
        found.append(
            Found(
                id=item["Id"],
                name=item["Names"][0].lstrip("/"),
                image=item["Image"],
                status=item["Status"],
                ports=ports,
                owner=owner_of(labels, local=local),
                owner_pid=labels.get(PID, ""),
                age_s=time.time() - float(labels.get(CREATED) or item["Created"]),
                kept=KEEP in labels,
                service=labels.get("com.docker.swarm.service.id", ""),
            )
        )
    return sorted(found, key=lambda one: -one.age_s)


def owner_of(labels: Mapping[str, str], *, local: bool) -> Owner:
    """Whether the owner that ``labels`` name still lives. ``dead`` only where that is certain.

    Args:
        labels: Of a container.
        local: Whether the engine is on this machine.
    """
    boot, pid = labels.get(BOOT), labels.get(PID, "")
    if not boot or not boot_id() or not pid.isdigit() or not labels.get(STARTED):
        return "unknown"
    if boot != boot_id():
        # Another machine, or this one before it was started anew.
        return "dead" if local and labels.get(HOST) == socket.gethostname() else "unknown"
    if labels.get(NAMESPACE) != pid_namespace():
        return "unknown"
    return "alive" if started(int(pid)) == labels[STARTED] else "dead"


def pick(engine: Engine, name: str) -> Found:
    """The one container of ours with this name, or whose id begins so.

    Raises:
        ConfigurationError: There is none, or more than one.
    """
    everyone = census(engine)
    matching = [one for one in everyone if one.name == name or (len(name) >= 4 and one.id.startswith(name))]
    if len(matching) == 1:
        return matching[0]
    there = ", ".join(one.name for one in everyone) or "none"
    raise ConfigurationError(f"{len(matching)} containers of ours are called {name!r}; there are: {there}")


def remove(engine: Engine, found: Found) -> None:
    """Remove the container, running or not, and the service of a swarm that would replace it.

    Raises:
        ContainerError: The engine cannot.
    """
    from docker.errors import NotFound

    with engine_trouble(f"removing {found.name}", engine.address.url):
        if found.service:
            api: Any = engine.client.api
            with suppress(NotFound):
                api.remove_service(found.service)
        remove_container(engine.client, found.id)
