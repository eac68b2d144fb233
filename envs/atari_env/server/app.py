"""``uvicorn envs.atari_env.server.app:app``."""

from __future__ import annotations

import functools

from envs.atari_env.models import AtariAction, AtariObservation, AtariState
from envs.atari_env.server.environment import AtariEnvironment
from envs.atari_env.server.settings import Settings
from openenv.server.app import create_app

# Read here, so that a server with a wrong variable ends at once and says why.
app = create_app(
    functools.partial(AtariEnvironment, Settings.from_variables()),
    AtariAction,
    AtariObservation,
    AtariState,
    name="atari_env",
)
