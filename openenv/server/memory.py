"""What is remembered after a call or a session is over, and for how long."""

from __future__ import annotations

from collections import OrderedDict

from openenv.server.session import Call, Reply, Session

#: Bytes of one answer, and of all answers of a server, that are remembered; and for how many seconds.
REPLY_BYTES = 32 << 20
TOTAL_BYTES = 256 << 20
REPLY_S = 120.0
#: Seconds for which the id of a session that is over is remembered, and how many ids at most.
TOMBSTONE_S = 600.0
TOMBSTONES = 1 << 18


class Memory:
    """One answer per session, so that a call which is made again need not run again.

    Attributes:
        total: Bytes of all answers that are remembered.
    """

    def __init__(self) -> None:
        self.total = 0
        self._since: OrderedDict[Session, float] = OrderedDict()  # the oldest first

    def remember(self, session: Session, call: Call, reply: Reply, now: float) -> None:
        """Remember ``reply`` in place of what was remembered of ``session``."""
        last = session.memory
        if last is not None:
            last.reply = None
        size = len(reply.body)
        if size > REPLY_BYTES:
            self.forget(session)
            return
        self.total += size - session.kept
        session.kept = size
        session.memory = call
        call.reply = reply
        self._since[session] = now
        self._since.move_to_end(session)
        while self.total > TOTAL_BYTES:
            self.forget(next(iter(self._since)))

    def forget(self, session: Session) -> None:
        """Forget what is remembered of ``session``."""
        if session.memory is not None:
            session.memory.reply = None
            session.memory = None
        self.total -= session.kept
        session.kept = 0
        self._since.pop(session, None)

    def expire(self, now: float) -> None:
        """Forget what was remembered for long enough."""
        while self._since and now - next(iter(self._since.values())) >= REPLY_S:
            self.forget(next(iter(self._since)))


class Tombstones:
    """The ids of sessions that are over."""

    def __init__(self) -> None:
        self._dead: OrderedDict[bytes, tuple[str, float]] = OrderedDict()  # the oldest first

    def add(self, session_id: bytes, reason: str, now: float) -> None:
        self._dead[session_id] = (reason, now)
        self._dead.move_to_end(session_id)
        if len(self._dead) > TOMBSTONES:
            self._dead.popitem(last=False)

    def reason(self, session_id: bytes, now: float) -> str | None:
        """Why that session is over, or ``None`` where that is not known (any more)."""
        reason, since = self._dead.get(session_id, ("", now))
        return reason if reason and now - since < TOMBSTONE_S else None

    def expire(self, now: float) -> None:
        while self._dead and now - next(iter(self._dead.values()))[1] >= TOMBSTONE_S:
            self._dead.popitem(last=False)
