"""Clients that end as clients should not: our server has nothing left of them after its idle limit."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from openenv.core import GenericHTTPEnvClient, errors
from tests.interop.remote import PeerClient, PeerServer

CAPACITY, IDLE_S, SESSIONS = 8, 0.5, 200

Ending = Callable[[PeerServer], None]


def _open(server: PeerServer) -> Any:
    """A session on a WebSocket, for which there is room."""
    made = connect(server.websocket_url, open_timeout=5).__enter__()
    with suppress(ConnectionClosed):
        made.send(json.dumps({"type": "state"}))
    if json.loads(made.recv(timeout=5))["type"] == "error":
        made.close()
        raise errors.CapacityError("full")
    return made


def _cut(made: Any) -> None:
    """End the connection without a farewell."""
    made.socket.shutdown(socket.SHUT_RDWR)
    made.socket.close()


def never_reset(server: PeerServer) -> None:
    _cut(_open(server))


def cut_after_reset(server: PeerServer) -> None:
    made = _open(server)
    made.send(json.dumps({"type": "reset"}))
    made.recv(timeout=5)
    _cut(made)


def cut_in_mid_step(server: PeerServer) -> None:
    made = _open(server)
    made.send(json.dumps({"type": "reset"}))
    made.recv(timeout=5)
    made.send(json.dumps({"type": "step", "data": {"seconds": 0.2}}))
    _cut(made)


def cut_in_mid_frame(server: PeerServer) -> None:
    made = _open(server)
    made.socket.sendall(b"\x81\xfe\xff\xff")  # the head of a masked text frame of 64 KiB
    _cut(made)


def timeout_in_mid_step(server: PeerServer) -> None:
    client = GenericHTTPEnvClient(server.url)
    client.reset()
    with suppress(TimeoutError):
        client.step({"seconds": 0.3}, timeout_s=0.05)
    _forget(client)


def reset_and_forgotten(server: PeerServer) -> None:
    client = GenericHTTPEnvClient(server.url)
    client.reset()
    _forget(client)


def request_that_never_ends(server: PeerServer) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=5) as line:
        line.sendall(
            b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )


def _forget(client: GenericHTTPEnvClient) -> None:
    """Close the connections, and say nothing to the server."""
    client._session.renew()
    client.close()


ENDINGS: tuple[Ending, ...] = (
    never_reset,
    cut_after_reset,
    cut_in_mid_step,
    cut_in_mid_frame,
    timeout_in_mid_step,
    reset_and_forgotten,
    request_that_never_ends,
)


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_two_hundred_ugly_ends_leave_nothing(
    server: Callable[..., PeerServer], peer_client: Callable[..., PeerClient]
) -> None:
    ours = server("ours", "census", capacity=CAPACITY, idle_s=IDLE_S)
    with GenericHTTPEnvClient(ours.url) as before:
        seen = before.reset().observation
    for _ in range(4):
        victim = peer_client("0.10.0", ours.url)
        victim.reset()
        victim.kill()
    for number, ending in zip(range(SESSIONS), cycle(ENDINGS), strict=False):
        _as_soon_as_there_is_room(number, ending, ours)

    def health() -> Any:
        return requests.get(f"{ours.url}/health", timeout=5).json()["sessions"]

    until = time.monotonic() + IDLE_S + 5
    while health()["active"]:
        assert time.monotonic() < until, f"slots are still taken after the idle limit: {health()}"
        time.sleep(0.05)
    clients = [GenericHTTPEnvClient(ours.url) for _ in range(CAPACITY)]
    counted = [client.reset().observation for client in clients]
    for client in clients:
        client.close()
    assert [item["environments"] for item in counted] == list(range(1, CAPACITY + 1))
    assert counted[0]["tasks"] <= seen["tasks"] + 1
    assert _threads(ours.pid) <= CAPACITY + 4, "threads that nobody needs"


def _as_soon_as_there_is_room(number: int, ending: Ending, server: PeerServer) -> None:
    until = time.monotonic() + IDLE_S + 5
    while True:
        try:
            return ending(server)
        except errors.CapacityError:
            assert time.monotonic() < until, f"no room for session {number} ({ending.__name__})"
            time.sleep(0.05)
