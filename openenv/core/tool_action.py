"""The action of tool environments, for servers and clients alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from openenv.core.types import Action


@dataclass(kw_only=True)
class CallToolAction(Action):
    """The action that calls a tool; what :func:`openenv.core.tools.call_action` makes, as a class."""

    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    type: Literal["call_tool"] = "call_tool"

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Its JSON Schema, by the name under which trainers ask for it."""
        return {
            "title": cls.__name__,
            "description": 'Call a tool. The action {"type": "list_tools"} tells which there are.',
            "type": "object",
            "properties": {
                "type": {"type": "string", "const": "call_tool", "default": "call_tool"},
                "tool_name": {"type": "string"},
                "arguments": {"type": "object", "default": {}},
            },
            "required": ["tool_name"],
        }
