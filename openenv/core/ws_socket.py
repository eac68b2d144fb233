"""A WebSocket for plain code, read by the thread that waits for the answer.

``websockets.sync`` gives every socket a thread that reads it, and each message is handed from that thread to the one
that waits: twice the cost of the message. Here the caller reads by itself. Between calls nobody does, so one thread
for all sockets of the process looks at them now and then: it answers pings, and sends its own to keep the way open.

How a connection is made (proxies, TLS, redirects) and what the bytes mean is all ``websockets``'.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Final, Self

from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.sync.client import connect as websockets_connect

from openenv.core.timing import Deadline, Limit

_CHUNK: Final = 1 << 16
#: Seconds between two looks at sockets that nobody reads: a ping waits for its pong for so long at most.
_LOOK_S: Final = 0.5
#: Seconds that the other end gets to say goodbye.
_GOODBYE_S: Final = 0.5


class PlainSocket:
    """One connection. Made by :func:`connect`, in the place of ``websockets``' own class.

    Attributes:
        socket: What the bytes travel on.
        protocol: What they mean.
    """

    def __init__(self, sock: Any, protocol: ClientProtocol, *, ping_interval: float | None = None, **_: Any) -> None:
        self.socket, self.protocol = sock, protocol
        self.lock = threading.Lock()
        self._response: Response | None = None
        self._parts: list[bytes] = []
        self._is_text = False
        self._messages: deque[str | bytes] = deque()
        self._ping_s = ping_interval
        self._next_ping = time.monotonic() + (ping_interval or 0.0)
        self.recv_events_thread = threading.Thread()  # which websockets joins when a handshake fails
        self.recv_events_thread.run = lambda: None  # type: ignore[method-assign]

    # --- what websockets' connect calls ---

    def handshake(self, headers: Any = None, user_agent: str | None = None, timeout: float | None = None) -> None:
        request = self.protocol.connect()
        request.headers.update(headers or {})
        if user_agent is not None:
            request.headers.setdefault("User-Agent", user_agent)
        self.protocol.send_request(request)
        deadline = Deadline(timeout)
        self._flush(deadline)
        while self._response is None and self.protocol.handshake_exc is None:
            self._read(deadline)
        if self.protocol.handshake_exc is not None:
            raise self.protocol.handshake_exc

    def start_keepalive(self) -> None:
        _WATCH.add(self)

    def close_socket(self) -> None:
        self.socket.close()
        with suppress(RuntimeError):
            self.recv_events_thread.start()

    def __enter__(self) -> Self:
        return self

    # --- messages ---

    @property
    def subprotocol(self) -> str | None:
        """What was agreed on."""
        return self.protocol.subprotocol

    def send(self, message: str | bytes, limit: Limit = None) -> None:
        """Send a message.

        Raises:
            ConnectionClosed: The connection is over.
            TimeoutError: It could not be written within ``limit`` seconds.
        """
        with self.lock:
            if self.protocol.state is not State.OPEN:
                raise self._end()
            if isinstance(message, str):
                self.protocol.send_text(message.encode())
            else:
                self.protocol.send_binary(message)
            self._flush(Deadline(limit))

    def recv(self, limit: Limit = None) -> str | bytes:
        """The next message.

        Raises:
            ConnectionClosed: The connection is over.
            TimeoutError: Nothing came within ``limit`` seconds.
        """
        deadline = Deadline(limit)
        with self.lock:
            while not self._messages:
                if self.protocol.state is not State.OPEN:
                    raise self._end()
                self._read(deadline)
            return self._messages.popleft()

    def is_open(self) -> bool:
        """Whether the other end has not said goodbye, as far as can be known without waiting."""
        with self.lock:
            self._read_what_is_there()
        return self.protocol.state is State.OPEN

    def close(self) -> None:
        """Say goodbye and end the connection, whether or not there is an answer."""
        _WATCH.discard(self)
        with self.lock:
            if self.protocol.state is State.OPEN:
                self.protocol.send_close(1000)
            self._end()
            self.socket.close()

    # --- bytes; under the lock ---

    def _end(self) -> ConnectionClosed:
        """Why the connection is over, once the other end has hung up, or has had the time to."""
        deadline = Deadline(_GOODBYE_S)
        try:
            self._flush(deadline)
            while self.protocol.state is not State.CLOSED:
                self._read(deadline)
        except OSError:
            self.protocol.receive_eof()
        return self.protocol.close_exc

    def _flush(self, deadline: Deadline) -> None:
        for data in self.protocol.data_to_send():
            if data:
                self._limit(deadline)
                self.socket.sendall(data)

    def _read(self, deadline: Deadline) -> None:
        self._limit(deadline)
        data = self.socket.recv(_CHUNK)
        if data:
            self.protocol.receive_data(data)
        else:
            self.protocol.receive_eof()
        for event in self.protocol.events_received():
            self._take(event)
        if self.protocol.writes:
            self._flush(deadline)

    def _limit(self, deadline: Deadline) -> None:
        left = deadline.left()
        if left is not None and left <= 0:
            raise TimeoutError("the limit of the call passed")
        self.socket.settimeout(left)

    def _take(self, event: Any) -> None:
        if not isinstance(event, Frame):
            self._response = event
            return
        if event.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = event.opcode is Opcode.TEXT
        elif event.opcode is not Opcode.CONT:
            return  # pings were answered by the protocol
        if event.fin and not self._parts:
            whole = bytes(event.data)
        else:
            self._parts.append(bytes(event.data))
            if not event.fin:
                return
            whole = b"".join(self._parts)
            self._parts.clear()
        self._messages.append(whole.decode("utf-8", "replace") if self._is_text else whole)

    def _read_what_is_there(self) -> None:
        # TLS has its own say of what can be read; a look that finds nothing costs no more than asking first.
        with suppress(TimeoutError, OSError):
            while self.protocol.state is not State.CLOSED:
                self._read(_AT_ONCE)

    def look(self) -> None:
        """Answer pings, and ping when it is time; unless a call is reading already."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            self._read_what_is_there()
            if self._ping_s and time.monotonic() >= self._next_ping and self.protocol.state is State.OPEN:
                self._next_ping = time.monotonic() + self._ping_s
                self.protocol.send_ping(b"")
                with suppress(OSError):
                    self._flush(Deadline(_LOOK_S))
        finally:
            self.lock.release()


class _AtOnce(Deadline):
    """No time at all, but no time-out either: what is there may be read."""

    def left(self) -> float | None:
        return 1e-6


_AT_ONCE: Final = _AtOnce(0.0)


class _Watch:
    """Looks at all sockets of the process now and then, on a thread that lives as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: weakref.WeakSet[PlainSocket] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, socket: PlainSocket) -> None:
        with self._lock:
            self._sockets.add(socket)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="openenv-websockets", daemon=True)
                self._thread.start()

    def discard(self, socket: PlainSocket) -> None:
        with self._lock:
            self._sockets.discard(socket)

    def forget(self) -> None:
        """In a child process: the sockets are the parent's."""
        self.__init__()  # type: ignore[misc]

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                sockets = list(self._sockets)
                if not sockets:
                    self._thread = None
                    return
            for socket in sockets:
                socket.look()
            del sockets, socket  # so that whoever forgot one is not kept from losing it


_WATCH: Final = _Watch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.forget)


def connect(url: str, limit: Limit, options: dict[str, Any]) -> PlainSocket:
    """A connection to ``url`` within ``limit`` seconds; ``options`` are those of ``websockets``' connect.

    Raises:
        OSError: There is none.
        InvalidHandshake: What answers speaks no WebSocket, or refuses.
    """
    kind: Any = PlainSocket
    made: Any = websockets_connect(url, open_timeout=limit, create_connection=kind, **options).__enter__()
    socket: PlainSocket = made
    return socket
