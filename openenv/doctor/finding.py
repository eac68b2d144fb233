"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: ``problem``: something will not work; ``warning``: something may not; ``skipped``: it could not be looked at.
Status = Literal["ok", "warning", "problem", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at: ``"socket"``, ``"clock"``, ``"disk"`` ...
        status: How it is.
        found: What was seen, in words; the cause where it is not well.
        remedy: What to do about it; empty where nothing need be done.
    """

    check: str
    status: Status
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """Something may go wrong."""
    return Finding(check, "warning", found, remedy)


def problem(check: str, found: str, remedy: str) -> Finding:
    """Something will go wrong."""
    return Finding(check, "problem", found, remedy)


def skipped(check: str, found: str, remedy: str = "") -> Finding:
    """It could not be looked at."""
    return Finding(check, "skipped", found, remedy)
