"""Lanes on a server that takes no batches: each has a client of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from openenv.core.errors import ContainerError, EpisodeLost, OpenEnvError, TransportError
from openenv.core.timing import UNSET, Deadline
from openenv.core.ws_session import WSSession
from openenv.pool.lanes import Lane, LaneCall, Server
from openenv.pool.results import Timing

#: Calls that block at the same time.
_THREADS: Final = 32
#: Seconds in which an answer that is there can be read.
_GLANCE_S: Final = 0.02


class ClientServer(Server):
    """Lanes of one server, each with its own session and connection.

    Where these are WebSockets, all calls of a round are sent before the first answer is read: the environments work
    in parallel, and no thread is needed. Everything else goes over threads.

    Args:
        proto: A client for what concerns the server as a whole.
        make: Makes the client of a lane.
    """

    def __init__(self, proto: Any, make: Callable[[], Any]) -> None:
        super().__init__(proto)
        self._make = make
        self._threads: ThreadPoolExecutor | None = None
        self._running: dict[int, Future[None]] = {}

    def add(self, index: int) -> Lane:
        lane = Lane(index, self._make())
        self.lanes.append(lane)
        return lane

    def run(self, calls: list[LaneCall], min_ready: int | None, within_s: float | None, timing: Timing) -> None:
        start = time.perf_counter()
        if min_ready is None and within_s is None and not self._running and all(map(_is_socket, calls)):
            self._scatter(calls)
        else:
            self._run_on_threads(calls, min_ready, within_s)
        timing.exchange += time.perf_counter() - start
        self.doubtful = any(isinstance(call.error, (TransportError, ContainerError, EpisodeLost)) for call in calls)

    def _scatter(self, calls: list[LaneCall]) -> None:
        """Send all, then read all."""
        sent: list[tuple[LaneCall, Deadline]] = []
        for call in calls:
            deadline = Deadline(call.limit)
            session: WSSession = call.lane.client._session
            try:
                data = call.body["action"] if call.op == "step" else call.body if call.op == "reset" else None
                session.post(call.op, data, deadline)
                sent.append((call, deadline))
            except OpenEnvError as error:
                _failed(call, error)
        for call, deadline in sent:
            # The lanes before may have used up the time in which this one's answer has come.
            deadline.at = max(deadline.at, time.monotonic() + _GLANCE_S)
            try:
                call.payload = call.lane.client._session.collect(call.op, deadline)
                call.lane.begun, call.lane.failed = True, None
            except OpenEnvError as error:
                _failed(call, error)

    def _run_on_threads(self, calls: list[LaneCall], min_ready: int | None, within_s: float | None) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(min(_THREADS, len(self.lanes)), thread_name_prefix="openenv-pool")
        for call in calls:
            if call.lane.pending is None:
                call.lane.pending = call
                self._running[call.lane.index] = self._threads.submit(_single, call)
        end = None if within_s is None else time.monotonic() + within_s
        wanted = len(calls) if min_ready is None else min(min_ready, len(calls))
        while sum(call.answered for call in calls) < wanted:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            waiting = [self._running[call.lane.index] for call in calls if not call.answered]
            wait(waiting, timeout=left, return_when="FIRST_COMPLETED")
        for call in calls:
            if call.answered:
                call.lane.pending = None
                self._running.pop(call.lane.index, None)

    def close(self) -> None:
        for lane in self.lanes:
            lane.client.close()
        if self._threads is not None:
            self._threads.shutdown()
        self.lanes.clear()
        self.proto.close()


def _is_socket(call: LaneCall) -> bool:
    session = call.lane.client._session
    return isinstance(session, WSSession) and session.holds and call.lane.pending is None and call.op != "reset"


def _single(call: LaneCall) -> None:
    """One call, as a client of its own makes it."""
    client, limit = call.lane.client, UNSET if call.limit is None else call.limit
    try:
        if call.op == "reset":
            payload = client._call("reset", call.body, client._limit("reset", limit))
        elif call.op == "step":
            payload = client._call("step", call.body["action"], limit)
        else:
            payload = client._call("state", client._limit("state", limit))
    except OpenEnvError as error:
        _failed(call, error)
    else:
        call.lane.begun, call.lane.failed = True, None
        call.payload = payload


def _failed(call: LaneCall, error: OpenEnvError) -> None:
    if error.episode_lost or isinstance(error, EpisodeLost):
        call.lane.failed = error
    call.error = error
