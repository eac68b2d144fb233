"""The client of the Atari environment."""

from __future__ import annotations

from typing import Any, ClassVar

from envs.atari_env.models import AtariAction, AtariObservation, AtariState
from openenv.core.hooks import TypedHooks
from openenv.core.http_client import HTTPEnvClient
from openenv.core.types import StepResult


class AtariHooks(TypedHooks[AtariAction, AtariObservation, AtariState]):
    observation_defaults: ClassVar = {"screen": [], "screen_shape": [], "legal_actions": []}
    state_defaults: ClassVar = {"game_name": "unknown"}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[AtariObservation]:
        result = super()._parse_result(payload)
        result.observation.terminated = result.terminated
        result.observation.truncated = result.truncated
        return result


class AtariEnv(AtariHooks, HTTPEnvClient[AtariAction, AtariObservation, AtariState]):
    """An Atari game.

    ::

        with AtariEnv.from_docker_image("atari-env:latest", env_vars={"ATARI_GAME": "breakout"}) as env:
            result = env.reset(seed=7)
            while not result.done:
                result = env.step(AtariAction(random.choice(result.observation.legal_actions)))

    Options of ``reset``, each for that episode only, are those of the server's variables: ``game_name``, ``obs_type``,
    ``full_action_space``, ``mode``, ``difficulty``, ``repeat_action_probability``, ``frameskip``, ``max_frames``,
    ``life_loss``.
    """
