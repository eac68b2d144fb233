"""What servers of the WebSocket generation (0.3.0, 0.10.0) do, seen with nothing but `requests` and `websockets`.

Our clients, and our own server's `/ws`, are written against these facts; where one of them stops being true, it is
not our side that broke.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from websockets.sync.client import ClientConnection, connect

from tests.interop.remote import PeerServer

Serve = Callable[..., PeerServer]


@pytest.fixture(params=["0.3.0", "0.10.0"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def has_metadata(version: str) -> bool:
    """Metadata is on the wire since 0.4.0."""
    return version == "0.10.0"


@pytest.fixture
def serve(version: str, server: Serve) -> Serve:
    return lambda env, **options: server(version, env, **options)


@pytest.fixture
def echo(serve: Serve) -> PeerServer:
    return serve("echo")


def ask(socket: ClientConnection, kind: str, **more: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": kind, **more}))
    answer: dict[str, Any] = json.loads(socket.recv(timeout=10))
    return answer


@pytest.fixture
def open_session() -> Iterator[Callable[[PeerServer], ClientConnection]]:
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(connect(server.websocket_url, open_timeout=5, max_size=None))


# HTTP


def test_health_is_one_word_even_where_the_factory_is_broken(serve: Serve) -> None:
    url = serve("broken", capacity=1).url
    answer = requests.get(f"{url}/health", timeout=5)
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy"})
    for verb, path in (("POST", "/reset"), ("GET", "/state")):
        refused = requests.request(verb, url + path, json={} if verb == "POST" else None, timeout=5)
        assert (refused.status_code, refused.text) == (500, "Internal Server Error")


def test_every_http_call_meets_a_new_environment(serve: Serve) -> None:
    url = serve("counter").url
    requests.post(f"{url}/reset", json={"episode_id": "mine"}, timeout=5)
    with requests.Session() as session:
        steps = [session.post(f"{url}/step", json={"action": {}}, timeout=5).json() for _ in range(6)]
        states = [session.get(f"{url}/state", timeout=5).json() for _ in range(3)]
    assert [step["observation"]["count"] for step in steps] == [1] * 6
    assert not any(step["done"] for step in steps)
    assert [state["step_count"] for state in states] == [0] * 3
    assert len({state["episode_id"] for state in states}) == 3


def test_an_environment_that_insists_on_reset_never_steps_over_http(serve: Serve) -> None:
    url = serve("strict").url
    assert requests.post(f"{url}/reset", json={}, timeout=5).ok
    answer = requests.post(f"{url}/step", json={"action": {}}, timeout=5)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")


def test_seed_id_and_options_reach_reset(serve: Serve, has_metadata: bool) -> None:
    url = serve("recorder").url
    body = {"seed": 42, "episode_id": "ep-1", "difficulty": "hard"}
    answer = requests.post(f"{url}/reset", json=body, timeout=5).json()
    assert answer["observation"]["reset"] == {"seed": 42, "episode_id": "ep-1", "extra": {"difficulty": "hard"}}


def test_reset_takes_no_body_at_all(echo: PeerServer) -> None:
    assert requests.post(f"{echo.url}/reset", timeout=5).status_code == 200


def test_the_shape_of_an_http_result(echo: PeerServer, has_metadata: bool) -> None:
    answer = requests.post(f"{echo.url}/step", json={"action": {"message": "Hello"}, "timeout_s": 15}, timeout=5).json()
    metadata = {"step": 1, "timeout_s": 15.0}
    observation: dict[str, Any] = {"echoed_message": "Hello", "message_length": 5}
    expected: dict[str, Any] = {"observation": observation, "reward": 0.5, "done": False}
    if has_metadata:
        observation["metadata"] = expected["metadata"] = metadata
    assert answer == expected


def test_empty_metadata_over_http_is_null_at_the_top(serve: Serve, has_metadata: bool) -> None:
    answer = requests.post(f"{serve('counter').url}/reset", json={}, timeout=5).json()
    observation: dict[str, Any] = {"count": 0, "total": 0} | ({"metadata": {}} if has_metadata else {})
    assert answer == {"observation": observation, "reward": 0.0, "done": False} | (
        {"metadata": None} if has_metadata else {}
    )


def test_extra_keys_of_step_reach_the_environment(serve: Serve) -> None:
    body = {"action": {"note": "n", "metadata": {"who": "me"}}, "timeout_s": 3, "render": True}
    answer = requests.post(f"{serve('recorder').url}/step", json=body, timeout=5).json()
    assert answer["observation"]["step"] == {
        "note": "n",
        "metadata": {"who": "me"},
        "timeout_s": 3.0,
        "extra": {"render": True},
    }


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/step", {"action": {"message": "m"}, "timeout_s": 0}, ["body", "timeout_s"]),
        ("/step", {"message": "bare"}, ["body", "action"]),
        ("/step", {"action": {}}, ["message"]),
        ("/step", {"action": {"message": "m", "surprise": 1}}, ["surprise"]),
        ("/step", {"action": {"message": "m"}, "request_id": "r" * 256}, ["body", "request_id"]),
        ("/reset", {"seed": -1}, ["body", "seed"]),
        ("/reset", {"episode_id": "e" * 256}, ["body", "episode_id"]),
        ("/reset", [1], ["body"]),
    ],
)
def test_a_bad_request_is_422_and_says_where(echo: PeerServer, path: str, body: object, where: list[str]) -> None:
    answer = requests.post(echo.url + path, json=body, timeout=5)
    assert answer.status_code == 422
    assert where in [error["loc"] for error in answer.json()["detail"]]


def test_an_environment_that_raises_is_a_bare_500(serve: Serve) -> None:
    answer = requests.post(f"{serve('failing').url}/step", json={"action": {"message": "fail"}}, timeout=5)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert answer.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("kind", "text"),
    [("none", "null"), ("int", "1.0"), ("zero", "0.0"), ("true", "1.0"), ("false", "0.0"), ("float", "0.25")],
)
def test_http_makes_a_float_of_a_reward(serve: Serve, kind: str, text: str) -> None:
    answer = requests.post(f"{serve('rewards').url}/step", json={"action": {"kind": kind}}, timeout=5)
    assert json.dumps(answer.json()["reward"]) == text


def test_metadata_and_schema_tell_this_generation_from_the_first(echo: PeerServer, version: str) -> None:
    metadata = requests.get(f"{echo.url}/metadata", timeout=5).json()
    assert metadata.keys() == {"name", "description", "readme_content", "version", "author", "documentation_url"}
    schema = requests.get(f"{echo.url}/schema", timeout=5).json()
    assert schema.keys() - {"reset_observation"} == {"action", "observation", "state"}
    assert ("reset_observation" in schema) == (version == "0.10.0")
    assert schema["action"]["required"] == ["message"]


def test_http_drops_fields_of_the_state_and_a_session_keeps_them(serve: Serve, open_session: Any) -> None:
    server = serve("recorder")
    assert requests.get(f"{server.url}/state", timeout=5).json().keys() == {"episode_id", "step_count"}
    state = ask(open_session(server), "state")["data"]
    assert state.keys() == {"episode_id", "step_count", "mood", "history"}


def test_a_slash_at_the_end_is_a_307_and_the_wrong_verb_405(echo: PeerServer) -> None:
    assert requests.post(f"{echo.url}/reset/", json={}, allow_redirects=False, timeout=5).status_code == 307
    for verb, path in (("POST", "/state"), ("GET", "/reset"), ("DELETE", "/step")):
        assert requests.request(verb, echo.url + path, timeout=5).status_code == 405


def test_a_production_server_is_healthy_and_has_no_http_episodes(serve: Serve, open_session: Any) -> None:
    server = serve("echo", mode="production")
    assert requests.get(f"{server.url}/health", timeout=5).ok
    assert requests.get(f"{server.url}/schema", timeout=5).ok
    for verb, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
        answer = requests.request(verb, server.url + path, json={}, timeout=5)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
    socket = open_session(server)
    assert ask(socket, "reset")["type"] == "observation"
    assert ask(socket, "step", data={"message": "m"})["data"]["observation"]["echoed_message"] == "m"


def test_parallel_http_steps_run_in_parallel(serve: Serve) -> None:
    url = serve("slow").url

    def step() -> None:
        requests.post(f"{url}/step", json={"action": {"seconds": 1.0}}, timeout=10)

    start = time.monotonic()
    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start < 2.0


# Sessions, where our server is not the same


def test_the_words_of_refusals(serve: Serve, open_session: Any) -> None:
    assert json.loads(open_session(serve("broken", capacity=1)).recv(timeout=10))["data"] == {
        "message": "Environment factory 'broken_factory' failed to create instance.",
        "code": "FACTORY_ERROR",
        "factory_name": "broken_factory",
    }
    server = serve("echo", capacity=1)
    ask(open_session(server), "state")
    assert json.loads(open_session(server).recv(timeout=10))["data"] == {
        "message": "Server at capacity: 1/1 sessions active. Cannot accept new connections.",
        "code": "CAPACITY_REACHED",
        "active_sessions": 1,
        "max_sessions": 1,
    }


def test_plain_http_takes_no_slot(serve: Serve, open_session: Any) -> None:
    server = serve("echo", capacity=1)
    ask(open_session(server), "state")
    assert requests.post(f"{server.url}/reset", json={}, timeout=5).ok


def test_state_must_not_carry_data(echo: PeerServer, open_session: Any) -> None:
    assert ask(open_session(echo), "state", data={})["data"]["code"] == "VALIDATION_ERROR"


def test_one_session_is_the_default_limit_of_the_factory_class(serve: Serve, open_session: Any) -> None:
    server = serve("echo", capacity=None)
    ask(open_session(server), "state")
    assert json.loads(open_session(server).recv(timeout=10))["data"]["max_sessions"] == 1


# Tools over JSON-RPC


def rpc(server: PeerServer, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    answer = requests.post(f"{server.url}/mcp", json=body, timeout=10)
    assert answer.status_code == 200
    return dict(answer.json())


def test_tools_over_post_mcp_without_a_session(serve: Serve) -> None:
    server = serve("tools", mode="production")
    tools = rpc(server, "tools/list")["result"]["tools"]
    assert {"name", "description", "inputSchema"} <= tools[0].keys()
    for _ in range(2):
        called = rpc(server, "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
        assert called["id"] == 7
        assert called["result"]["data"] == 5
    assert rpc(server, "tools/call", {"name": "calls", "arguments": {}})["result"]["data"] == 0, "thrown away each time"


def test_an_http_made_tool_session_remembers_until_closed(serve: Serve, version: str) -> None:
    server = serve("tools", mode="production")
    session = rpc(server, "openenv/session/create")["result"]["session_id"]
    for _ in range(2):
        rpc(server, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}, "session_id": session})
    counted = rpc(server, "tools/call", {"name": "calls", "arguments": {}, "session_id": session})
    assert counted["result"]["data"] == 2
    assert rpc(server, "openenv/session/close", {"session_id": session})["result"] == {
        "session_id": session,
        "closed": True,
    }
    gone = rpc(server, "tools/call", {"name": "calls", "arguments": {}, "session_id": session})
    assert gone["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("dance", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}, "session_id": "nope"}, -32602),
        ("openenv/session/close", {}, -32602),
        ("tools/call", {"name": "fail", "arguments": {"reason": "r"}}, -32603),
        ("tools/call", {"name": "nope", "arguments": {}}, -32603),
    ],
)
def test_json_rpc_errors_have_their_codes(serve: Serve, method: str, params: dict[str, Any], code: int) -> None:
    assert rpc(serve("tools"), method, params)["error"]["code"] == code


@pytest.mark.parametrize(
    ("body", "code"), [("not json", -32700), ("[1]", -32700), ('{"jsonrpc": "2.0", "id": 1, "more": 1}', -32600)]
)
def test_envelopes_that_are_no_json_rpc(serve: Serve, body: str, code: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = requests.post(f"{serve('tools').url}/mcp", data=body, headers=headers, timeout=5)
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, code)


def test_an_environment_without_tools_says_so(echo: PeerServer) -> None:
    assert rpc(echo, "tools/list")["error"]["code"] == -32603


def test_json_rpc_on_a_socket_of_its_own(serve: Serve) -> None:
    server = serve("tools")
    with connect(f"{server.url.replace('http', 'ws')}/mcp", open_timeout=5) as socket:
        socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        assert len(json.loads(socket.recv(timeout=10))["result"]["tools"]) == 3


def test_a_tool_session_made_over_http_takes_a_slot(serve: Serve, open_session: Any) -> None:
    server = serve("tools", capacity=1)
    session = rpc(server, "openenv/session/create")["result"]["session_id"]
    assert rpc(server, "openenv/session/create")["error"]["code"] == -32000
    assert json.loads(open_session(server).recv(timeout=10))["data"]["code"] == "CAPACITY_REACHED"
    rpc(server, "openenv/session/close", {"session_id": session})
    assert ask(open_session(server), "state")["type"] == "state"
