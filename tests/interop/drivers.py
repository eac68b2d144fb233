"""Our clients in one shape, so that one test can be told to all of them: plain calls, whatever is underneath."""

from __future__ import annotations

import asyncio
from typing import Any

from envs.echo_env import EchoAction, EchoEnv, EchoObservation, EchoState
from envs.echo_env.client import EchoHooks
from openenv.core import AsyncToolEnv, EnvClient, GenericEnvClient, GenericHTTPEnvClient, ToolEnv

HTTP, ASYNC, SYNC = "HTTPEnvClient", "EnvClient", "SyncEnvClient"
KINDS = (HTTP, ASYNC, SYNC)


class OnLoop:
    """An asynchronous client, each of whose coroutines runs to its end on one private loop."""

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.client, self.owns_loop = client, loop is None
        self.loop = loop or asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.client, name)
        if not asyncio.iscoroutinefunction(member):
            return member

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.loop.run_until_complete(member(*args, **kwargs))

        return call

    def new_session(self) -> OnLoop:
        return OnLoop(self.loop.run_until_complete(self.client.new_session()), self.loop)

    def close(self) -> None:
        if self.loop.is_closed():
            return
        try:
            self.loop.run_until_complete(self.client.close())
        finally:
            if self.owns_loop:
                self.loop.close()


class AsyncEchoEnv(EchoHooks, EnvClient[EchoAction, EchoObservation, EchoState]):
    """The asynchronous twin of `EchoEnv`."""


def make(kind: str, url: str, **options: Any) -> Any:
    """A client of that kind for dicts; `limit_s` is the limit of its calls under whatever name it has there."""
    limit = options.pop("limit_s", 20.0)
    if kind == HTTP:
        return GenericHTTPEnvClient(url, request_timeout_s=limit, **options)
    return _shape(kind, GenericEnvClient(url, message_timeout_s=limit, **options))


def make_echo(kind: str, url: str) -> Any:
    """A client of that kind with the models of the echo environment."""
    return EchoEnv(url) if kind == HTTP else _shape(kind, AsyncEchoEnv(url))


def make_tool_env(kind: str, url: str) -> Any:
    """A client of that kind for tool environments."""
    return ToolEnv(url) if kind == HTTP else _shape(kind, AsyncToolEnv(url))


def _shape(kind: str, client: Any) -> Any:
    return OnLoop(client) if kind == ASYNC else client.sync()
