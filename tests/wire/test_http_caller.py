"""What the caller brings along works as requests does it: headers, auth, cookies, a session and its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth

from tests.wire.behaviours import EraServer, Faulty, SessionServer, changed
from tests.wire.clients import SAY, PlainEnv
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Request, ScriptedServer


@pytest.fixture
def era(serve: Serve) -> ScriptedServer:
    return serve(EraServer())


@pytest.fixture
def own() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def use(env: PlainEnv) -> None:
    env.reset()
    env.step(SAY)
    env.state()


def last(server: ScriptedServer, path: str = "/step") -> Request:
    return next(r for r in reversed(server.requests) if r.path == path)


# --- headers -----------------------------------------------------------------------------------------------------


def test_default_headers_that_are_changed_later_travel_changed(era: ScriptedServer, client: MakeClient) -> None:
    headers = {"X-Who": "one"}
    env = client(era, default_headers=headers)
    env.step(SAY)
    headers["X-Who"] = "two"
    env.step(SAY)
    del headers["X-Who"]
    env.step(SAY)
    assert [r.header("X-Who") for r in era.posts("/step")] == ["one", "two", None]


def test_a_header_that_would_break_the_request_is_refused_before_it_is_sent(
    era: ScriptedServer, client: MakeClient
) -> None:
    with pytest.raises(ValueError, match="header value"):
        client(era, default_headers={"X-Who": "one\r\nX-Evil: 1"}).step(SAY)
    assert era.requests == []


def test_every_call_names_itself_in_a_request_id(era: ScriptedServer, client: MakeClient) -> None:
    env = client(era)
    env.step(SAY)
    env.step(SAY)
    first, second = (r.header("X-Request-ID") for r in era.posts("/step"))
    assert first
    assert second
    assert first != second


def test_the_caller_is_asked_who_it_is_by_user_agent(era: ScriptedServer, client: MakeClient) -> None:
    client(era, default_headers={"User-Agent": "mine/1"}).step(SAY)
    assert last(era).header("User-Agent") == "mine/1"


# --- auth --------------------------------------------------------------------------------------------------------


class Signed(AuthBase):
    """Puts the length of the body into a header, as signing schemes do."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["X-Signed"] = f"{request.method} {len(request.body or b'')}"
        return request


def test_a_text_as_auth_is_a_bearer_token(era: ScriptedServer, client: MakeClient) -> None:
    use(client(era, auth="s3cret"))
    own = [r for r in era.requests if r.path in ("/reset", "/step", "/state")]
    assert {r.header("Authorization") for r in own} == {"Bearer s3cret"}


@pytest.mark.parametrize("auth", [("me", "pw"), HTTPBasicAuth("me", "pw")])
def test_a_pair_or_an_auth_object_is_used_as_requests_does(
    era: ScriptedServer, client: MakeClient, auth: object
) -> None:
    use(client(era, auth=auth))
    assert {last(era, path).header("Authorization") for path in ("/reset", "/step", "/state")} == {"Basic bWU6cHc="}


def test_an_auth_object_sees_the_request_as_it_is_sent(era: ScriptedServer, client: MakeClient) -> None:
    client(era, auth=Signed()).step(SAY)
    assert last(era).header("X-Signed") == f"POST {len(last(era).body)}"


def test_credentials_in_the_url_are_used(era: ScriptedServer, client: MakeClient) -> None:
    client(era.url.replace("http://", "http://me:pw@")).step(SAY)
    assert last(era).header("Authorization") == "Basic bWU6cHc="


@pytest.fixture
def netrc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A netrc file with a password for every host."""
    path = tmp_path / "netrc"
    path.write_text("default login somebody password else\n")
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))


@pytest.mark.usefixtures("netrc")
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"auth": "s3cret"}, "Bearer s3cret"),
        ({"auth": ("me", "pw")}, "Basic bWU6cHc="),
        ({"default_headers": {"Authorization": "Bearer mine"}}, "Bearer mine"),
        ({"default_headers": {"authorization": "Bearer mine"}}, "Bearer mine"),
    ],
)
@pytest.mark.parametrize("keeps", [EraServer, SessionServer])
def test_netrc_replaces_nothing_that_the_caller_gave(
    serve: Serve, client: MakeClient, keeps: Any, given: dict[str, Any], sent: str
) -> None:
    server = serve(keeps())
    use(client(server, **given))
    assert {last(server, path).header("Authorization") for path in ("/reset", "/step", "/state")} == {sent}


@pytest.mark.usefixtures("netrc")
def test_netrc_replaces_no_auth_of_a_session(era: ScriptedServer, client: MakeClient, own: requests.Session) -> None:
    own.auth = ("me", "pw")
    client(era, session=own).step(SAY)
    assert last(era).header("Authorization") == "Basic bWU6cHc="


@pytest.mark.usefixtures("netrc")
def test_netrc_is_used_where_nothing_was_given(era: ScriptedServer, client: MakeClient) -> None:
    client(era).step(SAY)
    assert (last(era).header("Authorization") or "").startswith("Basic ")


def test_a_token_is_in_no_error_and_no_repr(era: ScriptedServer, client: MakeClient) -> None:
    env = client(era, auth="s3cret")
    env.reset()
    era.close()
    with pytest.raises(requests.ConnectionError) as caught:
        env.reset()
    assert "s3cret" not in f"{caught.value}{caught.value!r}{env!r}"


# --- cookies -----------------------------------------------------------------------------------------------------


def test_cookies_of_an_affinity_balancer_come_back_and_change(serve: Serve, client: MakeClient) -> None:
    first, second = (changed(headers=[("Set-Cookie", f"lane={n}; Path=/; HttpOnly")]) for n in (1, 2))
    server = serve(Faulty(EraServer()).on("/reset", first).on("/step", second))
    env = client(server)
    use(env)
    env.step(SAY)
    assert [r.header("Cookie") for r in server.posts("/step")] == ["lane=1", "lane=2"]


# --- a session of the caller's -----------------------------------------------------------------------------------


def test_headers_and_params_of_a_session_travel_and_may_change_later(
    era: ScriptedServer, client: MakeClient, own: requests.Session
) -> None:
    own.headers["X-Mine"] = "1"
    own.params = {"tenant": "a b"}
    env = client(era, session=own)
    env.step(SAY)
    own.headers["X-Mine"] = "2"
    own.params = {}
    env.step(SAY)
    first, second = era.posts()
    assert (first.target, first.header("X-Mine")) == ("/step?tenant=a+b", "1")
    assert (second.target, second.header("X-Mine")) == ("/step", "2")


def test_cookies_of_a_session_travel(era: ScriptedServer, client: MakeClient, own: requests.Session) -> None:
    own.cookies.set("lane", "9")
    client(era, session=own).step(SAY)
    assert last(era).header("Cookie") == "lane=9"


def test_an_adapter_of_a_session_carries_every_call(
    era: ScriptedServer, client: MakeClient, own: requests.Session
) -> None:
    class Counting(HTTPAdapter):
        sent: list[str] = []
        closed = False

        def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
            self.sent.append(request.path_url)
            return super().send(request, *args, **kwargs)

        def close(self) -> None:
            self.closed = True
            super().close()

    adapter = Counting()
    own.mount("http://", adapter)
    env = client(era, session=own)
    use(env)
    assert [path for path in adapter.sent if path != "/schema"] == ["/reset", "/step", "/state"]
    env.close()
    assert not adapter.closed


def test_a_session_class_of_the_callers_carries_every_call(era: ScriptedServer, client: MakeClient) -> None:
    class Loud(requests.Session):
        sent: list[str] = []

        def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
            self.sent.append(request.path_url)
            return super().send(request, **kwargs)

    with Loud() as session:
        use(client(era, session=session))
        assert {"/reset", "/step", "/state"} <= set(session.sent)


def test_response_hooks_of_a_session_see_every_reply(
    era: ScriptedServer, client: MakeClient, own: requests.Session
) -> None:
    seen: list[tuple[str, Any]] = []

    def note(response: requests.Response, *_: Any, **__: Any) -> None:
        seen.append((response.request.path_url, response.json()))

    own.hooks["response"].append(note)
    env = client(era, session=own)
    env.reset()
    env.step(SAY)
    told = dict(seen)
    assert {"/reset", "/step"} <= set(told)
    assert told["/step"]["observation"]["echoed_message"] == "hi"


def test_retries_of_an_adapter_are_the_callers_own_decision(
    serve: Serve, client: MakeClient, own: requests.Session
) -> None:
    from urllib3.util import Retry

    server = serve(EraServer())
    own.mount("http://", HTTPAdapter(max_retries=Retry(2, backoff_factor=0)))
    assert client(server, session=own).step(SAY).observation["echoed_message"] == "hi"


def test_a_session_serves_two_clients_and_outlives_both(
    era: ScriptedServer, client: MakeClient, own: requests.Session
) -> None:
    first, second = client(era, session=own), client(era, session=own, default_headers={"X-Who": "second"})
    use(first)
    use(second)
    first.close()
    second.step(SAY)
    second.close()
    assert own.get(f"{era.url}/health", timeout=5).json() == {"status": "healthy"}
    assert "X-Who" not in own.headers
    assert last(era, "/health").header("X-Who") is None


def test_the_limit_holds_on_a_session_of_the_callers(serve: Serve, client: MakeClient, own: requests.Session) -> None:
    server = serve(Faulty(EraServer()).on("/step", changed(trickle_body=0.05)))
    env = client(server, 0.5, session=own)
    env.reset()
    with pytest.raises(requests.Timeout):
        env.step(SAY)


def test_a_session_of_the_callers_keeps_its_episodes(serve: Serve, client: MakeClient, own: requests.Session) -> None:
    keeper = SessionServer()
    server = serve(keeper)
    env = client(server, session=own)
    use(env)
    env.close()
    assert [route for _, _, route in keeper.ran] == ["/reset", "/step"]
    assert len(keeper.deleted) == 1
