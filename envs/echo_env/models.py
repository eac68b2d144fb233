"""What the echo environment says and hears."""

from __future__ import annotations

from dataclasses import dataclass

from openenv.core.types import Action, Observation, State


@dataclass(kw_only=True)
class EchoAction(Action):
    """Say ``message``."""

    message: str


@dataclass(kw_only=True)
class EchoObservation(Observation):
    """What came back: the message and its length in characters."""

    echoed_message: str
    message_length: int = 0


@dataclass(kw_only=True)
class EchoState(State):
    """The episode's id and the number of steps since reset."""
