"""A server by its URL: does it answer, of which generation is it, do its clock and its WebSocket keep up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from openenv.core.errors import ConfigurationError
from openenv.core.protocol import BaseURL
from openenv.core.timing import Deadline
from openenv.core.trouble import translate
from openenv.doctor.engine import clock
from openenv.doctor.finding import Finding, ok, problem, skipped, warning

_TIMEOUT_S = 10.0
#: A proxy that closes what is silent does so after 30 or 60 s mostly; a ping each 20 s keeps it open.
_PONG_S = 10.0
_LIFE = "Is it running, and is this its address? A container is asked at the port that was published for it."


def server(url: str) -> Iterator[Finding]:
    """Ask a server what a client would, without beginning an episode.

    Args:
        url: Its base URL.
    """
    try:
        base = BaseURL(url)
    except ConfigurationError as error:
        yield problem("server", error.message, error.remedy)
        return
    from requests import RequestException, Session

    with Session() as session:
        # No proxy is asked for this machine itself, as in the clients.
        session.trust_env = not base.loopback

        def ask(path: str) -> Any:
            return session.get(base.http + path, timeout=_TIMEOUT_S, allow_redirects=True)

        deadline = Deadline(_TIMEOUT_S)
        try:
            before = time.time()
            health = ask("/health")
            asked_at = (before + time.time()) / 2
        except RequestException as error:
            trouble = translate(error, base.shown, deadline, sent=True, connect_limit=None)
            yield problem("server", trouble.message, trouble.remedy or _LIFE)
            return
        yield healthy(base.shown, health.status_code, health.headers.get("Content-Type", ""))
        if health.status_code != 200:
            return
        yield _clock(health.headers, asked_at)
        try:
            yield generation(_json(ask("/schema")), _json(ask("/metadata")))
        except RequestException as error:
            yield warning("protocol", f"/schema and /metadata do not answer: {error}", _LIFE)
        yield _keepalive(base)


def healthy(where: str, status: int, content_type: str) -> Finding:
    """What the answer to ``GET /health`` says."""
    if status != 200:
        remedy = {
            401: "It wants credentials: session=, or auth_token= of the WebSocket clients.",
            403: "It refuses this client; does a proxy stand in front of it?",
            404: "Something else listens there, or a path is missing in the URL.",
            502: "A proxy answers, and the server behind it does not.",
            503: "It is starting, ending, or full.",
        }.get(status, _LIFE)
        return problem("server", f"{where}/health answers {status}", remedy)
    if "json" not in content_type:
        return warning(
            "server", f"{where}/health answers 200 with {content_type or 'no type'}, not JSON", "Is it an environment?"
        )
    return ok("server", f"{where}/health answers 200")


def generation(schema: Any, metadata: Any) -> Finding:
    """Which protocol a server speaks.

    Args:
        schema: What ``/schema`` answered, ``None`` where that was not JSON.
        metadata: Likewise ``/metadata``.
    """
    if isinstance(schema, dict) and schema.get("protocol"):
        return ok("protocol", f"protocol {schema['protocol']}: sessions, and no step runs twice")
    if isinstance(metadata, dict) and metadata.get("name"):
        return warning(
            "protocol",
            f"a foreign server of the WebSocket generation ({metadata['name']}): plain HTTP keeps no episode there",
            "Clients notice and use its WebSocket; a step whose answer is lost is not repeated.",
        )
    return warning(
        "protocol",
        "a server of the first generation: one environment for all its clients",
        "Let one client use it at a time; a step whose answer is lost is not repeated.",
    )


def _clock(headers: Mapping[str, str], asked_at: float) -> Finding:
    date = headers.get("Date")
    if not date:
        return skipped("server's clock", "it sends no Date")
    try:
        told = parsedate_to_datetime(date).isoformat()
    except ValueError:
        told = date
    return clock("server's clock", told, asked_at)


def _json(reply: Any) -> Any:
    if reply.status_code != 200:
        return None
    try:
        return reply.json()
    except ValueError:
        return None


def _keepalive(base: BaseURL) -> Finding:
    """Whether a WebSocket opens and its pings come back, which is what keeps it open through proxies."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    url = "ws" + base.http.removeprefix("http") + "/ws"
    try:
        with connect(url, open_timeout=_TIMEOUT_S, close_timeout=2, proxy=None if base.loopback else True) as socket:
            began = time.monotonic()
            if not socket.ping().wait(_PONG_S):
                return problem(
                    "websocket",
                    f"{base.shown}/ws opens, but no ping came back within {_PONG_S:g} s",
                    "A proxy in between does not pass on control frames; it will close what is silent.",
                )
            return ok("websocket", f"opens, and a ping came back after {(time.monotonic() - began) * 1e3:.1f} ms")
    except InvalidStatus as error:
        status = error.response.status_code
        return warning(
            "websocket",
            f"{base.shown}/ws answers {status} instead of opening",
            "EnvClient will not work there; HTTPEnvClient may. A proxy must pass on `Upgrade: websocket`.",
        )
    except (WebSocketException, OSError, TimeoutError) as error:
        return warning(
            "websocket",
            f"{base.shown}/ws does not open: {error}",
            "EnvClient will not work there; HTTPEnvClient may. A proxy must pass on `Upgrade: websocket`.",
        )
