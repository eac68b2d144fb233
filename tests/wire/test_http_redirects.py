"""Redirects: a POST stays a POST, and nothing secret goes to another host."""

from __future__ import annotations

import pytest
import requests

from openenv.core.errors import ProtocolError, ServerError
from tests.wire.behaviours import EraServer, Faulty, SessionServer, instead
from tests.wire.clients import SAY
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Reply


def moved(status: int, to: str) -> Reply:
    return Reply(status=status, body=b"moved", headers=[("Location", to)])


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("keeps", [EraServer, SessionServer])
def test_a_post_is_followed_as_the_same_post(
    serve: Serve, client: MakeClient, status: int, keeps: type[EraServer] | type[SessionServer]
) -> None:
    target = serve(keeps())
    server = serve(lambda request: moved(status, target.url + request.target))
    env = client(server, default_headers={"X-Who": "me"}, auth="s3cret")
    env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"
    for asked, got in zip(server.posts(), target.posts(), strict=True):
        assert (got.method, got.target, got.body) == (asked.method, asked.target, asked.body)
        assert got.header("Content-Type") == asked.header("Content-Type")
        assert got.header("OpenEnv-Session") == asked.header("OpenEnv-Session")


@pytest.mark.parametrize("status", [301, 302, 303])
@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_a_redirect_that_makes_a_post_a_get_is_an_error_that_names_the_remedy(
    serve: Serve, client: MakeClient, status: int, path: str
) -> None:
    server = serve(Faulty(EraServer()).on(path, instead(moved(status, "https://elsewhere.invalid/x"))))
    env = client(server)
    with pytest.raises(ServerError) as caught:
        env.reset() if path == "/reset" else env.step(SAY)
    error = caught.value
    assert isinstance(error, requests.HTTPError)
    assert (error.status, error.response.status_code) == (status, status)
    assert "base_url" in error.remedy
    assert "https" in error.remedy
    assert len(server.posts()) == 1
    assert [r for r in server.requests if r.method == "GET" and r.path in ("/x", path)] == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_get_is_followed(serve: Serve, client: MakeClient, status: int) -> None:
    target = serve(EraServer())
    server = serve(Faulty(EraServer()).on("/state", instead(moved(status, f"{target.url}/state"))))
    assert client(server).state()["episode_id"] == "e-1"
    assert [r.method for r in target.requests] == ["GET"]


def test_a_circle_of_redirects_ends(serve: Serve, client: MakeClient) -> None:
    server = serve(lambda request: moved(307, request.target))
    with pytest.raises(ProtocolError, match="redirect"):
        client(server, 5).reset()
    assert len(server.posts()) < 50


@pytest.mark.parametrize("given", [{"auth": "s3cret"}, {"auth": ("me", "s3cret")}])
def test_another_host_gets_no_credentials(serve: Serve, client: MakeClient, given: dict[str, object]) -> None:
    target = serve(EraServer())
    server = serve(Faulty(EraServer()).on("/step", instead(moved(307, f"{target.at('localhost')}/step"))))
    assert client(server, **given).step(SAY).observation["echoed_message"] == "hi"
    assert server.posts("/step")[0].header("Authorization")
    assert target.posts("/step")[0].header("Authorization") is None


def test_a_redirect_without_a_target_is_an_error(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(EraServer()).on("/step", instead(Reply(status=307))))
    with pytest.raises(requests.HTTPError):
        client(server).step(SAY)
