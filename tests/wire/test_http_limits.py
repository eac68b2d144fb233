"""Limits of time and size: they are total, they are named, and the caller sets them."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import requests

from openenv.core import Timeouts
from openenv.core.errors import CallTimeout, ConfigurationError, ConnectTimeout, EpisodeLost, ProtocolError
from tests.wire.behaviours import EraServer, Faulty, SessionServer, changed, instead
from tests.wire.clients import SAY, PlainEnv
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Answer, Reply

#: What docs/protocol.md lets a client wait beyond the limit that it gave to a server that keeps sessions.
GRACE_S = 2.0
SERVERS: list[type[EraServer] | type[SessionServer]] = [EraServer, SessionServer]
SLOW = {
    "held": {"held": True},
    "late": {"delay": 30.0},
    "trickled head": {"trickle_head": 0.05},
    "trickled body": {"trickle_body": 0.05},
    "trickled chunks": {"endless": True, "trickle_body": 0.05},
    "trickled gzip": {"gzip": True, "trickle_body": 0.05},
}
PADDING = [("X-Padding", "x" * 200)]


@contextmanager
def soon(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def slowly(how: dict[str, Any]) -> Reply:
    return Reply(body={"observation": "x" * 200, "step_count": 0}, headers=PADDING, **how)


@pytest.mark.parametrize("how", SLOW)
@pytest.mark.parametrize("path", ["/reset", "/step", "/state"])
def test_a_limit_is_total_however_the_server_dawdles(serve: Serve, client: MakeClient, path: str, how: str) -> None:
    env = client(serve(Faulty(EraServer()).on(path, instead(slowly(SLOW[how])))), 0.5)
    call: dict[str, Callable[[], Any]] = {"/reset": env.reset, "/step": lambda: env.step(SAY), "/state": env.state}
    with soon(2), pytest.raises(CallTimeout) as caught:
        call[path]()
    error = caught.value
    assert isinstance(error, requests.Timeout)
    assert isinstance(error, TimeoutError)
    assert error.limit == path[1:]
    assert error.allowed_s == 0.5
    assert error.elapsed_s is not None
    assert 0.4 < error.elapsed_s < 2
    assert "0.5 s" in str(error)
    assert f"Timeouts({path[1:]}=" in error.remedy


@pytest.mark.parametrize("how", SLOW)
def test_a_server_that_keeps_sessions_gets_two_seconds_more_and_no_longer(
    serve: Serve, client: MakeClient, how: str
) -> None:
    env = client(serve(Faulty(SessionServer()).on("/step", changed(**SLOW[how], headers=PADDING))), 0.5)
    env.reset()
    with soon(2 + GRACE_S), pytest.raises(CallTimeout) as caught:
        env.step(SAY)
    assert (caught.value.limit, caught.value.allowed_s) == ("step", 0.5)


def test_the_word_of_a_server_about_its_own_limit_arrives(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(SessionServer()).on("/step", changed(delay=0.8)))
    env = client(server, 0.5)
    env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"


@pytest.mark.parametrize("method", ["health", "schema", "metadata"])
def test_questions_about_the_server_have_the_limit_of_state(serve: Serve, client: MakeClient, method: str) -> None:
    env = client(serve(Faulty(EraServer()).on(f"/{method}", instead(Reply(held=True)))), timeouts=Timeouts(state=0.3))
    with soon(2), pytest.raises(CallTimeout) as caught:
        getattr(env, method)()
    assert caught.value.limit == "state"


@pytest.mark.parametrize("path", ["reset", "step", "state"])
def test_each_kind_of_call_has_its_own_limit(serve: Serve, client: MakeClient, path: str) -> None:
    env = client(
        serve(Faulty(EraServer()).on(f"/{path}", instead(Reply(held=True)))), 60, timeouts=Timeouts(**{path: 0.3})
    )
    with soon(2), pytest.raises(CallTimeout) as caught:
        env.step(SAY) if path == "step" else getattr(env, path)()
    assert (caught.value.limit, caught.value.allowed_s) == (path, 0.3)


@pytest.mark.parametrize("path", ["reset", "step", "state"])
def test_one_call_has_its_own_limit(serve: Serve, client: MakeClient, path: str) -> None:
    env = client(serve(Faulty(EraServer()).on(f"/{path}", instead(Reply(held=True)))), None)
    with soon(2), pytest.raises(CallTimeout) as caught:
        env.step(SAY, timeout_s=0.3) if path == "step" else getattr(env, path)(timeout_s=0.3)
    assert caught.value.allowed_s == 0.3
    assert "timeout_s" in caught.value.remedy


def test_total_caps_every_call_and_is_named_as_what_fired(serve: Serve, client: MakeClient) -> None:
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(held=True)))), 60, timeouts=Timeouts(total=0.3))
    with soon(2), pytest.raises(CallTimeout) as caught:
        env.step(SAY)
    assert (caught.value.limit, caught.value.allowed_s) == ("total", 0.3)
    assert "Timeouts(total=" in caught.value.remedy


def test_none_is_unlimited(serve: Serve, client: MakeClient) -> None:
    server = serve(
        Faulty(EraServer()).on("/step", changed(delay=1.2), changed(delay=1.2)).on("/reset", changed(delay=1.2))
    )
    env = client(server, None)
    env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"
    env = client(server, 0.3)
    assert env.step(SAY, timeout_s=None).observation["echoed_message"] == "hi"
    assert env.state(timeout_s=None)["step_count"] == 2


def test_infinity_is_unlimited_and_travels_as_null(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    client(server, math.inf).step(SAY)
    assert server.posts("/step")[0].value()["timeout_s"] is None


@pytest.mark.parametrize("limit", [0, -1, math.nan, True, "soon", [1]])
def test_what_is_no_limit_is_refused_before_anything_is_sent(serve: Serve, client: MakeClient, limit: Any) -> None:
    server = serve(EraServer())
    env = client(server)
    for call in (
        lambda: PlainEnv(server.url, limit),
        lambda: Timeouts(step=limit),
        lambda: env.step(SAY, timeout_s=limit),
        lambda: env.reset(timeout_s=limit),
        lambda: env.state(timeout_s=limit),
    ):
        with pytest.raises(ConfigurationError, match="positive number of seconds"):
            call()
    assert server.requests == []


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: connecting to it neither works nor fails."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listener.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


def test_the_connect_limit_is_named_and_nothing_was_sent(client: MakeClient, deaf_port: int) -> None:
    env = client(f"http://127.0.0.1:{deaf_port}", 0.9, timeouts=Timeouts(connect=0.3))
    with soon(3), pytest.raises(ConnectTimeout) as caught:
        env.reset()
    assert isinstance(caught.value, requests.ConnectTimeout)
    assert caught.value.limit == "connect"
    assert "Timeouts(connect=" in caught.value.remedy
    assert caught.value.retryable
    assert not caught.value.episode_lost


def test_a_call_may_not_connect_for_longer_than_it_may_last(client: MakeClient, deaf_port: int) -> None:
    env = client(f"http://127.0.0.1:{deaf_port}", 0.4)
    with soon(2), pytest.raises(requests.Timeout):
        env.reset()


def test_closing_is_bounded_where_the_server_hangs(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(SessionServer()).on("/session", instead(Reply(held=True))))
    env = client(server, timeouts=Timeouts(close=0.3))
    env.reset()
    with soon(2):
        env.close()
    assert len(server.of("DELETE", "/session")) == 1


def test_after_a_time_out_the_late_reply_is_never_read(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(EraServer()).on("/step", changed(delay=0.6)))
    env = client(server, 0.3)
    env.reset()
    with pytest.raises(CallTimeout):
        env.step({"message": "late"})
    assert env.reset().observation["message_length"] == 0
    assert env.step({"message": "next"}).observation["echoed_message"] == "next"
    late, reset = server.posts("/step")[0], server.posts("/reset")[1]
    assert late.connection != reset.connection


def test_after_a_time_out_step_is_episode_lost_until_reset(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(EraServer()).on("/step", instead(Reply(held=True))))
    env = client(server, 0.3)
    env.reset()
    with pytest.raises(CallTimeout):
        env.step(SAY)
    for _ in range(2):
        with pytest.raises(EpisodeLost, match="reset"):
            env.step(SAY)
    assert len(server.posts("/step")) == 1
    env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"


# --- sizes -------------------------------------------------------------------------------------------------------

LARGE = {
    "announced": Reply(body={"observation": "x" * 5000}),
    "announced and never sent": Reply(length=1 << 40, trickle_body=0.5, body=b"{}"),
    "chunked": Reply(body={"observation": "x" * 5000}, chunked=True),
    "endless": Reply(body=b"[" * 1000, endless=True),
    "gzip": Reply(body={"observation": "x" * 200_000}, gzip=True),
    "an error": Reply(status=500, body=b"x" * 5000),
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("server", SERVERS)
def test_a_reply_over_max_reply_bytes_is_an_error_that_names_it(
    serve: Serve, client: MakeClient, server: Callable[[], Answer], kind: str
) -> None:
    env = client(serve(Faulty(server()).on("/step", instead(LARGE[kind]))), max_reply_bytes=4000)
    env.reset()
    with soon(5), pytest.raises(ProtocolError, match="max_reply_bytes") as caught:
        env.step(SAY)
    assert "4000" in str(caught.value)


@pytest.mark.parametrize("how", [{}, {"chunked": True}, {"gzip": True}])
def test_a_reply_just_under_max_reply_bytes_arrives(serve: Serve, client: MakeClient, how: dict[str, Any]) -> None:
    body = {"observation": "x" * 3900}
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(body=body, **how)))), max_reply_bytes=4000)
    assert env.step(SAY).observation == "x" * 3900


@pytest.mark.parametrize("server", SERVERS)
def test_the_episode_is_in_doubt_after_a_reply_that_was_too_large(
    serve: Serve, client: MakeClient, server: Callable[[], Answer]
) -> None:
    env = client(serve(Faulty(server()).on("/step", changed(body={"observation": "x" * 5000}))), max_reply_bytes=4000)
    env.reset()
    with pytest.raises(ProtocolError):
        env.step(SAY)
    env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"
