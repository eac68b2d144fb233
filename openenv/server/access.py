"""Who may speak to this server: token, Host, Origin and content type. Pure."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from openenv.core import codec
from openenv.core.errors import ConfigurationError

Refused = tuple[int, str, str]

#: Names under these are never a public web site's.
_LOCAL_TREES: Final = ("localhost", "local", "internal", "svc", "test")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_REMEMBERED_HOSTS: Final = 1024


class Access:
    """Decides on the headers of a request.

    Args:
        token: What callers must know, or ``None``.
        allowed_hosts: Names that this server may be called by, besides those that are local; ``*`` for any.
    """

    def __init__(self, token: str | None, allowed_hosts: Iterable[str]) -> None:
        if token is not None and (not token.isascii() or not token.isprintable() or " " in token or not token):
            raise ConfigurationError(
                "the token (OPENENV_TOKEN) must be printable ASCII without spaces, and not empty",
                remedy='Make one: python -c "import secrets; print(secrets.token_urlsafe(24))".',
            )
        self._bearer = None if token is None else f"Bearer {token}".encode("ascii")
        self._allowed = frozenset(host.strip().lower().rstrip(".") for host in allowed_hosts if host.strip())
        self._hosts_seen: set[bytes] = set()

    def refuse(self, headers: Mapping[bytes, bytes], *, needs_token: bool = True) -> Refused | None:
        """Why a request with these headers is refused, or ``None``."""
        host = headers.get(b"host", b"")
        origin = headers.get(b"origin")
        if origin is not None and not _same_host(origin, host):
            return 403, "ORIGIN_REFUSED", f"this server does not answer pages of {_text(origin)}"
        if self._bearer is None:
            if host not in self._hosts_seen and not self._may_be_called(host):
                return (
                    403,
                    "HOST_REFUSED",
                    f"this server does not answer to the name {_text(host)}; set OPENENV_ALLOWED_HOSTS on the server",
                )
        elif needs_token and not hmac.compare_digest(headers.get(b"authorization", b""), self._bearer):
            return 401, "UNAUTHORIZED", "this server wants Authorization: Bearer TOKEN (its OPENENV_TOKEN)"
        return None

    def _may_be_called(self, host: bytes) -> bool:
        name = _without_port(_text(host)).lower().rstrip(".")
        known = (
            not name  # no browser omits it
            or ("." not in name and ":" not in name)
            or name.rpartition(".")[2] in _LOCAL_TREES
            or name in self._allowed
            or "*" in self._allowed
            or _is_address(name)
        )
        if known and len(self._hosts_seen) < _REMEMBERED_HOSTS:
            self._hosts_seen.add(host)
        return known


def _text(value: bytes) -> str:
    return value[:200].decode("latin-1")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _same_host(origin: bytes, host: bytes) -> bool:
    try:
        parts = urlsplit(_text(origin).strip().lower())
        port = _DEFAULT_PORTS.get(parts.scheme, "")
    except ValueError:
        return False
    return bool(parts.netloc) and parts.netloc.removesuffix(f":{port}") == _text(host).lower().removesuffix(f":{port}")


_MEDIA: Final = {
    b"application/json": codec.JSON,
    b"application/msgpack": codec.MSGPACK,
    b"application/json; charset=utf-8": codec.JSON,
}


def media_of(content_type: bytes) -> str | None:
    """The encoding that a Content-Type names, or ``None`` where it is none of ours."""
    known = _MEDIA.get(content_type)
    return known if known is not None else _MEDIA.get(content_type.partition(b";")[0].strip().lower())
