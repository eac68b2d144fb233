"""What is said, without saying it: requests as values, replies as values or errors. No I/O, no clock.

The normative text is ``docs/protocol.md``; the facts of other servers that are understood here too stand beside the
code that reads them.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from openenv.core import codec, errors
from openenv.core.errors import ConfigurationError, OpenEnvError, ProtocolError

SESSION: Final = "OpenEnv-Session"
SEQ: Final = "OpenEnv-Seq"
INSTANCE: Final = "OpenEnv-Instance"
LIMIT: Final = "OpenEnv-Timeout"
REQUEST_ID: Final = "X-Request-ID"
#: The member of a body that carries the ids past a proxy that strips headers.
IN_BODY: Final = "openenv"
ACCEPT: Final = f"{codec.MSGPACK}, {codec.JSON}"
#: What a proxy says when it could not get an answer; one with our error envelope is the server's own.
GATEWAY_STATUSES: Final = frozenset({502, 503, 504})

_SCHEMES = ("http", "https", "ws", "wss")


class BaseURL:
    """Where a server lives, checked once.

    Attributes:
        text: The URL without trailing slashes; paths are appended to it.
        scheme: ``http``, ``https``, ``ws`` or ``wss``.
        origin: Scheme, host and port.
        loopback: Whether the host is this machine by its address or by the name ``localhost``.
    """

    def __init__(self, url: str) -> None:
        if not isinstance(url, str):
            raise ConfigurationError(f"base_url must be text; got {type(url).__name__} {url!r:.60}")
        self.text = url.strip().rstrip("/")
        remedy = "Write it like http://localhost:8000."
        try:
            parts = urlsplit(self.text)
            self.scheme, self.host, self.port = parts.scheme.lower(), parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigurationError(f"base_url {url!r} is not a URL: {error}", remedy=remedy) from None
        if self.scheme not in _SCHEMES or not self.host:
            raise ConfigurationError(
                f"base_url {url!r} has no {'host' if self.scheme in _SCHEMES else 'scheme that is known here'}",
                remedy=remedy,
            )
        if parts.query or parts.fragment:
            raise ConfigurationError(f"base_url {url!r} has a query or a fragment", remedy=remedy)
        self.origin = f"{self.scheme}://{parts.netloc.rpartition('@')[2].lower()}"
        self.loopback = is_loopback(self.host)
        #: The same for plain HTTP calls.
        self.http = {"ws": "http", "wss": "https"}.get(self.scheme, self.scheme) + self.text[len(self.scheme) :]
        #: For logs, errors and ``repr``: without a password.
        self.shown = (
            self.text.replace(f"{parts.netloc.rpartition('@')[0]}@", "***@") if "@" in parts.netloc else self.text
        )


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine, by parsed address; names other than ``localhost`` are not looked up."""
    if host.lower().rstrip(".") == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def new_session_id() -> str:
    """128 random bits; knowing them is the right to use the session."""
    return secrets.token_urlsafe(16)


# --- requests ---------------------------------------------------------------------------------------------------


def reset_body(seed: int | None, episode_id: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The body of ``/reset``: what was given and nothing else."""
    body = dict(options)
    if IN_BODY in body:
        raise ConfigurationError(f"the reset option {IN_BODY!r} is taken by the protocol; got {body[IN_BODY]!r:.60}")
    if seed is not None:
        body["seed"] = seed
    if episode_id is not None:
        body["episode_id"] = episode_id
    return body


def number(limit: float | None) -> float | int | None:
    """A limit as people write it: 15, not 15.0."""
    return int(limit) if limit is not None and limit == int(limit) else limit


def whole_seconds(limit: float | None) -> float | int | None:
    """The client's own limit as servers have always got it: whole seconds, but never 0 (0.2+ answers that with 422)."""
    return limit if limit is None or limit < 1 else int(limit)


# --- replies ----------------------------------------------------------------------------------------------------


def read_object(content_type: str, body: bytes | bytearray) -> dict[str, Any]:
    """The JSON or MessagePack object of a successful reply.

    Raises:
        ProtocolError: It is something else; the message says what came.
    """
    if content_type.startswith(codec.MSGPACK):
        value = codec.from_msgpack(body)
    else:
        try:
            value = codec.from_json(body)
        except errors.NotJSON as error:
            error.message = f"the server's answer is not JSON but {_what(content_type, body)}"
            error.remedy = "Is this the address of an OpenEnv server? A proxy's page looks like this too."
            raise
    if not isinstance(value, dict):
        raise ProtocolError(
            f"the server's answer must be an object; got {_kind(value)} {value!r:.60}",
            remedy="Is this the address of an OpenEnv server?",
        )
    return value


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", type(None): "null"}.get(type(value), f"a {type(value).__name__}")


def _what(content_type: str, body: bytes | bytearray) -> str:
    text = bytes(body[:400]).decode("utf-8", "replace").strip()
    if not text:
        return "an empty body"
    kind = "HTML" if re.match(r"(?i)<(!doctype|html|head|body|\?xml)", text) else f"{content_type or 'untyped'} text"
    title = re.search(r"(?is)<title>(.*?)</title>", text)
    shown = title.group(1) if title else text
    return f"{kind}: {' '.join(shown.split())[:120]!r}"


class Failure:
    """What a reply that is no success says, whichever generation of server said it."""

    __slots__ = ("code", "detail", "enveloped", "errors", "message", "request_id")

    def __init__(self, content_type: str, body: bytes | bytearray) -> None:
        self.code, self.message, self.request_id = "", "", ""
        self.detail: Any = None
        self.errors: list[dict[str, Any]] = []
        self.enveloped = False
        try:
            value = codec.from_msgpack(body) if content_type.startswith(codec.MSGPACK) else codec.from_json(body)
        except ProtocolError:
            self.message = _what(content_type, body)
            return
        error = value.get("error") if isinstance(value, dict) else None
        if isinstance(error, dict) and isinstance(error.get("code"), str):  # this protocol
            self.enveloped = True
            self.code, self.message = error["code"], str(error.get("message", ""))
            self.detail, self.request_id = error.get("detail"), str(error.get("request_id") or "")
            listed = self.detail.get("errors") if isinstance(self.detail, dict) else None
        else:  # FastAPI's {"detail": text or list}, since the first generation
            self.detail = value.get("detail", value) if isinstance(value, dict) else value
            listed = self.detail
            self.message = self.detail if isinstance(self.detail, str) else ""
        if isinstance(listed, list):
            self.errors = [item for item in listed if isinstance(item, dict)]
        if self.errors and not self.message:
            self.message = "; ".join(f"{_location(item.get('loc'))}: {item.get('msg')}" for item in self.errors[:5])
        if self.detail and not self.message and not self.enveloped:
            self.message = f"{self.detail!r:.200}"

    @classmethod
    def of_frame(cls, data: dict[str, Any]) -> Failure:
        """The same of the data of an error frame: message, code and whatever else beside them."""
        failure = cls.__new__(cls)
        failure.code, failure.message, failure.request_id = str(data.get("code", "")), str(data.get("message", "")), ""
        failure.detail = {key: item for key, item in data.items() if key not in ("message", "code")}
        failure.errors = [item for item in data.get("errors") or () if isinstance(item, dict)]
        failure.enveloped = True
        if failure.errors:
            told = "; ".join(f"{_location(item.get('loc'))}: {item.get('msg')}" for item in failure.errors[:5])
            if told not in failure.message:
                failure.message = f"{failure.message}: {told}"
        return failure


def _location(loc: Any) -> str:
    return ".".join(str(part) for part in loc) if isinstance(loc, (list, tuple)) else str(loc)


_LOST = {
    "SESSION_NOT_FOUND": "the server does not know this session",
    "SESSION_CLOSED": "the session is over: it was closed, or was idle for too long",
    "REPLY_GONE": "the answer to this call is no longer remembered",
    "RESET_REQUIRED": "the episode cannot go on",
    "SEQ_MISMATCH": "the server and this client do not agree on how many calls were made",
    "SEQ_REUSED": "the server has another call under this number",
}
_LOST_REMEDY = "Call reset() to begin a new episode."


def error_from(status: int, failure: Failure, what: str, **about: Any) -> OpenEnvError:
    """The error of a reply that is no success.

    Args:
        status: The HTTP status; 0 for an error frame of a WebSocket.
        failure: What the reply says.
        what: The call, as in "POST /step".
        **about: Attributes of the error: ``url``, ``request_id``, ``elapsed_s``, ``allowed_s``, ``response``.
    """
    code, detail = failure.code, failure.detail
    told = failure.message or "no reason given"
    common: dict[str, Any] = {"status": status, "code": code, "detail": detail, **about}
    if failure.request_id:
        common["request_id"] = failure.request_id
    named = detail if isinstance(detail, dict) else {}
    said = f"{what}: the server answered {status or code}{f' {code}' if status and code else ''}"

    if code in _LOST:
        return errors.EpisodeLost(f"{said}: {_LOST[code]} ({told})", remedy=_LOST_REMEDY, **common)
    if code == "CAPACITY_REACHED":
        active, maximum = named.get("active_sessions"), named.get("max_sessions")
        return errors.CapacityError(
            f"{said}: {told}",
            remedy="Close clients that are done, wait, or raise MAX_CONCURRENT_ENVS on the server.",
            active=active,
            maximum=maximum,
            **common,
        )
    if code in ("STEP_TIMEOUT", "RESET_TIMEOUT"):
        return errors.StepTimeout(
            f"{said}: {told}",
            remedy=f"Raise the limit (timeout_s=..., or request_timeout_s of the client). {_LOST_REMEDY}",
            **common,
        )
    if code == "SHUTTING_DOWN":
        return errors.ServerError(f"{said}: {told}", remedy=_LOST_REMEDY, episode_lost=True, retryable=True, **common)
    if code == "SESSION_BUSY":
        return errors.ServerError(
            f"{said}: {told}", remedy="Try again when the step is done.", retryable=True, **common
        )
    if status in (401, 403):
        return errors.Unauthorized(
            f"{said}: {told}",
            remedy="Give the server's token as auth=..."
            if status == 401
            else "See OPENENV_ALLOWED_HOSTS on the server.",
            **common,
        )
    if code in ("VALIDATION_ERROR", "INVALID_JSON") or status in (400, 413, 415, 422):
        return errors.InvalidRequest(f"{said}: {told}", errors=failure.errors, **common)
    if code in ("EXECUTION_ERROR", "FACTORY_ERROR", "ENCODE_ERROR") or (status == 500 and code != "INTERNAL_ERROR"):
        remote = str(named.get("type") or "")
        return errors.EnvironmentFailed(
            f"{said}: {f'{remote}: ' if remote and not told.startswith(remote) else ''}{told}",
            remedy="The environment itself failed; its log has more.",
            remote_type=remote,
            remote_traceback=str(named.get("traceback") or ""),
            **common,
        )
    if status in (301, 302, 303):
        return errors.ServerError(
            f"{said}, a redirect that would turn this call into a GET",
            remedy="Use the address that it points to as base_url (https:// rather than http://?).",
            **common,
        )
    if status in GATEWAY_STATUSES:
        return errors.ServerError(f"{said}: {told}", remedy="", retryable=True, **common)
    remedy = ""
    if status in (404, 405):
        remedy = "Is this the address of an OpenEnv server, and does it serve episodes (not only tools)?"
    return errors.ServerError(f"{said}: {told}", remedy=remedy, **common)


Dead = Callable[[], OpenEnvError | None]
