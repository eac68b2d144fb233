"""The echo environment: says back what it is told. The smallest whole environment, and the first to try."""

from envs.echo_env.client import EchoEnv
from envs.echo_env.models import EchoAction, EchoObservation, EchoState

__all__ = ["EchoAction", "EchoEnv", "EchoObservation", "EchoState"]
