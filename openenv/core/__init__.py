"""The client: everything that a base install runs. Names are imported when they are touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv._lazy import lazy_names

if TYPE_CHECKING:  # for type checkers; a test holds that both lists agree
    from openenv.containers import ContainerProvider as ContainerProvider
    from openenv.containers import LocalDockerProvider as LocalDockerProvider
    from openenv.containers import LocalProcessProvider as LocalProcessProvider
    from openenv.core.env_client import EnvClient as EnvClient
    from openenv.core.errors import CallTimeout as CallTimeout
    from openenv.core.errors import CapacityError as CapacityError
    from openenv.core.errors import ContainerError as ContainerError
    from openenv.core.errors import EpisodeLost as EpisodeLost
    from openenv.core.errors import OpenEnvError as OpenEnvError
    from openenv.core.generic_client import GenericAction as GenericAction
    from openenv.core.generic_client import GenericEnvClient as GenericEnvClient
    from openenv.core.generic_client import GenericHTTPEnvClient as GenericHTTPEnvClient
    from openenv.core.hooks import TypedHooks as TypedHooks
    from openenv.core.http_client import HTTPEnvClient as HTTPEnvClient
    from openenv.core.sync_client import SyncEnvClient as SyncEnvClient
    from openenv.core.timing import Timeouts as Timeouts
    from openenv.core.tool_action import CallToolAction as CallToolAction
    from openenv.core.tools import AsyncToolEnv as AsyncToolEnv
    from openenv.core.tools import ToolEnv as ToolEnv
    from openenv.core.types import Action as Action
    from openenv.core.types import Observation as Observation
    from openenv.core.types import State as State
    from openenv.core.types import StepResult as StepResult

_NAMES = {
    "Action": "openenv.core.types",
    "AsyncToolEnv": "openenv.core.tools",
    "CallTimeout": "openenv.core.errors",
    "CallToolAction": "openenv.core.tool_action",
    "CapacityError": "openenv.core.errors",
    "ContainerError": "openenv.core.errors",
    "ContainerProvider": "openenv.containers",
    "EnvClient": "openenv.core.env_client",
    "EpisodeLost": "openenv.core.errors",
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
