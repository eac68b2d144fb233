"""The rules of docs/protocol.md about sessions, numbers, order, time and capacity, for every transport.

Everything here happens on the event loop's thread, so there are no locks. A transport makes a :class:`Call`, gives it
to :meth:`Engine.submit` and gets a :class:`Reply`, at once or as a future.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable

from openenv.core.logs import logger
from openenv.server import answers
from openenv.server.environments import Environments
from openenv.server.memory import Memory, Tombstones
from openenv.server.runner import Handle, Runner
from openenv.server.session import DEFAULT, RESET, STATE, STEP, Call, Reply, Session
from openenv.server.turns import Turns

log = logger("server")

_SESSION_ID = re.compile(rb"[A-Za-z0-9_-]{22,64}")
#: Seconds after which a call with a number is told to ask again.
PATIENCE_S = 25.0
#: Seconds that a session which was never stepped may be idle.
UNUSED_S = 60.0


class Engine:
    """The sessions of one server.

    Args:
        runner: How environments are made and called.
        max_sessions: How many environments there may be.
        session_idle_s: Seconds without a call after which a session ends.
        default_session: Whether calls that name no session share one.
        clock: Seconds from any point; for tests.

    Attributes:
        instance: New at each start; how clients tell a restarted server.
        environments: What the sessions hold, and held.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        max_sessions: int,
        session_idle_s: float,
        default_session: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance = secrets.token_hex(8).encode("ascii")
        self.environments = Environments(runner, max_sessions)
        self.runner = runner
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        self._memory = Memory()
        self._turns = Turns(self.environments, self._sessions, self._memory, clock)
        self._tombstones = Tombstones()
        self._idle_s = session_idle_s
        self._default_session = default_session
        self._draining = False
        self._sweeper: asyncio.Task[None] | None = None

    # --- calls --------------------------------------------------------------------------------------------------

    def submit(self, call: Call) -> Reply | asyncio.Future[Reply]:
        """Do ``call``, or repeat its answer, or refuse it, as the protocol says."""
        session = self._sessions.get(call.session_id)
        if session is None or self._draining:
            found = self._without_session(call)
            if isinstance(found, Reply):
                return found
            session = found
        seq = call.seq
        if seq is not None and seq != session.last + 1 and not (call.op is RESET and seq > session.last):
            return self._repeat(session, call)
        if session.turn is None and not session.queue:
            handle = session.handle
            if call.op is STEP and session.must_reset:
                return _about(session, answers.reset_required(call))
            if handle is None or handle.busy:
                return self._submit_without_environment(session, call)
            if call.repeat_id is not None and (known := session.known(call)) is not None:
                return known
            self._accept(session, call)
            if handle.is_inline(call.op):
                return self._do_inline(session, handle, call)
            self._turns.begin(session, call)
        else:
            self._accept(session, call)
            session.queue.append(call)
        return self._wait(session, call)

    def _without_session(self, call: Call) -> Reply | Session:
        """The new session that ``call`` begins, or why it begins none."""
        session_id = call.session_id
        if self._draining:
            return _named(call, answers.shutting_down(call))
        if session_id == DEFAULT:
            if not self._default_session:
                return answers.session_required(call)
        elif not is_id(session_id):
            return answers.invalid_id(call)
        elif (reason := self._tombstones.reason(session_id, self._clock())) is not None:
            return _named(call, answers.closed(call, reason))
        elif call.op is not RESET:
            return _named(call, answers.not_found(call))
        if not self.environments.has_room():
            return _named(call, self.environments.no_room(call))
        return self._begin_session(session_id)

    def _begin_session(self, session_id: bytes) -> Session:
        session = self._sessions[session_id] = Session(session_id, self._clock())
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        return session

    def _submit_without_environment(self, session: Session, call: Call) -> Reply | asyncio.Future[Reply]:
        """A call of a session whose turn is free, but whose environment is missing or still in another call."""
        if call.op is RESET or not session.born:
            if session.born and not self.environments.has_room():
                return _about(session, self.environments.no_room(call))
            self._accept(session, call)
            self._turns.begin(session, call)
        elif session.handle is None:
            return _about(session, answers.reset_required(call))
        else:
            self._accept(session, call)
            session.queue.append(call)
        return self._wait(session, call)

    def _accept(self, session: Session, call: Call) -> None:
        session.used = self._clock()
        if call.seq is not None:
            session.last = call.seq
            session.entry = call
            session.entry_mark = call.mark()

    def _repeat(self, session: Session, call: Call) -> Reply | asyncio.Future[Reply]:
        """A call whose number is not the next one."""
        first, expected = session.entry, session.last + 1
        if call.seq != session.last or first is None:
            return _about(session, answers.seq_mismatch(call, expected))
        if first.op is not call.op or session.entry_mark != call.mark():
            return _about(session, answers.seq_reused(call, expected))
        session.used = self._clock()
        if not first.done:
            return self._wait(session, first, replayed=True)
        if first.reply is None:
            return _about(session, answers.reply_gone(call, expected))
        return first.reply.again()

    def _do_inline(self, session: Session, handle: Handle, call: Call) -> Reply:
        limit = call.limit
        if limit is None or call.op is STATE:
            return self._turns.settle(session, call, handle.perform(call))
        began = time.monotonic()
        reply = handle.perform(call)
        if time.monotonic() - began > limit:
            reply = answers.overrun(call)
        return self._turns.settle(session, call, reply)

    def _wait(self, session: Session, call: Call, *, replayed: bool = False) -> asyncio.Future[Reply]:
        """A future of the answer to ``call``, which is running or queued."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        timer = None
        if call.limit is not None and call.timer is None:
            call.timer = loop.call_later(call.limit, self._turns.overran, session, call)
        if call.seq is not None:
            timer = loop.call_later(PATIENCE_S, self._still_running, session, call, future, self._clock())
        call.waiters.append((future, timer, replayed))
        return future

    def _still_running(self, session: Session, call: Call, future: asyncio.Future[Reply], since: float) -> None:
        if not future.done():
            reply = _about(session, answers.still_running(call, self._clock() - since))
            reply.seq = call.seq
            future.set_result(reply)

    # --- sessions of sockets ---------------------------------------------------------------------------------------

    async def open(self, session_id: bytes, media: str, ended: Callable[[], None]) -> Reply | None:
        """Make a session and its environment at once; why there is none, or ``None``.

        ``ended`` is called when the session ends otherwise than by :meth:`close`.
        """
        call = Call(STATE, session_id, None, b"", {}, media=media)
        if self._draining:
            return answers.shutting_down(call)
        if not self.environments.has_room():
            return self.environments.no_room(call)
        session = self._begin_session(session_id)
        session.ended, session.turn = ended, call
        failure = await self._turns.make(session, call)
        if session.turn is call:
            session.turn = None
        if failure is not None:
            self._sessions.pop(session_id, None)
        session.stepped = True  # a socket may be idle for long before its first reset
        session.used = self._clock()
        return failure

    def close(self, session_id: bytes) -> None:
        """End the session of a socket, if it is still there."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.ended = None
            self._end(session, lambda call: answers.closed(call, "deleted"))

    # --- ends ---------------------------------------------------------------------------------------------------

    def delete(self, session_id: bytes) -> bool:
        """End a session of a client's own; whether there was one."""
        session = self._sessions.get(session_id)
        self._tombstones.add(session_id, "deleted", self._clock())
        if session is None:
            return False
        self._end(session, lambda call: answers.closed(call, "deleted"))
        return True

    def _end(self, session: Session, answer: Callable[[Call], Reply]) -> None:
        self._sessions.pop(session.id, None)
        for call in session.unanswered():
            reply = _about(session, answer(call))
            reply.seq = call.seq
            call.deliver(reply)
        session.turn = None
        session.queue.clear()
        self._memory.forget(session)
        if session.ended is not None:
            session.ended()
        if session.handle is not None:
            self.environments.drop(session.handle)
            session.handle = None

    async def _sweep(self) -> None:
        pause = min(5.0, self._idle_s / 4)
        while True:
            await asyncio.sleep(pause)
            self.sweep()

    def sweep(self) -> None:
        """End what was idle for too long, and forget what need not be remembered."""
        now = self._clock()
        for session in list(self._sessions.values()):
            limit = self._idle_s if session.stepped else min(self._idle_s, UNUSED_S)
            idle = session.turn is None and not session.queue and now - session.used >= limit
            if idle and session.id != DEFAULT:
                log.info("session %s... was idle for %.0f s: closed", session.shown, now - session.used)
                self._tombstones.add(session.id, "expired", now)
                self._end(session, lambda call: answers.closed(call, "expired"))
        self._memory.expire(now)
        self._tombstones.expire(now)
        self.runner.workers.end_idle()

    def begin(self) -> None:
        """Take calls, also after an earlier :meth:`shutdown`: an application may be served again."""
        self._draining = False

    def drain(self, limit_s: float = 4.0) -> None:
        """Refuse new calls from now on; calls in flight are answered within ``limit_s`` seconds."""
        if not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_later(limit_s, self._end_all)

    def _end_all(self) -> None:
        for session in list(self._sessions.values()):
            self._end(session, answers.shutting_down)

    async def shutdown(self, limit_s: float = 3.0) -> None:
        """Answer what is in flight and close every environment, in at most a little more than ``limit_s`` seconds."""
        self._draining = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._end_all()
        await self.environments.end(limit_s)


def is_id(session_id: bytes) -> bool:
    """Whether a client may call its session so."""
    return _SESSION_ID.fullmatch(session_id) is not None


def _named(call: Call, reply: Reply) -> Reply:
    """An answer to a call of a session that is not there."""
    reply.session_id = call.session_id
    return reply


def _about(session: Session, reply: Reply) -> Reply:
    """An answer to a call of ``session`` that is not accepted."""
    reply.session_id = session.id
    return reply
