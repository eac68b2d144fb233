"""Our clients against every generation of the peer's servers, and against ours: one and the same code for all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from envs.echo_env import EchoAction, EchoEnv
from openenv.core import errors
from tests.interop import drivers
from tests.interop.drivers import ASYNC, HTTP, KINDS, SYNC

SERVERS = ("0.1.1", "0.3.0", "0.10.0", "ours")
#: Every client on every server that it can speak to: the first generation has no sessions on a WebSocket.
PAIRS = [(kind, version) for version in SERVERS for kind in KINDS if version != "0.1.1" or kind == HTTP]
SESSIONS = [(kind, version) for kind, version in PAIRS if version != "0.1.1"]
WEBSOCKETS = [(kind, version) for kind, version in SESSIONS if kind != HTTP]

Make = Callable[..., Any]
on_all = pytest.mark.parametrize(("kind", "version"), PAIRS)
on_websockets = pytest.mark.parametrize(("kind", "version"), WEBSOCKETS)
on_sessions = pytest.mark.parametrize(("kind", "version"), SESSIONS)


@on_all
def test_a_hundred_steps_of_one_episode(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "counter", limit=100).url)
    first = env.reset()
    results = [env.step({"amount": 2}) for _ in range(100)]
    assert (first.observation["total"], first.done) == (0, False)
    assert [result.observation["total"] for result in results] == list(range(2, 202, 2))
    assert [result.done for result in results] == [False] * 99 + [True]
    state = env.state()
    assert state["step_count"] == 100
    assert env.state()["episode_id"] == state["episode_id"]


@pytest.mark.parametrize(
    ("version", "transport"),
    [("0.1.1", "http, no sessions"), ("0.3.0", "websocket"), ("0.10.0", "websocket"), ("ours", "http")],
)
def test_echo_env_counts_to_a_hundred_everywhere_and_says_how_it_travels(
    server: Make, version: str, transport: str
) -> None:
    with EchoEnv(server(version, "echo_counted").url) as env:
        env.reset()
        rewards = []
        while True:
            result = env.step(EchoAction(message="hello"))
            rewards.append(result.reward)
            assert result.observation.message_length == 5
            if result.done:
                break
        assert rewards == list(range(1, 101))
        assert env.state().step_count == 100
        assert repr(env).endswith(f"{transport}>")


@on_all
def test_two_episodes_differ_and_each_begins_at_zero(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "counter").url)
    seen = []
    for _ in range(2):
        env.reset()
        env.step({"amount": 1})
        seen.append(env.state())
    assert [state["step_count"] for state in seen] == [1, 1]
    assert seen[0]["episode_id"] != seen[1]["episode_id"]


@on_sessions
def test_clients_do_not_share_an_episode(client: Make, server: Make, kind: str, version: str) -> None:
    url = server(version, "counter").url
    one, two = client(kind, url), client(kind, url)
    one.reset()
    two.reset()
    one.step({"amount": 5})
    assert two.step({"amount": 1}).observation["total"] == 1
    assert one.step({"amount": 5}).observation["total"] == 10


@on_sessions
def test_seed_id_and_options_arrive(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "recorder").url)
    result = env.reset(seed=42, episode_id="ep-1", difficulty="hard")
    assert result.observation["reset"] == {"seed": 42, "episode_id": "ep-1", "extra": {"difficulty": "hard"}}
    assert env.state()["episode_id"] == "ep-1"


def test_the_first_generation_ignores_seed_id_and_options(client: Make, server: Make) -> None:
    env = client(HTTP, server("0.1.1", "recorder").url)
    result = env.reset(seed=42, episode_id="ep-1", difficulty="hard")
    assert result.observation["reset"] == {"seed": None, "episode_id": None, "extra": {}}


@on_all
def test_metadata_of_a_result(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "echo").url)
    env.reset()
    result = env.step({"message": "Hello"})
    assert result.reward == 0.5
    told = (result.metadata or {}).get("step")
    assert told == (1 if version in ("0.10.0", "ours") else None)


@on_all
def test_a_reward_is_what_the_environment_gave(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "rewards").url)
    env.reset()
    kinds = ["none", "int", "zero", "true", "false", "float"]
    rewards = [env.step({"kind": name}).reward for name in kinds]
    assert json.dumps(rewards) == "[null, 1, 0, true, false, 0.25]"


@on_all
def test_fields_that_the_models_do_not_know_are_kept(server: Make, kind: str, version: str) -> None:
    env = drivers.make_echo(kind, server(version, "novel").url)
    try:
        assert env.reset().observation.metadata["novelty"] == {"deep": [1, {"er": None}]}
        result = env.step(EchoAction(message="hello"))
        assert (result.observation.echoed_message, result.reward) == ("hello", 0.5)
        assert result.observation.metadata["novelty"] == {"n": 1}
        assert env.state().step_count == 1
    finally:
        env.close()


@on_all
def test_an_observation_of_twenty_megabytes(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "big").url)
    env.reset()
    assert len(env.step({"size": 20_000_000}).observation["blob"]) == 20_000_000


@on_all
def test_an_environment_that_raises_is_named_and_the_episode_goes_on(
    client: Make, server: Make, kind: str, version: str
) -> None:
    env = client(kind, server(version, "failing").url)
    env.reset()
    env.step({"message": "go"})
    with pytest.raises(errors.EnvironmentFailed) as caught:
        env.step({"message": "fail"})
    assert ("step refused: fail" in str(caught.value)) == (version != "0.1.1")
    assert not caught.value.episode_lost
    assert env.step({"message": "go"}).observation["count"] == 2


@on_sessions
def test_a_reset_that_raises_is_named(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "failing").url)
    with pytest.raises(errors.EnvironmentFailed, match="reset refused"):
        env.reset(fail=True)
    env.reset()
    assert env.step({"message": "go"}).observation["count"] == 1


@on_sessions
def test_a_wrong_action_is_named_and_changes_nothing(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "failing").url)
    env.reset()
    with pytest.raises(errors.InvalidRequest, match="surprise"):
        env.step({"message": "go", "surprise": 1})
    assert env.step({"message": "go"}).observation["count"] == 1


@on_all
def test_an_environment_that_insists_on_reset(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "strict").url)
    env.reset()
    assert [env.step({}).observation["count"] for _ in range(3)] == [1, 2, 3]


@on_sessions
def test_a_factory_that_fails_is_the_environments_fault(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "broken", capacity=1).url)
    with pytest.raises(errors.EnvironmentFailed) as caught:
        env.reset()
    assert caught.value.code == "FACTORY_ERROR"


@on_sessions
def test_a_full_server_says_how_full_and_a_closed_client_makes_room(
    client: Make, server: Make, kind: str, version: str
) -> None:
    url = server(version, "echo", capacity=2).url
    clients = [client(kind, url) for _ in range(3)]
    for env in clients[:2]:
        env.reset()
    with pytest.raises(errors.CapacityError) as caught:
        clients[2].reset()
    assert (caught.value.active, caught.value.maximum) == (2, 2)
    assert caught.value.retryable
    clients[0].close()
    until = time.monotonic() + 5
    while True:
        try:
            clients[2].reset()
            break
        except errors.CapacityError:
            assert time.monotonic() < until, "the slot of a closed client was not freed"
            time.sleep(0.02)


@pytest.mark.parametrize(("kind", "version"), [pair for pair in SESSIONS if pair[1] != "ours"])
def test_a_production_server_without_http_episodes(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "counter", mode="production").url)
    env.reset()
    assert [env.step({"amount": 1}).observation["count"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("version", ["0.3.0", "0.10.0"])
def test_http_alone_is_refused_where_it_would_forget_the_episode(server: Make, version: str) -> None:
    with EchoEnv(server(version, "echo_counted").url, transport="http") as env:
        with pytest.raises(errors.ProtocolError, match="forgets the episode"):
            env.reset()


@pytest.mark.parametrize("version", ["0.3.0", "0.10.0", "ours"])
def test_a_websocket_can_be_asked_for(server: Make, version: str) -> None:
    url = server(version, "echo_counted").url
    for address, transport in ((url, "websocket"), (url.replace("http", "ws", 1), "auto")):
        with EchoEnv(address, transport=transport) as env:
            env.reset()
            assert [env.step(EchoAction(message="m")).reward for _ in range(3)] == [1, 2, 3]
            assert repr(env).endswith("websocket>")


@pytest.mark.parametrize("kind", [ASYNC, SYNC])
def test_a_websocket_client_on_the_first_generation_is_told_which_client_to_use(
    client: Make, server: Make, kind: str
) -> None:
    with pytest.raises(errors.TransportError, match="use HTTPEnvClient"):
        client(kind, server("0.1.1", "echo").url).reset()


# Siblings


@on_websockets
def test_new_session_is_a_sibling_that_closes_with_its_parent(
    client: Make, server: Make, kind: str, version: str
) -> None:
    url = server(version, "counter", capacity=2).url
    parent = client(kind, url)
    parent.reset()
    parent.step({"amount": 5})
    child = parent.new_session()
    child.reset()
    assert child.step({"amount": 1}).observation["total"] == 1
    assert parent.step({"amount": 5}).observation["total"] == 10
    with pytest.raises(ConnectionError) as caught:
        parent.new_session()
    assert isinstance(caught.value, errors.CapacityError)
    parent.close()
    successors = [client(kind, url) for _ in range(2)]
    until = time.monotonic() + 5
    for env in successors:
        while True:
            try:
                env.reset()
                break
            except errors.CapacityError:
                assert time.monotonic() < until, "closing the parent did not free both slots"
                time.sleep(0.02)


# Time


@on_websockets
@pytest.mark.parametrize(
    "pings",
    [
        {"websocket_ping_interval_s": 0.2, "websocket_ping_timeout_s": 0.5},
        {"websocket_ping_interval_s": None, "websocket_ping_timeout_s": None},
    ],
    ids=["pings", "no pings"],
)
def test_a_step_that_lasts_longer_than_a_ping_may(
    client: Make, server: Make, kind: str, version: str, pings: dict[str, Any]
) -> None:
    env = client(kind, server(version, "slow").url, **pings)
    env.reset()
    assert env.step({"seconds": 1.2}).observation["slept"] == 1.2
    assert env.step({"seconds": 0.0}).observation["count"] == 2


@on_sessions
def test_a_late_answer_is_never_taken_for_the_next_one(client: Make, server: Make, kind: str, version: str) -> None:
    env = client(kind, server(version, "slow").url, limit_s=0.3)
    env.reset()
    with pytest.raises(TimeoutError):
        env.step({"seconds": 0.7})
    with pytest.raises(errors.EpisodeLost):
        env.step({"seconds": 0.0})
    env.reset()
    assert env.step({"seconds": 0.0}).observation == _with_metadata(env, {"slept": 0.0, "count": 1})


def _with_metadata(env: Any, observation: dict[str, Any]) -> Any:
    """Equal to that observation whether or not the server sends metadata with it."""

    class Same:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, dict) and {k: v for k, v in other.items() if k != "metadata"} == observation

    return Same()


@on_all
def test_a_server_that_freezes_is_a_timeout(client: Make, server: Make, kind: str, version: str) -> None:
    frozen = server(version, "counter", fresh=True)
    env = client(kind, frozen.url, limit_s=1.0)
    env.reset()
    frozen.freeze()
    try:
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            env.step({"amount": 1})
        assert time.monotonic() - start < 5
    finally:
        frozen.thaw()


@on_sessions
def test_a_server_that_restarts_in_mid_episode_loses_it_and_says_so(
    client: Make, server: Make, kind: str, version: str
) -> None:
    first = server(version, "counter", fresh=True)
    env = client(kind, first.url)
    env.reset()
    env.step({"amount": 1})
    first.kill()
    server(version, "counter", port=int(first.url.rpartition(":")[2]))
    with pytest.raises(errors.EpisodeLost):
        env.step({"amount": 1})
    with pytest.raises(errors.EpisodeLost):
        env.step({"amount": 1})
    env.reset()
    assert env.step({"amount": 1}).observation["total"] == 1


@on_all
def test_a_server_that_is_gone(client: Make, server: Make, kind: str, version: str) -> None:
    gone = server(version, "counter", fresh=True)
    env = client(kind, gone.url)
    env.reset()
    gone.kill()
    with pytest.raises((errors.EpisodeLost, errors.TransportError)):
        env.step({"amount": 1})
    with pytest.raises(ConnectionError):
        env.reset()


def test_steps_of_one_client_wait_while_health_answers(client: Make, server: Make) -> None:
    url = server("ours", "slow").url
    env = client(HTTP, url)
    env.reset()
    stepping = threading.Thread(target=env.step, args=({"seconds": 1.0},))
    stepping.start()
    time.sleep(0.1)
    start = time.monotonic()
    assert requests.get(f"{url}/health", timeout=5).json()["status"] == "healthy"
    assert time.monotonic() - start < 0.7
    stepping.join()


# Tools


@pytest.fixture
def tool_env(server: Make, kind: str, version: str) -> Iterator[Any]:
    env = drivers.make_tool_env(kind, server(version, "tools").url)
    env.reset()
    yield env
    env.close()


@on_sessions
def test_tools_are_listed_with_their_schemas(tool_env: Any) -> None:
    tools = {tool.name: tool for tool in tool_env.list_tools()}
    assert tools.keys() == {"add", "calls", "fail"}
    assert tools["add"].description == "Add two integers."
    assert set(tools["add"].input_schema["required"]) == {"a", "b"}


@on_sessions
def test_tools_are_called_and_the_session_remembers(tool_env: Any) -> None:
    result = tool_env.call_tool("add", a=2, b=3)
    assert result.data == 5
    assert type(result.data) is int
    assert tool_env.call_tool("calls").data == 1


@on_sessions
def test_a_tool_that_fails_is_named_and_the_episode_goes_on(tool_env: Any) -> None:
    for name, arguments, error_type in (
        ("nope", {}, "tool_not_found"),
        ("add", {"a": 1}, "invalid_args"),
        ("fail", {"reason": "because"}, "execution_error"),
    ):
        with pytest.raises(errors.ToolFailed) as caught:
            tool_env.call_tool(name, **arguments)
        assert (caught.value.tool, caught.value.error_type) == (name, error_type)
    assert tool_env.call_tool("add", a=1, b=1).data == 2
