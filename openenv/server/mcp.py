"""The peers' ``mcp`` messages on a session: JSON-RPC for ``tools/list`` and ``tools/call``, done as actions."""

from __future__ import annotations

from typing import Any

from openenv.core import codec
from openenv.server.session import Reply, encode

_INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS, _INTERNAL = -32600, -32601, -32602, -32603


class Request:
    """One JSON-RPC request.

    Attributes:
        action: The action of a tool environment that it asks for, or ``None`` where it is answered at once.
    """

    def __init__(self, message: dict[str, Any]) -> None:
        self._id = message.get("id")
        self._error: dict[str, Any] | None = None
        self.action: dict[str, Any] | None = None
        method, params = message.get("method"), message.get("params") or {}
        if message.get("jsonrpc") != "2.0" or not isinstance(params, dict):
            self._error = {"code": _INVALID_REQUEST, "message": "Invalid Request"}
        elif method == "tools/list":
            self.action = {"type": "list_tools"}
        elif method == "tools/call":
            if isinstance(params.get("name"), str):
                arguments = params.get("arguments") or {}
                self.action = {"type": "call_tool", "tool_name": params["name"], "arguments": arguments}
            else:
                self._error = {"code": _INVALID_PARAMS, "message": "tools/call needs the name of a tool"}
        else:
            self._error = {"code": _METHOD_NOT_FOUND, "message": f"Method not found: {method}"}

    def answer(self) -> Reply:
        """The answer where no action is needed."""
        return Reply(200, b"{}", codec.JSON)

    def reply(self, reply: Reply, media: str) -> Reply:
        """The JSON-RPC answer that the answer to the action makes."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._id}
        error = self._error
        if error is None and reply.error is not None:
            error = {"code": _INTERNAL, "message": str(reply.error.get("message"))}
        if error is None:
            decode = codec.from_msgpack if reply.media == codec.MSGPACK else codec.from_json
            seen = decode(reply.body)["observation"]
            if "tools" in seen:
                message["result"] = {"tools": [_listed(tool) for tool in seen["tools"]]}
            elif seen.get("error"):
                error = {"code": _INTERNAL, "message": str(seen["error"].get("message"))}
            else:
                message["result"] = seen.get("result")
        if error is not None:
            message["error"] = error
        return Reply(200, encode(message, media), media)


def _listed(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}
