"""Exactly once, through a network that loses, repeats and breaks."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from envs.echo_env.server.app import app
from openenv.server import serve_in_thread
from tests.wire.lossy import FAULTS, lossy, play


@pytest.mark.parametrize("seed", [1, 2])
def test_a_thousand_steps_through_a_lossy_proxy_are_a_thousand_steps(seed: int) -> None:
    with serve_in_thread(app) as server:
        parts = urlsplit(server)
        assert parts.hostname is not None
        assert parts.port is not None
        with lossy((parts.hostname, parts.port), seed) as (url, proxy):
            paid, due, count = play(url, 1000, seed)
    assert count == 1000
    assert paid == pytest.approx(due)
    assert proxy.seen.keys() == FAULTS.keys()
    assert proxy.seen.total() > 1000
