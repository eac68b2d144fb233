"""How accepted calls run: one after the other in each session, all sessions in parallel."""

from __future__ import annotations

from collections.abc import Callable

from openenv.server import answers
from openenv.server.environments import Environments, NoRoom
from openenv.server.memory import Memory
from openenv.server.session import DEFAULT, RESET, STATE, STEP, Call, Reply, Session


class Turns:
    """Gives the calls of each session their turns.

    Args:
        environments: Where they come from.
        sessions: All that there are.
        memory: Remembers the answers.
        clock: Seconds from any point.
    """

    def __init__(
        self,
        environments: Environments,
        sessions: dict[bytes, Session],
        memory: Memory,
        clock: Callable[[], float],
    ) -> None:
        self._environments = environments
        self._sessions = sessions
        self._memory = memory
        self._clock = clock

    def begin(self, session: Session, call: Call) -> None:
        session.turn = call
        self._environments.spawn(self._perform(session, call))

    async def _perform(self, session: Session, call: Call) -> None:
        handle = session.handle
        if handle is None or (handle.busy and call.op is RESET):
            session.handle = None
            if handle is not None:
                self._environments.drop(handle)
            failure = await self.make(session, call)
            if failure is not None and not session.born:
                self._unborn(session, failure)
                return
            if failure is not None and not call.done:
                self.settle(session, call, failure)
            handle = session.handle
        if handle is not None and not call.done:
            handle.busy = True
            reply = await handle.run(call)
            handle.busy = False
            if not call.done:
                self.settle(session, call, reply)
            if handle.abandoned:
                await self._environments.close(handle)
        if session.turn is call:
            session.turn = None
        self._advance(session)

    async def make(self, session: Session, call: Call) -> Reply | None:
        """Give ``session`` an environment; the answer where that fails."""
        try:
            handle = await self._environments.take()
        except NoRoom:
            return self._environments.no_room(call)
        if call.done:  # meanwhile its limit passed, or the session ended
            self._environments.free(handle)
            return None
        session.handle = handle
        try:
            await handle.make()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # it becomes the answer
            self._environments.free(handle)
            if session.handle is handle:
                session.handle = None
            return self._environments.runner.raised(call, "FACTORY_ERROR", error)
        handle.busy = False
        if handle.abandoned:
            await self._environments.close(handle)
        else:
            session.born = True
        return None

    def _unborn(self, session: Session, failure: Reply) -> None:
        """The first environment of ``session`` could not be had: there never was such a session."""
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
        for call in session.unanswered():
            if call.op is RESET or session.id == DEFAULT:
                reply = Reply(failure.status, failure.body, failure.media, failure.error)
            else:
                reply = answers.not_found(call)
            reply.session_id = session.id
            call.deliver(reply)

    def _advance(self, session: Session) -> None:
        """Begin the next call whose turn it is."""
        queue = session.queue
        while session.turn is None and queue:
            call, handle = queue[0], session.handle
            busy = handle is not None and handle.busy
            if call.op is not RESET and busy and not (call.op is STEP and session.must_reset):
                return
            queue.popleft()
            if (call.op is STEP and session.must_reset) or (call.op is STATE and handle is None and session.born):
                self.settle(session, call, answers.reset_required(call))
            elif call.repeat_id is not None and (known := session.known(call)) is not None:
                call.deliver(known)
            else:
                self.begin(session, call)

    def overran(self, session: Session, call: Call) -> None:
        """The limit of ``call`` passed."""
        if call.done:
            return
        session.born = True
        self.settle(session, call, answers.overrun(call))
        if session.turn is call:
            session.turn = None
            if session.handle is not None:
                session.handle.interrupt()
        else:
            session.queue.remove(call)
        self._advance(session)

    def settle(self, session: Session, call: Call, reply: Reply) -> Reply:
        """``reply`` is the answer to an accepted call: note what follows from it, remember it, tell who waits."""
        if call.op is RESET:
            session.must_reset = reply.status != 200
        elif call.op is STEP:
            session.stepped = True
            if reply.status == 504:
                session.must_reset = True
        reply.session_id = session.id
        reply.seq = call.seq
        session.used = now = self._clock()
        call.deliver(reply)
        if call.seq is not None or call.repeat_id is not None:
            self._memory.remember(session, call, reply, now)
        return reply
