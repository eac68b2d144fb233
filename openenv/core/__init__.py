"""The client: everything that a base install runs. Names are imported when they are touched."""

from __future__ import annotations

from openenv._lazy import lazy_names

_NAMES = {
    "Action": "openenv.core.types",
    "ContainerProvider": "openenv.containers",
    "HTTPEnvClient": "openenv.core.http_client",
    "LocalDockerProvider": "openenv.containers",
    "LocalProcessProvider": "openenv.containers",
    "Observation": "openenv.core.types",
    "OpenEnvError": "openenv.core.errors",
    "State": "openenv.core.types",
    "StepResult": "openenv.core.types",
    "SyncEnvClient": "openenv.core.sync_client",
    "Timeouts": "openenv.core.timing",
    "TypedHooks": "openenv.core.hooks",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
