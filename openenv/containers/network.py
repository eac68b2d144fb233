"""A network that leads nowhere: for environments that need no network, and must not have one."""

from __future__ import annotations

import sys
import threading
from typing import Any

from openenv.containers.engine import Engine, engine_trouble
from openenv.containers.labels import SDK
from openenv.core.errors import ConfigurationError

NAME = "openenv-no-egress"
_making = threading.Lock()


def no_egress(engine: Engine) -> str:
    """Id of a network of ``engine`` whose containers reach neither the outside nor each other.

    This machine reaches them by their addresses. They reach services of this machine that listen on all addresses.

    Raises:
        ConfigurationError: The engine is not on this machine, so that nobody here could reach the container.
    """
    if not engine.address.url.startswith("unix:") or not sys.platform.startswith("linux"):
        raise ConfigurationError(
            f"egress=False works with an engine on this Linux machine only; this one is at {engine.address.url}",
            remedy="Make an internal network there, and use the server by its URL from a machine that is on it.",
        )
    with _making:
        return _ours(engine) or _make(engine)


def _ours(engine: Engine) -> str | None:
    """The network; the first where two processes made it at once, so that both come to the same one."""
    api: Any = engine.client.api
    found = [one for one in api.networks(names=[NAME]) if one["Name"] == NAME and SDK in (one.get("Labels") or {})]
    return min((str(one["Id"]) for one in found), default=None)


def _make(engine: Engine) -> str:
    api: Any = engine.client.api
    options = {"com.docker.network.bridge.enable_icc": "false"}
    made = api.create_network(NAME, driver="bridge", internal=True, options=options, labels={SDK: "network"})["Id"]
    first = _ours(engine) or made
    if first != made:
        api.remove_network(made)
    return str(first)


def remove_network(engine: Engine) -> None:
    """Remove the network, unless a container is on it, running or not."""
    api: Any = engine.client.api
    with engine_trouble(f"removing the network {NAME}", engine.address.url):
        made = _ours(engine)
        if made is not None and not api.containers(all=True, filters={"network": made}):
            api.remove_network(made)
