"""How the peer's own clients behave against the peer's own servers: what their users expect when they come to us."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interop.remote import PeerClient, PeerError, PeerServer

Serve = Callable[..., PeerServer]
Client = Callable[..., PeerClient]

WEBSOCKET = ["0.3.0", "0.10.0"]


@pytest.mark.parametrize("version", ["0.1.1", *WEBSOCKET])
def test_a_hundred_steps_of_one_episode(server: Serve, peer_client: Client, version: str) -> None:
    client = peer_client(version, server(version, "counter", limit=100).url)
    client.reset()
    results = [client.step({"amount": 1}) for _ in range(100)]
    assert [result["observation"]["total"] for result in results] == list(range(1, 101))
    assert [result["done"] for result in results] == [False] * 99 + [True]
    assert client.state()["step_count"] == 100


@pytest.mark.parametrize("version", WEBSOCKET)
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("kind", ["generic", "typed"])
def test_every_style_of_a_websocket_client(
    server: Serve, peer_client: Client, version: str, style: str, kind: str
) -> None:
    client = peer_client(version, server(version, "echo").url, style=style, kind=kind)
    assert client.reset(seed=3)["observation"]["echoed_message"] == "Echo environment ready!"
    assert client.step({"message": "Hello"})["reward"] == 0.5
    assert client.state()["step_count"] == 1


def test_the_newest_client_decides_by_itself_whether_it_is_called_from_a_loop(
    server: Serve, peer_client: Client
) -> None:
    client = peer_client("0.10.0", server("0.10.0", "echo").url, style="auto")
    assert client.reset()["done"] is False


@pytest.mark.parametrize(("version", "has_metadata"), [("0.1.1", False), ("0.3.0", False), ("0.10.0", True)])
def test_metadata_reaches_users_of_the_newest_client_only(
    server: Serve, peer_client: Client, version: str, has_metadata: bool
) -> None:
    client = peer_client(version, server(version, "echo").url)
    client.reset()
    assert (client.step({"message": "m"}).get("metadata") == {"step": 1}) == has_metadata


@pytest.mark.parametrize("version", WEBSOCKET)
def test_an_error_frame_is_a_runtime_error_with_text_and_code(server: Serve, peer_client: Client, version: str) -> None:
    client = peer_client(version, server(version, "failing").url)
    client.reset()
    with pytest.raises(PeerError) as caught:
        client.step({"message": "fail"})
    assert caught.value.kind == "RuntimeError"
    assert caught.value.message == "Server error: step refused: fail (code: EXECUTION_ERROR)"
    assert client.step({"message": "go"})["observation"]["count"] == 1


@pytest.mark.parametrize("version", WEBSOCKET)
def test_a_websocket_client_cannot_speak_to_the_first_generation(
    server: Serve, peer_client: Client, version: str
) -> None:
    client = peer_client(version, server("0.1.1", "echo").url)
    with pytest.raises(PeerError) as caught:
        client.reset()
    assert caught.value.kind == "ConnectionError"


def test_the_first_client_on_the_newest_server_forgets_and_does_not_notice(server: Serve, peer_client: Client) -> None:
    client = peer_client("0.1.1", server("0.10.0", "counter").url)
    client.reset()
    assert [client.step({})["observation"]["count"] for _ in range(3)] == [1, 1, 1]
    assert client.state()["step_count"] == 0


def test_the_first_client_with_a_short_limit_cannot_step_on_the_newest_server(
    server: Serve, peer_client: Client
) -> None:
    client = peer_client("0.1.1", server("0.10.0", "counter").url, request_timeout_s=0.9)
    client.reset()
    with pytest.raises(PeerError, match="422") as caught:
        client.step({})
    assert "HTTPError" in caught.value.bases


@pytest.mark.parametrize("version", WEBSOCKET)
def test_a_late_answer_is_a_timeout(server: Serve, peer_client: Client, version: str) -> None:
    client = peer_client(version, server(version, "slow").url, message_timeout_s=0.3)
    client.reset()
    with pytest.raises(PeerError) as caught:
        client.step({"seconds": 1.0})
    assert "TimeoutError" in caught.value.bases


@pytest.mark.parametrize(("version", "slept"), [("0.3.0", 0.5), ("0.10.0", 0.0)])
def test_after_a_timeout_the_older_client_reads_the_late_answer_and_the_newest_one_starts_anew(
    server: Serve, peer_client: Client, version: str, slept: float
) -> None:
    client = peer_client(version, server(version, "slow").url, message_timeout_s=0.3)
    client.reset()
    with pytest.raises(PeerError):
        client.step({"seconds": 0.5})
    assert client.step({"seconds": 0.0})["observation"]["slept"] == slept


def test_new_session_is_a_connected_sibling_that_takes_a_slot(server: Serve, peer_client: Client) -> None:
    client = peer_client("0.10.0", server("0.10.0", "counter", capacity=2).url)
    client.reset()
    client.step({"amount": 5})
    client.call("new_session", keep="second")
    client.call("reset", on="second")
    assert client.call("step", {"amount": 1}, on="second")["observation"]["total"] == 1
    assert client.step({"amount": 5})["observation"]["total"] == 10
    client.call("new_session", keep="third")
    with pytest.raises(PeerError, match=r"CAPACITY_REACHED|received 1000"):  # whichever it notices first
        client.call("reset", on="third")


def test_tools_of_the_newest_client(server: Serve, peer_client: Client) -> None:
    client = peer_client("0.10.0", server("0.10.0", "tools", mode="production").url, kind="tools", mode="production")
    assert {tool["name"] for tool in client.call("list_tools")} == {"add", "calls", "fail"}
    assert client.call("call_tool", "add", a=2, b=3) == 5
    with pytest.raises(PeerError, match=r"Tool 'fail' failed: .*because") as caught:
        client.call("call_tool", "fail", reason="because")
    assert caught.value.kind == "RuntimeError"
