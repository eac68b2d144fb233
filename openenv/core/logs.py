"""Logging: the loggers of this package, and what may stand in a line of a log or of a report."""

from __future__ import annotations

import logging
import re
from typing import Any, Final
from urllib.parse import urlsplit

ROOT: Final = "openenv"
#: Characters of a payload that are shown.
_MOST: Final = 200
_SECRET = re.compile(r"(?i)(token|secret|password|passwd|api[-_]?key|authorization|credential|cookie)")
_QUERY = re.compile(r"(?i)((?:token|secret|password|passwd|api[-_]?key|signature|sig|credential)[^=&]*=)[^&#\s]*")

# A library says nothing unless it is asked to; the application adds handlers of its own.
logging.getLogger(ROOT).addHandler(logging.NullHandler())


def logger(part: str) -> logging.Logger:
    """The logger ``openenv.<part>``."""
    return logging.getLogger(f"{ROOT}.{part}")


def masked_url(url: str) -> str:
    """``url`` without user, password and secrets in the query."""
    netloc = urlsplit(url).netloc
    if "@" in netloc:
        url = url.replace(f"{netloc.rpartition('@')[0]}@", "***@", 1)
    return _QUERY.sub(r"\1***", url)


def masked(values: Any) -> Any:
    """``values`` with everything masked that stands under a name such as ``token`` or ``password``, at any depth."""
    if isinstance(values, dict):
        return {
            name: "***" if isinstance(name, str) and _SECRET.search(name) and value else masked(value)
            for name, value in values.items()
        }
    if isinstance(values, (list, tuple)) and len(values) <= _MOST:
        return [masked(value) for value in values]
    return values


def brief(payload: Any, most: int = _MOST) -> str:
    """A payload as one line: secrets masked, bytes and long texts cut with their size told.

    Args:
        payload: Anything.
        most: Characters, at most, of the line.
    """
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return f"<{len(payload)} bytes>"
    shape = getattr(payload, "shape", None)
    if shape is not None and hasattr(payload, "dtype"):
        return f"<{payload.dtype} array {tuple(shape)}>"
    if isinstance(payload, dict):
        inner = ", ".join(f"{name!r}: {brief(value, most // 2)}" for name, value in masked(payload).items())
        text = f"{{{inner}}}"
    elif isinstance(payload, (list, tuple)) and len(payload) > 16:
        text = f"<{len(payload)} items: {brief(payload[0], 40)}, …>"
    else:
        text = repr(masked(payload))
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
