"""Where environments run: containers of a Docker engine, or child processes of this one."""

from __future__ import annotations

from openenv._lazy import lazy_names

_NAMES = {
    "ContainerProvider": "openenv.containers.provider",
    "ContainerSpec": "openenv.containers.spec",
    "LocalDockerProvider": "openenv.containers.docker",
    "LocalProcessProvider": "openenv.containers.process",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
