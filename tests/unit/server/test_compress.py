from __future__ import annotations

import os
import zlib
from typing import Any

import pytest

from openenv.server.compress import deflated

ASKS = {b"accept-encoding": b"gzip, deflate"}
FAR = ("10.1.2.3", 4000)
FRAME = bytes(range(16)) * 6000


def test_what_pays_is_deflated_for_a_client_that_asks() -> None:
    small = deflated(FRAME, ASKS, FAR)
    assert small is not None
    assert len(small) < len(FRAME) / 10
    assert zlib.decompress(small) == FRAME


@pytest.mark.parametrize("client", [("127.0.0.1", 1), ("127.8.8.8", 1), ("::1", 1), ("::ffff:127.0.0.1", 1), None])
def test_loopback_is_not_compressed(client: Any) -> None:
    assert deflated(FRAME, ASKS, client) is None


@pytest.mark.parametrize("headers", [{}, {b"accept-encoding": b"identity"}, {b"accept-encoding": b"br"}])
def test_nobody_gets_it_who_did_not_ask(headers: dict[bytes, bytes]) -> None:
    assert deflated(FRAME, headers, FAR) is None


@pytest.mark.parametrize("size", [4000, 500_000])
def test_noise_is_sent_as_it_is(size: int) -> None:
    assert deflated(os.urandom(size), ASKS, FAR) is None
