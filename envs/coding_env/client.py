"""The client of the coding environment."""

from __future__ import annotations

from typing import Any

from envs.coding_env.models import CodeAction, CodeObservation, CodeState
from openenv.core.hooks import TypedHooks
from openenv.core.http_client import HTTPEnvClient
from openenv.core.types import StepResult


class CodingHooks(TypedHooks[CodeAction, CodeObservation, CodeState]):
    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CodeObservation]:
        if "observation" not in payload:
            # Silence must not look like code that ran and wrote nothing.
            raise KeyError(f"the answer has no 'observation': {payload!r:.200}")
        return super()._parse_result(payload)


class CodingEnv(CodingHooks, HTTPEnvClient[CodeAction, CodeObservation, CodeState]):
    r"""Runs Python code.

    ::

        with CodingEnv.from_docker_image("coding-env:latest") as env:
            env.reset()
            env.step(CodeAction("x = 6 * 7"))
            result = env.step(CodeAction("print(x)"))     # result.observation.stdout == "42\n"

    Option of ``reset``: ``step_timeout_s``, seconds that a step of that episode may take.
    """
