"""Environments in containers, for people who train agents.

::

    from envs.echo_env import EchoAction, EchoEnv

    with EchoEnv.from_docker_image("echo-env:latest") as env:
        env.reset(seed=7)
        print(env.step(EchoAction(message="hello")).reward)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv import _clash
from openenv._lazy import lazy_names
from openenv._version import __version__ as __version__

_clash.check()
_clash.explain_shadowed_envs()

if TYPE_CHECKING:  # for type checkers; a test holds that both lists agree
    from openenv.auto import AutoAction as AutoAction
    from openenv.auto import AutoEnv as AutoEnv
    from openenv.core.errors import OpenEnvError as OpenEnvError
    from openenv.core.generic_client import GenericAction as GenericAction
    from openenv.core.generic_client import GenericEnvClient as GenericEnvClient
    from openenv.core.http_client import HTTPEnvClient as HTTPEnvClient
    from openenv.core.sync_client import SyncEnvClient as SyncEnvClient
    from openenv.core.types import StepResult as StepResult

_NAMES = {
    "AutoAction": "openenv.auto",
    "AutoEnv": "openenv.auto",
    "GenericAction": "openenv.core.generic_client",
    "GenericEnvClient": "openenv.core.generic_client",
    "HTTPEnvClient": "openenv.core.http_client",
    "OpenEnvError": "openenv.core.errors",
    "StepResult": "openenv.core.types",
    "SyncEnvClient": "openenv.core.sync_client",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
