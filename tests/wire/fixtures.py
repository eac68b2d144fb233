"""Fixtures for tests of clients against scripted servers; a conftest.py imports them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from openenv.core.errors import OpenEnvError
from tests.wire.clients import PlainEnv
from tests.wire.servers import ScriptedServer

Serve = Callable[..., ScriptedServer]
MakeClient = Callable[..., PlainEnv]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(answer, **options)`: a scripted server that ends with the test."""
    with ExitStack() as stack:
        yield lambda answer, **options: stack.enter_context(ScriptedServer(answer, **options))


@pytest.fixture
def client(serve: Serve) -> Iterator[MakeClient]:
    """`client(server or url, *args, **options)`: a client that is closed before its server ends."""
    made: list[PlainEnv] = []

    def make(server: ScriptedServer | str, *args: Any, kind: type[Any] = PlainEnv, **options: Any) -> Any:
        env = kind(server if isinstance(server, str) else server.url, *args, **options)
        made.append(env)
        return env

    yield make
    for env in made:
        with suppress(OpenEnvError):
            env.close()
