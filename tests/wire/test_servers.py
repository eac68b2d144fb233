"""The scripted server itself, asked by plain `requests`: tests that stand on it are worth what it is worth."""

from __future__ import annotations

import time

import pytest
import requests

from openenv.core import codec
from tests.wire.behaviours import EraServer, Faulty, SessionServer, instead, lost_reply, passed, without_headers
from tests.wire.fixtures import Serve
from tests.wire.servers import NO_REPLY, Reply, always, in_order

ID = "a" * 22


def test_a_request_is_recorded_byte_for_byte(serve: Serve) -> None:
    server = serve(always(Reply(body={"a": "é"})))
    with requests.Session() as session:
        answer = session.post(f"{server.url}/x/y?z=1", data=b"\x00\xff", headers={"One": "1"}, timeout=5)
        session.get(server.url, timeout=5)
    first, second = server.requests
    assert answer.json() == {"a": "é"}
    assert (first.method, first.target, first.path, first.body) == ("POST", "/x/y?z=1", "/x/y", b"\x00\xff")
    assert first.header("one") == "1"
    assert (first.connection, second.connection, server.connections) == (1, 1, 1)


@pytest.mark.parametrize("how", [{"chunked": True}, {"gzip": True}, {"trickle_head": 0.001}, {"trickle_body": 0.001}])
def test_a_reply_arrives_whole_however_it_is_played(serve: Serve, how: dict[str, object]) -> None:
    server = serve(always(Reply(body={"n": 1}, **how)))
    assert requests.get(server.url, timeout=5).json() == {"n": 1}


@pytest.mark.parametrize(
    "broken", [NO_REPLY, Reply(body=b"1234", cut=5), Reply(body=b"1234", cut=5, reset=True), Reply(length=9, cut=200)]
)
def test_a_cut_reply_is_an_error(serve: Serve, broken: Reply) -> None:
    server = serve(always(broken))
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        requests.get(server.url, timeout=5)


def test_a_held_reply_never_comes_and_does_not_hold_up_the_end(serve: Serve) -> None:
    server = serve(always(Reply(held=True)))
    with pytest.raises(requests.ReadTimeout):
        requests.get(server.url, timeout=0.2)
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 2


def test_replies_are_played_in_order_and_a_silent_close_is_a_new_connection(serve: Serve) -> None:
    server = serve(in_order(Reply(close="silently"), Reply(status=503)))
    with requests.Session() as session:
        assert session.get(server.url, timeout=5).status_code == 200
        server.wait_closed()
        assert session.get(server.url, timeout=5).status_code == 503
        assert session.get(server.url, timeout=5).status_code == 599
    assert [r.connection for r in server.requests] == [1, 2, 2]


def test_the_session_server_repeats_and_refuses_by_number(serve: Serve) -> None:
    keeper = SessionServer(msgpack=True)
    server = serve(Faulty(keeper).on("/step", passed, lost_reply, instead(Reply(status=502))))

    def call(path: str, number: int, message: str = "abc") -> requests.Response:
        headers = {"OpenEnv-Session": ID, "OpenEnv-Seq": str(number), "Accept": codec.MSGPACK}
        body = {"action": {"message": message}}
        return requests.post(server.url + path, json=body, headers=headers, timeout=5)

    def error(answer: requests.Response) -> dict[str, object]:
        told: dict[str, object] = codec.from_msgpack(answer.content)["error"]
        return told

    assert error(call("/step", 1))["code"] == "SESSION_NOT_FOUND"
    first = call("/reset", 1)
    assert (first.headers["OpenEnv-Session"], first.headers["OpenEnv-Seq"]) == (ID, "1")
    assert codec.from_msgpack(first.content)["reward"] == 0.0
    with pytest.raises(requests.ConnectionError):
        call("/step", 2)
    assert call("/step", 2).status_code == 502
    assert call("/step", 2).headers["OpenEnv-Replayed"] == "true"
    assert error(call("/step", 2, "other"))["code"] == "SEQ_REUSED"
    assert error(call("/step", 4))["detail"] == {"expected": 3}
    assert keeper.ran == [(ID, 1, "/reset"), (ID, 2, "/step")]


def test_a_stripped_session_server_takes_ids_from_bodies(serve: Serve) -> None:
    server = serve(without_headers(SessionServer()))
    body = {"openenv": {"session": ID, "seq": 1}}
    answer = requests.post(f"{server.url}/reset", json=body, headers={"OpenEnv-Session": "x" * 22}, timeout=5)
    assert answer.json()["openenv"] == {"session": ID, "instance": "instance-1", "seq": 1}
    assert not [name for name in answer.headers if name.startswith("OpenEnv")]


def test_the_era_server_has_one_environment_and_no_schema(serve: Serve) -> None:
    server = serve(EraServer())
    for _ in range(2):
        requests.post(f"{server.url}/step", json={"action": {"message": "abc"}}, timeout=5)
    assert requests.get(f"{server.url}/state", timeout=5).json()["step_count"] == 2
    assert requests.get(f"{server.url}/schema", timeout=5).status_code == 404
