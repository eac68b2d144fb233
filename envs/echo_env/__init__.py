"""The echo environment: says back what it is told. The smallest whole environment, and the first to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv._lazy import lazy_names

if TYPE_CHECKING:
    from envs.echo_env.client import EchoEnv as EchoEnv
    from envs.echo_env.models import EchoAction as EchoAction
    from envs.echo_env.models import EchoObservation as EchoObservation
    from envs.echo_env.models import EchoState as EchoState

# Touched one by one: the server needs the models, and not the client with its HTTP library.
_NAMES = {
    "EchoAction": "envs.echo_env.models",
    "EchoEnv": "envs.echo_env.client",
    "EchoObservation": "envs.echo_env.models",
    "EchoState": "envs.echo_env.models",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
