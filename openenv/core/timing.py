"""Time limits: what the caller gave, and what is left of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from openenv.core.errors import ConfigurationError


class _Unset(Enum):
    UNSET = "not given"

    def __repr__(self) -> str:
        return "UNSET"


#: "Not given": the default holds. ``None`` means "no limit".
UNSET: Final = _Unset.UNSET
Limit = float | None
LimitArg = float | None | Literal[_Unset.UNSET]

#: Seconds that a client waits beyond the limit that it gave to the server, so that the server's word arrives.
GRACE_S: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Limits in seconds, each for one whole call: connecting, waiting, retries and reading included.

    ``None`` is no limit; a limit that is not given is the client's ``request_timeout_s``.

    Attributes:
        connect: One attempt to reach the server (default 10).
        reset: ``reset``.
        step: ``step``; also sent to the server as ``timeout_s``.
        state: ``state``, ``health``, ``schema`` and ``metadata``.
        close: Freeing the session on the server in ``close`` (default 5).
        total: A cap on every call, whatever its own limit says.
    """

    connect: LimitArg = 10.0
    reset: LimitArg = UNSET
    step: LimitArg = UNSET
    state: LimitArg = UNSET
    close: LimitArg = 5.0
    total: LimitArg = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not UNSET:
                object.__setattr__(self, name, seconds(value, f"Timeouts({name}=...)"))

    def of(self, name: str, default: Limit) -> Limit:
        """The limit called ``name`` in seconds, or ``default`` where it was not given."""
        value: LimitArg = getattr(self, name)
        return default if value is UNSET else value


def seconds(value: object, name: str) -> Limit:
    """``value`` as a limit in seconds; numeric strings are accepted.

    Raises:
        ConfigurationError: It is not a positive number and not ``None``.
    """
    if value is None:
        return None
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if number > 0:
            return None if math.isinf(number) else number
    raise ConfigurationError(
        f"{name} must be a positive number of seconds, or None for no limit; got {value!r}",
        remedy="Give seconds as an int or a float.",
    )


class Deadline:
    """A moment by which something must be done; made once, asked for what is left."""

    __slots__ = ("at", "limit", "started")

    def __init__(self, limit: Limit, *, grace: float = 0.0) -> None:
        self.started = time.monotonic()
        self.limit = limit
        self.at = math.inf if limit is None else self.started + limit + grace

    def left(self) -> float | None:
        """Seconds until the deadline, never below 0; ``None`` where there is none."""
        return None if self.at == math.inf else max(0.0, self.at - time.monotonic())

    def passed(self) -> bool:
        return time.monotonic() >= self.at

    def elapsed(self) -> float:
        """Seconds since the deadline was made."""
        return time.monotonic() - self.started

    def sooner(self, limit: Limit) -> float | None:
        """What is left, but at most ``limit`` seconds."""
        left = self.left()
        return limit if left is None else left if limit is None else min(left, limit)
