"""Serving an environment: write an :class:`Environment`, hand its class to :func:`create_app`.

::

    app = create_app(EchoEnvironment, EchoAction, EchoObservation, EchoState)   # uvicorn my_package.server.app:app
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv._lazy import lazy_names

if TYPE_CHECKING:
    from openenv.server.app import create_app as create_app
    from openenv.server.environment import Environment as Environment
    from openenv.server.thread import serve_in_thread as serve_in_thread
    from openenv.server.tools import ToolEnvironment as ToolEnvironment
    from openenv.server.tools import tool as tool

_NAMES = {
    "Environment": "openenv.server.environment",
    "ToolEnvironment": "openenv.server.tools",
    "create_app": "openenv.server.app",
    "serve_in_thread": "openenv.server.thread",
    "tool": "openenv.server.tools",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
