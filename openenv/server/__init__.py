"""Serving an environment: write an :class:`Environment`, hand its class to :func:`create_app`.

::

    app = create_app(EchoEnvironment, EchoAction, EchoObservation, EchoState)   # uvicorn my_package.server.app:app
"""

from __future__ import annotations

from openenv._lazy import lazy_names

_NAMES = {
    "Environment": "openenv.server.environment",
    "create_app": "openenv.server.app",
    "serve_in_thread": "openenv.server.thread",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
