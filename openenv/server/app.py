"""From an environment's class to an ASGI application."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any

from openenv.core.errors import ConfigurationError
from openenv.core.timing import seconds
from openenv.core.types import State
from openenv.server import body as bodies
from openenv.server.access import Access
from openenv.server.cold import cold_app
from openenv.server.engine import Engine
from openenv.server.http import App
from openenv.server.runner import Runner
from openenv.server.threads import Workers
from openenv.server.ws import Sockets


def create_app(
    factory: Callable[[], Any],
    action_type: type,
    observation_type: type,
    state_type: type | None = None,
    *,
    name: str | None = None,
    max_sessions: int | None = None,
    session_idle_s: float | None = None,
    default_session: bool = True,
    token: str | None = None,
    tracebacks: bool | None = None,
    max_body_bytes: int | None = None,
    allowed_hosts: Iterable[str] | None = None,
) -> App:
    """An ASGI application that serves the environments that ``factory`` makes.

    Arguments that are not given are read from the variables of the process's environment that stand behind them.

    Args:
        factory: Makes an environment: a class, or a function without arguments.
        action_type: The dataclass of its actions; ``dict`` for any object, unchecked.
        observation_type: The dataclass of its observations, for ``/schema``.
        state_type: The dataclass of its state, for ``/schema``.
        name: How the environment is called; else the name of ``factory``.
        max_sessions: How many environments there may be at once (``MAX_CONCURRENT_ENVS``, else 64).
        session_idle_s: Seconds without a call after which a session ends (``OPENENV_SESSION_IDLE``, else 3600).
        default_session: Whether calls that name no session share one, as the first generation of clients expects.
        token: What callers must send as ``Authorization: Bearer TOKEN`` (``OPENENV_TOKEN``, else nothing).
        tracebacks: Errors of the environment carry its traceback (``OPENENV_TRACEBACKS=1``).
        max_body_bytes: The largest request, and the largest message of a WebSocket (``OPENENV_MAX_BODY_BYTES``, else 64
            MiB).
        allowed_hosts: Names of this server that are not obviously local, ``*`` for any
            (``OPENENV_ALLOWED_HOSTS``, separated by commas). They matter where there is no token.

    Raises:
        ConfigurationError: An argument or a variable cannot work.
    """
    _check_factory(factory)
    if max_sessions is None:
        max_sessions = _integer("MAX_CONCURRENT_ENVS", os.environ.get("MAX_CONCURRENT_ENVS", "64"))
    if max_sessions < 1:
        raise ConfigurationError(f"max_sessions (MAX_CONCURRENT_ENVS) must be at least 1; got {max_sessions}")
    if session_idle_s is None:
        session_idle_s = seconds(os.environ.get("OPENENV_SESSION_IDLE", 3600.0), "OPENENV_SESSION_IDLE")
    idle_s = seconds(session_idle_s, "session_idle_s")
    if token is None:
        token = os.environ.get("OPENENV_TOKEN") or None
    if max_body_bytes is None:
        max_body_bytes = bodies.max_body_bytes()
    if tracebacks is None:
        tracebacks = os.environ.get("OPENENV_TRACEBACKS", "") == "1"
    if allowed_hosts is None:
        allowed_hosts = os.environ.get("OPENENV_ALLOWED_HOSTS", "").split(",")
    called = name or str(getattr(factory, "__name__", type(factory).__name__))

    runner = Runner(factory, action_type, Workers(), tracebacks)
    engine = Engine(
        runner,
        max_sessions=max_sessions,
        session_idle_s=float("inf") if idle_s is None else idle_s,
        default_session=default_session,
    )
    cold = cold_app(factory, called, action_type, observation_type, state_type or State, engine.instance)
    access = Access(token, allowed_hosts)
    sockets = Sockets(engine, access, max_body_bytes)
    return App(engine, access, cold, sockets, name=called, max_body_bytes=max_body_bytes)


def _check_factory(factory: Any) -> None:
    if not callable(factory):
        raise ConfigurationError(
            f"the factory must be a class or a function that makes an environment; got {factory!r:.80}",
            remedy="Give the class itself, not an instance: every session has an environment of its own.",
        )
    if inspect.isabstract(factory):
        missing = ", ".join(sorted(getattr(factory, "__abstractmethods__", ())))
        raise ConfigurationError(f"{factory!r} cannot be made: it lacks {missing}", remedy="Write these methods.")


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{name} must be a whole number; got {text!r}") from None
