"""Why a container ended, in words."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openenv.core.errors import ContainerDied, ContainerError, ContainerStartFailed

if TYPE_CHECKING:
    from docker import DockerClient

_LINES = 50
_BYTES = 8192
#: Exit codes that a shell or the engine gives.
_CODES = {
    125: "the engine could not run it",
    126: "its command cannot be executed",
    127: "its command, or a library that it needs, was not found",
}


def death(
    client: DockerClient, state: Mapping[str, Any], container_id: str, who: str, *, ready: bool, hint: str, memory: Any
) -> ContainerError:
    """The error for a container that has ended.

    Args:
        client: Connection to its engine.
        state: Its ``State`` as the engine inspects it.
        container_id: Its id.
        who: What to call it.
        ready: Whether it was ready once.
        hint: What may help where it ended by itself before it was ready.
        memory: Its memory limit, for the remedy.
    """
    code = int(state.get("ExitCode") or 0)
    oom = bool(state.get("OOMKilled")) or (code == 137 and _ran_out_of_memory(client, state, container_id))
    told = state.get("Error") or ""
    text = f"{who} ended with exit code {code}{_meaning(code, oom)}{'' if ready else ' before it was ready'}"
    if told:
        text = f"{text}: {told}"
    remedy = hint if not ready and code < 128 and code not in _CODES else ""
    if oom:
        limit = f"it was {memory}" if memory else "it had none of its own"
        remedy = f"Raise its limit with memory= ({limit})."
    kind = ContainerDied if ready else ContainerStartFailed
    return kind(text, remedy=remedy, exit_code=code, oom_killed=oom, logs=log_tail(client, container_id))


def log_tail(client: DockerClient, container_id: str, lines: int = _LINES) -> str:
    """The last lines of what the container printed, at most 8 KiB; empty where they cannot be had."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        data: bytes = client.api.logs(container_id, stdout=True, stderr=True, tail=lines)
    except (DockerException, RequestException):
        return ""
    return data[-_BYTES:].decode("utf-8", "replace")


def _meaning(code: int, oom: bool) -> str:
    if oom:
        return " (out of memory)"
    if code in _CODES:
        return f" ({_CODES[code]})"
    if code > 128:
        try:
            return f" ({signal.Signals(code - 128).name})"
        except ValueError:
            return ""
    return ""


def _ran_out_of_memory(client: DockerClient, state: Mapping[str, Any], container_id: str) -> bool:
    """Under an init process the engine's flag stays false; its events tell."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    filters = {"container": container_id, "event": "oom", "type": "container"}
    try:
        events = client.api.events(since=0, until=int(time.time()) + 1, filters=filters, decode=True)
        try:
            return next(iter(events), None) is not None
        finally:
            events.close()
    except (DockerException, RequestException):
        return False
