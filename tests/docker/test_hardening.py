"""What a container may do, as the engine says it and as the container finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests
from docker import DockerClient

from openenv.containers import LocalDockerProvider
from openenv.core.errors import ContainerStartFailed
from tests.docker.conftest import SERVE


def inspected(engine: DockerClient, provider: LocalDockerProvider) -> dict[str, Any]:
    found: dict[str, Any] = engine.api.inspect_container(provider._container_id or "")
    return found


def test_a_container_is_hardened_by_default(provider: LocalDockerProvider, image: str, engine: DockerClient) -> None:
    provider.start_container(image, command=SERVE)
    host = inspected(engine, provider)["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] == 512
    assert host["Init"] is True
    assert host["Privileged"] is False
    assert host["AutoRemove"] is False
    status = engine.containers.get(provider._container_id or "").exec_run("cat /proc/1/status").output.decode()
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_it_is_published_on_the_loopback_alone(provider: LocalDockerProvider, image: str, engine: DockerClient) -> None:
    provider.start_container(image, command=SERVE)
    (bindings,) = inspected(engine, provider)["NetworkSettings"]["Ports"].values()
    assert [one["HostIp"] for one in bindings] == ["127.0.0.1"]


def test_trust_relaxes_it(provider: LocalDockerProvider, image: str, engine: DockerClient) -> None:
    provider.start_container(image, command=SERVE, trusted=True)
    host = inspected(engine, provider)["HostConfig"]
    assert not host["CapDrop"]
    assert not host["SecurityOpt"]


def test_limits_and_places_are_as_asked(
    provider: LocalDockerProvider, image: str, engine: DockerClient, tmp_path: Path
) -> None:
    (tmp_path / "note").write_text("hello")
    tmp_path.chmod(0o755)
    url = provider.start_container(
        image,
        command=SERVE,
        memory="128m",
        cpus=0.5,
        pids_limit=64,
        user="1234:1234",
        read_only=True,
        tmpfs=["/scratch"],
        volumes={tmp_path: "/data:ro"},
        extra_hosts={"somewhere": "10.9.8.7"},
        working_dir="/data",
        shm_size="16m",
    )
    provider.wait_for_ready(url)
    host = inspected(engine, provider)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (128 << 20, 128 << 20, 500_000_000)
    assert (host["PidsLimit"], host["ReadonlyRootfs"], host["ShmSize"]) == (64, True, 16 << 20)
    script = "id -u; pwd; cat note; touch x; touch /x; touch /scratch/x && echo scratch; grep somewhere /etc/hosts"
    output = engine.containers.get(provider._container_id or "").exec_run(["sh", "-c", script]).output.decode()
    assert output.startswith("1234\n/data\nhello")
    assert output.count("Read-only file system") == 2
    assert "scratch\n" in output
    assert "10.9.8.7\tsomewhere" in output


def test_a_network_of_the_caller_is_joined(provider: LocalDockerProvider, image: str, engine: DockerClient) -> None:
    network = engine.networks.create("openenv-test-joined")
    try:
        url = provider.start_container(image, command=SERVE, network=network.name)
        provider.wait_for_ready(url)
        assert list(inspected(engine, provider)["NetworkSettings"]["Networks"]) == [network.name]
        provider.stop_container()
    finally:
        network.remove()


def test_what_the_engine_cannot_give_is_its_own_words(provider: LocalDockerProvider, image: str) -> None:
    with pytest.raises(ContainerStartFailed, match=r"(?i)cpu"):
        provider.start_container(image, command=SERVE, cpus=10_000)


def test_the_servers_tracebacks_are_on(provider: LocalDockerProvider, image: str) -> None:
    url = provider.start_container(image, command=SERVE)
    provider.wait_for_ready(url)
    assert requests.get(url, timeout=10).json()["OPENENV_TRACEBACKS"] == "1"


def test_without_egress_the_server_is_reached_and_reaches_nobody(
    provider: LocalDockerProvider, image: str, engine: DockerClient
) -> None:
    with LocalDockerProvider() as neighbour:
        theirs = neighbour.start_container(image, command=SERVE, egress=False)
        neighbour.wait_for_ready(theirs)
        url = provider.start_container(image, command=SERVE, egress=False)
        provider.wait_for_ready(url)
        assert requests.get(url, timeout=10).status_code == 200
        inside = engine.containers.get(provider._container_id or "")
        port, host = theirs.rpartition(":")[2], theirs.removeprefix("http://").partition(":")[0]
        # 192.0.2.1 is nobody's address.
        for target in (f"('{host}', {port})", "('192.0.2.1', 80)"):
            code = f"import socket; socket.create_connection({target}, timeout=2)"
            done = inside.exec_run(["python", "-c", code])
            assert done.exit_code != 0
            assert b"unreachable" in done.output or b"timed out" in done.output


def test_containers_without_egress_share_one_network(image: str, engine: DockerClient) -> None:
    with LocalDockerProvider() as a, LocalDockerProvider() as b:
        for one in (a, b):
            one.start_container(image, command=SERVE, egress=False)
        networks = {tuple(one.inspect()["NetworkSettings"]["Networks"]) for one in (a, b)}
    assert networks == {("openenv-no-egress",)}
    assert len(engine.api.networks(names=["openenv-no-egress"])) == 1
