"""Atari 2600 games, emulated by the Arcade Learning Environment."""

from envs.atari_env.client import AtariEnv
from envs.atari_env.models import AtariAction, AtariObservation, AtariState

__all__ = ["AtariAction", "AtariEnv", "AtariObservation", "AtariState"]
