"""Servers in containers of a Docker engine."""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from openenv.containers.advice import explain, why_not_ready
from openenv.containers.container import Container, find
from openenv.containers.death import death, log_tail
from openenv.containers.engine import Engine, engine_trouble
from openenv.containers.image import ensure, exposed_port
from openenv.containers.labels import PORT, SESSION, owner_labels
from openenv.containers.names import fresh_name, is_taken
from openenv.containers.network import NAME as NO_EGRESS
from openenv.containers.network import no_egress
from openenv.containers.owner import OWNER
from openenv.containers.provider import ContainerProvider
from openenv.containers.ready import wait_until
from openenv.containers.spec import ContainerSpec
from openenv.containers.sweep import remove_container
from openenv.containers.wait import HTTP
from openenv.core.errors import (
    ConfigurationError,
    ContainerDied,
    ContainerError,
    ContainerNotReady,
    ContainerStartFailed,
)
from openenv.core.logs import logger
from openenv.core.protocol import BaseURL, is_loopback
from openenv.core.timing import seconds

if TYPE_CHECKING:
    from docker import DockerClient

log = logger("containers")

DEFAULT_PORT = 8000
_PULL = ("missing", "always", "never")
#: More at once only make each slower: the engine works them off one by one.
_STARTS_AT_ONCE = 4
_starts = threading.BoundedSemaphore(_STARTS_AT_ONCE)
#: Seconds within which a started container has its port, or is dead.
_BIND_S = 20.0
_NAME_TRIES = 5


class LocalDockerProvider(ContainerProvider):
    """Runs one container. Constructing starts nothing, but finds the engine.

    The engine is that of ``DOCKER_HOST``, else of the active Docker context, else at the usual places. The container
    is reachable from this machine only, has no capabilities, gains no privileges, and is removed when it is stopped,
    when its owner ends in whatever way, or when it cannot be started.

    Args:
        client: A ``docker.DockerClient`` of yours, which stays yours to close.
        pull: ``"missing"``, ``"always"`` or ``"never"``: when to pull the image.
        start_timeout_s: Seconds that a server may take to get ready, where the caller gives no limit.
        stop_timeout_s: Seconds that a server may take to end before it is killed.
        host: Host in the URL, where the engine's own address is not the one to use.
        trusted: Default of the option ``trusted``.
        keep: Default of the option ``keep``.

    Raises:
        EngineUnavailable: No Docker engine answers; a ``RuntimeError``.
    """

    #: Base URL of the server, while there is one.
    url: str | None
    _container_name: str | None

    def __init__(
        self,
        client: DockerClient | None = None,
        *,
        pull: str = "missing",
        start_timeout_s: float | None = 60.0,
        stop_timeout_s: float = 5.0,
        host: str | None = None,
        trusted: bool = False,
        keep: bool = False,
    ) -> None:
        self._container_id: str | None = None
        if pull not in _PULL:
            raise ConfigurationError(f"pull must be one of {', '.join(_PULL)}; got {pull!r}")
        self.pull = pull
        self.start_timeout_s = seconds(start_timeout_s, "start_timeout_s")
        if not stop_timeout_s >= 0:
            raise ConfigurationError(f"stop_timeout_s must be seconds, 0 or more; got {stop_timeout_s!r}")
        self.stop_timeout_s = stop_timeout_s
        self.host = host
        self._defaults = {"trusted": trusted, "keep": keep}
        self._engine = Engine.find() if client is None else Engine.around(client)
        self._engine.rest()
        self._forget()

    def start_container(
        self, image: str, port: int | None = None, env_vars: Mapping[str, str] | None = None, **options: Any
    ) -> str:
        """Start a container and return its base URL.

        Args:
            image: Name of the image.
            port: Port on the engine's machine; by default the engine picks a free one.
            env_vars: Environment variables, passed as they are.
            **options: See :class:`~openenv.containers.spec.ContainerSpec`.

        Raises:
            TypeError: There is no such option.
            ConfigurationError: A value cannot work.
            ImageMissing: The image is not there and cannot be pulled.
            ContainerStartFailed: The container could not be made or started, or ended at once; it is removed.
            EngineUnavailable: The engine does not answer any more.
        """
        spec = ContainerSpec.of(image, port, env_vars, {**self._defaults, **options})
        if self._mine():
            raise ContainerError(
                f"this provider runs {self._container_name} already",
                remedy="Stop it first, or make one provider for each container.",
            )
        found = ensure(self._engine, spec.image, self.pull, spec.platform)
        inside = spec.container_port or exposed_port(found) or DEFAULT_PORT
        with _starts:
            return self._start(spec, inside)

    @classmethod
    def attach(cls, container: str, client: DockerClient | None = None, *, host: str | None = None) -> Self:
        """A provider of a container that runs already, which is not stopped with it; its address is :attr:`url`.

        Args:
            container: Its name or id, or one of its labels as ``name=value``.
            client: A ``docker.DockerClient`` of yours.
            host: Host in the URL.

        Raises:
            ContainerError: There is no such container, more than one has the label, or it does not run.
            EngineUnavailable: No Docker engine answers.
        """
        provider = cls(client, host=host)
        with provider._trouble(f"looking for the container {container}"):
            provider._attach(container)
        return provider

    def stop_container(self) -> None:
        """Stop and remove the container; force it where it does not stop. Does nothing where none runs.

        Raises:
            ContainerError: It could not be removed; may be called again.
        """
        if not self._mine() or self._keeps():
            self._forget()
            self._engine.rest()
            return
        from docker.errors import DockerException, NotFound
        from requests.exceptions import RequestException

        container_id = self._container_id or ""
        with self._trouble("removing the container"):
            try:
                self._engine.client.api.stop(container_id, timeout=math.ceil(self.stop_timeout_s))
            except NotFound:
                pass
            except (DockerException, RequestException) as error:
                log.info("%s did not stop, so it is removed by force: %s", self._container_name, error)
            remove_container(self._engine.client, container_id)
        self._forget()
        self._engine.rest()

    def wait_for_ready(self, base_url: str, timeout_s: float | None = 30.0) -> None:
        """Return when ``GET <base_url>/health`` answers 200, or when the option ``wait`` is satisfied.

        A container that ends is noticed at once.

        Raises:
            ContainerNotReady: It did not within ``timeout_s`` seconds; also a ``TimeoutError``.
            ContainerStartFailed: The container has ended; with exit code and log tail.
        """
        try:
            wait = self._spec.wait or HTTP()
            wait_until(lambda deadline: wait.look(base_url, self, deadline), BaseURL(base_url), timeout_s, self.failure)
        except BaseException as error:
            # Nobody keeps what never worked.
            self._given_up = True
            if self._mine() and isinstance(error, ContainerNotReady):
                container_id = self._container_id or ""
                error.logs = log_tail(self._engine.client, container_id)
                if self._spec.wait is None:
                    error.remedy = why_not_ready(self._engine.client, container_id, self._inside)
            raise
        self._ready = True

    def failure(self) -> ContainerError | None:
        """Why the container is dead, if it is; asks the engine."""
        if not self._mine():
            return None
        from docker.errors import NotFound

        container_id = self._container_id or ""
        try:
            with self._trouble("inspecting the container"):
                try:
                    state = self._engine.client.api.inspect_container(container_id)["State"]
                except NotFound:
                    return ContainerDied(f"{self._who()} is gone: something else has removed it")
                if state["Status"] not in ("exited", "dead", "removing"):
                    return None
                return death(
                    self._engine.client,
                    state,
                    container_id,
                    self._who(),
                    ready=self._ready,
                    hint=self._hint(),
                    memory=self._spec.memory,
                )
        except ContainerError as error:
            return error

    def logs(self, tail: int = 100) -> str:
        """The last lines that the container printed, at most ``tail`` and 8 KiB; empty where none runs."""
        return log_tail(self._engine.client, self._container_id or "", tail) if self._mine() else ""

    def pause(self) -> None:
        """Let everything in the container stand still, until :meth:`resume`."""
        if self._mine():
            with self._trouble(f"pausing {self._container_name}"):
                self._engine.client.api.pause(self._container_id or "")

    def resume(self) -> None:
        """Let it go on."""
        if self._mine():
            with self._trouble(f"resuming {self._container_name}"):
                self._engine.client.api.unpause(self._container_id or "")

    def printed(self) -> str:
        """All that the container has printed."""
        if not self._mine():
            return ""
        with self._trouble(f"reading the log of {self._container_name}"):
            data: bytes = self._engine.client.api.logs(self._container_id or "", stdout=True, stderr=True)
        return data.decode("utf-8", "replace")

    @property
    def container(self) -> Container | None:
        """The container: id, name, ports, what it uses; ``None`` where none runs."""
        if not self._mine():
            return None
        container_id = self._container_id or ""

        def stats() -> Any:
            with self._trouble(f"counting what {self._container_name} uses"):
                return self._engine.client.api.stats(container_id, stream=False)

        return Container(self.inspect, stats, self.logs)

    def inspect(self) -> dict[str, Any]:
        """What the engine knows of the container: ids, ports, limits, state.

        Raises:
            ContainerError: None runs, or it is gone.
        """
        if not self._mine():
            raise ContainerError("this provider runs no container")
        with self._trouble(f"inspecting {self._container_name}"):
            found: dict[str, Any] = self._engine.client.api.inspect_container(self._container_id or "")
        return found

    def abandon(self) -> None:
        """Remove the container at once. For the end of the process, so it uses a connection of its own."""
        if self._mine() and not self._keeps():
            client = self._engine.address.open(timeout_s=30.0)
            try:
                remove_container(client, self._container_id or "")
            finally:
                client.close()
        self._forget()

    def __del__(self) -> None:
        if getattr(self, "_container_id", None) is None or sys.is_finalizing() or not self._mine():
            return
        about, keeps = repr(self), self._keeps()
        told = f"{about} was never stopped"
        try:
            self.abandon()
        except Exception as error:  # noqa: BLE001 - nobody could catch it here
            told = f"{about} was never stopped, and cannot be: {error}"
        # Last, for a warning may be an error.
        if not keeps:
            warnings.warn(told, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._container_name or 'without a container'}>"

    def __getstate__(self) -> dict[str, Any]:
        """Configuration travels; the container stays with the process that started it."""
        names = ("pull", "start_timeout_s", "stop_timeout_s", "host", "_defaults", "_engine")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    # --- within ---

    def _mine(self) -> bool:
        """Whether there is a container, and it belongs to this process and not to the one that it was forked from."""
        return self._container_id is not None and self._pid == os.getpid()

    def _attach(self, container: str) -> None:
        attributes = find(self._engine.client.api, container)
        config, networks = attributes["Config"], attributes["NetworkSettings"]["Networks"]
        self._container_id, self._container_name = attributes["Id"], attributes["Name"].lstrip("/")
        own = (config.get("Labels") or {}).get(PORT)
        self._inside = int(own) if own else exposed_port(attributes) or DEFAULT_PORT
        network = "host" if "host" in networks else None
        self._spec = ContainerSpec(image=config["Image"], network=network, egress=NO_EGRESS not in networks)
        self._ready = self._guest = True
        self.url = self._url(self._spec, self._inside, attributes["Id"])

    def _keeps(self) -> bool:
        return self._guest or (self._spec.keep and not self._given_up)

    def _forget(self) -> None:
        self._container_id = None
        self._container_name = None
        self.url = None
        self._spec = ContainerSpec(image="none")
        self._inside = DEFAULT_PORT
        self._ready = self._given_up = self._guest = False
        self._pid = os.getpid()

    def _start(self, spec: ContainerSpec, inside: int) -> str:
        OWNER.watch_engine(self._engine.address, self)
        self._forget()
        self._spec, self._inside = spec, inside
        try:
            with self._trouble(f"starting a container of {spec.image}"):
                container_id = self._create(spec, inside)
                self._engine.client.api.start(container_id)
                url = self._url(spec, inside, container_id)
                self.url = url
                return url
        except BaseException as error:
            if isinstance(error, ContainerError):
                explain(error, spec)
            self._undo(error)
            raise

    def _create(self, spec: ContainerSpec, inside: int) -> str:
        from docker.errors import APIError

        host = self.host or self._engine.address.host
        arguments = spec.docker_arguments()
        if not spec.egress:
            arguments["network"] = no_egress(self._engine)
        elif spec.network != "host":
            bind = "127.0.0.1" if is_loopback(host) else "0.0.0.0"
            arguments["ports"] = {f"{inside}/tcp": (bind, spec.port or 0)}
        arguments["environment"] = {"OPENENV_TRACEBACKS": "1", **arguments.get("environment", {})}
        arguments["labels"] = {**spec.labels, **owner_labels(OWNER.session, port=inside, keep=spec.keep)}
        for tries in range(1, _NAME_TRIES + 1):
            self._container_name = spec.name or fresh_name(spec.image)
            try:
                made = self._engine.client.containers.create(**arguments, name=self._container_name, detach=True)
            except APIError as error:
                if spec.name or tries == _NAME_TRIES or not is_taken(error):
                    raise
            else:
                self._container_id = made.id
                return str(made.id)
        raise AssertionError("the last try raises or returns")

    def _url(self, spec: ContainerSpec, inside: int, container_id: str) -> str:
        """The address of the server, as soon as the engine has bound its port."""
        host = self.host or self._engine.address.host
        host = f"[{host}]" if ":" in host else host
        deadline = time.monotonic() + _BIND_S
        while True:
            attributes = self._engine.client.api.inspect_container(container_id)
            settings = attributes["NetworkSettings"]
            bound = settings["Ports"].get(f"{inside}/tcp")
            if not spec.egress:
                (own,) = settings["Networks"].values()
                if own["IPAddress"]:
                    return f"http://{own['IPAddress']}:{inside}"
            elif bound:
                return f"http://{host}:{bound[0]['HostPort']}"
            elif spec.network == "host" and attributes["State"]["Running"]:
                return f"http://{host}:{inside}"
            if (dead := self.failure()) is not None:
                raise dead
            if time.monotonic() > deadline:
                raise ContainerError(
                    f"{self._who()} has no port on this machine after {_BIND_S:g} s",
                    remedy="An internal network publishes no ports; name another, or none.",
                )
            time.sleep(0.01)

    def _undo(self, error: BaseException) -> None:
        """Remove what a start that failed has made. The cause is not hidden by what goes wrong here."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        # Where the engine said no, it made nothing.
        unseen = self._container_name is not None and not isinstance(error, ContainerStartFailed)
        try:
            for made in [self._container_id] if self._container_id else self._made_unseen() if unseen else []:
                remove_container(self._engine.client, made)
        except (DockerException, RequestException, ContainerError) as trouble:
            OWNER.doubt()
            error.add_note(f"the container {self._container_name} could not be removed: {trouble}")
        self._forget()
        self._engine.rest()

    def _made_unseen(self) -> list[str]:
        """Ids of what the engine made although its answer did not arrive. Never what only has the same name."""
        # The engine may be about to make it.
        OWNER.doubt()
        filters = {"name": f"^/{re.escape(self._container_name or '')}$", "label": f"{SESSION}={OWNER.session}"}
        return [found["Id"] for found in self._engine.client.api.containers(all=True, filters=filters)]

    def _trouble(self, doing: str) -> Any:
        return engine_trouble(doing, self._engine.address.url)

    def _who(self) -> str:
        return f"the container {self._container_name} of {self._spec.image}"

    def _hint(self) -> str:
        if self._spec.trusted:
            return ""
        return "If the image needs capabilities or privileges of root, start it with trusted=True."


def _after_fork() -> None:
    """Threads of the parent that were starting something are not here to give their places back."""
    global _starts
    _starts = threading.BoundedSemaphore(_STARTS_AT_ONCE)


os.register_at_fork(after_in_child=_after_fork)
