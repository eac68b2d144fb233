"""Where environments run: containers of a Docker engine, or child processes of this one."""

from __future__ import annotations

from openenv._lazy import lazy_names

_NAMES = {
    "Container": "openenv.containers.container",
    "ContainerProvider": "openenv.containers.provider",
    "ContainerSpec": "openenv.containers.spec",
    "DockerSwarmProvider": "openenv.containers.swarm",
    "LocalDockerProvider": "openenv.containers.docker",
    "LocalProcessProvider": "openenv.containers.process",
    "StandbyPool": "openenv.containers.standby",
    "start_many": "openenv.containers.many",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
