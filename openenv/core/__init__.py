"""The client: everything that a base install runs. Names are imported when they are touched."""

from __future__ import annotations

from openenv._lazy import lazy_names

_NAMES = {
    "Action": "openenv.core.types",
    "AsyncToolEnv": "openenv.core.tools",
    "ContainerProvider": "openenv.containers",
    "EnvClient": "openenv.core.env_client",
    "GenericAction": "openenv.core.generic_client",
    "GenericEnvClient": "openenv.core.generic_client",
    "GenericHTTPEnvClient": "openenv.core.generic_client",
    "HTTPEnvClient": "openenv.core.http_client",
    "LocalDockerProvider": "openenv.containers",
    "LocalProcessProvider": "openenv.containers",
    "Observation": "openenv.core.types",
    "OpenEnvError": "openenv.core.errors",
    "State": "openenv.core.types",
    "StepResult": "openenv.core.types",
    "SyncEnvClient": "openenv.core.sync_client",
    "Timeouts": "openenv.core.timing",
    "ToolEnv": "openenv.core.tools",
    "TypedHooks": "openenv.core.hooks",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
