"""``uvicorn envs.echo_env.server.app:app``."""

from __future__ import annotations

from envs.echo_env.models import EchoAction, EchoObservation, EchoState
from envs.echo_env.server.environment import EchoEnvironment
from openenv.server.app import create_app

app = create_app(EchoEnvironment, EchoAction, EchoObservation, EchoState, name="echo_env")
