"""Servers as replicas of a service: on a real swarm of one node, which is left as it was found."""

from __future__ import annotations

import fcntl
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv
from openenv.cli import main
from openenv.containers import DockerSwarmProvider
from openenv.containers.labels import SESSION
from openenv.containers.owner import OWNER
from openenv.core.errors import ContainerNotReady, ContainerStartFailed, EngineUnavailable, EpisodeLost, OpenEnvError
from openenv.pool import EnvPool
from tests.docker.conftest import OwnerProcess, eventually

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def swarm(engine: DockerClient) -> Iterator[None]:
    """An engine that manages a swarm, for one worker at a time."""
    with (Path(tempfile.gettempdir()) / "openenv-swarm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = engine.info()["Swarm"]["LocalNodeState"] == "active"
        if not found:
            engine.swarm.init(advertise_addr="127.0.0.1", listen_addr="127.0.0.1:2377")
        yield
        if not found:
            engine.swarm.leave(force=True)


@pytest.fixture
def provider(swarm: None) -> Iterator[DockerSwarmProvider]:
    with DockerSwarmProvider() as made:
        yield made


def services(engine: DockerClient, session: str | None = None) -> list[Any]:
    return list(engine.api.services(filters={"label": f"{SESSION}={session or OWNER.session}"}))


def test_one_replica_is_a_server_like_any_other(
    provider: DockerSwarmProvider, engine: DockerClient, echo_image: str
) -> None:
    with EchoEnv.from_docker_image(echo_image, provider, env_vars={"GREETING": "hi"}) as env:
        env.reset()
        assert env.step(EchoAction(message="swarm")).observation.echoed_message == "swarm"
        (service,) = services(engine)
        container = service["Spec"]["TaskTemplate"]["ContainerSpec"]
        assert container["Init"] is True
        assert "GREETING=hi" in container["Env"]
        assert "OPENENV_READY" in env.logs()
    assert services(engine) == []


def test_a_pool_over_replicas(provider: DockerSwarmProvider, engine: DockerClient, echo_image: str) -> None:
    provider.wait_for_ready(provider.start_container(echo_image, replicas=3), 60)
    assert len(set(provider.urls)) == 3
    with EnvPool(EchoEnv, provider.urls, 6) as pool:
        assert not pool.reset().errors
        for number in range(1, 11):
            result = pool.step([EchoAction(message="x")] * 6)
            assert [told.observation.metadata["step"] for told in result if told] == [number] * 6
    provider.stop_container()
    assert services(engine) == []


def test_a_rolling_restart_is_a_lost_episode_and_no_confusion(provider: DockerSwarmProvider, echo_image: str) -> None:
    provider.wait_for_ready(provider.start_container(echo_image), 60)
    before = provider.urls
    with EchoEnv(before[0], request_timeout_s=10.0) as env:
        env.reset()
        env.step(EchoAction(message="one"))
        provider.restart()
        assert eventually(lambda: (urls := provider.urls) != [] and urls != before, 60)
        with pytest.raises(OpenEnvError) as caught:
            env.step(EchoAction(message="two"))
        assert caught.value.retryable or isinstance(caught.value, EpisodeLost)
    provider.wait_for_ready(provider.urls[0], 60)
    with EchoEnv(provider.urls[0]) as env:
        env.reset()
        assert env.step(EchoAction(message="again")).observation.metadata["step"] == 1


def test_a_replica_that_was_killed_is_named_as_dead(
    provider: DockerSwarmProvider, engine: DockerClient, echo_image: str
) -> None:
    with EchoEnv.from_docker_image(echo_image, provider) as env:
        env.reset()
        (found,) = engine.api.containers(filters={"label": f"{SESSION}={OWNER.session}"})
        engine.api.kill(found["Id"])
        start = time.monotonic()
        with pytest.raises(OpenEnvError, match=r"the replica at .* is gone"):
            env.step(EchoAction(message="x"))
        assert time.monotonic() - start < 10


def test_an_image_that_no_node_has_is_named(provider: DockerSwarmProvider, engine: DockerClient) -> None:
    with pytest.raises(ContainerStartFailed, match="No such image") as caught:
        provider.start_container("no-such-env:latest")
    assert "node needs the image" in caught.value.remedy
    assert services(engine) == []


def test_a_replica_that_no_node_takes_is_named(swarm: None, engine: DockerClient, echo_image: str) -> None:
    with DockerSwarmProvider(start_timeout_s=3) as provider:
        with pytest.raises(ContainerNotReady, match="constraints not satisfied"):
            provider.start_container(echo_image, constraints=["node.labels.gpu==yes"])
    assert services(engine) == []


def test_a_command_that_fails_shows_its_log(provider: DockerSwarmProvider, engine: DockerClient, image: str) -> None:
    with pytest.raises(ContainerStartFailed) as caught:
        EchoEnv.from_docker_image(image, provider, command=["sh", "-c", "echo out of order; exit 5"])
    assert caught.value.exit_code == 5
    assert "out of order" in caught.value.logs
    assert services(engine) == []


def test_a_killed_owner_leaves_no_service(
    swarm: None, engine: DockerClient, owner: Callable[[str], OwnerProcess], left: Any, echo_image: str
) -> None:
    other = owner(
        f"from openenv.containers import DockerSwarmProvider\np = DockerSwarmProvider()\n"
        f"p.start_container({echo_image!r}, replicas=2)\ntell('ready')\ntime.sleep(600)"
    )
    assert other.told() == "ready"
    assert len(services(engine, other.session)) == 1
    other.process.send_signal(signal.SIGKILL)
    other.end()
    assert eventually(lambda: not services(engine, other.session) and not left(other.session), 20)


def test_stop_removes_the_service_of_a_replica(
    provider: DockerSwarmProvider, engine: DockerClient, left: Any, echo_image: str
) -> None:
    provider.start_container(echo_image)
    assert main(["stop", left()[0].lstrip("/")]) == 0
    assert services(engine) == []


def test_an_engine_without_a_swarm_is_told_apart(swarm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DockerClient, "info", lambda self: {"Swarm": {"ControlAvailable": False}})
    with pytest.raises(EngineUnavailable, match="manages no swarm") as caught:
        DockerSwarmProvider()
    assert "docker swarm init" in caught.value.remedy


def test_an_option_that_is_none_is_named(provider: DockerSwarmProvider) -> None:
    with pytest.raises(TypeError, match="replicas"):
        provider.start_container("x", replica=2)


@pytest.mark.cluster
def test_replicas_on_two_nodes_one_of_which_goes(engine: DockerClient, echo_image: str) -> None:
    """Wants a swarm of two nodes that have the image, as ``make cluster`` says."""
    if engine.info()["Swarm"]["LocalNodeState"] != "active" or len(engine.nodes.list()) < 2:
        pytest.skip("this engine manages no swarm of two nodes")
    with DockerSwarmProvider() as provider:
        provider.wait_for_ready(provider.start_container(echo_image, replicas=4), 60)
        hosts = {url.rpartition(":")[0] for url in provider.urls}
        assert len(hosts) == 2
        with EnvPool(EchoEnv, provider.urls, 8, client_options={"request_timeout_s": 10.0}) as pool:
            assert not pool.reset().errors
            assert pool.step([EchoAction(message="x")] * 8).ready == list(range(8))
            (other,) = [node for node in engine.nodes.list() if not node.attrs.get("ManagerStatus")]
            spec = other.attrs["Spec"]
            other.update({**spec, "Availability": "drain"})
            try:
                assert eventually(lambda: {url.rpartition(":")[0] for url in provider.urls} < hosts, 60)
                # They answer until they have ended in their order.
                assert eventually(lambda: len(pool.step([EchoAction(message="x")] * 8).errors) == 4, 30)
                assert len(pool.step([EchoAction(message="x")] * 8).ready) == 4
                assert not pool.reset().errors
                result = pool.step([EchoAction(message="x")] * 8)
                assert [told.observation.metadata["step"] for told in result if told] == [1] * 8
            finally:
                other.reload()
                other.update({**spec, "Availability": "active"})
