"""Environments whose actions are calls of tools.

::

    class Calculator(ToolEnvironment):
        @tool
        def add(self, a: int, b: int) -> int:
            "Add two integers."
            return a + b

    app = create_app(Calculator, dict, dict)

The actions and observations are those of the peers' tool environments since 0.2.1.
"""

from __future__ import annotations

import inspect
import typing
import uuid
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec

from openenv.core import codec
from openenv.core.tool_action import CallToolAction
from openenv.core.types import State
from openenv.server.environment import Environment

F = TypeVar("F", bound=Callable[..., Any])

#: Names of the calls of an environment, which no tool may have.
RESERVED = frozenset({"reset", "step", "state", "close"})


def tool(function: F) -> F:
    """Offer a method as a tool: its name, its docstring and a JSON Schema of its parameters."""
    if function.__name__ in RESERVED:
        raise ValueError(f"a tool cannot be called {function.__name__!r}: that is a call of every environment")
    function.__openenv_tool__ = True  # type: ignore[attr-defined]
    return function


class ToolError(Exception):
    """Raised by a tool to fail with this message and nothing else."""


class ToolEnvironment(Environment[dict[str, Any], dict[str, Any], State]):
    """Methods marked with :func:`tool` are what agents can do. Plain methods only, no coroutines.

    Override ``begin`` for what has to happen at reset, and ``reward`` to pay for calls.
    """

    #: What ``/schema`` says of the actions.
    action_schema: ClassVar[type] = CallToolAction
    _tools: ClassVar[dict[str, _Tool]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found: dict[str, Any] = {name: getattr(cls, name, None) for name in dir(cls)}
        cls._tools = {
            name: _Tool(method) for name, method in found.items() if getattr(method, "__openenv_tool__", False)
        }

    def __init__(self) -> None:
        self.state = State()

    def begin(self, seed: int | None, options: dict[str, Any]) -> dict[str, Any]:
        """Called at reset; what it returns is the first observation."""
        return {}

    def reward(self, name: str, arguments: dict[str, Any], result: Any) -> bool | int | float | None:
        """What a call of a tool that succeeded pays."""
        return None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> dict[str, Any]:
        self.state = State(episode_id=episode_id or str(uuid.uuid4()))
        return self.begin(seed, options)

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        self.state.step_count += 1
        kind = action.get("type")
        if kind == "list_tools":
            return {"tools": [made.description(name) for name, made in self._tools.items()]}
        if kind == "call_tool":
            return self._call(str(action.get("tool_name", "")), action.get("arguments") or {})
        raise ValueError(f"an action's type is list_tools or call_tool; got {kind!r}")

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        made = self._tools.get(name)
        if made is None:
            offered = ", ".join(sorted(self._tools))
            return _failed(name, "tool_not_found", f"Unknown tool: {name!r}; there are: {offered}")
        try:
            fitted = made.fit(arguments)
        except (msgspec.ValidationError, TypeError) as error:
            return _failed(name, "invalid_args", str(error))
        try:
            value = made.function(self, **fitted)
        except Exception as error:  # noqa: BLE001 - a tool that fails is an observation, not the end of the episode
            told = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
            return _failed(name, "execution_error", told)
        text = value if isinstance(value, str) else codec.to_json(value).decode()
        result = {
            "content": [{"type": "text", "text": text}],
            "structured_content": value if isinstance(value, dict) else {"result": value},
            "data": value,
            "is_error": False,
        }
        return {"tool_name": name, "result": result, "error": None, "reward": self.reward(name, arguments, value)}


def _failed(name: str, kind: str, message: str) -> dict[str, Any]:
    return {"tool_name": name, "result": None, "error": {"error_type": kind, "message": message}}


class _Tool:
    """A method, and its parameters as a type that arguments are checked against."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"the tool {function.__name__} is a coroutine; write a plain method")
        self.function = function
        hints = typing.get_type_hints(function)
        parameters: list[Any] = []
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
            kind = hints.get(name, Any)
            if parameter.default is inspect.Parameter.empty:
                parameters.append((name, kind))
            else:
                parameters.append((name, kind, msgspec.field(default=parameter.default)))
        self._type = msgspec.defstruct(function.__name__, parameters, kw_only=True, forbid_unknown_fields=True)

    def fit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        made = msgspec.convert(arguments, self._type)
        return {name: getattr(made, name) for name in self._type.__struct_fields__}

    def description(self, name: str) -> dict[str, Any]:
        schema = codec.json_schema(self._type)
        schema.pop("title", None)
        return {"name": name, "description": inspect.getdoc(self.function) or "", "input_schema": schema}
