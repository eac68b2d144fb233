"""What to tell people where the engine's own words, or silence, would leave them alone."""

from __future__ import annotations

import re
import socket
import struct
from typing import TYPE_CHECKING

from openenv.containers.spec import ContainerSpec
from openenv.core.errors import ContainerError

if TYPE_CHECKING:
    from docker import DockerClient

_LISTENS = "0A"
_LATER = "If it only needs longer, say LocalDockerProvider(start_timeout_s=...)."


def explain(error: ContainerError, spec: ContainerSpec) -> None:
    """Add a remedy where the engine refused to start the container for a known reason."""
    said = error.message
    if re.search(r"address already in use|port is already allocated", said):
        error.message = f"port {spec.port} is taken on the engine's machine. {said}"
        error.remedy = "Leave port out, and the engine picks a free one."
    elif "could not select device driver" in said:
        error.remedy = "This engine has no GPU support; install the NVIDIA container toolkit there, or leave gpus out."
    elif "executable file not found" in said or "no such file or directory" in said:
        error.remedy = "The image has no such command; see command= and entrypoint=."
    elif "already in use by container" in said and spec.name:
        error.remedy = "Leave name out, and a free one is made up; or remove that container."
    elif re.search(r"network \S+ not found", said):
        error.remedy = "`docker network ls` shows the networks that there are."


def why_not_ready(client: DockerClient, container_id: str, port: int) -> str:
    """What the ports that are listened on inside say about a server that does not answer on ``port``."""
    listening = _listening(client, container_id)
    if listening is None:
        return f"Port {port} inside was asked; if the server listens on another, say container_port=. {_LATER}"
    open_ports = {found for address, found in listening if not address.startswith("127.") and address != "::1"}
    if port in open_ports:
        return _LATER
    if any(found == port for _, found in listening):
        return "The server listens on 127.0.0.1 inside the container, out of reach; let it listen on 0.0.0.0."
    if open_ports:
        others = " or ".join(f"container_port={found}" for found in sorted(open_ports))
        return f"Port {port} inside was asked, and nothing listens there; say {others}."
    return f"Nothing listens on port {port} inside, nor on any other. {_LATER}"


def _listening(client: DockerClient, container_id: str) -> set[tuple[str, int]] | None:
    """Addresses and TCP ports that are listened on inside; ``None`` where nobody can tell."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    command = ["cat", "/proc/net/tcp", "/proc/net/tcp6"]
    try:
        made = client.api.exec_create(container_id, command, stderr=False)
        output: bytes = client.api.exec_start(made["Id"])
    except (DockerException, RequestException):
        return None
    if b"local_address" not in output:
        return None
    found = set()
    for line in output.decode("ascii", "replace").splitlines():
        parts = line.split()
        if len(parts) > 3 and parts[3] == _LISTENS:
            address, _, port = parts[1].partition(":")
            # 127.0.0.11 is the engine's own name server.
            if (text := _address(address)) != "127.0.0.11":
                found.add((text, int(port, 16)))
    return found


def _address(text: str) -> str:
    words = [struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8)]
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, b"".join(words))
