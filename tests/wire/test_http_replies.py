"""What a 200 may hold, and what is said of one that holds something else."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from envs.echo_env import EchoAction, EchoEnv
from openenv.core import codec
from openenv.core.errors import DecodeError, EncodeError, NotJSON, OpenEnvError, ProtocolError
from tests.wire.behaviours import EraServer, Faulty, SessionServer, echo_result, instead
from tests.wire.clients import SAY
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import HTML, Answer, Reply

JSON = [("Content-Type", "application/json")]
SERVERS: list[type[EraServer] | type[SessionServer]] = [EraServer, SessionServer]

STRANGE: dict[str, tuple[Reply, str]] = {
    "HTML": (HTML, "HTML"),
    "HTML that says it is JSON": (Reply(body=HTML.body, headers=JSON), "HTML"),
    "nothing": (Reply(headers=JSON), "empty"),
    "nothing and no type": (Reply(), "empty"),
    "blanks": (Reply(body=b"  \r\n ", headers=JSON), "not JSON|empty"),
    "cut JSON": (Reply(body=b'{"observation": {"echoed_me', headers=JSON), "cut|truncated|not JSON"),
    "text": (Reply(body=b"all is well", headers=[("Content-Type", "text/plain")]), "all is well"),
    "list": (Reply(body=b"[1, 2]", headers=JSON), "list|array"),
    "number": (Reply(body=b"3", headers=JSON), "int|number"),
    "null": (Reply(body=b"null", headers=JSON), "null|None"),
    "bytes": (Reply(body=b"\xff\xfe\x00\x01", headers=JSON), "not JSON"),
    "broken UTF-8": (Reply(body=b'{"observation": "\xc3\x28"}', headers=JSON), "UTF-8|not JSON"),
    "two objects": (Reply(body=b"{}{}", headers=JSON), "not JSON"),
    "broken MessagePack": (Reply(body=b"\x82\xa1", headers=[("Content-Type", codec.MSGPACK)]), "MessagePack"),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("keeps", SERVERS)
@pytest.mark.parametrize("path", ["/reset", "/step", "/state"])
def test_a_200_that_holds_no_object_is_a_protocol_error_that_names_what_came(
    serve: Serve, client: MakeClient, keeps: Callable[[], Answer], path: str, kind: str
) -> None:
    reply, words = STRANGE[kind]
    env = client(serve(Faulty(keeps()).on(path, *[instead(reply)] * 30)))
    if path != "/reset":
        env.reset()
    with pytest.raises(ProtocolError, match=rf"(?i){words}") as caught:
        {"/reset": env.reset, "/step": lambda: env.step(SAY), "/state": env.state}[path]()
    error = caught.value
    assert isinstance(error, requests.exceptions.InvalidJSONError)
    assert isinstance(error, ValueError)
    assert error.url is not None
    assert env.base_url in error.url
    assert not [name for name, _ in env.hooks[1:] if name.startswith("_parse")]


def test_what_is_not_json_is_what_requests_would_have_raised(serve: Serve, client: MakeClient) -> None:
    env = client(serve(Faulty(EraServer()).on("/step", instead(HTML))))
    with pytest.raises(NotJSON) as caught:
        env.step(SAY)
    assert isinstance(caught.value, requests.exceptions.JSONDecodeError)
    assert isinstance(caught.value, json.JSONDecodeError)


def test_a_long_page_is_cut_short_in_the_message(serve: Serve, client: MakeClient) -> None:
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(body=b"<html>" + b"x" * 100_000)))))
    with pytest.raises(ProtocolError) as caught:
        env.step(SAY)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("kind", ["text/json", "application/json; charset=utf-8", "application/problem+json", None])
def test_json_is_read_whatever_it_is_called(serve: Serve, client: MakeClient, kind: str | None) -> None:
    headers = [("Content-Type", kind)] if kind else []
    body = json.dumps({"observation": "ü"}, ensure_ascii=False).encode()
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(body=body, headers=headers)))))
    assert env.step(SAY).observation == "ü"


@pytest.mark.parametrize(
    "how",
    [
        {"chunked": True},
        {"gzip": True},
        {"gzip": True, "chunked": True},
        {"trickle_head": 0.0005},
        {"trickle_body": 0.0005},
        {"close": "said"},
        {"close": "silently"},
    ],
)
@pytest.mark.parametrize("keeps", SERVERS)
def test_a_reply_is_the_same_however_it_travels(
    serve: Serve, client: MakeClient, keeps: Callable[[], Answer], how: dict[str, Any]
) -> None:
    from dataclasses import replace

    answer = keeps()
    env = client(serve(lambda request: replace(answer(request), **how)))
    env.reset()
    # A call that meets the close half way may have run: no client can send it again to a server without sessions.
    pause = 0.1 if how.get("close") == "silently" else 0
    for word in ("one", "two", "three"):
        time.sleep(pause)
        assert env.step({"message": word}).observation == {"echoed_message": word, "message_length": len(word)}
    time.sleep(pause)
    assert env.state()["step_count"] == 3


def test_a_body_that_ends_with_the_connection_is_whole(serve: Serve, client: MakeClient) -> None:
    body = json.dumps(echo_result("hi")).encode()

    def raw(request: Any, answer: Answer) -> Reply:
        head, content = Reply(body=body, headers=JSON).parts()
        plain = head.replace(b"Content-Length: %d\r\n" % len(body), b"")
        return _Raw(plain + content)

    env = client(serve(Faulty(EraServer()).on("/step", raw)))
    assert env.step(SAY).observation["echoed_message"] == "hi"


class _Raw(Reply):
    """Bytes as they are, after which the connection is closed."""

    def __init__(self, data: bytes) -> None:
        super().__init__(close="silently")
        object.__setattr__(self, "_data", data)

    def parts(self) -> tuple[bytes, bytes]:
        return self._data, b""  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"]
)
def test_an_interim_reply_is_not_the_reply(serve: Serve, client: MakeClient, interim: bytes) -> None:
    def raw(request: Any, answer: Answer) -> Reply:
        head, content = answer(request).parts()
        return _Raw(interim + head + content)

    env = client(serve(Faulty(EraServer()).on("/step", raw)))
    if interim.startswith(b"HTTP/1.1 100"):
        assert env.step(SAY).observation["echoed_message"] == "hi"
    else:  # http.client knows no other interim reply
        with pytest.raises(OpenEnvError):
            env.step(SAY)


@pytest.mark.parametrize(
    "noise", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01\x00\x02\x02\x16", b"\r\n\r\n\r\n", b"HTTP/9 what\r\n\r\n"]
)
def test_what_is_not_http_is_a_named_error(serve: Serve, client: MakeClient, noise: bytes) -> None:
    server = serve(Faulty(EraServer()).on("/step", *[lambda *_: _Raw(noise)] * 3))
    env = client(server, 5)
    with pytest.raises(OpenEnvError):
        env.step(SAY)
    assert len(server.posts()) == 1


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", [None, True, False, 0, 3, 2.5, -0.0, 10**30])
@pytest.mark.parametrize("keeps", SERVERS)
def test_a_reward_arrives_as_what_it_was(
    serve: Serve, client: MakeClient, keeps: Callable[[], Answer], reward: Any
) -> None:
    reply = instead(Reply(body={"observation": {}, "reward": reward, "done": False}))
    env = client(serve(Faulty(keeps()).on("/step", reply)))
    env.reset()
    got = env.step(SAY).reward
    assert (type(got), got) == (type(reward), reward)


def test_nan_and_infinity_survive_between_our_own_ends(serve: Serve, client: MakeClient) -> None:
    def result(body: dict[str, Any]) -> dict[str, Any]:
        return {"observation": {"back": (body.get("action") or {}).get("x")}, "reward": math.nan, "done": False}

    env = client(serve(SessionServer(msgpack=True, result=result)))
    env.reset()
    for value in (math.nan, math.inf, -math.inf):
        got = env.step({"x": value})
        assert math.isnan(got.reward)
        assert got.observation["back"] == value or (math.isnan(value) and math.isnan(got.observation["back"]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_is_an_error_with_its_path_towards_a_strict_server(serve: Serve, client: MakeClient, value: float) -> None:
    server = serve(EraServer())
    env = client(server)
    env.reset()
    with pytest.raises(EncodeError) as caught:
        env.step({"deep": [{"x": 1.0}, {"x": value}]})
    assert isinstance(caught.value, ValueError)
    assert "deep[1].x" in caught.value.path
    assert caught.value.path in str(caught.value)
    with pytest.raises(EncodeError) as caught:
        env.reset(level=value)
    assert "level" in caught.value.path
    assert len(server.posts()) == 1
    assert env.step(SAY).observation["echoed_message"] == "hi"


def test_nan_in_a_first_reset_is_an_error_towards_a_strict_server(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    with pytest.raises(EncodeError):
        client(server).reset(level=math.nan)
    assert server.posts() == []


def test_nan_of_a_lax_server_is_read(serve: Serve, client: MakeClient) -> None:
    reply = Reply(body=b'{"observation": [NaN, Infinity], "reward": NaN}', headers=JSON)
    got = client(serve(Faulty(EraServer()).on("/step", instead(reply)))).step(SAY)
    assert math.isnan(got.reward)
    assert got.observation[1] == math.inf


def test_reset_sends_what_was_given_and_nothing_else(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    env = client(server)
    env.reset()
    env.reset(seed=0)
    env.reset(seed=7, episode_id="e", difficulty="hard", timeout_s=5, nested={"a": [None, 1.5, True]})
    env.reset(3, "f")
    assert [r.value() for r in server.posts("/reset")] == [
        {},
        {"seed": 0},
        {"seed": 7, "episode_id": "e", "difficulty": "hard", "nested": {"a": [None, 1.5, True]}},
        {"seed": 3, "episode_id": "f"},
    ]


def test_health_schema_and_metadata_are_the_servers_objects(serve: Serve, client: MakeClient) -> None:
    about = {"name": "echo", "version": None}
    server = serve(Faulty(SessionServer()).on("/metadata", instead(Reply(body=about))))
    env = client(server)
    assert env.health()["status"] == "healthy"
    assert env.schema()["protocol"] == 1
    assert env.metadata() == about
    assert {r.method for r in server.requests} == {"GET"}


# --- typed -------------------------------------------------------------------------------------------------------


def test_unknown_keys_of_a_newer_server_land_in_metadata(serve: Serve, client: MakeClient) -> None:
    seen = {"echoed_message": "x", "message_length": 1, "mood": "fine", "metadata": {"step": 1}}
    body = {"observation": seen, "reward": 0.1, "done": False, "cost": [1], "terminated": True, "truncated": False}
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(body=body)))), kind=EchoEnv)
    result = env.step(EchoAction(message="x"))
    assert result.observation.metadata == {"mood": "fine", "step": 1}
    assert result.metadata == {"cost": [1]}
    assert (result.terminated, result.truncated) == (True, False)


@pytest.mark.parametrize(
    ("observation", "path"),
    [
        ({"echoed_message": 3}, "echoed_message"),
        ({"echoed_message": "x", "message_length": "long"}, "message_length"),
        ({"echoed_message": "x", "message_length": None}, "message_length"),
        ("x", "observation"),
    ],
)
def test_a_field_of_the_wrong_shape_is_an_error_with_its_path(
    serve: Serve, client: MakeClient, observation: Any, path: str
) -> None:
    body = {"observation": observation, "reward": 0, "done": False}
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(body=body)))), kind=EchoEnv)
    with pytest.raises(DecodeError) as caught:
        env.step(EchoAction(message="x"))
    assert isinstance(caught.value, ProtocolError)
    assert path in caught.value.path
    assert path in str(caught.value)
