"""``POST /batch``: the calls of many sessions in one request, and their answers in one reply.

Each entry is what a single call would be, with its session and number; every rule of the protocol holds for it alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from openenv.core import codec
from openenv.core.errors import ProtocolError
from openenv.server import answers
from openenv.server import body as bodies
from openenv.server.body import Unusable
from openenv.server.engine import PATIENCE_S, Engine
from openenv.server.session import RESET, STATE, STEP, Call, Reply, encode, error_reply

#: Entries of one batch.
MOST: Final = 8192
_OPS: Final = {"reset": RESET, "step": STEP, "state": STATE}

Entry = tuple[str, int | None, str, float | None, msgspec.Raw]


class Batch(msgspec.Struct):
    """What a request to ``/batch`` says.

    Attributes:
        calls: Session, number, operation, limit in seconds and body of each.
        min_ready: Answer when so many are done.
        within_s: Answer after so many seconds, whatever is done.
    """

    calls: list[Entry]
    min_ready: int | None = None
    within_s: float | None = None


_FROM_JSON: Final = msgspec.json.Decoder(Batch)
_FROM_MSGPACK: Final = msgspec.msgpack.Decoder(Batch)
_JSON: Final = msgspec.json.Encoder()
_MSGPACK: Final = msgspec.msgpack.Encoder()


def answer(engine: Engine, media: str, request_id: bytes, raw: bytes, sent_as: str) -> Reply | asyncio.Future[Reply]:
    """The answer to a batch, at once or later.

    Args:
        engine: The sessions.
        media: The encoding that the client wants.
        request_id: The id of the request.
        raw: The body.
        sent_as: The encoding of the body.

    Raises:
        Unusable: It is no batch.
    """
    batch = _read(raw, sent_as)
    values = _values(raw, sent_as)
    outcomes: list[tuple[Call, Reply | asyncio.Future[Reply]]] = []
    waiting = 0
    for entry, value in zip(batch.calls, values, strict=True):
        call, outcome = _submit(engine, entry, value, media, request_id)
        outcomes.append((call, outcome))
        waiting += not isinstance(outcome, Reply)
    wanted = len(outcomes) if batch.min_ready is None else min(batch.min_ready, len(outcomes))
    if not waiting or len(outcomes) - waiting >= wanted or batch.within_s == 0:
        return _reply(outcomes, media)
    return _Gathering(outcomes, wanted, batch.within_s, media).future


def _read(raw: bytes, sent_as: str) -> Batch:
    try:
        batch = (_FROM_JSON if sent_as is codec.JSON else _FROM_MSGPACK).decode(raw)
    except msgspec.ValidationError as error:
        raise bodies.invalid("batch", str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unusable((400, "INVALID_JSON", f"the body cannot be read: {error}")) from None
    if len(batch.calls) > MOST:
        raise bodies.invalid("calls", f"at most {MOST} calls fit into a batch; got {len(batch.calls)}")
    if batch.min_ready is not None and batch.min_ready < 0:
        raise bodies.invalid("min_ready", f"must be a whole number from 0; got {batch.min_ready}")
    if batch.within_s is not None and not 0 <= batch.within_s < math.inf:
        raise bodies.invalid("within_s", f"must be seconds from 0; got {batch.within_s}")
    return batch


def _values(raw: bytes, sent_as: str) -> list[Any]:
    """The bodies of all entries, decoded at once: that costs a fifth of decoding each by itself."""
    try:
        whole: Any = codec.from_json(raw) if sent_as is codec.JSON else codec.from_msgpack(raw)
    except ProtocolError as error:
        raise Unusable((400, "INVALID_JSON", f"the body cannot be read: {error.message}")) from None
    return [entry[4] for entry in whole["calls"]]


def _submit(
    engine: Engine, entry: Entry, value: Any, media: str, request_id: bytes
) -> tuple[Call, Reply | asyncio.Future[Reply]]:
    """Give one entry to the engine."""
    session, seq, name, limit, body = entry
    call = Call(_OPS.get(name, name), session.encode(), seq, bytes(body), {}, limit, media, request_id)
    if call.op is STATE:
        call.seq = None
        call.limit = bodies.STATE_S if limit is None else limit
    elif seq is None or seq < 1:
        return call, _refused(call, 422, "VALIDATION_ERROR", "seq", f"a {name} needs a number from 1; got {seq}")
    if name not in _OPS:
        return call, _refused(call, 422, "VALIDATION_ERROR", "op", f"must be reset, step or state; got {name!r:.40}")
    if not session:
        return call, answers.session_required(call)
    if limit is not None and not 0 < limit < math.inf:
        return call, _refused(call, 422, "VALIDATION_ERROR", "limit_s", f"must be above 0, or null; got {limit}")
    if isinstance(value, dict):
        call.value = value
    else:
        call.flaw = {"loc": [], "msg": "the body must be an object"}
    return call, engine.submit(call)


def _refused(call: Call, status: int, code: str, loc: str, message: str) -> Reply:
    errors = {"errors": [{"loc": [loc], "msg": message}]}
    return error_reply(status, code, f"{loc}: {message}", call.media, call.request_id, errors)


def _reply(outcomes: list[tuple[Call, Reply | asyncio.Future[Reply]]], media: str) -> Reply:
    entries = []
    for call, outcome in outcomes:
        if isinstance(outcome, Reply):
            reply = outcome
        elif outcome.done():
            reply = outcome.result()
        else:
            reply = answers.still_running(call, 0.0)
            reply.seq = call.seq
        body = reply.body if reply.media is media else _translated(reply, media)
        entries.append((call.session_id.decode(), reply.seq, reply.status, reply.replayed, msgspec.Raw(body)))
    encoder = _JSON if media is codec.JSON else _MSGPACK
    return Reply(200, encoder.encode({"replies": entries}), media)


def _translated(reply: Reply, media: str) -> bytes:
    """The body of an answer that is remembered in the other encoding."""
    value = codec.from_json(reply.body) if reply.media is codec.JSON else codec.from_msgpack(reply.body)
    return encode(value, media)


class _Gathering:
    """Waits until enough entries are done, or time is up."""

    def __init__(
        self,
        outcomes: list[tuple[Call, Reply | asyncio.Future[Reply]]],
        wanted: int,
        within_s: float | None,
        media: str,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Reply] = loop.create_future()
        self._outcomes, self._media = outcomes, media
        self._left = wanted
        self._timer = loop.call_later(PATIENCE_S if within_s is None else min(within_s, PATIENCE_S), self._finish)
        done: Callable[[Any], None] = self._one_done
        for _, outcome in outcomes:
            if isinstance(outcome, Reply):
                self._left -= 1
            else:
                outcome.add_done_callback(done)

    def _one_done(self, _: asyncio.Future[Reply]) -> None:
        self._left -= 1
        if self._left <= 0:
            self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        if not self.future.done():
            self.future.set_result(_reply(self._outcomes, self._media))
