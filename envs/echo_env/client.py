"""The client of the echo environment."""

from __future__ import annotations

from typing import ClassVar

from envs.echo_env.models import EchoAction, EchoObservation, EchoState
from openenv.core.hooks import TypedHooks
from openenv.core.http_client import HTTPEnvClient


class EchoHooks(TypedHooks[EchoAction, EchoObservation, EchoState]):
    observation_defaults: ClassVar = {"echoed_message": ""}


class EchoEnv(EchoHooks, HTTPEnvClient[EchoAction, EchoObservation, EchoState]):
    """Says back what it is told, and pays 0.1 for each character.

    ::

        with EchoEnv.from_docker_image("echo-env:latest") as env:
            env.reset()
            result = env.step(EchoAction(message="hello"))   # result.reward == 0.5
    """
