"""The names that the WebSocket generation (0.3.0, 0.10.0) has for what environments and clients need."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI
from fastmcp import FastMCP
from pydantic import create_model

from openenv.core import EnvClient, GenericEnvClient, MCPToolClient
from openenv.core.client_types import StepResult
from openenv.core.env_server import Action, Environment, Observation, State
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsAction

__all__ = ["Action", "Environment", "Observation", "State", "app", "client", "model", "plain", "tools"]

tools = SimpleNamespace(
    Server=FastMCP,
    Environment=MCPEnvironment,
    Action=CallToolAction,
    Observation=CallToolObservation,
    List=ListToolsAction,
)


def model(name: str, base: type, **members: Any) -> type:
    """A model class with these fields, each `type` (required) or `(type, default)`."""
    return create_model(
        name,
        __base__=base,
        **{key: value if isinstance(value, tuple) else (value, ...) for key, value in members.items()},
    )


def app(factory: Any, action: type, observation: type, state: type, options: dict[str, Any]) -> Any:
    """An app with sessions; options: `mode`, `capacity`, `declare_state` (0.10.0)."""
    declared = {"state_cls": state} if options.get("declare_state") else {}
    server = HTTPEnvServer(factory, action, observation, max_concurrent_envs=options.get("capacity", 32), **declared)
    application = FastAPI(title="OpenEnv Environment HTTP API")
    server.register_routes(application, mode=options.get("mode", "simulation"))
    return application


class _TypedClient(EnvClient):
    """As authors of environments write it: dataclass-like models, three hooks."""

    def _step_payload(self, action: Any) -> dict:
        return dict(action)

    def _parse_result(self, payload: dict) -> StepResult:
        observation = SimpleNamespace(**payload["observation"])
        return StepResult(observation=observation, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: dict) -> State:
        return State(**payload)


def client(kind: str, url: str, options: dict[str, Any]) -> Any:
    """`kind`: generic (dicts), typed (own hooks) or tools."""
    classes = {"generic": GenericEnvClient, "typed": _TypedClient, "tools": MCPToolClient}
    return classes[kind](base_url=url, **options)


def plain(value: Any) -> Any:
    """A result of a call as JSON values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, SimpleNamespace):
        return vars(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value
