"""Reading what a request carries: how much, how long, and what it says."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Generator, Mapping
from typing import Any, Final

from openenv.core import codec
from openenv.core.errors import ConfigurationError, ProtocolError
from openenv.server.access import Refused, media_of

#: Seconds within which a body must be complete.
BODY_S: Final = 30.0
#: Seconds that `/state` waits for its turn where the caller does not say.
STATE_S: Final = 10.0
_MAX_DIGITS: Final = 15


def max_body_bytes() -> int:
    """The largest request and WebSocket message of a server that is not told: ``OPENENV_MAX_BODY_BYTES``, else 64 MiB.

    Raises:
        ConfigurationError: The variable is not a positive whole number.
    """
    text = os.environ.get("OPENENV_MAX_BODY_BYTES", str(64 << 20))
    if not text.isdigit() or int(text) == 0:
        raise ConfigurationError(f"OPENENV_MAX_BODY_BYTES must be a positive whole number of bytes; got {text!r}")
    return int(text)


class Unusable(Exception):
    """The request cannot be used; ``refused`` says why."""

    def __init__(self, refused: Refused, **detail: Any) -> None:
        super().__init__(refused[2])
        self.refused = refused
        self.detail = detail


def invalid(loc: str, message: str) -> Unusable:
    return Unusable((422, "VALIDATION_ERROR", f"{loc}: {message}"), errors=[{"loc": [loc], "msg": message}])


async def read(receive: Any, headers: Mapping[bytes, bytes], most: int) -> bytes:
    """The whole body, at most ``most`` bytes.

    Raises:
        Unusable: It is too large, or not complete in time.
    """
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > _MAX_DIGITS or int(length) > most:
        raise _too_large(most)
    steps = receive().__await__()
    try:
        waiting = next(steps)
    except StopIteration as ready:
        # Nearly always: the body came with the head, and no timer is needed.
        message = ready.value
        if message["type"] == "http.request" and not message.get("more_body"):
            body: bytes = message.get("body", b"")
            if len(body) > most:
                raise _too_large(most) from None
            return body
        return await _in_time(receive, message, most)
    return await _in_time(receive, _Begun(steps, waiting), most)


async def _in_time(receive: Any, first: Any, most: int) -> bytes:
    """The body that begins with ``first``, a message or an awaitable of one."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            message = await first if isinstance(first, _Begun) else first
            while message["type"] == "http.request":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise _too_large(most)
                if not message.get("more_body"):
                    return b"".join(parts)
                message = await receive()
    except TimeoutError:
        raise Unusable((408, "BODY_TIMEOUT", f"the body was not complete within {BODY_S:g} s")) from None
    raise Unusable((400, "INVALID_JSON", "the client hung up in the middle of the body"))


def _too_large(most: int) -> Unusable:
    return Unusable((413, "BODY_TOO_LARGE", f"the body is larger than max_body_bytes={most}"), max_body_bytes=most)


class _Begun:
    """Awaits what was begun: the rest of its steps after the future that it waits for."""

    def __init__(self, steps: Generator[Any, Any, Any], waiting: Any) -> None:
        self._steps, self._waiting = steps, waiting

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            yield self._waiting
        except BaseException as error:
            self._steps.throw(error)
            raise
        return (yield from self._steps)


def media(content_type: bytes) -> str:
    """The encoding of a body.

    Raises:
        Unusable: It is none of ours.
    """
    known = media_of(content_type)
    if known is None:
        said = content_type[:100].decode("latin-1") or "nothing"
        message = f"send a body as Content-Type: application/json or application/msgpack; got {said}"
        raise Unusable((415, "UNSUPPORTED_MEDIA_TYPE", message))
    return known


def parse(body: bytes, content_type: bytes) -> Any:
    """What a body that is not empty says.

    Raises:
        Unusable: It is of another type, or malformed.
    """
    try:
        return codec.from_json(body) if media(content_type) is codec.JSON else codec.from_msgpack(body)
    except ProtocolError as error:
        raise Unusable((400, "INVALID_JSON", f"the body cannot be read: {error.message}")) from None


def step_limit(value: dict[str, Any]) -> tuple[float | None, dict[str, Any] | None]:
    """The limit that the body of a step gives, and what is wrong with it."""
    said = value.get("timeout_s")
    if said is None or said == 0:  # 0 is how the first generation of clients wrote less than a second
        return None, None
    if isinstance(said, (int, float)) and not isinstance(said, bool) and said > 0:
        return (None if math.isinf(said) else float(said)), None
    return None, {"loc": ["timeout_s"], "msg": f"timeout_s must be a positive number or null; got {said!r:.60}"}


def number(text: bytes) -> int:
    """The number of a call.

    Raises:
        Unusable: It is not a decimal from 1.
    """
    if not text.isdigit() or len(text) > _MAX_DIGITS or int(text) == 0:
        raise invalid("OpenEnv-Seq", f"must be a decimal from 1; got {text[:40]!r}")
    return int(text)


def seconds(text: bytes) -> float:
    """The limit of a call.

    Raises:
        Unusable: It is not a positive number of seconds.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise invalid("OpenEnv-Timeout", f"must be a positive number of seconds; got {text[:40]!r}")
    return value


def with_member(body: bytes, media: str, name: str, value: dict[str, Any]) -> bytes:
    """An encoded object with one more member."""
    if media is codec.JSON:
        return b"%b%b%b:%b}" % (body[:-1], b"" if body == b"{}" else b",", codec.to_json(name), codec.to_json(value))
    decoded = codec.from_msgpack(body)
    return codec.to_msgpack({**decoded, name: value})
