"""What is sent again, what never, and on which connection."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
import requests

from openenv.core.errors import EpisodeLost, OpenEnvError, ServerError, TransportError
from tests.wire.behaviours import (
    EraServer,
    Faulty,
    SessionServer,
    Treatment,
    changed,
    envelope,
    instead,
    lost_reply,
    lost_request,
    passed,
)
from tests.wire.clients import SAY
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import HTML, NO_REPLY, Reply, ScriptedServer, always

PAGE = {"body": HTML.body, "headers": HTML.headers}
#: What a session-keeping server's client asks again, with the same number and bytes.
LOST: dict[str, Treatment] = {
    "lost request": lost_request,
    "lost reply": lost_reply,
    "reset before": instead(Reply(cut=0, reset=True)),
    "reset after": changed(cut=0, reset=True),
    "cut in the first line": changed(cut=5),
    "cut in the status": changed(cut=11),
    "cut after the status": changed(cut=17),
    "cut in a header's name": changed(cut=20),
    "cut in the headers": changed(cut=60),
    "cut before the body": changed(headers=[("X", "y")], cut=90),
    "cut in the body": changed(cut=-5),
    "cut in a chunk": changed(chunked=True, cut=-9),
    "cut in gzip": changed(gzip=True, cut=-5),
    "502": instead(Reply(status=502, **PAGE)),
    "503": instead(Reply(status=503, **PAGE)),
    "504": instead(Reply(status=504)),
    "503 in JSON of others": instead(Reply(status=503, body={"detail": "no healthy upstream"})),
}


def numbers(server: ScriptedServer, path: str) -> list[tuple[str | None, bytes]]:
    return [(r.header("OpenEnv-Seq"), r.body) for r in server.posts(path)]


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_a_lost_call_is_sent_again_with_the_same_number_and_bytes(
    serve: Serve, client: MakeClient, path: str, fault: str
) -> None:
    keeper = SessionServer()
    server = serve(Faulty(keeper).on(path, passed, LOST[fault], LOST[fault]))
    env = client(server)
    env.reset()
    env.step(SAY)
    again = {"/reset": env.reset, "/step": lambda: env.step({"message": "again"})}[path]()
    assert again.observation["message_length"] == (5 if path == "/step" else 0)
    first, *repeated = numbers(server, path)
    assert len(repeated) == 3
    assert len(set(repeated)) == 1
    assert repeated[0] != first
    assert [number for _, number, _ in keeper.ran] == [1, 2, 3]
    assert env.state()["step_count"] == (2 if path == "/step" else 0)


@pytest.mark.parametrize("fault", LOST)
def test_the_first_reset_is_sent_again_once_health_has_told_that_the_server_keeps_sessions(
    serve: Serve, client: MakeClient, fault: str
) -> None:
    keeper = SessionServer()
    server = serve(Faulty(keeper).on("/reset", LOST[fault]))
    env = client(server)
    if fault in ("502", "503", "504", "503 in JSON of others"):
        # An answer came; that it is a proxy's is known only of a server that has proved itself.
        try:
            env.reset()
        except ServerError:
            env.reset()
    else:
        env.reset()
    env.step(SAY)
    assert len(keeper.sessions) == 1
    assert len(set(numbers(server, "/reset"))) == 1
    assert [route for _, _, route in keeper.ran] == ["/reset", "/step"]


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_state_is_asked_again(serve: Serve, client: MakeClient, fault: str) -> None:
    env = client(serve(Faulty(SessionServer()).on("/state", LOST[fault], LOST[fault])))
    env.reset()
    assert env.state()["step_count"] == 0


FOREIGN: dict[str, Treatment] = {
    **LOST,
    "202": instead(Reply(status=202, body={"detail": "accepted"})),
    "202 in our envelope": instead(envelope(202, "STILL_RUNNING")),
    "429": instead(Reply(status=429, headers=[("Retry-After", "0")])),
    "500": instead(Reply(status=500, body=b"Internal Server Error")),
    "503 Retry-After": instead(Reply(status=503, headers=[("Retry-After", "0")])),
    "408": instead(Reply(status=408, close="said")),
    "HTML": instead(HTML),
    "held": instead(Reply(held=True)),
    "trickled": changed(trickle_head=0.05),
}


@pytest.mark.parametrize("fault", FOREIGN)
@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_a_server_that_keeps_no_sessions_gets_exactly_one_post_whatever_happens_to_it(
    serve: Serve, client: MakeClient, path: str, fault: str
) -> None:
    server = serve(Faulty(EraServer()).on(path, passed, *[FOREIGN[fault]] * 5))
    env = client(server, 0.6)
    env.reset()
    env.step(SAY)
    before = len(server.posts())
    with pytest.raises(OpenEnvError):
        env.reset() if path == "/reset" else env.step(SAY)
    assert len(server.posts()) == before + 1


@pytest.mark.parametrize("fault", FOREIGN)
@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_nor_does_the_first_call_of_all(serve: Serve, client: MakeClient, path: str, fault: str) -> None:
    server = serve(Faulty(EraServer()).on(path, *[FOREIGN[fault]] * 5))
    env = client(server, 0.6)
    with pytest.raises(OpenEnvError):
        env.reset() if path == "/reset" else env.step(SAY)
    assert len(server.posts()) == 1


def test_a_request_that_was_never_sent_is_sent_on_a_fresh_connection(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(EraServer()).on("/step", changed(close="silently"), changed(close="silently")))
    env = client(server)
    for n, word in enumerate(("one", "two", "three"), start=1):
        assert env.step({"message": word}).observation["echoed_message"] == word
        if n < 3:
            server.wait_closed(n)
    assert [r.value()["action"]["message"] for r in server.posts("/step")] == ["one", "two", "three"]


def test_a_server_that_comes_up_late_is_reached(serve: Serve, client: MakeClient) -> None:
    import socket
    import threading

    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    listener: list[socket.socket] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)

    def come_up() -> None:
        server = serve(EraServer())
        late = socket.create_server(("127.0.0.1", port))
        listener.append(late)
        there, _ = late.accept()
        with there, socket.create_connection(("127.0.0.1", server.port)) as behind:
            threading.Thread(target=pump, args=(behind, there), daemon=True).start()
            pump(there, behind)

    timer = threading.Timer(0.1, come_up)
    timer.daemon = True
    timer.start()
    env = client(f"http://127.0.0.1:{port}")
    try:
        assert env.step(SAY).observation["echoed_message"] == "hi"
    finally:
        env.close()
        timer.join(5)
        for late in listener:
            late.close()


def test_a_server_that_is_not_there_is_given_up_within_seconds(client: MakeClient) -> None:
    env = client("http://127.0.0.1:1", None)
    began = time.monotonic()
    with pytest.raises(TransportError):
        env.reset()
    assert time.monotonic() - began < 10


def test_retries_end(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(SessionServer()).on("/step", *[lost_request] * 1000))
    env = client(server, 30)
    env.reset()
    with pytest.raises(requests.ConnectionError) as caught:
        env.step(SAY)
    assert 2 <= len(server.posts("/step")) < 100
    assert len(set(numbers(server, "/step"))) == 1
    assert caught.value.episode_lost  # type: ignore[attr-defined]
    with pytest.raises(EpisodeLost):
        env.step(SAY)
    assert env.reset().observation["message_length"] == 0
    assert server.posts("/reset")[-1].header("OpenEnv-Seq") == "3"


def test_retries_end_with_the_limit(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(SessionServer()).on("/step", *[lost_request] * 1000))
    env = client(server, 0.3)
    env.reset()
    began = time.monotonic()
    with pytest.raises(OpenEnvError):
        env.step(SAY)
    assert time.monotonic() - began < 0.3 + 2 + 2


def test_gateway_answers_that_do_not_end_are_an_error_with_the_answer(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(SessionServer()).on("/step", *[instead(Reply(status=502, **PAGE))] * 1000))
    env = client(server, 1)
    env.reset()
    with pytest.raises(ServerError) as caught:
        env.step(SAY)
    assert caught.value.response.status_code == 502
    assert caught.value.episode_lost
    with pytest.raises(EpisodeLost):
        env.step(SAY)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("keeps", [EraServer, SessionServer])
def test_after_a_5xx_the_pooled_connection_is_not_reused(
    serve: Serve, client: MakeClient, keeps: Any, status: int
) -> None:
    code = {500: "EXECUTION_ERROR", 502: "BAD", 503: "CAPACITY_REACHED", 504: "STEP_TIMEOUT"}[status]
    server = serve(Faulty(keeps()).on("/step", instead(envelope(status, code))))
    env = client(server)
    env.reset()
    with pytest.raises(ServerError):
        env.step(SAY)
    env.reset()
    failed = server.posts("/step")[0].connection
    assert server.requests[-1].connection != failed


@pytest.mark.parametrize("status", [404, 422])
def test_after_a_4xx_it_is(serve: Serve, client: MakeClient, status: int) -> None:
    server = serve(Faulty(EraServer()).on("/step", instead(Reply(status=status, body={"detail": "no"}))))
    env = client(server)
    env.reset()
    with pytest.raises(ServerError):
        env.step(SAY)
    env.step(SAY)
    assert server.connections == 1


def test_a_connection_reset_after_an_error_harms_the_next_call_never(serve: Serve, client: MakeClient) -> None:
    broken = instead(Reply(status=500, body=b"Internal Server Error", close="silently"))
    server = serve(Faulty(EraServer()).on("/step", *[broken, passed] * 20))
    env = client(server)
    for _ in range(20):
        with pytest.raises(ServerError):
            env.step(SAY)
        assert env.step(SAY).observation["echoed_message"] == "hi"
    assert len(server.posts("/step")) == 40


def test_nothing_is_sent_twice_where_everything_works(serve: Serve, client: MakeClient) -> None:
    server = serve(SessionServer())
    env = client(server)
    env.reset()
    for _ in range(50):
        env.step(SAY)
    env.close()
    assert len(server.posts()) == 51
    assert server.connections == 1


def test_no_reply_at_all_to_a_probe_does_not_hold_up_the_caller(serve: Serve, client: MakeClient) -> None:
    env = client(serve(always(NO_REPLY)), 5)
    began = time.monotonic()
    with pytest.raises(TransportError):
        env.reset()
    assert time.monotonic() - began < 5
