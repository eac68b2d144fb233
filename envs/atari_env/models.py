"""What the Atari environment says and hears."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any

import msgspec
from dataclasses_json import config

from envs.atari_env.picture import Picture
from openenv.core.types import Action, Observation, State

#: An array of uint8 where numpy is installed, else the flat list of its elements.
Screen = Annotated[Any, msgspec.Meta(extra_json_schema={"type": "array", "items": {"type": "integer"}})]


@dataclass
class AtariAction(Action):
    """Press what ``action_id`` stands for, for as many frames as the server's frameskip.

    The other fields are those of the first generation of clients: the server's own settings decide.
    """

    action_id: int
    game_name: str = "pong"
    obs_type: str = "rgb"
    full_action_space: bool = False


def _flat(screen: Any) -> list[int]:
    return list(_data(screen))


def _data(screen: Any) -> bytes:
    return screen.tobytes() if hasattr(screen, "tobytes") else bytes(screen)


@dataclass(kw_only=True, eq=False)
class AtariObservation(Observation):
    """What is on the screen.

    Attributes:
        screen: An array of uint8 of the shape ``screen_shape``; where numpy is not installed, the flat list of its
            elements.
        screen_shape: ``[height, width, 3]`` for rgb, ``[height, width]`` for grayscale, ``[128]`` for ram.
        legal_actions: What ``action_id`` may be.
        lives: Lives that are left; 0 in games that know none.
        episode_frame_number: Frames of the emulator since the episode began.
        frame_number: Frames of the emulator since its game was loaded.
        terminated: The game is over.
        truncated: The cap on frames was reached.
    """

    screen: Screen = field(metadata=config(encoder=_flat))
    screen_shape: list[int]
    legal_actions: list[int]
    lives: int = 0
    episode_frame_number: int = 0
    frame_number: int = 0
    terminated: bool | None = None
    truncated: bool | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.screen_shape)
        numpy = _numpy() if shape else None
        if numpy is None or getattr(self.screen, "shape", None) == shape or len(self.screen) != math.prod(shape):
            return
        # By way of bytes it takes a third of the time of numpy.asarray(list).
        flat = numpy.frombuffer(bytearray(self.screen), numpy.uint8) if isinstance(self.screen, list) else self.screen
        self.screen = flat.reshape(shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AtariObservation):
            return NotImplemented
        same = all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name != "screen")
        return same and _data(self.screen) == _data(other.screen)

    def render(self, scale: int = 2) -> Picture:
        """The screen as a picture, each pixel ``scale`` pixels wide and high; the memory as 8 rows of 16 grey squares.

        Raises:
            ValueError: There is no screen, or ``scale`` is not positive.
        """
        shape = [8, 16] if self.screen_shape == [128] else self.screen_shape
        if len(shape) not in (2, 3):
            raise ValueError(f"a screen of shape {self.screen_shape} cannot be shown; rgb, grayscale and ram can")
        return Picture.of(
            _data(self.screen),
            height=shape[0],
            width=shape[1],
            channels=shape[2] if len(shape) == 3 else 1,
            scale=scale,
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if not self.screen_shape:
            return "<p>no screen</p>"
        facts = f"frame {self.episode_frame_number}, lives {self.lives}, reward {self.reward}"
        return f"{self.render().html()}<br>{facts}{', done' if self.done else ''}"


@dataclass(kw_only=True)
class AtariState(State):
    """Where the episode stands, and the settings that hold for it."""

    game_name: str = "pong"
    obs_type: str = "rgb"
    full_action_space: bool = False
    mode: int | None = None
    difficulty: int | None = None
    repeat_action_probability: float = 0.0
    frameskip: int = 4


@cache
def _numpy() -> Any:
    """The module, or ``None`` where it is not installed. Not imported before there is something to put into it."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy
