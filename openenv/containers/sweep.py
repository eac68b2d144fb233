"""Removing the containers of an owner that is no more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from openenv.containers.engine import Address, import_docker
from openenv.containers.labels import KEEP, SESSION

if TYPE_CHECKING:
    from docker import DockerClient

_AT_ONCE = 4
#: Seconds between two looks. One more look than none found: the engine may still be making what the owner asked for
#: in its last moment.
_PAUSE_S = 1.0
_PATIENCE_S = 120.0


def sweep_session(address: Address, session: str) -> None:
    """Remove every container of ``session`` but those that are kept on purpose; gives up after two minutes."""
    import_docker()
    from docker.errors import DockerException

    deadline = time.monotonic() + _PATIENCE_S
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:
        try:
            client = address.open(timeout_s=30.0)
            try:
                quiet = 0 if _remove_all(client, session) else quiet + 1
            finally:
                client.close()
        except (DockerException, OSError):
            quiet = 0
        if quiet < 2:
            time.sleep(_PAUSE_S if quiet else 0.1)


def remove_services(client: DockerClient, session: str) -> int:
    """Remove the services of ``session``: a swarm would replace their containers. How many there were."""
    from docker.errors import APIError

    api: Any = client.api
    try:
        services = api.services(filters={"label": f"{SESSION}={session}"})
    except APIError:  # this engine manages no swarm
        return 0
    for service in services:
        api.remove_service(service["ID"])
    return len(services)


def _remove_all(client: DockerClient, session: str) -> int:
    services = remove_services(client, session)
    found = client.api.containers(all=True, filters={"label": f"{SESSION}={session}"})
    ids = [item["Id"] for item in found if KEEP not in (item.get("Labels") or {})]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda container_id: remove_container(client, container_id), ids))
    return len(ids) + services


def remove_container(client: DockerClient, container_id: str, timeout_s: float = 10.0) -> None:
    """Remove a container, running or not, with its anonymous volumes. One that is gone already is fine.

    Raises:
        DockerException: The engine cannot, or somebody else's removal does not end within ``timeout_s`` seconds.
    """
    from docker.errors import APIError, NotFound

    deadline = time.monotonic() + timeout_s
    while True:
        try:
            client.api.remove_container(container_id, v=True, force=True)
        except NotFound:
            return
        except APIError as error:
            in_progress = error.status_code == 409 and "already in progress" in (error.explanation or "")
            if not in_progress or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
