"""Runs Python code, a step at a time, in an interpreter of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv._lazy import lazy_names

if TYPE_CHECKING:
    from envs.coding_env.client import CodingEnv as CodingEnv
    from envs.coding_env.models import CodeAction as CodeAction
    from envs.coding_env.models import CodeObservation as CodeObservation
    from envs.coding_env.models import CodeState as CodeState

# Touched one by one: the server needs the models, and not the client with its HTTP library.
_NAMES = {
    "CodeAction": "envs.coding_env.models",
    "CodeObservation": "envs.coding_env.models",
    "CodeState": "envs.coding_env.models",
    "CodingEnv": "envs.coding_env.client",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
