"""Servers for the adapters, one of each for the tests of a file: other files look whether any is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openenv.server.thread import serve_in_thread


@pytest.fixture(scope="module")
def echo_url() -> Iterator[str]:
    from envs.echo_env.server.app import app

    with serve_in_thread(app) as url:
        yield url


@pytest.fixture(scope="module")
def atari_url() -> Iterator[str]:
    from envs.atari_env.server.app import app

    with serve_in_thread(app) as url:
        yield url


@pytest.fixture(scope="module")
def cart_url() -> Iterator[str]:
    from examples.cart_pole import app

    with serve_in_thread(app) as url:
        yield url
