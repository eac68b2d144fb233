"""Compressing answers for links that are slower than compressing is."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

#: Shorter answers fit into few packets anyway.
LEAST: Final = 2048
#: Noise does not compress: a piece of this size is tried first, and has to shrink to this share.
_SAMPLE: Final = 1 << 14
_PAYS: Final = 0.8


def deflated(body: bytes, headers: Mapping[bytes, bytes], client: object) -> bytes | None:
    """``body`` as ``Content-Encoding: deflate``; ``None`` where it is not asked for or does not pay.

    Args:
        body: The answer, of at least :data:`LEAST` bytes.
        headers: The headers of the request.
        client: The client's address as ASGI gives it; loopback is faster than any compressor.
    """
    if b"deflate" not in headers.get(b"accept-encoding", b"") or _is_loopback(client):
        return None
    if len(body) > 2 * _SAMPLE:
        middle = len(body) // 2
        piece = body[middle : middle + _SAMPLE]
        if len(zlib.compress(piece, 1)) > _PAYS * len(piece):
            return None
    small = zlib.compress(body, 1)
    return small if len(small) <= _PAYS * len(body) else None


def _is_loopback(client: object) -> bool:
    host = client[0] if isinstance(client, (tuple, list)) and client else None
    return host is None or host == "::1" or str(host).startswith(("127.", "::ffff:127."))
