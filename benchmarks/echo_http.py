"""An echo step over HTTP: sessions, numbers, checks and typed models included."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests

from benchmarks.frame import Bench, Must, repeated, times
from benchmarks.processes import our_server, peer_client, peer_server, server
from envs.echo_env import EchoAction, EchoEnv

OURS, PEER, BARE, REQUESTS = "HTTPEnvClient, our server", "peer, its server", "http.client, bare ASGI", "requests"
APP = "envs.echo_env.server.app:app"
MESSAGE = "hello, world"

MUSTS = [
    Must("echo_http_vs_peer", "a step takes the peer so many times as long", times(PEER, OURS), at_least=3),
    Must("echo_http_vs_bare", "its time as a multiple of http.client's with a bare server", times(OURS, BARE), 1.3),
    Must("echo_http_vs_requests", "requests takes so many times as long", times(REQUESTS, OURS), at_least=4),
]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with the peer, with the least that HTTP and JSON cost, and with plain requests on our own server."""
    steps = 50 if quick else 200
    with ExitStack() as stack:
        url, our_pid = stack.enter_context(our_server(APP))
        bare_url, bare_pid = stack.enter_context(server([sys.executable, "-m", "benchmarks.bare_server"]))
        peer_url, peer_pid = stack.enter_context(peer_server("echo"))
        peer = stack.enter_context(peer_client("echo", peer_url))
        env = stack.enter_context(EchoEnv(url))
        session = stack.enter_context(requests.Session())
        env.reset()
        own = os.getpid()
        yield Bench(
            "an echo step over HTTP",
            {
                OURS: repeated(lambda: _check(env.step(EchoAction(message=MESSAGE)).observation.message_length), steps),
                PEER: lambda: peer.steps(steps),
                BARE: repeated(_bare_step(bare_url), steps),
                REQUESTS: repeated(lambda: _requests_step(session, url), steps),
            },
            reference=OURS,
            blocks=8 if quick else 40,
            musts=MUSTS,
            processes={
                OURS: {"client": own, "server": our_pid},
                PEER: {"client": peer.pid, "server": peer_pid},
                BARE: {"client": own, "server": bare_pid},
                REQUESTS: {"client": own, "server": our_pid},
            },
        )


def _check(length: int) -> None:
    if length != len(MESSAGE):
        raise RuntimeError(f"the echo of {MESSAGE!r} has length {length}")


def _requests_step(session: requests.Session, url: str) -> None:
    reply = session.post(f"{url}/step", json={"action": {"message": MESSAGE}, "timeout_s": 15})
    _check(reply.json()["observation"]["message_length"])


def _bare_step(url: str) -> Any:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.connect()

    def step() -> None:
        body = json.dumps({"action": {"message": MESSAGE}, "timeout_s": 15}).encode()
        connection.putrequest("POST", "/step")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)  # appended to the head: one send
        _check(json.loads(connection.getresponse().read())["observation"]["message_length"])

    return step
