"""Sessions as docs/protocol.md has them, seen from the client."""

from __future__ import annotations

import re
from typing import Any

import pytest

from openenv.core import codec
from openenv.core.errors import EpisodeLost, OpenEnvError, ProtocolError
from tests.wire.behaviours import (
    EraServer,
    Faulty,
    Session,
    SessionServer,
    changed,
    envelope,
    instead,
    lost_reply,
    without_headers,
)
from tests.wire.clients import SAY
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Reply


def test_every_call_names_a_session_that_cannot_be_guessed(serve: Serve, client: MakeClient) -> None:
    server = serve(SessionServer())
    names = set()
    for _ in range(3):
        env = client(server)
        env.reset()
        env.step(SAY)
        env.state()
        env.close()
        of_this = {r.header("OpenEnv-Session") for r in server.requests[-4:]}
        assert len(of_this) == 1
        names |= of_this
    assert len(names) == 3
    assert all(name and re.fullmatch(r"[A-Za-z0-9_-]{22,64}", name) for name in names)


def test_resets_and_steps_are_counted_from_one(serve: Serve, client: MakeClient) -> None:
    server = serve(SessionServer())
    env = client(server)
    env.reset()
    env.step(SAY)
    env.state()
    env.step(SAY)
    env.reset()
    assert [r.header("OpenEnv-Seq") for r in server.posts()] == ["1", "2", "3", "4"]
    assert {r.header("OpenEnv-Seq") for r in server.requests if r.method == "GET"} == {None}


def test_bodies_are_json_until_the_server_has_proved_itself(serve: Serve, client: MakeClient) -> None:
    server = serve(SessionServer(msgpack=True))
    env = client(server)
    env.reset(level=1)
    env.step(SAY)
    first, second = server.posts()
    assert first.header("Content-Type") == codec.JSON
    assert codec.MSGPACK in (first.header("Accept") or "")
    assert second.header("Content-Type") in (codec.JSON, codec.MSGPACK)
    assert second.value()["action"] == SAY


def test_a_server_that_keeps_no_sessions_gets_json_for_good(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    env = client(server)
    env.reset()
    env.step(SAY)
    env.reset()
    assert {r.header("Content-Type") for r in server.posts()} == {codec.JSON}
    assert "openenv" not in server.posts("/step")[0].value()


def test_two_clients_on_one_server_do_not_mix(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    server = serve(keeper)
    one, two = client(server), client(server)
    one.reset()
    two.reset()
    for _ in range(3):
        one.step(SAY)
    two.step(SAY)
    assert (one.state()["step_count"], two.state()["step_count"]) == (3, 1)
    one.close()
    assert two.state()["step_count"] == 1


# --- lost ones ---------------------------------------------------------------------------------------------------


def test_a_server_that_was_restarted_is_episode_lost_and_no_new_episode(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    server = serve(keeper)
    env = client(server)
    env.reset()
    env.step(SAY)
    keeper.sessions.clear()
    keeper.instance = "instance-2"
    for _ in range(2):
        with pytest.raises(EpisodeLost, match="reset"):
            env.step(SAY)
    assert keeper.sessions == {}
    assert env.reset().observation["message_length"] == 0
    env.step(SAY)
    assert env.state()["step_count"] == 1


def test_an_answer_from_another_instance_says_that_the_balancer_is_not_sticky(serve: Serve, client: MakeClient) -> None:
    one, other = SessionServer("instance-1"), SessionServer("instance-2")
    server = serve(Faulty(one).on("/step", lambda request, _: other(request)))
    env = client(server)
    env.reset()
    with pytest.raises(EpisodeLost, match=r"(?s)balancer.*not sticky|not sticky.*balancer") as caught:
        env.step(SAY)
    assert caught.value.episode_lost
    assert other.ran == []


def test_an_expired_session_on_the_same_instance_says_nothing_of_balancers(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    env = client(serve(keeper))
    env.reset()
    keeper.deleted += list(keeper.sessions)
    keeper.sessions.clear()
    with pytest.raises(EpisodeLost) as caught:
        env.step(SAY)
    assert caught.value.code == "SESSION_CLOSED"
    assert "sticky" not in str(caught.value)


def test_after_an_expired_session_reset_begins_anew(serve: Serve, client: MakeClient) -> None:
    """The id itself is dead for good (410), so the next reset needs another."""
    keeper = SessionServer()
    env = client(serve(keeper))
    env.reset()
    keeper.deleted += list(keeper.sessions)
    keeper.sessions.clear()
    with pytest.raises(EpisodeLost):
        env.step(SAY)
    assert env.reset().observation["message_length"] == 0
    assert env.step(SAY).observation["echoed_message"] == "hi"


def test_a_reset_after_a_long_pause_begins_anew_at_once(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    env = client(serve(keeper))
    env.reset()
    keeper.deleted += list(keeper.sessions)
    keeper.sessions.clear()
    try:
        env.reset()
    except EpisodeLost:
        env.reset()
    assert env.step(SAY).observation["echoed_message"] == "hi"


def test_a_number_that_the_server_does_not_expect_is_episode_lost(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    env = client(serve(keeper))
    env.reset()
    keeper.sessions[next(iter(keeper.sessions))] = Session(last=9)
    with pytest.raises(EpisodeLost) as caught:
        env.step(SAY)
    assert caught.value.code == "SEQ_MISMATCH"
    with pytest.raises(EpisodeLost):
        env.step(SAY)


# --- long steps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_a_call_that_still_runs_is_asked_again_by_the_same_number(serve: Serve, client: MakeClient, path: str) -> None:
    keeper = SessionServer()
    running = instead(envelope(202, "STILL_RUNNING", running_s=25))
    plan = [running, running] if path == "/step" else [changed(), running, running]
    server = serve(Faulty(keeper).on(path, *plan))
    env = client(server)
    env.reset()
    result = env.step(SAY) if path == "/step" else env.reset()
    assert result.observation["message_length"] == (2 if path == "/step" else 0)
    asked = [(r.header("OpenEnv-Seq"), r.body) for r in server.posts(path)][-3:]
    assert len(set(asked)) == 1
    assert len(keeper.ran) == 2


def test_a_call_that_still_runs_in_the_first_reset_is_waited_for(serve: Serve, client: MakeClient) -> None:
    def running(request: Any, answer: Any) -> Reply:
        reply = envelope(202, "STILL_RUNNING", running_s=25)
        headers = [*reply.headers, ("OpenEnv-Session", request.header("OpenEnv-Session"))]
        return Reply(status=202, body=reply.body, headers=headers)

    server = serve(Faulty(SessionServer()).on("/reset", running))
    assert client(server).reset().observation["message_length"] == 0
    assert len(server.posts("/reset")) == 2


def test_a_call_that_runs_for_ever_ends_with_its_limit(serve: Serve, client: MakeClient) -> None:
    slow = instead(Reply(status=202, body=envelope(202, "STILL_RUNNING").body, delay=0.1))
    env = client(serve(Faulty(SessionServer()).on("/step", *[slow] * 1000)), 0.5)
    env.reset()
    with pytest.raises(TimeoutError):
        env.step(SAY)
    with pytest.raises(EpisodeLost):
        env.step(SAY)


# --- proxies that strip headers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("of_replies", [True, False])
def test_behind_a_proxy_that_strips_headers_the_ids_travel_in_bodies(
    serve: Serve, client: MakeClient, of_replies: bool
) -> None:
    keeper = SessionServer()
    server = serve(without_headers(keeper, of_replies=of_replies))
    env = client(server)
    env.reset(seed=3)
    assert env.step(SAY).observation == {"echoed_message": "hi", "message_length": 2}
    assert env.state()["step_count"] == 1
    env.reset()
    env.step(SAY)
    (mine,) = set(keeper.sessions) - {"default"}
    sent = [r.value()["openenv"] for r in server.posts() if "openenv" in (r.value() or {})]
    assert {ids["session"] for ids in sent} == {mine}
    assert [ids["seq"] for ids in sent if "seq" in ids] == [1, 2, 3, 4]
    assert [r.value()["seed"] for r in server.posts("/reset")[:2]] == [3, 3]
    of_mine = [(number, route) for name, number, route in keeper.ran if name == mine]
    assert of_mine == [(1, "/reset"), (2, "/step"), (3, "/reset"), (4, "/step")]
    env.close()
    assert keeper.deleted == [mine]
    assert mine not in keeper.sessions


def test_an_environment_is_never_shared_with_strangers(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    server = serve(without_headers(keeper))
    one, two = client(server), client(server)
    one.reset()
    two.reset()
    one.step(SAY)
    one.step(SAY)
    two.step(SAY)
    assert (one.state()["step_count"], two.state()["step_count"]) == (2, 1)
    assert [route for name, _, route in keeper.ran if name == "default"].count("/step") == 0


def test_bodies_with_ids_are_retried_likewise(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    server = serve(Faulty(without_headers(keeper)).on("/step", lost_reply, instead(Reply(status=502))))
    env = client(server)
    env.reset()
    env.step(SAY)
    assert env.state()["step_count"] == 1
    assert len({r.body for r in server.posts("/step")}) == 1
    assert len(server.posts("/step")) == 3


def test_the_hooks_do_not_see_the_ids(serve: Serve, client: MakeClient) -> None:
    env = client(serve(without_headers(SessionServer())))
    env.reset()
    env.step(SAY)
    assert all("openenv" not in payload for payload in env.told("_parse_result"))


def test_an_option_of_reset_may_not_be_called_as_the_ids_are(serve: Serve, client: MakeClient) -> None:
    keeper = SessionServer()
    server = serve(without_headers(keeper))
    env = client(server)
    try:
        env.reset(openenv={"session": "x" * 22, "seq": 1})
    except (ValueError, OpenEnvError):
        return
    assert "x" * 22 not in keeper.sessions


# --- servers that forget -----------------------------------------------------------------------------------------


def stateless(request: Any) -> Reply:
    """A server that answers `/schema` and keeps nothing between two HTTP calls."""
    if request.path == "/schema":
        return Reply(body={"action": {}, "observation": {}, "state": {}})
    return EraServer()(request)


def test_a_server_that_forgets_is_named_where_http_is_forced(serve: Serve, client: MakeClient) -> None:
    env = client(serve(stateless), transport="http")
    with pytest.raises(ProtocolError, match="transport") as caught:
        env.reset()
    assert not caught.value.retryable


def test_an_http_era_server_is_not_mistaken_for_one_that_forgets(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    env = client(server, transport="http")
    env.reset()
    for n in range(1, 4):
        env.step(SAY)
        assert env.state()["step_count"] == n
    assert len(server.of("GET", "/schema")) == 1
