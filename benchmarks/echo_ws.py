"""An echo step over a WebSocket, with both of our clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.echo_http import APP, MESSAGE
from benchmarks.frame import Bench, Must, repeated, times
from benchmarks.processes import our_server, peer_client, peer_server
from envs.echo_env import EchoAction, EchoEnv, EchoObservation, EchoState
from envs.echo_env.client import EchoHooks
from openenv.core import EnvClient

HTTP_ENV, SYNC, PEER = "HTTPEnvClient over a WebSocket", "SyncEnvClient over EnvClient", "peer, its server"

MUSTS = [
    Must("echo_ws_vs_peer", "a step takes the peer so many times as long", times(PEER, HTTP_ENV), at_least=2.5),
    Must("echo_sync_ws_vs_peer", "the same, the wrapped asynchronous client", times(PEER, SYNC), at_least=1.2),
]


class AsyncEcho(EchoHooks, EnvClient[EchoAction, EchoObservation, EchoState]):
    """The echo environment's asynchronous client."""


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with the peer's synchronous client and its server."""
    steps = 50 if quick else 200
    with ExitStack() as stack:
        url, our_pid = stack.enter_context(our_server(APP))
        peer_url, peer_pid = stack.enter_context(peer_server("echo"))
        peer = stack.enter_context(peer_client("echo", peer_url))
        env = stack.enter_context(EchoEnv(url, transport="websocket"))
        wrapped = stack.enter_context(AsyncEcho(url).sync())
        env.reset()
        wrapped.reset()
        action = EchoAction(message=MESSAGE)
        ours = {"client": os.getpid(), "server": our_pid}
        yield Bench(
            "an echo step over a WebSocket",
            {
                HTTP_ENV: repeated(lambda: env.step(action), steps),
                SYNC: repeated(lambda: wrapped.step(action), steps),
                PEER: lambda: peer.steps(steps),
            },
            reference=HTTP_ENV,
            blocks=8 if quick else 40,
            musts=MUSTS,
            processes={HTTP_ENV: ours, SYNC: ours, PEER: {"client": peer.pid, "server": peer_pid}},
        )
