"""What may be given as an address, and what is said of what may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openenv.core.errors import ConfigurationError
from tests.wire.behaviours import EraServer
from tests.wire.clients import PlainEnv
from tests.wire.fixtures import MakeClient, Serve


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "127.0.0.1", "http://", "http:///path", "", "/reset", "://x", "http://:8000", "ftp://host"],
)
def test_a_url_without_scheme_or_host_is_refused_at_construction_with_the_remedy(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PlainEnv(url)
    assert isinstance(caught.value, ValueError)
    assert repr(url) in str(caught.value)
    assert "http://" in caught.value.remedy


@pytest.mark.parametrize("url", ["http://host:port", "http://host:99999", "http://[::1"])
def test_a_url_that_cannot_be_read_is_refused_at_construction(url: str) -> None:
    with pytest.raises(ConfigurationError):
        PlainEnv(url)


@pytest.mark.parametrize("url", [None, 8000, b"http://localhost"])
def test_what_is_no_text_is_refused_at_construction(url: object) -> None:
    with pytest.raises((ConfigurationError, TypeError)):
        PlainEnv(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_names_and_addresses_reach_the_server(serve: Serve, client: MakeClient, host: str) -> None:
    server = serve(EraServer())
    client(server.at(host)).reset()
    assert server.posts("/reset")[0].header("Host") == f"{host}:{server.port}"


def test_a_bracketed_ipv6_address_reaches_the_server(serve: Serve, client: MakeClient) -> None:
    try:
        server = serve(EraServer(), host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 loopback: {error}")
    client(server).reset()
    assert server.posts("/reset")[0].header("Host") == f"[::1]:{server.port}"


def test_a_path_prefix_is_before_every_route(serve: Serve, client: MakeClient) -> None:
    era = EraServer()
    server = serve(lambda request: era(replace(request, target=request.target.removeprefix("/a/b"))))
    env = client(f"{server.url}/a/b/")
    env.reset()
    env.step({"message": "x"})
    env.state()
    env.health()
    assert {r.path.removeprefix("/a/b") for r in server.requests} >= {"/reset", "/step", "/state", "/health"}
    assert all(r.path.startswith("/a/b/") for r in server.requests)


def test_credentials_of_a_url_are_not_shown(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    env = client(server.url.replace("http://", "http://me:s3cret@"))
    assert "s3cret" not in repr(env)
    env.reset()
    server.close()
    with pytest.raises(Exception, match="cannot reach") as caught:
        env.reset()
    assert "s3cret" not in str(caught.value)


def test_the_base_url_is_known_without_its_slash(client: MakeClient) -> None:
    assert client("http://localhost:8000/x/").base_url == "http://localhost:8000/x"
