"""Processes of the peer for tests: started when asked for, bounded in time, ended with the test."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.interop import drivers, venvs
from tests.interop.remote import PeerClient, PeerHost, PeerServer

_found: dict[str, Path | Exception] = {}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the environments of the peers before the clock of the first test runs: installing takes a minute."""
    wanted = any(item.path.is_relative_to(Path(__file__).parent) for item in session.items)
    if wanted and not session.config.option.collectonly:
        _found.update(venvs.make_all())


@pytest.fixture(scope="session")
def peer_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], PeerHost]]:
    """`peer_host(version)`: the process that runs the peer of that version, one in a test session."""
    hosts: dict[str, PeerHost] = {}
    with ExitStack() as stack:

        def get(version: str) -> PeerHost:
            if version not in hosts:
                host = PeerHost(_interpreter(version), version, tmp_path_factory.mktemp(f"peer-{version}"))
                stack.callback(host.close)
                hosts[version] = host
            return hosts[version]

        yield get


def _interpreter(version: str) -> Path:
    if version == "ours":
        return Path(sys.executable)
    found = _found[version]
    if isinstance(found, Path):
        return found
    reason = f"no environment for peer {version}: {found}"
    if os.environ.get("OPENENV_REQUIRE_INTEROP") == "1":
        pytest.fail(f"OPENENV_REQUIRE_INTEROP=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def _shared_servers() -> dict[tuple[str, str], PeerServer]:
    return {}


@pytest.fixture
def server(
    peer_host: Callable[[str], PeerHost], _shared_servers: dict[tuple[str, str], PeerServer]
) -> Iterator[Callable[..., PeerServer]]:
    """`server(version, env, **options)`: a server of that version; "ours" is our own.

    Options: those of the environment (see `peer/environments.py`), `capacity`, `mode` (0.3.0, 0.10.0), `port`,
    `environ` (variables of its process), `uvicorn`. A server with sessions and without options is shared by tests,
    because no client of one session can tell; `fresh=True` is one to be killed or frozen.
    """
    with ExitStack() as stack:

        def start(version: str, env: str, *, fresh: bool = False, **options: Any) -> PeerServer:
            shared = not (fresh or options or version == "0.1.1")
            if shared and (version, env) in _shared_servers:
                return _shared_servers[version, env]
            host = peer_host(version)
            pid, url, log = host.start("serve", env=env, options=options)
            made = PeerServer(version, url, pid, log, host)
            if shared:
                _shared_servers[version, env] = made  # ends with its host
            else:
                stack.callback(_end, made)
            return made

        yield start


@pytest.fixture
def peer_client(peer_host: Callable[[str], PeerHost]) -> Iterator[Callable[..., PeerClient]]:
    """`peer_client(version, url, **options)`: a client of the peer, ended with the test.

    Options: `kind` ("generic", "typed", "tools"), `style` ("sync", "async", "auto"), and those of its constructor.
    """
    with ExitStack() as stack:

        def start(version: str, url: str, **options: Any) -> PeerClient:
            client = PeerClient(peer_host(version), url, **options)
            stack.callback(_end, client)
            return client

        yield start


@pytest.fixture
def client() -> Iterator[Callable[..., Any]]:
    """`client(kind, url, **options)`: one of our clients (see `drivers`), closed with the test."""
    with ExitStack() as stack:

        def make(kind: str, url: str, **options: Any) -> Any:
            made = drivers.make(kind, url, **options)
            stack.callback(made.close)
            return made

        yield make


def _end(child: PeerServer | PeerClient) -> None:
    with contextlib.suppress(RuntimeError):  # ended by the test itself
        child.kill()
