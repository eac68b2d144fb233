"""How many sessions a server holds on one core, and what an idle one costs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.frame import Bench, Must, Unavailable
from benchmarks.processes import ROOT, child, peer_python, peer_server, server
from envs.echo_env import EchoEnv
from openenv.pool import EnvPool

OURS, PEER = "held, our server", "held, the peer's server"
IDLE, IDLE_PEER = "bytes of an idle session, our server", "bytes of an idle session, the peer's server"

MUSTS = [
    Must(
        "sessions_held_vs_peer",
        "sessions on one core, each stepping for a second, as a multiple of the peer's",
        lambda result: result.median(OURS) / result.median(PEER),
        at_least=3,
    ),
    Must(
        "idle_session_memory",
        "memory of an idle session, as a share of the peer's",
        lambda result: result.median(IDLE) / result.median(IDLE_PEER),
        at_most=0.25,
    ),
]
_SOME, _MOST = 500, 15_000
_IDLE = 500


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """One server on one core, the load on another."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Unavailable("two cores are needed: one for the server, one for the load")
    peer_python()
    yield Bench(
        "sessions",
        {
            OURS: lambda: float(_held_by(_ours(), most=6_000 if quick else _MOST)),
            PEER: lambda: float(_held_by(peer_server("sleepy"), most=2_000 if quick else _MOST)),
            IDLE: _idle,
            IDLE_PEER: _idle_peer,
        },
        blocks=1,
        unit="",
        musts=MUSTS,
        warm_up=False,
    )


def _ours() -> Any:
    return server([sys.executable, "-m", "openenv.server", "benchmarks.sleepy:app", "--port", "0"])


def _held_by(serving: Any, *, most: int) -> int:
    first, second, *_ = sorted(os.sched_getaffinity(0))
    with serving as (url, pid):
        os.sched_setaffinity(pid, {first})
        command = ["taskset", "-c", str(second), sys.executable, "-m", "benchmarks.crowd", url, str(_SOME), str(most)]
        with child(command) as crowd:
            assert crowd.stdout is not None
            return int(crowd.stdout.readline() or 0)


def _idle() -> float:
    """Sessions that share a connection, so that no socket is counted."""
    command = [sys.executable, "-m", "openenv.server", "envs.echo_env.server.app:app", "--port", "0"]
    with server(command, MAX_CONCURRENT_ENVS="10000") as (url, pid), EnvPool(EchoEnv, url, 3 * _IDLE) as pool:
        pool.reset(lanes=range(_IDLE)).raise_errors()
        before = _memory(pid)
        pool.reset(lanes=range(_IDLE, 3 * _IDLE)).raise_errors()
        return (_memory(pid) - before) / (2 * _IDLE)


def _idle_peer() -> float:
    """The peer's sessions are sockets."""
    script = str(ROOT / "benchmarks" / "peer" / "idle.py")
    with peer_server("echo") as (url, pid), child([peer_python(), "-I", script, url, str(_IDLE)]) as clients:
        assert clients.stdin is not None
        assert clients.stdout is not None
        clients.stdout.readline()
        before = _memory(pid)
        clients.stdin.write("more\n")
        clients.stdin.flush()
        clients.stdout.readline()
        return (_memory(pid) - before) / _IDLE


def _memory(pid: int) -> int:
    """Bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
