"""A session on `/ws`, frame by frame, on the peer's servers and on ours: seen with nothing but `websockets`.

Our clients are written against these facts, and so are the peer's: our server has to show them too. Only its words
are its own: codes and what follows from them are the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK
from websockets.sync.client import ClientConnection, connect

Serve = Callable[..., Any]

ERRORS_THAT_END_NOTHING = [
    ("not json", "INVALID_JSON", "Invalid JSON: Expecting value: line 1 column 1 (char 0)"),
    ('{"type": "dance"}', "UNKNOWN_TYPE", "Unknown message type: dance"),
    ('{"data": {}}', "UNKNOWN_TYPE", "Unknown message type: "),
    ('{"type": "step", "data": {"action": {"message": "x"}}}', "VALIDATION_ERROR", "Invalid message"),
    ('{"type": "step", "data": {"message": "m", "surprise": 1}}', "VALIDATION_ERROR", "Invalid message"),
    ('{"type": "step"}', "VALIDATION_ERROR", "Invalid message"),
    ('{"type": "step", "data": {"message": "fail"}}', "EXECUTION_ERROR", "step refused: fail"),
    ('{"type": "reset", "data": {"fail": true}}', "EXECUTION_ERROR", "reset refused"),
]


@pytest.fixture(params=["0.3.0", "0.10.0", "ours"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def has_metadata(version: str) -> bool:
    """Metadata is on the wire since 0.4.0."""
    return version != "0.3.0"


@pytest.fixture
def serve(version: str, server: Serve) -> Serve:
    return lambda env, **options: server(version, env, **options)


@pytest.fixture
def echo(serve: Serve) -> Any:
    return serve("echo")


def ask(socket: ClientConnection, kind: str, **more: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": kind, **more}))
    answer: dict[str, Any] = json.loads(socket.recv(timeout=10))
    return answer


@pytest.fixture
def open_session() -> Iterator[Callable[[Any], ClientConnection]]:
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(connect(server.websocket_url, open_timeout=5, max_size=None))


def test_a_session_remembers(serve: Serve, open_session: Any) -> None:
    server = serve("counter")
    socket, other = open_session(server), open_session(server)
    ask(socket, "reset", data={"episode_id": "ep-1", "limit": 7})
    ask(other, "reset")
    steps = [ask(socket, "step", data={"amount": 2})["data"] for _ in range(7)]
    assert [step["observation"]["total"] for step in steps] == [2, 4, 6, 8, 10, 12, 14]
    assert [step["done"] for step in steps] == [False] * 6 + [True]
    assert ask(socket, "state") == {"type": "state", "data": {"episode_id": "ep-1", "step_count": 7}}
    assert ask(other, "state")["data"]["step_count"] == 0


def test_the_shape_of_a_frame(echo: Any, open_session: Any, has_metadata: bool) -> None:
    socket = open_session(echo)
    ask(socket, "reset")
    observation: dict[str, Any] = {"echoed_message": "Hello", "message_length": 5}
    data: dict[str, Any] = {"observation": observation, "reward": 0.5, "done": False}
    if has_metadata:
        observation["metadata"] = data["metadata"] = {"step": 1}
    assert ask(socket, "step", data={"message": "Hello"}) == {"type": "observation", "data": data}


def test_empty_metadata_is_absent_from_a_frame(serve: Serve, open_session: Any, version: str) -> None:
    data = ask(open_session(serve("counter")), "reset")["data"]
    observation: dict[str, Any] = {"count": 0, "total": 0} | ({"metadata": {}} if version == "0.10.0" else {})
    assert data == {"observation": observation, "reward": 0, "done": False}


def test_options_of_reset_go_into_data(serve: Serve, open_session: Any) -> None:
    data = {"seed": 42, "episode_id": "ep-1", "difficulty": "hard"}
    answer = ask(open_session(serve("recorder")), "reset", data=data)
    assert answer["data"]["observation"]["reset"] == {
        "seed": 42,
        "episode_id": "ep-1",
        "extra": {"difficulty": "hard"},
    }


def test_a_step_without_reset_and_a_state_before_it_are_allowed(echo: Any, open_session: Any) -> None:
    socket = open_session(echo)
    assert ask(socket, "state")["data"]["step_count"] == 0
    assert ask(socket, "step", data={"message": "m"})["type"] == "observation"


@pytest.mark.parametrize(
    ("kind", "text"),
    [("none", "null"), ("int", "1"), ("zero", "0"), ("true", "true"), ("false", "false"), ("float", "0.25")],
)
def test_a_frame_leaves_a_reward_as_it_is(serve: Serve, open_session: Any, kind: str, text: str) -> None:
    answer = ask(open_session(serve("rewards")), "step", data={"kind": kind})
    assert json.dumps(answer["data"]["reward"]) == text


@pytest.mark.parametrize(("frame", "code", "message"), ERRORS_THAT_END_NOTHING)
def test_a_session_survives_an_error_frame(
    serve: Serve, open_session: Any, version: str, frame: str, code: str, message: str
) -> None:
    socket = open_session(serve("failing"))
    ask(socket, "reset", data={"episode_id": "ep-1"})
    ask(socket, "step", data={"message": "go"})
    socket.send(frame)
    error = json.loads(socket.recv(timeout=10))
    assert error["type"] == "error"
    assert error["data"]["code"] == code
    assert version == "ours" or error["data"]["message"] == message
    assert ("errors" in error["data"]) == (code == "VALIDATION_ERROR")
    assert ask(socket, "state")["data"] == {"episode_id": "ep-1", "step_count": 1}


def test_json_that_is_no_object_ends_the_session(echo: Any, open_session: Any) -> None:
    socket = open_session(echo)
    socket.send("[1]")
    assert json.loads(socket.recv(timeout=10))["data"]["code"] == "SESSION_ERROR"
    with pytest.raises(ConnectionClosed):
        socket.recv(timeout=10)


def test_close_is_answered_by_the_close_of_the_socket_alone(echo: Any, open_session: Any) -> None:
    socket = open_session(echo)
    socket.send(json.dumps({"type": "close"}))
    with pytest.raises(ConnectionClosedOK) as caught:
        socket.recv(timeout=10)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1000


def test_a_full_server_accepts_then_says_so_then_closes(serve: Serve, open_session: Any) -> None:
    server = serve("echo", capacity=2)
    sockets = [open_session(server) for _ in range(2)]
    for socket in sockets:
        ask(socket, "state")
    refused = open_session(server)
    error = json.loads(refused.recv(timeout=10))
    assert error["type"] == "error"
    assert error["data"].pop("message").startswith("Server at capacity: 2/2 sessions active.")
    assert error["data"] == {"code": "CAPACITY_REACHED", "active_sessions": 2, "max_sessions": 2}
    with pytest.raises(ConnectionClosedOK):
        refused.recv(timeout=10)
    sockets[0].close()
    assert _within(5, lambda: ask(open_session(server), "state")["type"] == "state"), "a closed socket frees its slot"


def test_a_broken_factory_is_a_frame_and_the_end(serve: Serve, open_session: Any) -> None:
    socket = open_session(serve("broken", capacity=1))
    error = json.loads(socket.recv(timeout=10))
    assert (error["type"], error["data"]["code"]) == ("error", "FACTORY_ERROR")
    with pytest.raises(ConnectionClosedOK):
        socket.recv(timeout=10)


def test_pings_and_health_are_answered_while_a_step_runs(serve: Serve, open_session: Any) -> None:
    server = serve("slow")
    socket = open_session(server)
    ask(socket, "state")
    socket.send(json.dumps({"type": "step", "data": {"seconds": 1.0}}))
    start = time.monotonic()
    assert socket.ping().wait(5)
    assert requests.get(f"{server.url}/health", timeout=5).ok
    assert time.monotonic() - start < 0.9
    assert json.loads(socket.recv(timeout=10))["data"]["observation"]["slept"] == 1.0


def test_twenty_megabytes_fit_into_one_frame(serve: Serve, open_session: Any) -> None:
    answer = ask(open_session(serve("big")), "step", data={"size": 20_000_000})
    assert len(answer["data"]["observation"]["blob"]) == 20_000_000


def test_fields_that_a_client_does_not_know_are_sent(serve: Serve, open_session: Any) -> None:
    socket = open_session(serve("novel"))
    assert ask(socket, "reset")["data"]["observation"]["novelty"] == {"deep": [1, {"er": None}]}
    assert ask(socket, "state")["data"]["mood"] == "calm"


# Tools


def test_tools_are_listed_and_called_by_actions(serve: Serve, open_session: Any) -> None:
    socket = open_session(serve("tools"))
    ask(socket, "reset")
    listed = ask(socket, "step", data={"type": "list_tools"})["data"]["observation"]["tools"]
    assert {tool["name"] for tool in listed} == {"add", "calls", "fail"}
    add = next(tool for tool in listed if tool["name"] == "add")
    assert add["description"] == "Add two integers."
    assert add["input_schema"]["required"] == ["a", "b"]
    called = ask(socket, "step", data={"type": "call_tool", "tool_name": "add", "arguments": {"a": 2, "b": 3}})
    observation = called["data"]["observation"]
    assert (observation["tool_name"], observation["error"]) == ("add", None)
    assert observation["result"]["data"] == 5
    assert observation["result"]["structured_content"] == {"result": 5}
    assert observation["result"]["is_error"] is False
    again = ask(socket, "step", data={"type": "call_tool", "tool_name": "calls", "arguments": {}})
    assert again["data"]["observation"]["result"]["data"] == 1


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("nope", {}, "tool_not_found"),
        ("add", {"a": 1}, "invalid_args"),
        ("fail", {"reason": "because"}, "execution_error"),
    ],
)
def test_a_tool_that_fails_is_an_error_in_the_observation(
    serve: Serve, open_session: Any, name: str, arguments: dict[str, Any], kind: str
) -> None:
    socket = open_session(serve("tools"))
    answer = ask(socket, "step", data={"type": "call_tool", "tool_name": name, "arguments": arguments})
    assert answer["type"] == "observation"
    assert answer["data"]["observation"]["result"] is None
    assert answer["data"]["observation"]["error"]["error_type"] == kind


def test_json_rpc_inside_a_session(serve: Serve, open_session: Any) -> None:
    socket = open_session(serve("tools"))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    answer = ask(socket, "mcp", data=call)
    assert answer["type"] == "mcp"
    assert answer["data"]["result"]["data"] == 5


def _within(seconds: float, happens: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if happens():
            return True
        time.sleep(0.02)
    return False
