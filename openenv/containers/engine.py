"""The Docker engine: where it is, a connection to it, and what is said when there is none."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from openenv.core.errors import ContainerError, ContainerStartFailed, EngineUnavailable
from openenv.core.protocol import is_loopback

if TYPE_CHECKING:
    from docker import DockerClient

#: Limit of one call to the engine in seconds. Engines get slow when much starts at once.
CALL_S = 180.0
_REMEDY = (
    "Install Docker or start it; or point DOCKER_HOST at an engine; or use a server that runs already, by its URL; "
    "or from_process(), which needs no engine."
)


_importing = threading.Lock()


def import_docker() -> None:
    """Import docker-py, whose modules import each other in circles: two threads that begin at two of them both fail."""
    with _importing:
        import docker.context
        import docker.errors
        import docker.tls
        import docker.types  # noqa: F401


def _after_fork() -> None:
    global _importing
    _importing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class Address:
    """Where an engine listens.

    Attributes:
        url: ``unix://``, ``tcp://``, ``ssh://`` ...
        source: Who says so, in words.
        ca, cert, key: Paths of PEM files where the engine wants TLS.
        tls: Whether to speak TLS.
        verify: Whether to check the engine's certificate.
    """

    url: str
    source: str = ""
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True

    @property
    def host(self) -> str:
        """Host of the ports that this engine publishes, as this process reaches it."""
        parts = urlsplit(self.url)
        if parts.scheme in ("tcp", "http", "https", "ssh") and parts.hostname:
            return "127.0.0.1" if is_loopback(parts.hostname) else parts.hostname
        return "127.0.0.1"

    def open(self, timeout_s: float = CALL_S) -> DockerClient:
        """A connection to the engine. Asks it for its version.

        Raises:
            DockerException, OSError: No engine answers there.
        """
        import_docker()
        import docker
        from docker.tls import TLSConfig

        arguments: dict[str, Any] = {"base_url": self.url, "timeout": timeout_s, "max_pool_size": 8}
        if self.tls:
            pair = (self.cert, self.key) if self.cert and self.key else None
            arguments["tls"] = TLSConfig(client_cert=pair, ca_cert=self.ca, verify=self.verify)
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            # docker-py leaves its socket open where nobody answers.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(timeout_s)
                probe.connect(parts.path)
        elif parts.scheme == "ssh":
            arguments["use_ssh_client"] = True
        elif parts.scheme in ("tcp", "http", "https") and is_loopback(parts.hostname or ""):
            # The constructor asks for the version; no proxy may come in between.
            plain = docker.DockerClient(version="1.24", **arguments)
            plain.api.trust_env = False
            try:
                arguments["version"] = plain.version(api_version=False)["ApiVersion"]
            finally:
                plain.close()
        client = docker.DockerClient(**arguments)
        client.api.trust_env = "version" not in arguments
        return client


class Engine:
    """An engine that answered once. Usable after a fork: the child opens a connection of its own."""

    def __init__(self, address: Address, client: DockerClient, *, owned: bool = True) -> None:
        self.address = address
        self._client: DockerClient | None = client
        self._owned = owned
        self._pid = os.getpid()

    @classmethod
    def find(cls) -> Engine:
        """The engine that ``docker`` on the command line would use, else one at a usual place.

        Raises:
            EngineUnavailable: None answers; says where it was looked for.
        """
        import_docker()
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        tried = []
        for address in addresses():
            try:
                return cls(address, address.open())
            except (DockerException, RequestException, OSError) as error:
                tried.append(f"{address.url} ({address.source}): {_reason(error, address)}")
        raise EngineUnavailable(f"no Docker engine answers. Tried {'; '.join(tried)}", remedy=_REMEDY)

    @classmethod
    def around(cls, client: DockerClient) -> Engine:
        """The engine of a connection that somebody else made, and closes."""
        import_docker()
        return cls(_address_of(client), client, owned=False)

    @property
    def client(self) -> DockerClient:
        """The connection, made anew where there is none in this process."""
        if self._client is None or self._pid != os.getpid():
            with engine_trouble("connecting to it", self.address.url):
                self._client = self.address.open()
            self._pid, self._owned = os.getpid(), True
        return self._client

    def rest(self) -> None:
        """Close idle sockets; the next call opens new ones."""
        if self._owned and self._client is not None and self._pid == os.getpid():
            self._client.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address, "_client": None, "_owned": True, "_pid": 0}


def addresses() -> Iterator[Address]:
    """Where to look for an engine, in order. What the user names is the only place that is looked at."""
    environ = os.environ
    if host := environ.get("DOCKER_HOST"):
        certs = environ.get("DOCKER_CERT_PATH") or str(Path.home() / ".docker")
        verify = bool(environ.get("DOCKER_TLS_VERIFY"))
        if verify or (environ.get("DOCKER_CERT_PATH") and not host.startswith(("unix:", "ssh:"))):
            files = {name: os.path.join(certs, f"{name}.pem") for name in ("ca", "cert", "key")}
            yield Address(host, "DOCKER_HOST", tls=True, verify=verify, **files)
        else:
            yield Address(host, "DOCKER_HOST")
        return
    if (context := _context()) is not None:
        yield context
        return
    usual = ["/var/run/docker.sock", *_private_sockets()]
    present = [path for path in usual if os.path.exists(path)]
    for path in present or usual[:1]:
        yield Address(f"unix://{path}", "DOCKER_HOST is not set")


def _private_sockets() -> Iterator[str]:
    home = Path.home()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield from (f"{runtime}/docker.sock", f"{home}/.docker/run/docker.sock", f"{home}/.orbstack/run/docker.sock")
    yield from (f"{home}/.colima/default/docker.sock", f"{home}/.rd/docker.sock")
    yield from (f"{runtime}/podman/podman.sock", "/run/podman/podman.sock")


def _context() -> Address | None:
    """The engine of the active context of the ``docker`` command, unless that is the default one."""
    import_docker()
    from docker.context import ContextAPI
    from docker.context.config import get_current_context_name
    from docker.errors import DockerException

    name = os.environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if name == "default":
        return None
    source = f"the Docker context {name!r}"
    try:
        context = ContextAPI.get_context(name)
    except DockerException as error:
        raise EngineUnavailable(f"{source} cannot be read: {error}", remedy="See `docker context ls`.") from error
    host: str | None = getattr(context, "Host", None)
    if not host:
        raise EngineUnavailable(f"{source} does not exist", remedy="See `docker context ls`.")
    tls: Any = getattr(context, "TLSConfig", None)
    if tls is None:
        return Address(host, source)
    cert, key = getattr(tls, "cert", None) or (None, None)
    return Address(host, source, tls=True, ca=tls.ca_cert, cert=cert, key=key, verify=bool(tls.verify))


def _address_of(client: DockerClient) -> Address:
    api: Any = client.api
    socket_path = getattr(getattr(api, "_custom_adapter", None), "socket_path", None)
    if socket_path:
        return Address(f"unix://{socket_path}", "the client given")
    cert, key = api.cert if isinstance(api.cert, tuple) else (None, None)
    ca = api.verify if isinstance(api.verify, str) else None
    tls = api.base_url.startswith("https:")
    return Address(api.base_url, "the client given", tls=tls, ca=ca, cert=cert, key=key, verify=bool(api.verify))


def _reason(error: BaseException, address: Address) -> str:
    chain: list[Any] = [error]
    for item in chain:
        if isinstance(item, PermissionError):
            return "this user may not use it (add the user to the group `docker`, and log in again)"
        if isinstance(item, FileNotFoundError) and address.url.startswith("unix:"):
            return "there is no such socket"
        if isinstance(item, ConnectionRefusedError):
            return "nobody listens there"
        more = [*getattr(item, "args", ()), item.__cause__, item.__context__]
        chain += [part for part in more if isinstance(part, BaseException) and part not in chain]
    return str(error)


@contextmanager
def engine_trouble(doing: str, where: str) -> Iterator[None]:
    """Turn what docker-py raises into ours.

    Raises:
        EngineUnavailable: The engine did not answer.
        ContainerStartFailed: It answered that it cannot.
    """
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except ContainerError:
        raise
    except APIError as error:
        told = error.explanation or str(error)
        raise ContainerStartFailed(f"the Docker engine failed at {doing}: {told}", status=error.status_code) from error
    except (DockerException, RequestException, OSError) as error:
        text = f"the Docker engine at {where} did not answer at {doing}: {error}"
        raise EngineUnavailable(text, remedy="Is it running? `docker info` asks the same engine.") from error
