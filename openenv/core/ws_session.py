"""One episode at a time over a WebSocket, from plain code: for servers that keep episodes nowhere else.

A socket is a session. One on which an answer was late is never used again, so that no late answer can be taken for
the next; a lost socket is a lost episode.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from openenv.core import frames, protocol
from openenv.core.errors import ClientClosed, EpisodeLost, OpenEnvError
from openenv.core.exchange import Exchange
from openenv.core.http_session import HTTPSession
from openenv.core.logs import logger
from openenv.core.timing import Deadline, Limit, LimitArg, Timeouts
from openenv.core.ws_socket import PlainSocket, connect

log = logger("client")

#: Keep the way open while the agent thinks, but do not take a missing pong for a dead server: calls have limits.
_PING = (20.0, None)


class WSSession:
    """As :class:`~openenv.core.http_session.HTTPSession`, over ``/ws``; what is no call of an episode stays HTTP."""

    kind = "websocket"

    def __init__(self, exchange: Exchange, timeouts: Timeouts, default_s: Limit, dead: protocol.Dead) -> None:
        self.exchange, self.timeouts, self.dead = exchange, timeouts, dead
        self._http = HTTPSession(exchange, timeouts, default_s, dead)
        self.limit = self._http.limit
        self.url = frames.url_of(exchange.base)
        self._socket: PlainSocket | None = None
        self.renew()

    @property
    def holds(self) -> bool:
        """Whether the server may hold a session for us."""
        return self._socket is not None

    def renew(self) -> None:
        """Begin again as a stranger; a socket of a parent process is left to the parent."""
        self._socket = None
        self.begun = False
        self.doubt = ""

    # --- the calls ---

    def reset(self, body: dict[str, Any], limit: Limit) -> dict[str, Any]:
        deadline = self._deadline(limit)
        socket = self._socket
        if socket is None or self.doubt or not socket.is_open():
            self._drop()
            socket = self._connect(deadline)
        self.doubt = ""
        payload = self._call(socket, "reset", body, deadline)
        self.begun = True
        return payload

    def step(self, action: dict[str, Any], limit: LimitArg) -> dict[str, Any]:
        return self._within_episode("step", action, self.limit("step", limit))

    def state(self, limit: Limit) -> dict[str, Any]:
        return self._within_episode("state", None, limit)

    def get(self, path: str, limit: Limit) -> dict[str, Any]:
        return self._http.get(path, limit)

    def close(self, limit: Limit) -> None:
        """End the session on the server."""
        if self._socket is not None:
            try:
                self._socket.send(frames.encode("close", None, self._socket.subprotocol), 0.5)
            except (ConnectionClosed, OSError) as error:
                log.debug("the session at %s was gone before it was closed: %s", self.url, error)
        self._drop()
        self.renew()

    # --- the socket ---

    def _within_episode(self, kind: str, data: dict[str, Any] | None, limit: Limit) -> dict[str, Any]:
        if self.doubt:
            raise EpisodeLost(self.doubt, remedy="Call reset() to begin a new episode.", url=self.url)
        deadline = self._deadline(limit)
        # Where no episode has begun: some environments act without a reset.
        socket = self._socket or self._connect(deadline)
        return self._call(socket, kind, data, deadline)

    def _connect(self, deadline: Deadline) -> PlainSocket:
        exchange = self.exchange
        headers = {**exchange.headers}
        if exchange.token is not None:
            headers["Authorization"] = f"Bearer {exchange.token}"
        limit = deadline.sooner(self.limit("connect"))
        options = frames.connect_options(exchange.base, headers, exchange.max_reply_bytes, _PING)
        try:
            self._socket = socket = connect(self.url, limit, options)
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            if (death := self.dead()) is not None:
                raise death from error
            raise frames.connect_error(error, exchange.base.shown, limit) from error
        return socket

    def _call(self, socket: PlainSocket, kind: str, data: dict[str, Any] | None, deadline: Deadline) -> dict[str, Any]:
        line = self.exchange.line
        line.socket = socket.socket
        try:
            self.post(kind, data, deadline)
            return self.collect(kind, deadline)
        finally:
            line.socket = None

    def post(self, kind: str, data: dict[str, Any] | None, deadline: Deadline) -> None:
        """Send a call; :meth:`collect` gives the answer to it, and must come next.

        Raises:
            EpisodeLost: There is no socket any more.
            OpenEnvError: As a whole call.
        """
        socket = self._socket
        if socket is None:
            raise EpisodeLost(
                self.doubt or "no episode has begun", remedy="Call reset() to begin a new episode.", url=self.url
            )
        frame = frames.encode(kind, data, socket.subprotocol)
        try:
            with suppress(ConnectionClosed):  # a refusal may have come first: recv has it, or raises the same
                socket.send(frame, deadline.left())
        except BaseException as error:  # noqa: BLE001 - raised again
            self._raise(kind, deadline, error)

    def collect(self, kind: str, deadline: Deadline) -> dict[str, Any]:
        """The answer to what was sent last.

        Raises:
            OpenEnvError: As a whole call.
        """
        socket = self._socket
        assert socket is not None
        try:
            return frames.decode(kind, socket.recv(deadline.left()), self.exchange.base.shown)
        except BaseException as error:  # noqa: BLE001 - raised again
            self._raise(kind, deadline, error)

    def _raise(self, kind: str, deadline: Deadline, error: BaseException) -> NoReturn:
        """Raise what ``error`` means for a call, and give up the socket where it is of no more use."""
        if isinstance(error, OpenEnvError):  # first: ours are OSErrors and TimeoutErrors too
            if getattr(error, "fatal", False):
                self._fail(error.message)
            raise error
        if isinstance(error, TimeoutError):
            self._fail(f"nobody knows how the last {kind} ended: it took too long")
            if (death := self.dead()) is not None:
                raise death from None
            settings = f"Timeouts({kind}=...) or request_timeout_s of the client"
            raise frames.late(kind, self.exchange.base.shown, deadline, kind, settings) from None
        if isinstance(error, (ConnectionClosed, OSError)):
            gone = frames.lost(kind, self.exchange.base.shown, error)
            self._fail(gone.message)
            if self.exchange.line.cut:
                raise ClientClosed(
                    "the client was closed in the middle of a call", url=self.exchange.base.shown
                ) from None
            if (death := self.dead()) is not None:
                raise death from error
            raise gone from error
        self._fail(f"nobody knows how the last {kind} ended: it was interrupted ({type(error).__name__})")
        raise error

    def _fail(self, why: str) -> None:
        self.doubt = why
        self._drop()

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _deadline(self, limit: Limit) -> Deadline:
        total = self.limit("total")
        return Deadline(total if limit is None else limit if total is None else min(limit, total))
