"""When a server in a container counts as ready.

Each strategy looks once and says what it saw; :func:`~openenv.containers.ready.wait_until` asks again and again, and
each time asks first whether the container still lives, so that a dead one is not waited for.
"""

from __future__ import annotations

import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from openenv.containers.ready import ask
from openenv.core.protocol import BaseURL
from openenv.core.timing import Deadline

#: Seconds for which a listening server stays silent; a proxy of the engine's hangs up at once where nothing listens.
_SILENCE_S = 0.1


class Watched(Protocol):
    """What a strategy may look at: a provider with a running container."""

    def inspect(self) -> dict[str, Any]:
        """What the engine knows of the container."""

    def printed(self) -> str:
        """All that the container has printed."""


class Wait(ABC):
    """A strategy. ``a & b`` waits for both."""

    @abstractmethod
    def look(self, url: str, container: Watched, deadline: Deadline) -> str:
        """What was seen instead of what is waited for; empty where that has come.

        Args:
            url: The base URL of the server.
            container: Its container.
            deadline: When this look must be over.
        """

    def __and__(self, other: Wait) -> Wait:
        return _All((self, other))


@dataclass(frozen=True)
class HTTP(Wait):
    """A whole answer with the right status. The default, with ``/health``.

    Attributes:
        path: Path after the base URL.
        status: The status that is waited for, or several.
    """

    path: str = "/health"
    status: int | Sequence[int] = 200

    def look(self, url: str, container: Watched, deadline: Deadline) -> str:
        wanted = [self.status] if isinstance(self.status, int) else list(self.status)
        seen = ask(BaseURL(url), deadline, "/" + self.path.lstrip("/"), wanted)
        return f"GET {url}/{self.path.lstrip('/')}: {seen}" if seen else ""


@dataclass(frozen=True)
class LogLine(Wait):
    """A line that the container prints, on standard output or standard error.

    Attributes:
        pattern: A regular expression, searched for in all that was printed.
        times: How often it must have come.
    """

    pattern: str
    times: int = 1

    def look(self, url: str, container: Watched, deadline: Deadline) -> str:
        found = len(re.findall(self.pattern, container.printed(), re.MULTILINE))
        return "" if found >= self.times else f"the log has {self.pattern!r} {found} times, and not {self.times}"


@dataclass(frozen=True)
class Healthy(Wait):
    """The health check of the image says ``healthy``."""

    def look(self, url: str, container: Watched, deadline: Deadline) -> str:
        health = container.inspect()["State"].get("Health")
        if not health or health["Status"] == "none":
            return "the image has no health check (HEALTHCHECK in its Dockerfile)"
        if health["Status"] == "healthy":
            return ""
        last = (health.get("Log") or [{}])[-1].get("Output", "").strip()
        return f"its health check says {health['Status']}{f': {last[:200]}' if last else ''}"


@dataclass(frozen=True)
class Listening(Wait):
    """Something listens on the port of the server and does not hang up."""

    def look(self, url: str, container: Watched, deadline: Deadline) -> str:
        parts = urlsplit(url)
        try:
            with socket.create_connection((parts.hostname or "", parts.port or 80), deadline.sooner(5.0)) as sock:
                sock.settimeout(_SILENCE_S)
                try:
                    return "" if sock.recv(1) else "the connection was closed at once"
                except TimeoutError:
                    return ""
        except OSError as error:
            return f"connecting to {parts.netloc}: {error.strerror or error}"


@dataclass(frozen=True)
class _All(Wait):
    """Several, each until it is done."""

    parts: tuple[Wait, ...]

    def look(self, url: str, container: Watched, deadline: Deadline) -> str:
        return next((seen for part in self.parts if (seen := part.look(url, container, deadline))), "")


def checked(wait: object) -> Wait | None:
    """``wait`` as a strategy.

    Raises:
        TypeError: It is none.
    """
    if wait is None or isinstance(wait, Wait):
        return wait
    raise TypeError(
        f"wait must be a strategy of openenv.containers.wait, such as HTTP('/ready') or LogLine('listening'); "
        f"got {wait!r:.60}"
    )
