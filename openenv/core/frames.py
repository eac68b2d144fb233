"""What is said on ``/ws``: one JSON object a frame, one answer to each, one session to a socket. No I/O.

The frames are those of the peers' servers since 0.2.0 and of ours. A server of ours may agree on the subprotocol
``openenv.msgpack.1``: the same objects as MessagePack in binary frames, so that arrays travel as bytes.
"""

from __future__ import annotations

from typing import Any, Final

from openenv.core import codec, errors, protocol
from openenv.core.errors import OpenEnvError, ProtocolError, TransportError
from openenv.core.timing import Deadline

MSGPACK_SUBPROTOCOL: Final = "openenv.msgpack.1"
#: Codes after which the server closes the socket.
FATAL: Final = frozenset({"CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"})
_ANSWERS = {"reset": "observation", "step": "observation", "state": "state", "mcp": "mcp"}


def encode(kind: str, data: dict[str, Any] | None, subprotocol: str | None) -> str | bytes:
    """The frame of a call. ``state`` and ``close`` carry no data."""
    message = {"type": kind} if data is None else {"type": kind, "data": data}
    return codec.to_msgpack(message) if subprotocol == MSGPACK_SUBPROTOCOL else codec.to_json(message).decode()


def decode(kind: str, frame: str | bytes, url: str) -> dict[str, Any]:
    """The payload of the answer to a call of this ``kind``.

    Raises:
        ServerError: An error frame; its ``fatal`` tells whether the socket is of no more use.
        ProtocolError: Something that is no answer to this call.
    """
    message = codec.from_json(frame.encode()) if isinstance(frame, str) else codec.from_msgpack(frame)
    answer = message.get("type") if isinstance(message, dict) else None
    data = message.get("data") if isinstance(message, dict) else None
    if answer == _ANSWERS[kind] and isinstance(data, dict):
        return data
    if answer == "error" and isinstance(data, dict):
        failure = protocol.Failure.of_frame(data)
        error = protocol.error_from(0, failure, kind, url=url)
        error.fatal = failure.code in FATAL  # type: ignore[attr-defined]
        raise error
    if answer == "state_update":
        raise ProtocolError(
            f"{url} is only a feed for a page: this server is of the first generation",
            remedy="Use HTTPEnvClient, which speaks plain HTTP with it.",
            fatal=True,
        )
    raise ProtocolError(f"no answer to {kind}: {frame[:120]!r}", url=url, fatal=True)


def url_of(base: protocol.BaseURL) -> str:
    """The address of the sessions of the server at ``base``."""
    scheme = {"http": "ws", "https": "wss"}.get(base.scheme, base.scheme)
    return f"{scheme}{base.text[len(base.scheme) :]}/ws"


def connect_options(
    base: protocol.BaseURL, headers: dict[str, str], max_bytes: int | None, ping: tuple[float | None, float | None]
) -> dict[str, Any]:
    """The arguments that ``websockets``' synchronous and asynchronous ``connect`` have in common."""
    return {
        "additional_headers": headers,
        "subprotocols": [MSGPACK_SUBPROTOCOL],
        "max_size": max_bytes,
        "compression": None if base.loopback else "deflate",
        "proxy": None if base.loopback else True,
        "ping_interval": ping[0],
        "ping_timeout": ping[1],
        "close_timeout": 2.0,
    }


def connect_error(error: Exception, url: str, limit: float | None) -> OpenEnvError:
    """Why no session could be opened at ``url``."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        response = error.response  # type: ignore[attr-defined]
        told = protocol.Failure(response.headers.get("Content-Type", "").lower(), response.body or b"")
        if status in (401, 503) and told.enveloped:
            return protocol.error_from(status, told, "connecting", url=url)
        remedy = "Is this the address of an OpenEnv server?"
        if status in (403, 404):
            remedy = "A server of the first generation has no sessions here: use HTTPEnvClient. Else see its log."
        return TransportError(
            f"{url} refused the WebSocket with HTTP {status}", remedy=remedy, url=url, retryable=False
        )
    if isinstance(error, TimeoutError):
        return errors.ConnectTimeout(
            f"no WebSocket to {url} within {limit:g} s" if limit is not None else f"no WebSocket to {url}",
            remedy="Is the server up and reachable? Raise the connect limit.",
            url=url,
            limit="connect",
        )
    return TransportError(
        f"cannot open a WebSocket to {url}: {str(error) or type(error).__name__}",
        remedy="Is the server running, and is this its address?",
        url=url,
    )


def late(kind: str, url: str, deadline: Deadline, limit: str, settings: str) -> errors.CallTimeout:
    """The answer did not come in time; ``settings`` says what sets the limit for every call."""
    return errors.CallTimeout(
        f"{kind} took longer than {deadline.limit:g} s",
        remedy=f"Raise it: timeout_s=... of the call, or {settings}.",
        limit=limit,
        url=url,
        episode_lost=True,
        elapsed_s=deadline.elapsed(),
        allowed_s=deadline.limit,
    )


def lost(what: str, url: str, why: object) -> errors.EpisodeLost:
    """The socket, and with it the session, is gone."""
    return errors.EpisodeLost(
        f"{what}: the connection to {url} is gone, and the episode with it ({why})",
        remedy="Call reset() to begin a new episode.",
        url=url,
    )
