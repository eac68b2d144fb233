"""What a container shall be: every option of ``start_container``, checked before anything starts."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from openenv.core.errors import ConfigurationError

#: All labels of this package begin with it.
LABEL = "org.openenv."

#: What the same thing is called elsewhere.
_ELSEWHERE = {
    "cpu": "cpus",
    "device_requests": "gpus",
    "env": "env_vars",
    "environment": "env_vars",
    "gpu": "gpus",
    "mem_limit": "memory",
    "mounts": "volumes",
    "nano_cpus": "cpus",
    "network_mode": "network",
    "ports": "port",
    "privileged": "trusted",
    "remove": "keep",
}


@dataclass(frozen=True, kw_only=True)
class ContainerSpec:
    """One container.

    Attributes:
        image: Name of the image, used as it is.
        port: Port on the engine's machine; by default the engine picks a free one.
        env_vars: Environment variables, passed as they are.
        container_port: Port that the server listens on inside; by default the single one that the image exposes, else
            8000.
        command: Instead of the image's command; text is split as a shell does it.
        entrypoint: Instead of the image's entry point.
        working_dir: Working directory inside.
        volumes: ``{host path or volume name: path inside}``, with ``:ro`` after the path inside for read-only; or
            what docker-py takes.
        memory: Limit in bytes, or text such as ``"512m"``; swap included.
        cpus: Number of CPUs that it may use, such as 0.5.
        gpus: Number of GPUs, ``"all"``, or a list of device ids.
        network: A network of the engine to join, or ``"host"``.
        egress: ``False`` cuts the container off: it reaches neither the outside nor other containers, only services
            of this machine that listen on all addresses. For an engine on this Linux machine.
        platform: Such as ``linux/arm64``.
        labels: Labels of your own; ``org.openenv.*`` is reserved.
        user: User inside, such as ``"1000:1000"``.
        read_only: The root file system cannot be written to; give ``tmpfs`` for what must be.
        tmpfs: File systems in memory: ``{path inside: options}``, or a list of paths.
        extra_hosts: ``{name: address}`` added to the hosts file.
        shm_size: Size of ``/dev/shm`` in bytes, or text such as ``"1g"``.
        pids_limit: Most processes and threads inside; ``None`` is no limit.
        cap_add: Capabilities to keep, such as ``["SYS_PTRACE"]``; all others are dropped.
        init: Run an init process as PID 1, which reaps zombies and passes signals on.
        trusted: Drop no capabilities, and let programs gain privileges: as a plain ``docker run`` has it.
        name: Name of the container; by default the image's with a random ending.
        keep: Leave the container running when its client is closed or its owner ends.
        wait: When the server counts as ready: a strategy of :mod:`openenv.containers.wait`, by default a 200 at
            ``/health``.
    """

    image: str
    port: int | None = None
    env_vars: Mapping[str, str] = field(default_factory=dict)
    container_port: int | None = None
    command: str | Sequence[str] | None = None
    entrypoint: str | Sequence[str] | None = None
    working_dir: str | None = None
    volumes: Mapping[str, Any] | Sequence[str] = ()
    memory: int | str | None = None
    cpus: float | None = None
    gpus: int | str | Sequence[str] | None = None
    network: str | None = None
    egress: bool = True
    platform: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    user: str | int | None = None
    read_only: bool = False
    tmpfs: Mapping[str, str] | Sequence[str] = ()
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    shm_size: int | str | None = None
    pids_limit: int | None = 512
    cap_add: Sequence[str] = ()
    init: bool = True
    trusted: bool = False
    name: str | None = None
    keep: bool = False
    wait: Any = None

    @classmethod
    def of(cls, image: str, port: int | None, env_vars: Mapping[str, str] | None, options: Mapping[str, Any]) -> Self:
        """The spec that these arguments of ``start_container`` describe.

        Raises:
            TypeError: There is no such option; names the nearest.
            ConfigurationError: A value cannot work.
        """
        refuse_unknown(options, [item.name for item in dataclasses.fields(cls)])
        return cls(image=image, port=port, env_vars=env_vars or {}, **options)

    def __post_init__(self) -> None:
        if not str(self.image).strip():
            raise ConfigurationError(f"image must be the name of an image; got {self.image!r}")
        _port("port", self.port, 0)
        _port("container_port", self.container_port, 1)
        object.__setattr__(self, "env_vars", environment(self.env_vars))
        reserved = [name for name in self.labels if name.startswith(LABEL)]
        if reserved:
            raise ConfigurationError(
                f"the label {reserved[0]!r} begins with {LABEL}, which is reserved", remedy="Use a prefix of your own."
            )
        if self.wait is not None:
            from openenv.containers.wait import checked

            checked(self.wait)
        if self.network == "none":
            raise ConfigurationError(
                'network="none" leaves no way to reach the server in the container',
                remedy="Say egress=False to cut it off from everything but this machine.",
            )
        if self.network is not None and not self.egress:
            raise ConfigurationError(
                f"egress=False has a network of its own; network={self.network!r} cannot be had besides"
            )
        if self.port is not None and not self.egress:
            raise ConfigurationError(
                f"egress=False publishes no port, so port={self.port} cannot be had; the server has an address instead"
            )
        if self.cpus is not None and not self.cpus > 0:
            raise ConfigurationError(f"cpus must be above 0; got {self.cpus!r}")

    def docker_arguments(self) -> dict[str, Any]:
        """What ``containers.create`` of docker-py takes for this, ports, name and labels left out."""
        wanted: dict[str, Any] = {
            "image": self.image,
            "command": self.command,
            "entrypoint": self.entrypoint,
            "environment": dict(self.env_vars),
            "working_dir": self.working_dir,
            "volumes": _volumes(self.volumes),
            "mem_limit": self.memory,
            # Otherwise the engine allows as much swap again.
            "memswap_limit": self.memory,
            "nano_cpus": None if self.cpus is None else int(self.cpus * 1e9),
            "device_requests": _gpus(self.gpus),
            "network": self.network if self.network != "host" else None,
            "network_mode": "host" if self.network == "host" else None,
            "platform": self.platform,
            "user": self.user,
            "read_only": self.read_only or None,
            "tmpfs": dict(self.tmpfs) if isinstance(self.tmpfs, Mapping) else dict.fromkeys(self.tmpfs, ""),
            "extra_hosts": dict(self.extra_hosts),
            "shm_size": self.shm_size,
            "pids_limit": -1 if self.pids_limit is None else self.pids_limit,
            "cap_add": list(self.cap_add),
            "cap_drop": None if self.trusted else ["ALL"],
            "security_opt": None if self.trusted else ["no-new-privileges"],
            "init": self.init or None,
        }
        return {name: value for name, value in wanted.items() if value not in (None, {}, [])}


def refuse_unknown(options: Iterable[str], known: Sequence[str]) -> None:
    """Refuse options that are not ``known``.

    Raises:
        TypeError: Names the option and the nearest that there is.
    """
    for option in options:
        if option in known:
            continue
        near = [_ELSEWHERE[option]] if _ELSEWHERE.get(option) in known else difflib.get_close_matches(option, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(known)}"
        raise TypeError(f"start_container() has no option {option!r}{hint}")


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    """``values`` as environment variables: text as it is, numbers as Python writes them.

    Raises:
        ConfigurationError: A name or a value cannot be one.
    """
    for name, value in values.items():
        if not name or "=" in name or "\0" in name:
            raise ConfigurationError(f"{name!r} cannot be the name of an environment variable")
        if type(value) not in (str, int, float):
            raise ConfigurationError(
                f"env_vars[{name!r}] must be text; got {type(value).__name__} {value!r:.60}",
                remedy="Write it as the server shall read it.",
            )
    return {name: str(value) for name, value in values.items()}


def _port(name: str, value: object, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 65535):
        raise ConfigurationError(f"{name} must be a number from {least} to 65535, or None; got {value!r}")


def _volumes(volumes: Mapping[str, Any] | Sequence[str]) -> Any:
    if not isinstance(volumes, Mapping):
        return list(volumes)
    found = {}
    for source, target in volumes.items():
        name = os.fspath(source)
        if name.startswith((".", "~")):
            name = os.path.abspath(os.path.expanduser(name))
        if isinstance(target, str):
            path, _, mode = target.partition(":")
            target = {"bind": path, "mode": mode or "rw"}
        found[name] = target
    return found


def _gpus(gpus: int | str | Sequence[str] | None) -> Any:
    if gpus is None or gpus == 0:
        return None
    from docker.types import DeviceRequest

    if gpus == "all":
        return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
    if isinstance(gpus, int):
        return [DeviceRequest(count=gpus, capabilities=[["gpu"]])]
    ids = [gpus] if isinstance(gpus, str) else list(gpus)
    return [DeviceRequest(device_ids=ids, capabilities=[["gpu"]])]
