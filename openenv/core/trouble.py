"""What goes wrong below HTTP, in the terms of this package."""

from __future__ import annotations

import http.client
import socket
from typing import Any

import requests
import urllib3.exceptions as u3

from openenv.core.errors import (
    CallTimeout,
    ConfigurationError,
    ConnectTimeout,
    OpenEnvError,
    ProtocolError,
    TransportError,
)
from openenv.core.timing import Deadline

_MALFORMED = (requests.exceptions.InvalidURL, requests.exceptions.InvalidHeader, u3.LocationValueError, UnicodeError)
_BROKEN = (
    http.client.IncompleteRead,
    http.client.RemoteDisconnected,
    requests.ConnectionError,
    requests.exceptions.ChunkedEncodingError,
    u3.ProtocolError,
)


def translate(error: Exception, url: str, deadline: Deadline, sent: bool, connect_limit: float | None) -> OpenEnvError:
    """``error`` of a socket, of http.client, urllib3 or requests as one of ours.

    Its ``sent`` tells whether the server may have got the request.
    """
    about: dict[str, Any] = {"url": url, "elapsed_s": deadline.elapsed(), "allowed_s": deadline.limit}
    chain = _chain(error)
    refused = _any(chain, u3.NewConnectionError, ConnectionRefusedError, socket.gaierror)
    connect_timeout = not refused and _any(chain, u3.ConnectTimeoutError, requests.ConnectTimeout)
    timeout = connect_timeout or _any(chain, TimeoutError, requests.ReadTimeout, u3.ReadTimeoutError)
    sent = sent and not refused and not connect_timeout
    if isinstance(error, _MALFORMED):
        return ConfigurationError(f"the request cannot be made: {error}", sent=False, **about)
    if timeout and not sent and connect_limit is not None and not deadline.passed():
        return ConnectTimeout(
            f"no connection to {url} within {connect_limit:g} s",
            remedy="Is the server up and reachable? The limit is Timeouts(connect=...).",
            limit="connect",
            sent=False,
            **about,
        )
    if timeout:
        return (CallTimeout if sent else ConnectTimeout)("the call took longer than it was allowed", sent=sent, **about)
    if not sent:
        remedy = "Is the server running, and is this its address?"
        return TransportError(f"cannot reach {url}: {_root(chain)}", remedy=remedy, sent=False, **about)
    if isinstance(error, (http.client.HTTPException, u3.HTTPError, requests.RequestException)):
        if not isinstance(error, _BROKEN):
            told = f"{type(error).__name__}: {error}"
            return ProtocolError(f"what came back is not HTTP that can be read: {told}", **about)
        return TransportError(f"the connection broke before the whole answer came: {error}", sent=True, **about)
    return TransportError(f"the connection broke: {error}", sent=True, **about)


def _chain(error: BaseException) -> list[BaseException]:
    """``error`` and what caused it, the ``reason`` and arguments of urllib3's errors included."""
    found: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        item = waiting.pop()
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            waiting += [item.__cause__ or item.__context__, getattr(item, "reason", None), *item.args]
    return found


def _any(chain: list[BaseException], *kinds: type[BaseException]) -> bool:
    return any(isinstance(item, kinds) for item in chain)


def _root(chain: list[BaseException]) -> str:
    known = [item for item in chain if isinstance(item, OSError) and item.strerror]
    return str(known[-1].strerror) if known else str(chain[-1]) or type(chain[-1]).__name__
