"""One episode at a time over HTTP: the session's id, its count of calls, and what may be sent twice."""

from __future__ import annotations

import itertools
import time
from typing import Any

from openenv.core import codec, protocol
from openenv.core.errors import (
    CallTimeout,
    ClientClosed,
    EncodeError,
    EpisodeLost,
    EpisodeNotBegun,
    OpenEnvError,
    ProtocolError,
    ServerError,
    TransportError,
)
from openenv.core.exchange import Exchange, Reply
from openenv.core.logs import logger
from openenv.core.protocol import IN_BODY, INSTANCE, LIMIT, REQUEST_ID, SEQ, SESSION
from openenv.core.timing import GRACE_S, UNSET, Deadline, Limit, LimitArg, Timeouts

log = logger("client")

#: Pauses before the same call is sent again, in seconds; a server that refuses connections gets the first few.
_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0)
_REFUSED_TRIES = 5
_UNPROVEN_TRIES = 4
_PROBE_S = 5.0
#: No answers yet: the call still runs, or a proxy got none.
_PASSING = frozenset({202, *protocol.GATEWAY_STATUSES})
#: What an environment server says to a reset, step or state: 404 where it serves no episodes over plain HTTP.
_TELLING = frozenset({200, 404, 405, 422, 500})

#: What a server turned out to be.
UNKNOWN, SESSIONS, PLAIN = "unknown", "sessions", "plain"


class Stateless(Exception):
    """The server forgets the episode between two HTTP calls; it keeps one on a WebSocket."""


class HTTPSession:
    """The calls of one client to one server, each made exactly once where the server helps.

    Attributes:
        kind: What the server is: ``unknown`` until it answered, ``sessions`` (ours), ``plain`` (one environment for
            everybody, as in the first generation).
        begun: Whether a reset has succeeded.
        doubt: Why the episode is lost or its state unknown; empty where it is not.
    """

    def __init__(self, exchange: Exchange, timeouts: Timeouts, default_s: Limit, dead: protocol.Dead) -> None:
        self.exchange, self.timeouts, self._default_s, self.dead = exchange, timeouts, default_s, dead
        self.kind = UNKNOWN
        self._calls = itertools.count(1)
        self.renew()

    def renew(self) -> None:
        """Begin again as a stranger: a new id, no episode."""
        self.id = protocol.new_session_id()
        self.seq = 0
        self.begun = False
        self.doubt = ""
        self.instance = ""
        self.ids_in_body = False
        self._headers = {SESSION: self.id}

    def limit(self, name: str, given: LimitArg = UNSET) -> Limit:
        """The limit in seconds of the calls called ``name``, unless one was ``given``."""
        return self.timeouts.of(name, self._default_s) if given is UNSET else given

    @property
    def holds(self) -> bool:
        """Whether the server may hold a session for us."""
        return self.kind == SESSIONS and self.seq > 0

    # --- the calls ---

    def reset(self, body: dict[str, Any], limit: Limit) -> dict[str, Any]:
        try:
            payload = self._counted("reset", "/reset", body, limit)
        except EpisodeLost as error:
            if error.code not in ("SESSION_CLOSED", "SEQ_MISMATCH", "SEQ_REUSED", "REPLY_GONE"):
                raise
            self.renew()  # that session is over, or was not counted as here: a new one is what reset is for
            payload = self._counted("reset", "/reset", body, limit)
        self.begun, self.doubt = True, ""
        return payload

    def step(self, action: dict[str, Any], limit: LimitArg) -> dict[str, Any]:
        if self.doubt:
            raise EpisodeLost(self.doubt, remedy="Call reset() to begin a new episode.", url=self.exchange.base.shown)
        given = self.limit("step", limit)
        told = given if limit is not UNSET or self.kind == SESSIONS else protocol.whole_seconds(given)
        return self._counted("step", "/step", {"action": action, "timeout_s": protocol.number(told)}, given)

    def state(self, limit: Limit) -> dict[str, Any]:
        return self.get("/state", limit, in_session=True)

    def get(self, path: str, limit: Limit, *, in_session: bool = False) -> dict[str, Any]:
        """A call that changes nothing, and so may be made again."""
        deadline = self._deadline(limit)
        headers = {**self._headers, LIMIT: f"{limit:g}"} if in_session and limit is not None else dict(self._headers)
        method, body = "GET", None
        if in_session and self.ids_in_body:
            method, body = "POST", codec.to_json({IN_BODY: {"session": self.id}})
            headers["Content-Type"] = codec.JSON
        reply = self._persist(method, path, headers, body, deadline, repeatable=True, limit_name="state")
        if in_session:
            self._meet(reply)
        return self._payload(reply, f"{method} {path}", headers, deadline)

    def close(self, limit: Limit) -> None:
        """Free the session on a server that keeps one. Best effort: the server frees it by itself later."""
        if not self.holds:
            return
        deadline = Deadline(limit)
        method, path, headers, body = "DELETE", "/session", dict(self._headers), None
        if self.ids_in_body:
            method, path, body = "POST", "/session/close", codec.to_json({IN_BODY: {"session": self.id}})
            headers["Content-Type"] = codec.JSON
        try:
            self.exchange.send(method, path, headers, body, deadline, self.limit("connect"))
        except OpenEnvError as error:
            log.debug("session %s… was not closed: %s", self.id[:6], error)
        self.renew()

    # --- exactly once ---

    def _counted(self, name: str, path: str, body: dict[str, Any], limit: Limit) -> dict[str, Any]:
        deadline = self._deadline(limit)
        seq = self.seq + 1
        headers = {**self._headers, SEQ: str(seq), REQUEST_ID: f"{self.id[:6]}-{next(self._calls)}"}
        if name == "reset" and limit is not None:
            headers[LIMIT] = f"{limit:g}"
        data = self._encode(body, headers, seq, deadline)
        try:
            reply = self._persist("POST", path, headers, data, deadline, repeatable=False, limit_name=name)
            had_ids = self.ids_in_body
            self._meet(reply)
            if self.ids_in_body and not had_ids:
                # A proxy strips our headers: what was answered came from an environment that strangers share.
                data = self._encode(body, headers, seq, deadline)
                reply = self._persist("POST", path, headers, data, deadline, repeatable=False, limit_name=name)
        except OpenEnvError as error:
            unknown = (TransportError, CallTimeout, ClientClosed, ProtocolError)
            cut_off = isinstance(error, ServerError) and error.episode_lost  # by a proxy, each time
            if cut_off or (getattr(error, "sent", True) and isinstance(error, unknown)):
                self._in_doubt(name, seq, str(error.message))
                error.episode_lost, error.retryable = True, name == "reset"
            raise
        except BaseException as error:
            self._in_doubt(name, seq, f"it was interrupted ({type(error).__name__})")
            raise
        if self._used_up(reply):
            self.seq = seq
        return self._payload(reply, f"POST {path}", headers, deadline)

    def _used_up(self, reply: Reply) -> bool:
        """Whether the server accepted the number of the call."""
        if not self.ids_in_body:
            return reply.headers.get(SEQ) is not None
        try:
            ids = protocol.read_object(_content_type(reply), reply.body).get(IN_BODY)
        except ProtocolError:
            return False
        return isinstance(ids, dict) and ids.get("seq") is not None

    def _in_doubt(self, name: str, seq: int, why: str) -> None:
        self.seq = seq
        self.doubt = f"nobody knows how the last {name} ended: {why}"

    def _encode(self, body: dict[str, Any], headers: dict[str, str], seq: int, deadline: Deadline) -> bytes:
        if self.ids_in_body:
            body = {**body, IN_BODY: {"session": self.id, "seq": seq}}
        if self.kind == SESSIONS:
            headers["Content-Type"] = codec.MSGPACK
            return codec.to_msgpack(body)
        headers["Content-Type"] = codec.JSON
        try:
            return codec.to_json(body)
        except EncodeError:
            # MessagePack carries more; but only a server of this protocol reads it.
            if self.kind == UNKNOWN and self._probe("/health", deadline).get("protocol"):
                headers["Content-Type"] = codec.MSGPACK
                return codec.to_msgpack(body)
            raise

    def _persist(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        deadline: Deadline,
        *,
        repeatable: bool,
        limit_name: str,
    ) -> Reply:
        """Send, and send again what may be sent again, until there is an answer or the limit passes."""
        tries = refused = 0
        sent_once = False
        while True:
            try:
                reply = self.exchange.send(method, path, headers, body, deadline, self.limit("connect"))
                if reply.headers.get(SESSION) == self.id:
                    self.kind = SESSIONS
                if reply.status not in _PASSING:
                    return reply
                enveloped = _failure(reply).enveloped
                if self.kind == UNKNOWN and not enveloped and not repeatable:
                    self._ask_for_sessions(deadline)
                if self.kind != SESSIONS:
                    return reply
                if reply.status == 202 and enveloped and not repeatable:
                    continue  # it still runs; the server waited before it said so
                if reply.status == 202 or enveloped:
                    return reply
                problem: OpenEnvError = self._error(reply, f"{method} {path}", headers, deadline)
                problem.episode_lost = not repeatable  # a proxy does not tell whether the call went through
            except CallTimeout as error:
                raise self._named(error, limit_name, headers) from error.__cause__
            except TransportError as error:
                problem = error
            if self.exchange.line.cut:
                raise ClientClosed("the client was closed in the middle of a call", url=self.exchange.base.shown)
            if (death := self.dead()) is not None:
                raise death from problem
            sent = getattr(problem, "sent", True)
            sent_once = sent_once or sent
            problem.sent = sent_once  # type: ignore[attr-defined]
            if sent and self.kind == UNKNOWN and not repeatable:
                self._ask_for_sessions(deadline)
            allowed = len(_PAUSES) if self.kind == SESSIONS else _UNPROVEN_TRIES
            if sent and self.kind != SESSIONS and not repeatable:
                raise self._about(problem, headers)
            refused += not sent
            tries += 1
            if tries > allowed or refused > _REFUSED_TRIES:
                raise self._about(problem, headers)
            pause = _PAUSES[tries - 1]
            left = deadline.left()
            if left is not None and left <= pause:
                raise self._about(problem, headers)
            log.debug("%s %s: %s; sending it again in %g s", method, path, problem.message, pause)
            time.sleep(pause)

    # --- what the server is ---

    def _meet(self, reply: Reply) -> None:
        """Learn from a reply what kind of server this is."""
        echo = reply.headers.get(SESSION)
        if echo == self.id:
            self.kind = SESSIONS
            if reply.status == 200:
                self.instance = reply.headers.get(INSTANCE) or self.instance
        elif self.kind == UNKNOWN and reply.status in _TELLING:
            schema = self._probe("/schema", Deadline(_PROBE_S))
            if schema.get("protocol"):
                self.kind, self.ids_in_body = SESSIONS, True
            else:
                if schema:
                    raise Stateless
                self.kind = PLAIN

    def _ask_for_sessions(self, deadline: Deadline) -> None:
        """Nothing came of the first call of all: a server that knows our numbers may get it again."""
        if self._probe("/health", deadline).get("protocol"):
            self.kind = SESSIONS

    def _probe(self, path: str, deadline: Deadline) -> dict[str, Any]:
        """What a GET says, or nothing."""
        limit = Deadline(deadline.sooner(_PROBE_S))
        for pause in (0.05, 0.2, 0.5, 0.0):
            try:
                reply = self.exchange.send("GET", path, self._headers, None, limit, _PROBE_S)
                return protocol.read_object(_content_type(reply), reply.body) if reply.status == 200 else {}
            except (TransportError, ProtocolError):
                time.sleep(min(pause, limit.left() or 0.0))
            except CallTimeout:
                return {}
        return {}

    # --- replies and errors ---

    def _payload(self, reply: Reply, what: str, headers: dict[str, str], deadline: Deadline) -> dict[str, Any]:
        if reply.status != 200:
            raise self._error(reply, what, headers, deadline)
        try:
            payload = protocol.read_object(_content_type(reply), reply.body)
        except ProtocolError as error:
            error.response = reply.response
            raise self._about(error, headers) from None
        if self.ids_in_body:
            echoed = payload.pop(IN_BODY, None)
            if isinstance(echoed, dict):
                self.instance = str(echoed.get("instance") or self.instance)
        return payload

    def _error(self, reply: Reply, what: str, headers: dict[str, str], deadline: Deadline) -> OpenEnvError:
        failure = _failure(reply)
        about: dict[str, Any] = {
            "url": reply.url,
            "request_id": headers.get(REQUEST_ID),
            "elapsed_s": deadline.elapsed(),
            "allowed_s": deadline.limit,
            "response": reply.response,
        }
        if failure.code == "SESSION_NOT_FOUND" and not self.begun:
            return EpisodeNotBegun(
                f"{what}: no episode has begun",
                remedy="Call reset() first.",
                status=reply.status,
                code=failure.code,
                **about,
            )
        error = protocol.error_from(reply.status, failure, what, **about)
        if isinstance(error, EpisodeLost):
            instance = reply.headers.get(INSTANCE)
            if instance and self.instance and instance != self.instance:
                error.message += (
                    "; the answer comes from another server process than the reset did: the server was restarted, "
                    "or the load balancer is not sticky"
                )
            self.doubt = self.doubt or error.message
        elif error.episode_lost:
            self.doubt = error.message
        return error

    def _named(self, error: CallTimeout, name: str, headers: dict[str, str]) -> OpenEnvError:
        """A time-out with the limit that fired and how to raise it."""
        if (death := self.dead()) is not None:
            return death
        if not error.limit:
            total = self.limit("total")
            own = error.allowed_s
            error.limit = "total" if total is not None and own == total else name
            error.message = f"{name} took longer than {own:g} s" if own is not None else error.message
            how = "timeout_s=... of the call, " if error.limit == name else ""
            error.remedy = f"Raise it: {how}Timeouts({error.limit}=...) or request_timeout_s of the client."
        return self._about(error, headers)

    def _about(self, error: OpenEnvError, headers: dict[str, str]) -> OpenEnvError:
        error.request_id = error.request_id or headers.get(REQUEST_ID)
        error.url = error.url or self.exchange.base.shown
        return error

    def _deadline(self, limit: Limit) -> Deadline:
        total = self.limit("total")
        if total is not None:
            limit = total if limit is None else min(limit, total)
        return Deadline(limit, grace=GRACE_S if self.kind == SESSIONS else 0.0)


def _failure(reply: Reply) -> protocol.Failure:
    return protocol.Failure(_content_type(reply), reply.body)


def _content_type(reply: Reply) -> str:
    return (reply.headers.get("content-type") or "").lower()
