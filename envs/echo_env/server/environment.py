"""The echo environment itself."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from envs.echo_env.models import EchoAction, EchoObservation, EchoState
from openenv.server.environment import Environment

REWARD_PER_CHARACTER = 0.1


class EchoEnvironment(Environment[EchoAction, EchoObservation, EchoState]):
    """Says back what it is told, and pays 0.1 for each character."""

    blocking: ClassVar[bool] = False

    def __init__(self) -> None:
        self.state = EchoState(episode_id=str(uuid4()))

    def reset(self, episode_id: str | None = None) -> EchoObservation:
        """Begin an episode, called ``episode_id`` where that is given."""
        self.state = EchoState(episode_id=episode_id or str(uuid4()))
        return EchoObservation(echoed_message="Echo environment ready!", reward=0.0)

    def step(self, action: EchoAction) -> EchoObservation:
        """Say back the message of ``action``."""
        self.state.step_count += 1
        length = len(action.message)
        return EchoObservation(
            echoed_message=action.message,
            message_length=length,
            reward=length * REWARD_PER_CHARACTER,
            metadata={"original_message": action.message, "step": self.state.step_count},
        )
