"""Answers for :class:`tests.wire.servers.ScriptedServer` that behave like whole echo servers, and faults for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from openenv.core import codec
from tests.wire.servers import NO_REPLY, Answer, Reply, Request

Treatment = Callable[[Request, Answer], Reply]
READY = "Echo environment ready!"


def echo_result(message: str, *, reset: bool = False) -> dict[str, Any]:
    """What an echo environment answers."""
    if reset:
        return {"observation": {"echoed_message": READY, "message_length": 0}, "reward": 0.0, "done": False}
    observation = {"echoed_message": message, "message_length": len(message)}
    return {"observation": observation, "reward": len(message) * 0.1, "done": False}


def envelope(status: int, code: str, message: str = "so it is", **detail: Any) -> Reply:
    """An error of our own protocol."""
    error = {"code": code, "message": message, "detail": detail, "request_id": "told-by-server"}
    return Reply(status=status, body={"error": error}, headers=[("X-Request-ID", "told-by-server")])


@dataclass
class EraServer:
    """An HTTP-era server: one environment for all, no sessions, `/schema` is 404."""

    step_count: int = 0

    def __call__(self, request: Request) -> Reply:
        match request.method, request.path:
            case "GET", "/health":
                return Reply(body={"status": "healthy"})
            case "POST", "/reset":
                self.step_count = 0
                return Reply(body=echo_result("", reset=True))
            case "POST", "/step":
                self.step_count += 1
                return Reply(body=echo_result(request.value()["action"].get("message", "")))
            case "GET", "/state":
                return Reply(body={"episode_id": "e-1", "step_count": self.step_count})
        return Reply(status=404, body={"detail": "Not Found"})


@dataclass
class Session:
    """One session of a :class:`SessionServer`."""

    last: int = 0
    step_count: int = 0
    answered: tuple[str, bytes] | None = None
    reply: Reply = field(default_factory=Reply)


@dataclass
class SessionServer:
    """A server that keeps sessions as docs/protocol.md says, as far as one client at a time can tell.

    Attributes:
        instance: What `OpenEnv-Instance` says.
        msgpack: Whether it answers MessagePack where it is accepted.
        ran: Each call that ran in an environment: the session, its number, and the route.
    """

    instance: str = "instance-1"
    msgpack: bool = False
    result: Callable[[Any], dict[str, Any]] | None = None
    sessions: dict[str, Session] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    ran: list[tuple[str, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            reply = self._answer(request)
        asked = request.header("Accept") or ""
        if self.msgpack and codec.MSGPACK in asked and not isinstance(reply.body, bytes):
            body = codec.to_msgpack(reply.body)
            reply = replace(reply, body=body, headers=[*reply.headers, ("Content-Type", codec.MSGPACK)])
        return reply

    def _answer(self, request: Request) -> Reply:
        if request.path == "/health":
            sessions = {"active": len(self.sessions), "max": 8}
            status = {"status": "healthy", "protocol": 1, "instance": self.instance, "name": "echo"}
            return Reply(body={**status, "sessions": sessions})
        if request.path == "/schema":
            return Reply(body={"action": {}, "observation": {}, "state": {}, "protocol": 1})
        body = request.value() or {}
        inside = body.get("openenv") or {}
        said = request.header("OpenEnv-Session") or inside.get("session")
        number = int(request.header("OpenEnv-Seq") or inside.get("seq") or 0)
        name = said or "default"
        reply = self._routed(request, body, name, number)
        told = {"session": name, "instance": self.instance, "seq": number}
        headers = [*reply.headers, ("OpenEnv-Session", name), ("OpenEnv-Instance", self.instance)]
        if number and reply.status == 200 and request.path in ("/reset", "/step"):
            headers.append(("OpenEnv-Seq", str(number)))
        if inside and isinstance(reply.body, dict):
            reply = replace(reply, body={**reply.body, "openenv": told})
        return replace(reply, headers=headers)

    def _routed(self, request: Request, body: dict[str, Any], name: str, number: int) -> Reply:
        match request.method, request.path:
            case ("DELETE", "/session") | ("POST", "/session/close"):
                self.deleted.append(name)
                return Reply(body={"closed": self.sessions.pop(name, None) is not None})
            case (("GET" | "POST"), "/state"):
                session = self.sessions.get(name)
                if session is None:
                    return envelope(404, "SESSION_NOT_FOUND")
                return Reply(body={"episode_id": "e-1", "step_count": session.step_count})
            case "POST", ("/reset" | "/step"):
                return self._numbered(request, body, name, number)
        return envelope(404, "NOT_FOUND")

    def _numbered(self, request: Request, body: dict[str, Any], name: str, number: int) -> Reply:
        reset = request.path == "/reset"
        session = self.sessions.get(name)
        if session is None:
            if name in self.deleted:
                return envelope(410, "SESSION_CLOSED", reason="deleted")
            if not reset and name != "default":
                return envelope(404, "SESSION_NOT_FOUND")
            session = self.sessions[name] = Session()
        if number and number == session.last:
            if session.answered != (request.path, request.body):
                return envelope(422, "SEQ_REUSED")
            return replace(session.reply, headers=[*session.reply.headers, ("OpenEnv-Replayed", "true")])
        if number and (number < session.last or (not reset and number > session.last + 1)):
            return envelope(409, "SEQ_MISMATCH", expected=session.last + 1)
        self.ran.append((name, number, request.path))
        session.last = number or session.last
        session.step_count = 0 if reset else session.step_count + 1
        session.answered = (request.path, request.body)
        session.reply = Reply(body=self._result(body, reset))
        return session.reply

    def _result(self, body: dict[str, Any], reset: bool) -> dict[str, Any]:
        if self.result is not None:
            return self.result(body)
        return echo_result(body.get("action", {}).get("message", ""), reset=reset)


class Faulty:
    """Puts treatments on single calls of another answer: `Faulty(server).on("/step", lost_reply, instead(...))`.

    The first request to a path gets the first treatment, and so on; after the last one all pass.
    """

    def __init__(self, answer: Answer) -> None:
        self._inner = answer
        self._plans: dict[str, deque[Treatment]] = {}

    def on(self, path: str, *treatments: Treatment) -> Self:
        self._plans.setdefault(path, deque()).extend(treatments)
        return self

    def __call__(self, request: Request) -> Reply:
        plan = self._plans.get(request.path)
        return plan.popleft()(request, self._inner) if plan else self._inner(request)


def passed(request: Request, answer: Answer) -> Reply:
    return answer(request)


def lost_request(_: Request, __: Answer) -> Reply:
    """The server never hears of it."""
    return NO_REPLY


def lost_reply(request: Request, answer: Answer) -> Reply:
    """The server did it, and nobody hears of it."""
    answer(request)
    return NO_REPLY


def instead(reply: Reply) -> Treatment:
    """The server never hears of it, and somebody else answers."""
    return lambda _, __: reply


def changed(**how: Any) -> Treatment:
    """The server does it and answers, with another way of replying: `changed(delay=3)`."""
    return lambda request, answer: replace(answer(request), **how)


def without_headers(answer: Answer, *, of_replies: bool = True) -> Answer:
    """A proxy that strips our headers from requests, and from replies too unless told otherwise."""

    def stripped(request: Request) -> Reply:
        kept = [(name, value) for name, value in request.headers if not name.lower().startswith("openenv-")]
        reply = answer(replace(request, headers=kept))
        if not of_replies:
            return reply
        return replace(reply, headers=[(n, v) for n, v in reply.headers if not n.lower().startswith("openenv-")])

    return stripped
