"""Proxies: as requests does them for hosts out there, and never for this machine."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import requests

from tests.wire.behaviours import EraServer, SessionServer
from tests.wire.clients import SAY
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Request, ScriptedServer

#: A name that no resolver knows: only a proxy can answer for it.
OUTSIDE = "http://env.invalid:8000"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
ROUTES = ["/reset", "/step", "/state"]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def proxy(serve: Serve) -> ScriptedServer:
    """A forward proxy that answers by itself, as the echo server behind it would."""
    return serve(EraServer())


def seen(server: ScriptedServer) -> list[str]:
    return [r.target for r in server.requests if r.path in ROUTES]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_of_the_environment_carries_every_call_to_a_host_out_there(
    proxy: ScriptedServer, client: MakeClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, proxy.url)
    env = client(f"{OUTSIDE}/p", auth="s3cret")
    served = proxy.answer

    def under_a_prefix(request: Request) -> object:
        return served(replace(request, target=request.path.removeprefix("/p")))

    proxy.answer = under_a_prefix  # type: ignore[assignment]
    env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"
    env.state()
    asked = [r for r in proxy.requests if not r.target.endswith("/schema")]
    assert [r.target for r in asked] == [f"{OUTSIDE}/p{route}" for route in ROUTES]
    assert {r.header("Authorization") for r in asked} == {"Bearer s3cret"}
    assert {r.header("Host") for r in asked} == {"env.invalid:8000"}


def test_no_proxy_is_heeded(proxy: ScriptedServer, client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "env.invalid")
    with pytest.raises(requests.ConnectionError):
        client(OUTSIDE, 2).reset()
    assert proxy.requests == []


def test_proxies_of_a_session_carry_every_call(proxy: ScriptedServer, client: MakeClient) -> None:
    with requests.Session() as session:
        session.proxies = {"http": proxy.url}
        env = client(OUTSIDE, session=session)
        env.reset()
        env.step(SAY)
        env.state()
    assert seen(proxy) == [OUTSIDE + route for route in ROUTES]


def test_sessions_are_kept_through_a_proxy(serve: Serve, client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = SessionServer()
    monkeypatch.setenv("HTTP_PROXY", serve(keeper).url)
    env = client(OUTSIDE)
    env.reset()
    env.step(SAY)
    env.close()
    assert [(number, route) for _, number, route in keeper.ran] == [(1, "/reset"), (2, "/step")]
    assert keeper.deleted == [keeper.ran[0][0]]


def test_a_dead_proxy_is_a_connection_error(client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(requests.ConnectionError):
        client(OUTSIDE, 2).reset()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "127.1.2.3", "[::1]", "echo.localhost"])
@pytest.mark.parametrize("keeps", [EraServer, SessionServer])
def test_no_proxy_of_the_environment_stands_before_this_machine(
    serve: Serve,
    proxy: ScriptedServer,
    client: MakeClient,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    keeps: type[EraServer] | type[SessionServer],
) -> None:
    for name in VARIABLES[:3]:
        monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv(name.lower(), proxy.url)
    before = dict(os.environ)
    try:
        server = serve(keeps(), host={"[::1]": "::1", "127.1.2.3": "127.1.2.3"}.get(host, "127.0.0.1"))
    except OSError as error:
        pytest.skip(f"this machine has no {host}: {error}")
    env = client(server.at(host))
    if host != "echo.localhost" or _resolves(host):
        env.reset()
        env.step(SAY)
        env.state()
        assert seen(server) == ROUTES
    else:
        with pytest.raises(requests.ConnectionError):
            env.reset()
    env.close()
    assert proxy.requests == []
    assert dict(os.environ) == before


def test_an_auth_object_does_not_bring_the_proxy_back_for_this_machine(
    serve: Serve, proxy: ScriptedServer, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES[:3]:
        monkeypatch.setenv(name, proxy.url)
    server = serve(EraServer())
    with requests.Session() as session:
        session.cookies.set("a", "b")
        client(server, session=session, auth=("me", "pw")).reset()
    assert seen(server) == ["/reset"]
    assert proxy.requests == []


def _resolves(host: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(host, 80)
    except OSError:
        return False
    return True
