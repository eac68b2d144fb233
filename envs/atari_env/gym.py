"""Atari games as Gymnasium has them, with what its Atari wrappers ask for.

::

    env = to_gymnasium(AtariEnv("http://localhost:8000"), game_name="breakout", obs_type="grayscale", frameskip=1)
    env = FrameStackObservation(AtariPreprocessing(env), 4)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from envs.atari_env.client import AtariEnv
from envs.atari_env.models import AtariObservation
from openenv.core.errors import ConfigurationError
from openenv.integrations.gymnasium import GymnasiumEnv


class Emulator:
    """What wrappers ask the emulator, answered from the last observation."""

    def __init__(self, env: AtariGym) -> None:
        self._env = env

    def lives(self) -> int:
        """Lives that are left."""
        return self._env.seen.lives

    def getScreenRGB(self, into: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The screen in colours, written ``into`` an array where one is given."""
        return self._screen("rgb", into)

    def getScreenGrayscale(self, into: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The screen in grey, likewise."""
        return self._screen("grayscale", into)

    def _screen(self, wanted: str, into: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        screen: np.ndarray[Any, Any] = self._env.seen.screen
        if screen.ndim != (3 if wanted == "rgb" else 2):
            raise ConfigurationError(
                f"the {wanted} screen was asked for, and the environment sends another",
                remedy=f'Say to_gymnasium(..., obs_type="{wanted}").',
            )
        if into is None:
            return screen.copy()
        into[...] = screen
        return into


class AtariGym(GymnasiumEnv):
    """An Atari game; :func:`to_gymnasium` makes it."""

    def __init__(self, env: AtariEnv, render_mode: str | None, frameskip: int, options: dict[str, Any]) -> None:
        options["frameskip"] = frameskip
        first = env.reset(**options)
        self._seen: AtariObservation = first.observation
        self._frameskip = frameskip
        self._meanings = list((self._seen.metadata or {}).get("action_meanings", ()))
        super().__init__(
            env,
            "screen",
            "action_id",
            spaces.Box(0, 255, tuple(self._seen.screen_shape), np.uint8),
            spaces.Discrete(len(self._seen.legal_actions)),
            render_mode,
            options,
            None,
        )
        self.ale = Emulator(self)

    @property
    def seen(self) -> AtariObservation:
        """The last observation."""
        return self._seen if self._last is None else self._last.observation

    def get_action_meanings(self) -> list[str]:
        """What the actions are called, such as ``NOOP`` and ``FIRE``."""
        return self._meanings


def to_gymnasium(env: AtariEnv, *, render_mode: str | None = None, frameskip: int = 4, **options: Any) -> AtariGym:
    """A game as a ``gymnasium.Env``: the screen is seen, the number of the button is the action.

    Args:
        env: The client; ``close`` closes it.
        render_mode: ``"rgb_array"``, ``"ansi"``, or nothing.
        frameskip: Frames of the emulator for each step; 1 for wrappers that skip frames by themselves.
        **options: Options of the environment's reset, for every episode: ``game_name``, ``obs_type`` and so on.
    """
    return AtariGym(env, render_mode, frameskip, options)
