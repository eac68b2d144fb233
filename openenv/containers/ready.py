"""Waiting until a server answers ``GET /health`` with a whole 200."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

import requests

from openenv.core.errors import ContainerNotReady, OpenEnvError
from openenv.core.protocol import BaseURL
from openenv.core.timing import Deadline, Limit
from openenv.core.wire import Readable, TotalReader, render_head

#: Pauses between two questions in seconds: a tenth of the time waited so far, within these.
_PAUSE_S = (0.005, 0.25)
#: Limits of one question in seconds; the next one may take twice as long.
_ASK_S = (1.0, 16.0)
_EXCERPT = 200


def wait_until_ready(base_url: str, timeout_s: Limit, *, failure: Callable[[], OpenEnvError | None]) -> None:
    """Ask for ``<base_url>/health`` until a complete 200 comes. See :func:`wait_until`."""
    base = BaseURL(base_url)

    def look(deadline: Deadline) -> str:
        seen = ask(base, deadline)
        return f"GET {base.shown}/health: {seen}" if seen else ""

    wait_until(look, base, timeout_s, failure)


def wait_until(
    look: Callable[[Deadline], str], base: BaseURL, timeout_s: Limit, failure: Callable[[], OpenEnvError | None]
) -> None:
    """Look again and again until nothing is missing, with growing pauses.

    Args:
        look: What is missing, in words; empty where nothing is. Given the deadline of one look.
        base: Where the server is.
        timeout_s: Limit in seconds; ``None`` is no limit.
        failure: Asked before each look; an error that it returns ends the waiting.

    Raises:
        ContainerNotReady: The limit passed; says what was seen last.
        OpenEnvError: What ``failure`` returned.
    """
    deadline = Deadline(timeout_s)
    ask_s = _ASK_S[0]
    seen = "nothing was asked yet"
    while True:
        if (dead := failure()) is not None:
            raise dead
        if deadline.passed():
            raise ContainerNotReady(
                f"the server at {base.shown} was not ready within {timeout_s:g} s; {seen}",
                url=base.shown,
                elapsed_s=deadline.elapsed(),
                allowed_s=timeout_s,
            )
        seen = look(Deadline(deadline.sooner(ask_s)))
        if not seen:
            return
        ask_s = min(2 * ask_s, _ASK_S[1])
        time.sleep(deadline.sooner(min(max(_PAUSE_S[0], deadline.elapsed() / 10), _PAUSE_S[1])) or 0.0)


def ask(base: BaseURL, deadline: Deadline, path: str = "/health", wanted: Collection[int] = (200,)) -> str:
    """What came instead of a complete answer with a status that is ``wanted``; empty where that came.

    A refused or reset connection means "not yet". Loopback addresses are asked directly, whatever proxies are
    configured.
    """
    try:
        if base.loopback and base.scheme == "http":
            status, body = _get(base, path, deadline)
        else:
            reply = requests.get(f"{base.text}{path}", timeout=deadline.left(), allow_redirects=False)
            status, body = reply.status_code, reply.content
    except TimeoutError:
        return f"no answer within {deadline.elapsed():.1f} s"
    except (OSError, http.client.HTTPException) as error:
        told = error.strerror if isinstance(error, OSError) else None
        return told or str(error) or type(error).__name__
    if status in wanted:
        return ""
    return f"{status} {body[:_EXCERPT].decode('utf-8', 'replace')}".rstrip()


def _get(base: BaseURL, path: str, deadline: Deadline) -> tuple[int, bytes]:
    with socket.create_connection((base.host, base.port or 80), timeout=deadline.left()) as sock:
        target = f"{urlsplit(base.text).path}{path}"
        head = render_head("GET", target, base.text, {"Connection": "close"})
        sock.sendall(head + b"\r\n")
        reply = http.client.HTTPResponse(Readable(TotalReader(b"", sock, deadline)), method="GET")  # type: ignore[arg-type]
        reply.begin()
        return reply.status, reply.read()
