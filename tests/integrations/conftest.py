"""Servers for the adapters, one of each in a session of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openenv.server.thread import serve_in_thread


@pytest.fixture(scope="session")
def echo_url() -> Iterator[str]:
    from envs.echo_env.server.app import app

    with serve_in_thread(app) as url:
        yield url


@pytest.fixture(scope="session")
def atari_url() -> Iterator[str]:
    from envs.atari_env.server.app import app

    with serve_in_thread(app) as url:
        yield url


@pytest.fixture(scope="session")
def cart_url() -> Iterator[str]:
    from examples.cart_pole import app

    with serve_in_thread(app) as url:
        yield url
