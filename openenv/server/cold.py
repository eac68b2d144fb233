"""The routes that are not in every episode, on Starlette."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from openenv.core import codec
from openenv.server.http import PROTOCOL
from openenv.server.session import Reply

_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


def cold_app(
    factory: Callable[[], Any], name: str, action_type: type, observation_type: type, state_type: type, instance: bytes
) -> Starlette:
    """``/schema`` and ``/metadata``; everything else is answered in the protocol's words."""

    def answer(request: Request, reply: Reply, headers: dict[str, str] | None = None) -> Response:
        made = request.scope["openenv.request"]
        about = {
            "x-request-id": made.request_id.decode("latin-1"),
            "openenv-instance": instance.decode("ascii"),
            **(headers or {}),
        }
        return Response(reply.body, reply.status, about, reply.media)

    async def schema(request: Request) -> Response:
        acts = getattr(factory, "action_schema", action_type)
        types = {"action": acts, "observation": observation_type, "state": state_type}
        schemas = {kind: {} if cls is dict else codec.json_schema(cls) for kind, cls in types.items()}
        return answer(request, Reply(200, codec.to_json({**schemas, "protocol": PROTOCOL}), codec.JSON))

    async def metadata(request: Request) -> Response:
        return answer(request, Reply(200, codec.to_json(about_environment(factory, name)), codec.JSON))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _CODES.get(error.status_code, "INTERNAL_ERROR")
        message = f"{request.method} {request.url.path}: {error.detail}"
        made = request.scope["openenv.request"]
        return answer(request, made.error(error.status_code, code, message), dict(error.headers or {}))

    routes = [Route("/schema", schema), Route("/metadata", metadata)]
    return Starlette(routes=routes, exception_handlers={HTTPException: refused})


def about_environment(factory: Callable[[], Any], name: str) -> dict[str, Any]:
    """What the environment's class, its docstring and the README beside it say."""

    def said(attribute: str) -> str | None:
        value = getattr(factory, attribute, None)
        return value if isinstance(value, str) else None

    return {
        "name": name,
        "description": inspect.getdoc(factory.func if isinstance(factory, functools.partial) else factory),
        "version": said("version"),
        "author": said("author"),
        "documentation_url": said("documentation_url"),
        "readme_content": _readme(factory),
    }


def _readme(factory: Callable[[], Any]) -> str | None:
    try:
        folder = Path(inspect.getfile(inspect.unwrap(factory))).parent
    except (TypeError, OSError):
        return None
    for place in (folder, folder.parent) if folder.name == "server" else (folder,):
        readme = place / "README.md"
        if readme.is_file():
            return readme.read_text("utf-8", errors="replace")
    return None
