"""Servers as the replicas of a service of a Docker Swarm, on as many machines as the swarm has.

Each replica is addressed by itself, on a port of the node that it runs on: a session lives in one server, and a load
balancer in between would tear it apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from openenv.containers.engine import Engine, engine_trouble
from openenv.containers.image import exposed_port
from openenv.containers.labels import owner_labels
from openenv.containers.names import fresh_name
from openenv.containers.owner import OWNER
from openenv.containers.provider import ContainerProvider
from openenv.containers.ready import wait_until_ready
from openenv.containers.spec import environment, refuse_unknown
from openenv.core.errors import (
    ConfigurationError,
    ContainerDied,
    ContainerError,
    ContainerNotReady,
    ContainerStartFailed,
    EngineUnavailable,
)
from openenv.core.logs import logger
from openenv.core.timing import Deadline

if TYPE_CHECKING:
    from docker import DockerClient

log = logger("containers")

DEFAULT_PORT = 8000
#: States of a task that will not come to anything any more.
_OVER = ("failed", "rejected", "shutdown", "complete", "orphaned", "remove")
_PAUSE_S = 0.1
#: Seconds within which the containers of a service that was removed are gone.
_GONE_S = 20.0
_OPTIONS = (
    "replicas",
    "container_port",
    "command",
    "constraints",
    "memory",
    "cpus",
    "labels",
    "name",
    "port",
    "env_vars",
)


class DockerSwarmProvider(ContainerProvider):
    """Runs one service. The engine must be a manager of a swarm.

    Ports are published on all addresses of the nodes: Swarm knows no other way. Capabilities are dropped as in
    :class:`~openenv.containers.LocalDockerProvider`.

    Args:
        client: A ``docker.DockerClient`` of yours, which stays yours to close.
        replicas: How many servers, where ``start_container`` does not say.
        start_timeout_s: Seconds that all of them may take to run and get ready.
        host: Host in the URLs of replicas on this node, where the node's own address is not the one to use.

    Raises:
        EngineUnavailable: No Docker engine answers, or it manages no swarm.
    """

    def __init__(
        self,
        client: DockerClient | None = None,
        *,
        replicas: int = 1,
        start_timeout_s: float = 120.0,
        host: str | None = None,
    ) -> None:
        self._service: Any = None
        self._replicas, self.start_timeout_s, self.host = _count(replicas), start_timeout_s, host
        self._engine = Engine.find() if client is None else Engine.around(client)
        info = self._engine.client.info()
        if not info["Swarm"].get("ControlAvailable"):
            raise EngineUnavailable(
                f"the Docker engine at {self._engine.address.url} manages no swarm",
                remedy="Make one with `docker swarm init`, or name a manager with DOCKER_HOST.",
            )
        self._node: str = info["Swarm"]["NodeID"]
        self._url = ""
        self._wanted = 0
        self._ready = False
        self._pid = os.getpid()

    def start_container(
        self, image: str, port: int | None = None, env_vars: Mapping[str, str] | None = None, **options: Any
    ) -> str:
        """Start a service and return the address of its first replica; all of them are :attr:`urls`.

        Args:
            image: Name of the image; each node must have it, or be able to pull it.
            port: Port on the nodes; by default each replica has one that its node picks.
            env_vars: Environment variables, passed as they are.
            **options: ``replicas``; ``container_port``; ``command``; ``constraints`` such as
                ``["node.role==worker"]``; ``memory`` in bytes; ``cpus``; ``labels``; ``name``.

        Raises:
            TypeError: There is no such option.
            ContainerStartFailed: A replica could not run; with the reason that the swarm gives. Nothing is left.
            ContainerNotReady: Not all replicas run within ``start_timeout_s`` seconds; with what they wait for.
        """
        refuse_unknown(options, _OPTIONS)
        if self._service is not None:
            raise ContainerError(f"this provider runs {self._service.name} already", remedy="Stop it first.")
        self._wanted = _count(options.get("replicas", self._replicas))
        self._ready = False
        OWNER.watch_engine(self._engine.address, self)
        try:
            with engine_trouble(f"starting a service of {image}", self._engine.address.url):
                self._create(image, port, env_vars or {}, options)
                deadline = Deadline(self.start_timeout_s)
                while len(running := self._running()) < self._wanted:
                    self._check(deadline)
                    time.sleep(_PAUSE_S)
        except BaseException as error:
            self._undo(error)
            raise
        self._url = running[0]
        return self._url

    @property
    def urls(self) -> list[str]:
        """The addresses of the replicas that run now, in the order of their slots."""
        with engine_trouble("looking for the replicas", self._engine.address.url):
            return self._running() if self._service is not None else []

    def wait_for_ready(self, base_url: str, timeout_s: float | None = 30.0) -> None:
        """Return when every replica answers ``GET /health`` with 200.

        Raises:
            ContainerNotReady: They did not within ``timeout_s`` seconds.
            ContainerStartFailed: A replica has ended; with exit code and log tail.
        """
        deadline = Deadline(timeout_s)
        urls = self.urls or [base_url]
        self._url = urls[0]
        for url in urls:
            wait_until_ready(url, deadline.left(), failure=self.failure)
        self._ready = True

    def failure(self) -> ContainerError | None:
        """Why the first replica is dead, if it is: the swarm puts another in its place, with episodes of its own."""
        if self._service is None or self._pid != os.getpid():
            return None
        try:
            if self._url in self.urls:
                return None
            over = [task for task in self._tasks() if task["Status"]["State"] in _OVER]
        except ContainerError as error:
            return error
        told = _reason(over[0]) if over else "the swarm has moved or removed it"
        kind = ContainerDied if self._ready else ContainerStartFailed
        replaced = "The swarm starts another one: take its address from `urls`, and call reset()."
        return kind(
            f"the replica at {self._url} of the service {self._service.name} is gone: {told}",
            remedy=replaced if self._ready else "",
            exit_code=_exit_code(over[0]) if over else None,
            logs=self.logs(),
        )

    def logs(self, tail: int = 100) -> str:
        """The last lines that the replicas printed, at most ``tail`` of each."""
        if self._service is None:
            return ""
        from docker.errors import DockerException

        try:
            return b"".join(self._service.logs(stdout=True, stderr=True, tail=tail)).decode("utf-8", "replace")[-8192:]
        except DockerException:
            return ""

    def restart(self) -> None:
        """Let the swarm replace all replicas, one after the other. Their episodes are lost, and clients are told so."""
        with engine_trouble("restarting the replicas", self._engine.address.url):
            self._service.reload()
            self._service.force_update()

    def stop_container(self) -> None:
        """Remove the service, and wait until its containers on this node are gone.

        Raises:
            ContainerError: They are not, or the engine does not answer; may be called again.
        """
        if self._service is None or self._pid != os.getpid():
            self._service = None
            return
        with engine_trouble(f"removing the service {self._service.name}", self._engine.address.url):
            self._remove()
            filters = {"label": f"com.docker.swarm.service.id={self._service.id}"}
            deadline = Deadline(_GONE_S)
            while self._engine.client.api.containers(all=True, filters=filters):
                if deadline.passed():
                    raise ContainerError(f"containers of {self._service.name} are still there after {_GONE_S:g} s")
                time.sleep(_PAUSE_S)
        self._service = None
        self._engine.rest()

    def abandon(self) -> None:
        """Remove the service at once."""
        if self._service is not None and self._pid == os.getpid():
            self._remove()
            self._service = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._service.name if self._service else 'without a service'}>"

    # --- within ---

    def _create(self, image: str, port: int | None, env_vars: Mapping[str, str], options: Mapping[str, Any]) -> None:
        from docker.errors import ImageNotFound
        from docker.types import EndpointSpec, Healthcheck, Resources, RestartPolicy, ServiceMode

        client: Any = self._engine.client
        try:
            exposed = exposed_port(client.api.inspect_image(image))
        except ImageNotFound:
            exposed = None  # the node that runs it may have it
        inside = options.get("container_port") or exposed or DEFAULT_PORT
        published: dict[str, Any] = {"TargetPort": inside, "PublishMode": "host", "Protocol": "tcp"}
        if port is not None:
            published["PublishedPort"] = port
        command = options.get("command")
        cpus = options.get("cpus")
        labels = {**(options.get("labels") or {}), **owner_labels(OWNER.session, port=inside, keep=False)}
        self._service = client.services.create(
            image,
            **({} if command is None else {"command": command if isinstance(command, list) else command.split()}),
            name=options.get("name") or fresh_name(image),
            env=[f"{name}={value}" for name, value in environment({"OPENENV_TRACEBACKS": "1", **env_vars}).items()],
            mode=ServiceMode("replicated", replicas=self._wanted),
            # dnsrr: the virtual address of the other mode needs what not every kernel has, and nobody uses it.
            endpoint_spec=EndpointSpec(mode="dnsrr", ports=[published]),
            resources=Resources(
                mem_limit=options.get("memory"), cpu_limit=None if cpus is None else int(cpus * 1_000_000_000)
            ),
            restart_policy=RestartPolicy(condition="any", delay=500_000_000),
            constraints=list(options.get("constraints") or ()),
            labels=labels,
            container_labels=labels,
            init=True,
            cap_drop=["ALL"],
            # The swarm calls a task running when its health check has passed, which is asked for every half minute.
            healthcheck=Healthcheck(test=["NONE"]),
        )

    def _tasks(self) -> list[dict[str, Any]]:
        """The newest task of each slot first."""
        tasks: list[dict[str, Any]] = self._service.tasks()
        return sorted(tasks, key=lambda task: task["CreatedAt"], reverse=True)

    def _running(self) -> list[str]:
        found: dict[int, str] = {}
        for task in self._tasks():
            status = task["Status"]
            ports = (status.get("PortStatus") or {}).get("Ports") or []
            if status["State"] == "running" and task["DesiredState"] == "running" and ports:
                address = f"http://{self._address(task['NodeID'])}:{ports[0]['PublishedPort']}"
                found.setdefault(task.get("Slot", 0), address)
        return [found[slot] for slot in sorted(found)]

    def _address(self, node: str) -> str:
        if node == self._node and self.host is not None:
            return self.host
        address: str = self._engine.client.nodes.get(node).attrs["Status"].get("Addr", "")
        return address if address not in ("", "0.0.0.0") else self._engine.address.host

    def _check(self, deadline: Deadline) -> None:
        """A replica that cannot run, or time that is up, ends the waiting."""
        tasks = self._tasks()
        for task in tasks:
            if task["Status"]["State"] in ("failed", "rejected"):
                raise ContainerStartFailed(
                    f"a replica of {self._service.name} cannot run: {_reason(task)}",
                    remedy="Each node needs the image: build or pull it there, or use a registry that all reach."
                    if "No such image" in _reason(task)
                    else "",
                    exit_code=_exit_code(task),
                    logs=self.logs(),
                )
        if deadline.passed():
            waiting = "; ".join(sorted({_reason(task) for task in tasks})) or "the swarm has made none yet"
            raise ContainerNotReady(
                f"{len(self._running())} of {self._wanted} replicas of {self._service.name} run after "
                f"{self.start_timeout_s:g} s; the others: {waiting}",
                remedy="See `docker node ls` and the constraints, memory= and port= that were asked for.",
            )

    def _remove(self) -> None:
        from docker.errors import NotFound

        with suppress(NotFound):
            self._service.remove()

    def _undo(self, error: BaseException) -> None:
        try:
            self.stop_container()
        except ContainerError as trouble:
            OWNER.doubt()
            error.add_note(f"the service could not be removed: {trouble}")


def _reason(task: Mapping[str, Any]) -> str:
    """What the swarm says of a task."""
    status = task["Status"]
    told = status.get("Err") or status.get("Message") or ""
    return f"{status['State']}{f': {told}' if told else ''}"


def _exit_code(task: Mapping[str, Any]) -> int | None:
    code: int | None = (task["Status"].get("ContainerStatus") or {}).get("ExitCode")
    return code


def _count(replicas: int) -> int:
    if replicas < 1:
        raise ConfigurationError(f"replicas must be a whole number from 1; got {replicas!r}")
    return replicas
