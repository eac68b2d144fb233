"""What only the newest server of the peer (0.10.0) does, seen with nothing but `requests` and `websockets`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import connect

from tests.interop.remote import PeerServer

Serve = Callable[..., PeerServer]


@pytest.fixture
def serve(server: Serve) -> Serve:
    return lambda env, **options: server("0.10.0", env, **options)


def rpc(server: PeerServer, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    return dict(requests.post(f"{server.url}/mcp", json=body, timeout=10).json())


def test_an_unknown_session_id_is_refused_by_a_frame(serve: Serve) -> None:
    with connect(f"{serve('echo').websocket_url}?session_id=nope", open_timeout=5) as socket:
        assert json.loads(socket.recv(timeout=10)) == {
            "type": "error",
            "data": {"message": "Unknown session_id: nope", "code": "SESSION_ERROR"},
        }
        with pytest.raises(ConnectionClosedOK):
            socket.recv(timeout=10)


def test_a_socket_joins_a_session_made_over_http_alone(serve: Serve) -> None:
    server = serve("tools", mode="production")
    session = rpc(server, "openenv/session/create")["result"]["session_id"]
    rpc(server, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}, "session_id": session})
    calls = {"type": "step", "data": {"type": "call_tool", "tool_name": "calls", "arguments": {}}}
    with connect(f"{server.websocket_url}?session_id={session}", open_timeout=5) as socket:
        socket.send(json.dumps(calls))
        assert json.loads(socket.recv(timeout=10))["data"]["observation"]["result"]["data"] == 1
        with connect(f"{server.websocket_url}?session_id={session}", open_timeout=5) as second:
            error = json.loads(second.recv(timeout=10))["data"]
            assert error["code"] == "SESSION_ERROR"
            assert "already has an attached WebSocket" in error["message"]
        closing = rpc(server, "openenv/session/close", {"session_id": session})["result"]
        assert closing == {"session_id": session, "closed": False, "closing": True}


def test_leaving_a_joined_session_does_not_end_it(serve: Serve) -> None:
    server = serve("tools", mode="production")
    session = rpc(server, "openenv/session/create")["result"]["session_id"]
    rpc(server, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}, "session_id": session})
    with connect(f"{server.websocket_url}?session_id={session}", open_timeout=5):
        pass
    again = rpc(server, "tools/call", {"name": "calls", "arguments": {}, "session_id": session})
    assert again["result"]["data"] == 1


def test_task_routes_are_there_and_not_implemented(serve: Serve) -> None:
    server = serve("echo")
    names = requests.get(f"{server.url}/list_environments", timeout=5)
    assert names.status_code == 200
    name = names.json()[0]
    assert requests.get(f"{server.url}/{name}/splits", timeout=5).status_code == 501
    assert requests.get(f"{server.url}/unknown/splits", timeout=5).status_code == 404
    assert requests.post(f"{server.url}/{name}/num_tasks", json={"split": "test"}, timeout=5).status_code == 501


def test_a_state_class_that_is_declared_is_sent_whole_over_http(serve: Serve) -> None:
    state = requests.get(f"{serve('recorder', declare_state=True).url}/state", timeout=5).json()
    assert state.keys() == {"episode_id", "step_count", "mood", "history"}
