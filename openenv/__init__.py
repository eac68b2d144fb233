"""Environments in containers, for people who train agents.

::

    from envs.echo_env import EchoAction, EchoEnv

    with EchoEnv.from_docker_image("echo-env:latest") as env:
        env.reset(seed=7)
        print(env.step(EchoAction(message="hello")).reward)
"""

from __future__ import annotations

from openenv._lazy import lazy_names
from openenv._version import __version__ as __version__

_NAMES = {
    "HTTPEnvClient": "openenv.core.http_client",
    "StepResult": "openenv.core.types",
    "SyncEnvClient": "openenv.core.sync_client",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
