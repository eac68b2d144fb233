"""Lanes on a server of this protocol: one request carries the calls of all of them."""

from __future__ import annotations

import time
from typing import Any, Final

from openenv.core import codec, protocol
from openenv.core.errors import CallTimeout, EpisodeLost, OpenEnvError, ProtocolError
from openenv.core.http_session import SESSIONS, HTTPSession
from openenv.core.protocol import SESSION, Failure
from openenv.core.timing import GRACE_S, Deadline
from openenv.pool.lanes import Lane, LaneCall, Server
from openenv.pool.results import Timing

_TIMING: Final = {"Content-Type": codec.MSGPACK, "OpenEnv-Timing": "1"}
#: What says that a session is over, or was not counted as here: a reset goes on with a new one.
_OVER: Final = frozenset({"SESSION_CLOSED", "SEQ_MISMATCH", "SEQ_REUSED", "REPLY_GONE"})
_ACCEPTED: Final = 202


class BatchServer(Server):
    """Lanes of one server that takes batches."""

    def __init__(self, proto: Any) -> None:
        super().__init__(proto)
        self._line: HTTPSession = proto._session
        self._line.kind = SESSIONS  # or it would not take batches; so they may be sent again

    def add(self, index: int) -> Lane:
        lane = Lane(index)
        self.lanes.append(lane)
        return lane

    def run(self, calls: list[LaneCall], min_ready: int | None, within_s: float | None, timing: Timing) -> None:
        for call in calls:
            if not call.seq and call.op != "state":
                call.seq = call.lane.seq + 1
            call.lane.pending = call
        began = time.monotonic()
        limits = [call.limit for call in calls]
        deadline = Deadline(None if None in limits else max(filter(None, limits), default=0.0), grace=GRACE_S)
        left = calls
        while left:
            waited = time.monotonic() - began
            within = None if within_s is None else max(0.0, within_s - waited)
            wanted = None if min_ready is None else max(0, min_ready - (len(calls) - len(left)))
            self._round(left, wanted, within, deadline, timing)
            left = [call for call in left if not call.answered]
            enough = min_ready is not None and len(calls) - len(left) >= min_ready
            if enough or (within_s is not None and time.monotonic() - began >= within_s):
                break
        for call in calls:
            if call.answered:
                call.lane.pending = None

    def _round(
        self, calls: list[LaneCall], min_ready: int | None, within_s: float | None, deadline: Deadline, timing: Timing
    ) -> None:
        start = time.perf_counter()
        message: dict[str, Any] = {
            "calls": [(call.lane.id, call.seq or None, call.op, call.limit, call.body) for call in calls]
        }
        if min_ready is not None:
            message["min_ready"] = min_ready
        if within_s is not None:
            message["within_s"] = within_s
        try:
            data = codec.to_msgpack(message)
            encoded = time.perf_counter()
            headers = dict(_TIMING)
            reply = self._line._persist(
                "POST", "/batch", headers, data, deadline, repeatable=False, limit_name=calls[0].op
            )
            answered = time.perf_counter()
            payload = self._line._payload(reply, "POST /batch", headers, deadline)
            entries = payload["replies"]
            if len(entries) != len(calls):
                raise ProtocolError(f"{len(calls)} calls were answered by {len(entries)} replies")
        except OpenEnvError as error:
            self._all_failed(calls, error)
            return
        self.doubtful = False
        for call, (_, seq, status, _, body) in zip(calls, entries, strict=True):
            if seq is not None:
                call.lane.seq = seq
            if status == 200:
                call.payload = body
                if call.op == "reset":
                    call.lane.begun, call.lane.failed = True, None
            elif status != _ACCEPTED:
                call.error = self._error(call, status, body)
        timing.encode += encoded - start
        timing.exchange += answered - encoded
        timing.server = (timing.server or 0.0) + _server_s(reply.headers.get("server-timing"))

    def _all_failed(self, calls: list[LaneCall], error: OpenEnvError) -> None:
        """Nobody knows what became of these, unless they were not sent."""
        self.doubtful = True
        for call in calls:
            call.error = error
            if call.op != "state" and getattr(error, "sent", True):
                call.lane.seq = max(call.lane.seq, call.seq)
                error.episode_lost = True
                call.lane.failed = EpisodeLost(
                    f"nobody knows how the last {call.op} ended: {error.message}",
                    remedy="Call reset() to begin a new episode.",
                    url=self.proto.base_url,
                )

    def _error(self, call: LaneCall, status: int, body: Any) -> OpenEnvError:
        failure = Failure(codec.MSGPACK, codec.to_msgpack(body))
        if call.op == "reset" and failure.code in _OVER:
            call.lane.renew()
        if failure.code == "SHUTTING_DOWN":
            self.doubtful = self.ending = True
        error = protocol.error_from(status, failure, f"{call.op} of lane {call.lane.index}", url=self.proto.base_url)
        if error.episode_lost or isinstance(error, (EpisodeLost, CallTimeout)):
            error.episode_lost = True
            call.lane.failed = error
        return error

    def close(self) -> None:
        exchange = self._line.exchange
        for lane in self.lanes:
            if lane.seq:
                try:
                    exchange.send("DELETE", "/session", {SESSION: lane.id}, None, Deadline(2.0), 1.0)
                except OpenEnvError:
                    break  # it is gone, and so are its sessions
        self.lanes.clear()
        self.proto.close()


def _server_s(header: str | None) -> float:
    """``app;dur=1.5`` is 0.0015 seconds."""
    _, _, milliseconds = (header or "").partition("dur=")
    try:
        return float(milliseconds) / 1e3
    except ValueError:
        return 0.0
