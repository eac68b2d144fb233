"""Clients without model classes: dicts in, dicts out."""

from __future__ import annotations

from typing import Any

from openenv.core import codec
from openenv.core.env_client import EnvClient
from openenv.core.hooks import Hooks, truncated_of
from openenv.core.http_client import HTTPEnvClient
from openenv.core.types import StepResult

Fields = dict[str, Any]


class GenericAction(dict[str, Any]):
    """An action as keywords: ``GenericAction(code="print(1)")``."""

    def __repr__(self) -> str:
        return f"GenericAction({', '.join(f'{key}={value!r}' for key, value in self.items())})"


class GenericHooks(Hooks[Any, Fields, Fields]):
    """The hooks of any environment: a dict (or what can be read as one) in, dicts out."""

    def _step_payload(self, action: Any) -> Fields:
        return codec.fields(action)

    def _parse_result(self, payload: Fields) -> StepResult[Fields]:
        observation = payload.get("observation")
        metadata = payload.get("metadata")
        return StepResult(
            observation if observation is not None else {},
            payload.get("reward"),
            bool(payload.get("done", False)),
            metadata,
            payload.get("terminated"),
            truncated_of(payload, metadata),
        )

    def _parse_state(self, payload: Fields) -> Fields:
        return payload


class GenericEnvClient(GenericHooks, EnvClient[Any, Fields, Fields]):
    """An asynchronous client of any environment; ``sync()`` gives it for plain code.

    ::

        with GenericEnvClient(base_url="http://localhost:8000").sync() as env:
            env.reset()
            env.step({"code": "print('hello')"})
    """


class GenericHTTPEnvClient(GenericHooks, HTTPEnvClient[Any, Fields, Fields]):
    """A synchronous client of any environment, without an event loop."""
