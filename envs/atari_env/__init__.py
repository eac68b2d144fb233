"""Atari 2600 games, emulated by the Arcade Learning Environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv._lazy import lazy_names

if TYPE_CHECKING:
    from envs.atari_env.client import AtariEnv as AtariEnv
    from envs.atari_env.models import AtariAction as AtariAction
    from envs.atari_env.models import AtariObservation as AtariObservation
    from envs.atari_env.models import AtariState as AtariState

# Touched one by one: the server needs the models, and not the client with its HTTP library.
_NAMES = {
    "AtariAction": "envs.atari_env.models",
    "AtariEnv": "envs.atari_env.client",
    "AtariObservation": "envs.atari_env.models",
    "AtariState": "envs.atari_env.models",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
