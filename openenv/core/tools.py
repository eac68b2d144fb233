"""Tool environments: their actions are calls of named tools, as most of today's are.

::

    with ToolEnv(base_url="http://localhost:8000") as env:
        env.reset()
        print(env.call_tool("echo_message", message="hello").data)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openenv.core.env_client import EnvClient
from openenv.core.errors import ProtocolError, ToolFailed
from openenv.core.generic_client import Fields, GenericHooks
from openenv.core.http_client import HTTPEnvClient
from openenv.core.timing import UNSET, LimitArg
from openenv.core.types import Reward, StepResult


@dataclass(frozen=True)
class Tool:
    """What a server offers: ``input_schema`` is the JSON Schema of the arguments."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """What a tool returned.

    Attributes:
        data: The value, where the tool gave one; else its text.
        content: The blocks of content as the server sent them.
        reward: What the environment paid for the call.
        done: Whether the episode is over.
        raw: The whole observation.
    """

    data: Any
    content: list[dict[str, Any]]
    reward: Reward
    done: bool
    raw: dict[str, Any]

    @property
    def text(self) -> str:
        """The blocks of text, joined."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


LIST_TOOLS: dict[str, Any] = {"type": "list_tools"}


def call_action(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The action that calls the tool ``name``."""
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


def read_tools(result: StepResult[Fields]) -> list[Tool]:
    """The tools in an answer to :data:`LIST_TOOLS`."""
    listed = result.observation.get("tools")
    if not isinstance(listed, list):
        raise ProtocolError(
            f"the server did not answer with tools: {result.observation!r:.120}", remedy="Is this a tool environment?"
        )
    return [
        Tool(item["name"], item.get("description") or "", item.get("input_schema") or item.get("inputSchema") or {})
        for item in listed
    ]


def read_result(name: str, result: StepResult[Fields]) -> ToolResult:
    """What a tool returned.

    Raises:
        ToolFailed: The tool, or the call of it, failed; ``error_type`` says how.
    """
    seen = result.observation
    error, value = seen.get("error"), seen.get("result")
    if isinstance(error, dict):
        kind, told = str(error.get("error_type") or "execution_error"), str(error.get("message") or "")
        raise ToolFailed(f"tool {name!r} failed ({kind}): {told}", tool=name, error_type=kind, result=result)
    if not isinstance(value, dict) or not ({"content", "data"} & value.keys()):
        content: list[dict[str, Any]] = []
        return ToolResult(value, content, result.reward, result.done, seen)
    made = ToolResult(value.get("data"), value.get("content") or [], result.reward, result.done, seen)
    if value.get("is_error") or value.get("isError"):
        raise ToolFailed(f"tool {name!r} failed: {made.text}", tool=name, error_type="execution_error", result=result)
    if made.data is None:
        structured = value.get("structured_content")
        data = structured.get("result", structured) if isinstance(structured, dict) else made.text or None
        return ToolResult(data, made.content, made.reward, made.done, seen)
    return made


class ToolEnv(GenericHooks, HTTPEnvClient[Any, Fields, Fields]):
    """A synchronous client of a tool environment."""

    def list_tools(self, *, timeout_s: LimitArg = UNSET) -> list[Tool]:
        """The tools that the environment offers now."""
        return read_tools(self.step(LIST_TOOLS, timeout_s))

    def call_tool(self, name: str, /, *, timeout_s: LimitArg = UNSET, **arguments: Any) -> ToolResult:
        """Call a tool: one step of the episode.

        Raises:
            ToolFailed: There is no such tool, the arguments do not fit, or it failed.
        """
        return read_result(name, self.step(call_action(name, arguments), timeout_s))


class AsyncToolEnv(GenericHooks, EnvClient[Any, Fields, Fields]):
    """An asynchronous client of a tool environment."""

    async def list_tools(self, *, timeout_s: LimitArg = UNSET) -> list[Tool]:
        """As :meth:`ToolEnv.list_tools`."""
        return read_tools(await self.step(LIST_TOOLS, timeout_s))

    async def call_tool(self, name: str, /, *, timeout_s: LimitArg = UNSET, **arguments: Any) -> ToolResult:
        """As :meth:`ToolEnv.call_tool`."""
        return read_result(name, await self.step(call_action(name, arguments), timeout_s))
