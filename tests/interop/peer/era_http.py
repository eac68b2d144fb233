"""The names that the first generation (0.1.1) has for what environments and clients need."""

from __future__ import annotations

from dataclasses import asdict, make_dataclass
from dataclasses import field as _field
from typing import Any

from openenv_core.client_types import StepResult
from openenv_core.env_server import Action, Environment, Observation, State, create_app
from openenv_core.http_env_client import HTTPEnvClient

__all__ = ["Action", "Environment", "Observation", "State", "app", "client", "model", "plain", "tools"]

tools = None
"""This generation has no tools."""


def model(name: str, base: type, **fields: Any) -> type:
    """A model class with these fields, each `type` (required) or `(type, default)`."""
    members = []
    for key, value in fields.items():
        if isinstance(value, tuple):
            kind, default = value
            members.append((key, kind, _field(default_factory=lambda default=default: default)))
        else:
            members.append((key, value))
    return make_dataclass(name, members, bases=(base,), kw_only=True)


def app(factory: Any, action: type, observation: type, state: type, options: dict[str, Any]) -> Any:
    """One environment for all clients: this generation knows no sessions, modes or limits."""
    return create_app(factory(), action, observation)


class _DictClient(HTTPEnvClient):
    def _step_payload(self, action: dict) -> dict:
        return action

    def _parse_result(self, payload: dict) -> StepResult:
        return StepResult(payload["observation"], payload.get("reward"), bool(payload.get("done", False)))

    def _parse_state(self, payload: dict) -> dict:
        return payload


def client(kind: str, url: str, options: dict[str, Any]) -> Any:
    return _DictClient(url, **options)


def plain(value: Any) -> Any:
    """A result of a call as JSON values."""
    return asdict(value) if isinstance(value, StepResult) else value
