"""How a game is played: from the variables of the server, and from the options of ``reset``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from envs.atari_env.server.games import game_file

OBS_TYPES = ("rgb", "grayscale", "ram")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

#: The field, and how its text is read, of each variable.
_VARIABLES: dict[str, tuple[str, type]] = {
    "ATARI_GAME": ("game_name", str),
    "ATARI_OBS_TYPE": ("obs_type", str),
    "ATARI_FULL_ACTION_SPACE": ("full_action_space", bool),
    "ATARI_MODE": ("mode", int),
    "ATARI_DIFFICULTY": ("difficulty", int),
    "ATARI_REPEAT_ACTION_PROB": ("repeat_action_probability", float),
    "ATARI_FRAMESKIP": ("frameskip", int),
    "ATARI_MAX_FRAMES": ("max_frames", int),
    "ATARI_LIFE_LOSS": ("life_loss", bool),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a game is played.

    Attributes:
        game_name: Such as ``pong`` or ``space_invaders``.
        obs_type: ``rgb``, ``grayscale`` or ``ram``.
        full_action_space: All 18 actions, not only those that do something in this game.
        mode: One of the game's modes; ``None`` is its own default.
        difficulty: One of the game's difficulties; ``None`` is its own default.
        repeat_action_probability: Chance that a frame repeats the last action instead ("sticky actions").
        frameskip: Frames of the emulator for each step.
        max_frames: Frames after which an episode is truncated; ``None`` is no limit.
        life_loss: ``metadata["life_lost"]`` says with each step whether a life was lost.

    Raises:
        ValueError: A value cannot work.
    """

    game_name: str = "pong"
    obs_type: str = "rgb"
    full_action_space: bool = False
    mode: int | None = None
    difficulty: int | None = None
    repeat_action_probability: float = 0.0
    frameskip: int = 4
    max_frames: int | None = None
    life_loss: bool = False

    def __post_init__(self) -> None:
        game_file(self.game_name)
        if self.obs_type not in OBS_TYPES:
            raise ValueError(f"obs_type must be one of {', '.join(OBS_TYPES)}; got {self.obs_type!r}")
        _whole("frameskip", self.frameskip, 1)
        for name in ("mode", "difficulty", "max_frames"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1 if name == "max_frames" else 0)
        for name in ("full_action_space", "life_loss"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false; got {getattr(self, name)!r}")
        chance = self.repeat_action_probability
        if not _is_number(chance) or not 0 <= chance <= 1:
            raise ValueError(f"repeat_action_probability must be a number from 0 to 1; got {chance!r}")

    @classmethod
    def from_variables(cls, variables: Mapping[str, str] | None = None) -> Self:
        """The settings that ``variables`` (``os.environ``) say; an empty one is not given.

        Raises:
            ValueError: One of them cannot work; names it.
        """
        given = os.environ if variables is None else variables
        values = {}
        for variable, (name, kind) in _VARIABLES.items():
            text = given.get(variable, "").strip()
            if text:
                values[name] = _read(variable, text, kind)
        try:
            return cls(**values)
        except ValueError as error:
            shown = ", ".join(f"{variable}={given[variable]}" for variable in _VARIABLES if given.get(variable))
            raise ValueError(f"{error} (the variables are {shown})") from None

    def but(self, **options: Any) -> Self:
        """These, with the ``options`` that are not ``None`` instead.

        Raises:
            ValueError: One of them cannot work.
        """
        changed = {name: value for name, value in options.items() if value is not None}
        return dataclasses.replace(self, **changed) if changed else self


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 31:
        raise ValueError(f"{name} must be a whole number, {least} or more; got {value!r}")


def _read(variable: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text.lower() not in _TRUE + _FALSE:
            raise ValueError(f"{variable} must be true or false; got {text!r}")
        return text.lower() in _TRUE
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{variable} must be a number; got {text!r}") from None
