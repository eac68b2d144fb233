"""The peer's clients, as released, against our server: they must not notice that it is another one."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.remote import PeerClient, PeerError

Make = Callable[..., Any]

FIRST = "0.1.1"
WEBSOCKET = ("0.3.0", "0.10.0")
#: Client, and the style in which it is used.
CLIENTS = [(FIRST, "sync"), ("0.3.0", "sync"), ("0.3.0", "async"), ("0.10.0", "sync"), ("0.10.0", "async")]
SESSIONS = [(version, style) for version, style in CLIENTS if version != FIRST]

with_all = pytest.mark.parametrize(("version", "style"), CLIENTS)
with_sessions = pytest.mark.parametrize(("version", "style"), SESSIONS)


@pytest.fixture
def play(server: Make, peer_client: Callable[..., PeerClient], version: str, style: str) -> Make:
    """`play(env, ...)`: the client of this test on our server with that environment."""
    return lambda env, server_options=None, **options: peer_client(
        version, server("ours", env, **(server_options or {})).url, style=style, **options
    )


@with_all
def test_a_hundred_steps_of_one_episode(play: Make) -> None:
    client = play("counter", {"limit": 100})
    assert client.reset()["done"] is False
    results = [client.step({"amount": 2}) for _ in range(100)]
    assert [result["observation"]["total"] for result in results] == list(range(2, 202, 2))
    assert [result["done"] for result in results] == [False] * 99 + [True]
    assert client.state()["step_count"] == 100


@with_all
def test_every_reset_is_a_new_episode(play: Make) -> None:
    client = play("counter")
    states = []
    for _ in range(2):
        client.reset()
        client.step({"amount": 1})
        states.append(client.state())
    assert [state["step_count"] for state in states] == [1, 1]
    assert states[0]["episode_id"] != states[1]["episode_id"]


@with_sessions
def test_seed_id_and_options_arrive(play: Make) -> None:
    client = play("recorder")
    result = client.reset(seed=42, episode_id="ep-1", difficulty="hard")
    assert result["observation"]["reset"] == {"seed": 42, "episode_id": "ep-1", "extra": {"difficulty": "hard"}}
    state = client.state()
    assert state.keys() == {"episode_id", "step_count", "mood", "history"}
    assert state["episode_id"] == "ep-1"


@with_all
def test_metadata_reaches_those_who_read_it(play: Make, version: str) -> None:
    client = play("echo")
    client.reset()
    result = client.step({"message": "Hello"})
    assert result["reward"] == 0.5
    assert result["observation"]["echoed_message"] == "Hello"
    if version == "0.10.0":
        assert result["metadata"]["step"] == 1


@with_all
def test_a_reward_is_what_the_environment_gave(play: Make) -> None:
    client = play("rewards")
    client.reset()
    kinds = ["none", "int", "zero", "true", "false", "float"]
    assert json.dumps([client.step({"kind": kind})["reward"] for kind in kinds]) == "[null, 1, 0, true, false, 0.25]"


@with_all
def test_an_observation_of_twenty_megabytes(play: Make) -> None:
    client = play("big")
    client.reset()
    assert len(client.step({"size": 20_000_000})["observation"]["blob"]) == 20_000_000


@with_all
def test_fields_that_the_client_does_not_know(play: Make) -> None:
    client = play("novel")
    assert client.reset()["observation"]["novelty"] == {"deep": [1, {"er": None}]}
    assert client.state()["mood"] == "calm"


@with_all
def test_an_environment_that_raises_is_the_error_that_their_users_catch(play: Make, version: str) -> None:
    client = play("failing")
    client.reset()
    client.step({"message": "go"})
    with pytest.raises(PeerError) as caught:
        client.step({"message": "fail"})
    if version == FIRST:
        assert caught.value.kind == "HTTPError"
        assert caught.value.message.startswith("500 ")
    else:
        assert caught.value.kind == "RuntimeError"
        assert caught.value.message == "Server error: step refused: fail (code: EXECUTION_ERROR)"
    assert client.step({"message": "go"})["observation"]["count"] == 2


@with_all
def test_a_wrong_action_is_refused_and_changes_nothing(play: Make, version: str) -> None:
    client = play("failing")
    client.reset()
    with pytest.raises(PeerError, match="422" if version == FIRST else "VALIDATION_ERROR"):
        client.step({"message": "go", "surprise": 1})
    assert client.step({"message": "go"})["observation"]["count"] == 1


def refused(error: PeerError, code: str) -> bool:
    """Their clients see the refusal, or that the server closed after it where that is what they notice first."""
    return code in error.message or error.kind == "ConnectionClosedOK"


@with_all
def test_a_factory_that_fails(play: Make, version: str) -> None:
    client = play("broken")
    with pytest.raises(PeerError) as caught:
        client.reset()
    assert caught.value.message.startswith("500 ") if version == FIRST else refused(caught.value, "FACTORY_ERROR")


@with_sessions
def test_a_full_server_refuses_and_a_closed_client_makes_room(
    server: Make, peer_client: Callable[..., PeerClient], version: str, style: str
) -> None:
    url = server("ours", "counter", capacity=2).url
    clients = [peer_client(version, url, style=style) for _ in range(3)]
    for client in clients[:2]:
        client.reset()
    with pytest.raises(PeerError) as caught:
        clients[2].reset()
    assert refused(caught.value, "CAPACITY_REACHED")
    clients[0].call("close")
    fresh = peer_client(version, url, style=style)
    until = time.monotonic() + 5
    while True:
        try:
            fresh.reset()
            break
        except PeerError:
            assert time.monotonic() < until, "the slot of a closed client was not freed"
            time.sleep(0.02)


@with_sessions
def test_a_client_that_is_killed_makes_room(
    server: Make, peer_client: Callable[..., PeerClient], version: str, style: str
) -> None:
    url = server("ours", "counter", capacity=1).url
    victim = peer_client(version, url, style=style)
    victim.reset()
    victim.kill()
    until = time.monotonic() + 5
    while True:
        fresh = peer_client(version, url, style=style)
        try:
            assert fresh.reset()["observation"]["total"] == 0
            break
        except PeerError:
            assert time.monotonic() < until, "the slot of a killed client was not freed"
            time.sleep(0.05)


@with_sessions
def test_clients_do_not_share_an_episode(
    server: Make, peer_client: Callable[..., PeerClient], version: str, style: str
) -> None:
    url = server("ours", "counter").url
    one, two = (peer_client(version, url, style=style) for _ in range(2))
    one.reset()
    two.reset()
    one.step({"amount": 5})
    assert two.step({"amount": 1})["observation"]["total"] == 1
    assert one.step({"amount": 5})["observation"]["total"] == 10


def test_clients_of_the_first_generation_share_the_default_session(
    server: Make, peer_client: Callable[..., PeerClient]
) -> None:
    url = server("ours", "counter").url
    one, two = (peer_client(FIRST, url) for _ in range(2))
    one.reset()
    one.step({"amount": 5})
    assert two.step({"amount": 1})["observation"]["total"] == 6


def test_a_limit_below_a_second_does_not_stop_a_client_of_the_first_generation(
    server: Make, peer_client: Callable[..., PeerClient]
) -> None:
    client = peer_client(FIRST, server("ours", "counter").url, request_timeout_s=0.9)
    client.reset()
    assert client.step({"amount": 1})["observation"]["count"] == 1


@pytest.mark.parametrize("style", ["sync", "async"])
def test_new_session_of_the_newest_client(server: Make, peer_client: Callable[..., PeerClient], style: str) -> None:
    url = server("ours", "counter", capacity=2).url
    client = peer_client("0.10.0", url, style=style)
    client.reset()
    client.step({"amount": 5})
    client.call("new_session", keep="second")
    client.call("reset", on="second")
    assert client.call("step", {"amount": 1}, on="second")["observation"]["total"] == 1
    assert client.step({"amount": 5})["observation"]["total"] == 10
    client.call("close")
    fresh = peer_client("0.10.0", url)
    until = time.monotonic() + 5
    while True:
        try:
            fresh.reset()
            break
        except PeerError:
            assert time.monotonic() < until, "closing the parent did not free the slots"
            time.sleep(0.02)


@pytest.mark.parametrize("style", ["sync"])
@pytest.mark.parametrize(
    ("version", "pings"),
    [
        ("0.3.0", {}),
        ("0.10.0", {"websocket_ping_interval_s": 0.2, "websocket_ping_timeout_s": 0.5}),
        ("0.10.0", {"websocket_ping_interval_s": None, "websocket_ping_timeout_s": None}),
    ],
    ids=["0.3.0", "0.10.0 pings", "0.10.0 no pings"],
)
def test_a_step_that_lasts_longer_than_a_ping_may(play: Make, pings: dict[str, Any]) -> None:
    client = play("slow", **pings)
    client.reset()
    assert client.step({"seconds": 1.2})["observation"]["slept"] == 1.2
    assert client.step({"seconds": 0.0})["observation"]["count"] == 2


@pytest.mark.parametrize(("version", "style"), [("0.10.0", "sync"), ("0.10.0", "async")])
def test_after_a_late_answer_the_newest_client_starts_anew(play: Make) -> None:
    client = play("slow", message_timeout_s=0.3)
    client.reset()
    with pytest.raises(PeerError) as caught:
        client.step({"seconds": 0.6})
    assert "TimeoutError" in caught.value.bases
    assert client.reset()["observation"]["slept"] == 0.0
    assert client.step({"seconds": 0.0})["observation"]["count"] == 1


@with_sessions
def test_a_server_that_restarts_has_forgotten_the_episode(
    server: Make, peer_client: Callable[..., PeerClient], version: str, style: str
) -> None:
    first = server("ours", "counter", fresh=True)
    client = peer_client(version, first.url, style=style)
    client.reset()
    client.step({"amount": 5})
    first.kill()
    server("ours", "counter", port=int(first.url.rpartition(":")[2]))
    with contextlib.suppress(PeerError):  # the older client does not reconnect by itself, and fails to say goodbye
        client.call("disconnect")
    client.reset()
    assert client.step({"amount": 1})["observation"]["total"] == 1


@pytest.mark.parametrize(("version", "style"), [("0.3.0", "sync"), ("0.10.0", "sync")])
def test_tools_by_actions(play: Make) -> None:
    client = play("tools")
    client.reset()
    listed = client.step({"type": "list_tools"})["observation"]["tools"]
    assert {tool["name"] for tool in listed} == {"add", "calls", "fail"}
    called = client.step({"type": "call_tool", "tool_name": "add", "arguments": {"a": 2, "b": 3}})["observation"]
    assert (called["result"]["data"], called["error"]) == (5, None)
    failed = client.step({"type": "call_tool", "tool_name": "fail", "arguments": {"reason": "r"}})["observation"]
    assert failed["error"]["error_type"] == "execution_error"
