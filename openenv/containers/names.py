"""Names of containers."""

from __future__ import annotations

import re
import secrets
from typing import Any


def fresh_name(image: str) -> str:
    """A name that no container has yet: the image's, with a random ending."""
    return f"{_base_name(image)}-{secrets.token_hex(6)}"


def _base_name(image: str) -> str:
    """``reg.io:5000/org/echo-env:latest`` → ``echo-env``; always a valid beginning of a container's name."""
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return re.sub(r"[^a-zA-Z0-9_.-]", "", last).lstrip("_.-") or "openenv"


def is_taken(error: Any) -> bool:
    """Whether the engine refused a container because another has its name."""
    told = (error.explanation or "").lower()
    return error.status_code == 409 or ("name" in told and "already in use" in told)
