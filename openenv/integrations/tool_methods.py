"""Methods for language models: a name, type hints and a docstring with ``Args:``, made from actions or from tools."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from openenv.core.errors import ConfigurationError
from openenv.core.tools import Tool, call_action

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_SECTION = re.compile(r"^(?:Args|Attributes|Returns|Raises|Example|Examples|Note):\s*$", re.M)
_ARGUMENT = re.compile(r"^ {1,8}(\w+)(?: \([^)]*\))?:[ \t]*(.+(?:\n {8,}.+|\n {5,}(?!\w+:).+)*)", re.M)


@dataclass(frozen=True)
class ToolMethod:
    """What a model can call.

    Attributes:
        name: The name of the method.
        description: What it does.
        parameters: The parameters with hints and defaults.
        told: What each parameter is, in words.
        action: Makes the environment's action of the arguments.
    """

    name: str
    description: str
    parameters: tuple[inspect.Parameter, ...]
    told: Mapping[str, str]
    action: Callable[..., Any]

    def method(self, call: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        """A method that gives its object and the action to ``call`` and returns what that returns."""
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = inspect.Signature([first, *self.parameters], return_annotation=str)
        make = self.action

        def tool(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            me = bound.arguments.pop("self")
            return call(me, make(**bound.arguments))

        tool.__name__ = tool.__qualname__ = self.name
        tool.__signature__ = signature  # type: ignore[attr-defined]
        tool.__annotations__ = {p.name: p.annotation for p in self.parameters} | {"return": str}
        arguments = "".join(f"\n    {p.name}: {self.told[p.name]}" for p in self.parameters)
        tool.__doc__ = f"{self.description}\n" + (f"\nArgs:{arguments}\n" if arguments else "")
        tool.__doc__ += "\nReturns:\n    What the environment answers.\n"
        return tool


def of_function(name: str, function: Callable[..., Any]) -> ToolMethod:
    """The tool that a class of actions, or a function that makes one, is.

    Raises:
        ConfigurationError: A parameter has no type hint.
    """
    described = inspect.cleandoc(function.__doc__ or "")
    hints = get_type_hints(function)  # of a class: its fields
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "metadata":
            continue
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ConfigurationError(f"the tool {name!r} takes *{parameter.name}", remedy="Name its parameters.")
        if parameter.name not in hints:
            raise ConfigurationError(
                f"the parameter {parameter.name!r} of the tool {name!r} has no type hint",
                remedy="Write one: the model is told what to give.",
            )
        default = parameter.default
        if type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":  # a dataclass makes it itself, where it is not given
            default = None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if default is parameter.empty else inspect.Parameter.KEYWORD_ONLY
        parameters.append(parameter.replace(annotation=hints[parameter.name], kind=kind, default=default))
    parameters.sort(key=lambda parameter: parameter.kind)
    told = {p.name: described_parameter(described, p.name) for p in parameters}
    head = _SECTION.split(described)[0].strip().replace("``", "`")
    return ToolMethod(_identifier(name), head or f"Call {name}.", tuple(parameters), told, function)


def of_tool(tool: Tool) -> ToolMethod:
    """The tool that a tool environment offers."""
    needed = tool.input_schema.get("required", [])
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    parameters = [
        inspect.Parameter(
            _identifier(name),
            inspect.Parameter.POSITIONAL_OR_KEYWORD if name in needed else inspect.Parameter.KEYWORD_ONLY,
            annotation=_type(schema),
            default=inspect.Parameter.empty if name in needed else schema.get("default"),
        )
        for name, schema in properties.items()
    ]
    parameters.sort(key=lambda parameter: parameter.kind)
    told = {name: str(schema.get("description") or _words(name)) for name, schema in properties.items()}

    def action(**arguments: Any) -> dict[str, Any]:
        return call_action(tool.name, arguments)

    return ToolMethod(_identifier(tool.name), tool.description or f"Call {tool.name}.", tuple(parameters), told, action)


def default_name(action_type: type) -> str:
    """The name of the tool that a class of actions is: ``echo`` for ``EchoAction``."""
    stem = action_type.__name__.removesuffix("Action") or "act"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()


def described_parameter(docstring: str, name: str) -> str:
    """What the docstring says of the parameter ``name``, else its name in words."""
    found = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(docstring)}
    return found.get(name, _words(name))


def _words(name: str) -> str:
    return f"The {name.replace('_', ' ')}."


def _identifier(name: str) -> str:
    if not name.isidentifier() or name.startswith("_"):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a method or a parameter of one", remedy="Give tools={name: function}."
        )
    return name


def _type(schema: Mapping[str, Any]) -> Any:
    kinds = [schema, *schema.get("anyOf", ())]
    found = [_TYPES[part["type"]] for part in kinds if part.get("type") in _TYPES]
    return found[0] if len(found) == 1 else Any if not found else found[0] | found[1]
