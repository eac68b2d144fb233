"""What the engine keeps: calls, replies, sessions. Values only; the rules are in :mod:`openenv.server.engine`."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from openenv.core import codec

if TYPE_CHECKING:
    from openenv.server.runner import Handle

RESET: Final = "reset"
STEP: Final = "step"
STATE: Final = "state"
#: The id of the session of calls that name none.
DEFAULT: Final = b""

#: Bodies up to this many bytes are remembered as they are, longer ones by a digest.
_PLAIN_BODY = 512

Waiter = tuple["asyncio.Future[Reply]", "asyncio.TimerHandle | None", bool]


class Call:
    """One call as it arrived, and what became of it.

    Attributes:
        op: ``reset``, ``step`` or ``state``.
        session_id: The client's own session, or :data:`DEFAULT`.
        seq: The client's number of the call, or ``None``.
        raw: The bytes of the body, by which a repeated call is known.
        value: The decoded body, without what belongs to the protocol.
        limit: Seconds that the call may take, or ``None``.
        media: The encoding that the client wants.
        request_id: The id of the request, for errors and logs.
        repeat_id: ``request_id`` of the body, by which clients without numbers repeat a call.
        flaw: What is wrong with the body, as ``{"loc": [...], "msg": ...}``, or ``None``.
        done: It was answered; ``reply`` is the answer as long as it is remembered.
    """

    __slots__ = (
        "done",
        "flaw",
        "limit",
        "media",
        "op",
        "raw",
        "repeat_id",
        "reply",
        "request_id",
        "seq",
        "session_id",
        "timer",
        "value",
        "waiters",
    )

    def __init__(
        self,
        op: str,
        session_id: bytes,
        seq: int | None,
        raw: bytes,
        value: dict[str, Any],
        limit: float | None = None,
        media: str = codec.JSON,
        request_id: bytes = b"",
        repeat_id: Any = None,
        flaw: dict[str, Any] | None = None,
    ) -> None:
        self.op = op
        self.session_id = session_id
        self.seq = seq
        self.raw = raw
        self.value = value
        self.limit = limit
        self.media = media
        self.request_id = request_id
        self.repeat_id = repeat_id
        self.flaw = flaw
        self.done = False
        self.reply: Reply | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.waiters: list[Waiter] = []

    def mark(self) -> bytes:
        """What tells the body of this call from others: the body itself where it is short."""
        return self.raw if len(self.raw) <= _PLAIN_BODY else hashlib.blake2b(self.raw).digest()

    def deliver(self, reply: Reply) -> None:
        """Answer everyone who waits for this call."""
        self.done = True
        self.raw, self.value = b"", {}
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for future, timer, replayed in self.waiters:
            if timer is not None:
                timer.cancel()
            if not future.done():
                future.set_result(reply.again() if replayed else reply)
        self.waiters.clear()


class Reply:
    """An answer, encoded.

    Attributes:
        status: As in HTTP.
        body: The encoded object.
        media: Its encoding.
        session_id: The session that was spoken to, where one was.
        seq: The number that this call has used up, where it did.
        replayed: The call did not run again for this answer.
        error: The member ``error`` of the object, for answers that are one.
    """

    __slots__ = ("body", "error", "media", "replayed", "seq", "session_id", "status")

    def __init__(self, status: int, body: bytes, media: str, error: dict[str, Any] | None = None) -> None:
        self.status = status
        self.body = body
        self.media = media
        self.error = error
        self.session_id: bytes | None = None
        self.seq: int | None = None
        self.replayed = False

    def again(self) -> Reply:
        """The same answer, marked as replayed."""
        reply = Reply(self.status, self.body, self.media, self.error)
        reply.session_id, reply.seq, reply.replayed = self.session_id, self.seq, True
        return reply


def encode(value: Any, media: str) -> bytes:
    return codec.to_json(value) if media is codec.JSON else codec.to_msgpack(value)


def refusal(call: Call, status: int, code: str, message: str, **detail: Any) -> Reply:
    """An answer to ``call`` that is an error."""
    return error_reply(status, code, message, call.media, call.request_id, detail)


def error_reply(status: int, code: str, message: str, media: str, request_id: bytes, detail: dict[str, Any]) -> Reply:
    error = {"code": code, "message": message, "detail": detail, "request_id": request_id.decode("latin-1")}
    return Reply(status, encode({"error": error}, media), media, error)


class Session:
    """One session.

    Attributes:
        last: The highest number that was accepted.
        entry: The call of that number.
        entry_mark: Its body, or a digest of it.
        memory: The call whose answer is remembered.
        kept: Bytes of that answer.
        turn: The call whose turn it is.
        queue: The calls that wait for theirs.
        must_reset: ``/step`` is refused until a ``/reset`` has succeeded.
        born: It has had an environment, or a call of it was answered: it does not vanish if there is none.
        stepped: It was stepped at least once.
        used: When a call of it was last answered.
        ended: Called when it ends.
    """

    __slots__ = (
        "born",
        "ended",
        "entry",
        "entry_mark",
        "handle",
        "id",
        "kept",
        "last",
        "memory",
        "must_reset",
        "queue",
        "stepped",
        "turn",
        "used",
    )

    def __init__(self, session_id: bytes, now: float) -> None:
        self.id = session_id
        self.last = 0
        self.entry: Call | None = None
        self.entry_mark = b""
        self.memory: Call | None = None
        self.kept = 0
        self.handle: Handle | None = None
        self.turn: Call | None = None
        self.queue: deque[Call] = deque()
        self.must_reset = False
        self.born = False
        self.stepped = False
        self.used = now
        self.ended: Callable[[], None] | None = None

    @property
    def shown(self) -> str:
        """The id as logs show it."""
        return self.id[:6].decode("ascii")

    def unanswered(self) -> list[Call]:
        """The calls that run or wait, and were not answered yet."""
        return [call for call in (self.turn, *self.queue) if call is not None and not call.done]

    def known(self, call: Call) -> Reply | None:
        """The answer to repeat for a call without a number whose ``request_id`` is that of the last one."""
        last = self.memory
        if last is None or last.seq is not None or last.repeat_id != call.repeat_id or last.op is not call.op:
            return None
        return None if last.reply is None else last.reply.again()
