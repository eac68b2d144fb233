"""The main promise in a real container: no step is lost, none runs twice, none is invented."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest
from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv
from openenv.containers import LocalDockerProvider
from openenv.core.errors import EpisodeLost
from tests.wire.lossy import FAULTS, lossy, play


def test_a_thousand_steps_through_a_lossy_proxy_are_a_thousand_steps(
    echo_image: str, provider: LocalDockerProvider
) -> None:
    address = provider.start_container(echo_image)
    provider.wait_for_ready(address)
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    with lossy((parts.hostname, parts.port), 3) as (url, proxy):
        paid, due, count = play(url, 1000, 3)
    assert count == 1000
    assert paid == pytest.approx(due)
    assert proxy.seen.keys() == FAULTS.keys()


def test_a_server_that_was_restarted_is_a_lost_episode_and_never_a_silent_new_one(
    echo_image: str, provider: LocalDockerProvider, engine: DockerClient
) -> None:
    port = _free_port()  # a port that the restarted container gets again
    address = provider.start_container(echo_image, port=port)
    provider.wait_for_ready(address)
    with EchoEnv(address) as env:
        env.reset()
        env.step(EchoAction(message="before"))
        assert provider._container_id is not None
        engine.containers.get(provider._container_id).restart(timeout=1)
        provider.wait_for_ready(address)
        with pytest.raises(EpisodeLost, match="restarted"):
            env.step(EchoAction(message="after"))
        with pytest.raises(EpisodeLost):
            env.step(EchoAction(message="after"))
        env.reset()
        env.step(EchoAction(message="anew"))
        assert env.state().step_count == 1


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
