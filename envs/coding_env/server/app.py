"""``uvicorn envs.coding_env.server.app:app``."""

from __future__ import annotations

import functools

from envs.coding_env.models import CodeAction, CodeObservation, CodeState
from envs.coding_env.server.environment import CodingEnvironment
from envs.coding_env.server.settings import Settings
from openenv.server.app import create_app

# Settings are read here, so that a server with a wrong variable ends at once and says why.
app = create_app(
    functools.partial(CodingEnvironment, Settings.from_variables()),
    CodeAction,
    CodeObservation,
    CodeState,
    name="coding_env",
)
