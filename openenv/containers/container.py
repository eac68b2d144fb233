"""A running container, as a client shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openenv.core.errors import ContainerError


@dataclass(frozen=True)
class Stats:
    """What a container uses, at one moment.

    Attributes:
        cpu_percent: Of one CPU; 200 is two CPUs. Over the second before.
        memory_bytes: In use, without what the kernel only caches.
        memory_limit_bytes: How much it may use.
        processes: How many processes and threads there are.
        received_bytes: Over the network, since it started.
        sent_bytes: Likewise.
    """

    cpu_percent: float
    memory_bytes: int
    memory_limit_bytes: int
    processes: int
    received_bytes: int
    sent_bytes: int


class Container:
    """One container; everything is asked of the engine when it is read.

    Args:
        inspect: What the engine knows of it.
        stats: What the engine counts of it.
        logs: The last lines that it printed.
    """

    def __init__(
        self,
        inspect: Callable[[], Mapping[str, Any]],
        stats: Callable[[], Mapping[str, Any]],
        logs: Callable[[int], str],
    ) -> None:
        self._inspect, self._stats, self._logs = inspect, stats, logs
        known = inspect()
        self.id: str = known["Id"]
        self.name: str = known["Name"].lstrip("/")
        self.image: str = known["Config"]["Image"]

    @property
    def status(self) -> str:
        """``running``, ``paused``, ``exited`` and so on."""
        status: str = self._inspect()["State"]["Status"]
        return status

    @property
    def ports(self) -> dict[int, int]:
        """Port inside: the port on the engine's machine, for those that are published."""
        published = self._inspect()["NetworkSettings"]["Ports"] or {}
        return {
            int(inside.partition("/")[0]): int(bound[0]["HostPort"]) for inside, bound in published.items() if bound
        }

    def stats(self) -> Stats:
        """What it uses now; takes a second or two, for the engine measures over one."""
        told = self._stats()
        now, before, memory = told["cpu_stats"], told["precpu_stats"], told.get("memory_stats") or {}
        spent = now["cpu_usage"]["total_usage"] - before["cpu_usage"]["total_usage"]
        passed = now.get("system_cpu_usage", 0) - before.get("system_cpu_usage", 0)
        cpus = now.get("online_cpus") or len(now["cpu_usage"].get("percpu_usage") or [0])
        counted = memory.get("stats") or {}
        cached = counted.get("inactive_file", counted.get("total_inactive_file", 0))
        networks = (told.get("networks") or {}).values()
        return Stats(
            cpu_percent=round(100.0 * cpus * spent / passed, 1) if passed > 0 else 0.0,
            memory_bytes=max(0, memory.get("usage", 0) - cached),
            memory_limit_bytes=memory.get("limit", 0),
            processes=(told.get("pids_stats") or {}).get("current", 0),
            received_bytes=sum(network["rx_bytes"] for network in networks),
            sent_bytes=sum(network["tx_bytes"] for network in networks),
        )

    def logs(self, tail: int = 100) -> str:
        """The last lines that it printed, at most ``tail`` and 8 KiB."""
        return self._logs(tail)

    def __repr__(self) -> str:
        return f"<container {self.name} of {self.image}, {self.id[:12]}>"


def find(api: Any, container: str) -> Mapping[str, Any]:
    """What the engine knows of the running container with this name, id or label (``name=value``).

    Raises:
        ContainerError: There is none, or more than one has the label.
    """
    from docker.errors import NotFound

    if "=" in container:
        found = api.containers(filters={"label": container})
        if len(found) != 1:
            raise ContainerError(f"{len(found)} running containers have the label {container}, and not one")
        container = found[0]["Id"]
    try:
        attributes: Mapping[str, Any] = api.inspect_container(container)
    except NotFound as error:
        raise ContainerError(f"there is no container {container}", remedy="See `docker ps`.") from error
    return attributes
