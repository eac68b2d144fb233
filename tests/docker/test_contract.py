"""What existing code relies on in the provider, on a real engine."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest
import requests
from docker import DockerClient

from openenv.containers import LocalDockerProvider
from openenv.containers.labels import BOOT, CREATED, PID, SDK, SESSION, STARTED
from openenv.containers.owner import OWNER
from openenv.core.errors import ContainerError, ContainerStartFailed, ImageMissing
from tests.docker.conftest import SERVE


def test_constructing_starts_nothing(left: Callable[..., list[str]]) -> None:
    before = left()
    LocalDockerProvider()
    assert left() == before


def test_it_returns_a_loopback_address_that_gets_ready(provider: LocalDockerProvider, image: str) -> None:
    url = provider.start_container(image, command=SERVE)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    provider.wait_for_ready(url)
    assert requests.get(f"{url}/health", timeout=10).status_code == 200


def test_a_given_port_is_the_one_that_is_used(provider: LocalDockerProvider, image: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = provider.start_container(image, port, command=SERVE)
    assert url == f"http://127.0.0.1:{port}"
    provider.wait_for_ready(url)


def test_a_port_that_is_taken_is_named_and_nothing_is_left(
    provider: LocalDockerProvider, image: str, left: Callable[..., list[str]]
) -> None:
    before = left()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ContainerStartFailed, match=rf"port {port} is taken") as caught:
            provider.start_container(image, port, command=SERVE)
    assert "leave port out" in caught.value.remedy.lower()
    assert left() == before


def test_environment_variables_arrive_verbatim(provider: LocalDockerProvider, image: str) -> None:
    given = {"PLAIN": "x", "EMPTY": "", "ODD": " =\"$HOME'\\ ü\n", "SLOTS": "4"}
    url = provider.start_container(image, env_vars=given, command=SERVE)
    provider.wait_for_ready(url)
    seen = requests.get(url, timeout=10).json()
    assert {name: seen[name] for name in given} == given


def test_name_and_id_are_there_while_it_runs(provider: LocalDockerProvider, image: str, engine: DockerClient) -> None:
    assert (provider._container_id, provider._container_name) == (None, None)
    provider.start_container(image, command=SERVE)
    found = engine.containers.get(provider._container_id or "")
    assert found.name == provider._container_name
    base = image.rpartition("/")[2].partition(":")[0]
    assert re.fullmatch(rf"{base}-[0-9a-f]+", found.name or "")
    provider.stop_container()
    assert (provider._container_id, provider._container_name) == (None, None)


def test_stopping_removes_it_and_may_be_said_at_any_time(
    provider: LocalDockerProvider, image: str, left: Callable[..., list[str]]
) -> None:
    provider.stop_container()
    provider.start_container(image, command=SERVE)
    name = f"/{provider._container_name}"
    assert name in left()
    provider.stop_container()
    assert name not in left()
    provider.stop_container()


def test_a_container_that_vanished_can_be_stopped(
    provider: LocalDockerProvider, image: str, engine: DockerClient
) -> None:
    provider.start_container(image, command=SERVE)
    engine.api.remove_container(provider._container_id or "", force=True)
    assert "something else has removed it" in str(provider.failure())
    provider.stop_container()
    assert provider._container_id is None


def test_a_stopped_provider_starts_again(provider: LocalDockerProvider, image: str) -> None:
    for _ in range(2):
        provider.wait_for_ready(provider.start_container(image, command=SERVE))
        provider.stop_container()


def test_three_providers_run_three_containers_on_three_ports(image: str) -> None:
    with LocalDockerProvider() as a, LocalDockerProvider() as b, LocalDockerProvider() as c:
        urls = {one.start_container(image, command=SERVE) for one in (a, b, c)}
    assert len(urls) == 3


def test_an_image_that_nobody_has_is_a_runtime_error_that_says_how_to_get_it(
    provider: LocalDockerProvider, left: Callable[..., list[str]]
) -> None:
    before = left()
    # Nothing listens at the registry that the name stands for.
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1:9/nobody-env:1 is not on this Docker engine") as caught:
        provider.start_container("127.0.0.1:9/nobody-env:1")
    assert isinstance(caught.value, ImageMissing)
    assert "docker pull" in caught.value.remedy
    assert left() == before


def test_the_command_that_builds_an_environments_image_is_named(engine: DockerClient) -> None:
    with pytest.raises(ImageMissing, match="`openenv build missing_env`"):
        LocalDockerProvider(pull="never").start_container("missing-env:latest")


def test_a_name_that_is_no_images_is_an_image_missing(provider: LocalDockerProvider) -> None:
    with pytest.raises(ImageMissing, match="UPPER"):
        provider.start_container("UPPER case!")


def test_labels_say_whose_it_is(provider: LocalDockerProvider, image: str, engine: DockerClient) -> None:
    provider.start_container(image, command=SERVE, labels={"mine": "yes"})
    labels = engine.containers.get(provider._container_id or "").labels
    assert labels["mine"] == "yes"
    assert labels[SESSION] == OWNER.session
    assert all(labels.get(name) for name in (SDK, PID, STARTED, BOOT, CREATED))


def test_the_port_inside_can_be_said(provider: LocalDockerProvider, image: str) -> None:
    url = provider.start_container(image, command=[*SERVE, "7860"], container_port=7860)
    provider.wait_for_ready(url)


def test_the_port_that_the_image_exposes_is_used(
    provider: LocalDockerProvider, image: str, engine: DockerClient
) -> None:
    parent = engine.containers.create(image)
    try:
        made = parent.commit("openenv-test-expose", "1", changes=["EXPOSE 7861"])
    finally:
        parent.remove()
    try:
        url = provider.start_container("openenv-test-expose:1", command=[*SERVE, "7861"])
        provider.wait_for_ready(url)
        provider.stop_container()
    finally:
        engine.images.remove(made.id or "", force=True)


def test_the_hosts_network_can_be_asked_for(provider: LocalDockerProvider, image: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = provider.start_container(image, command=[*SERVE, str(port)], container_port=port, network="host")
    assert url == f"http://127.0.0.1:{port}"
    provider.wait_for_ready(url)


def test_what_is_kept_outlives_its_client(image: str, engine: DockerClient) -> None:
    with LocalDockerProvider() as provider:
        url = provider.start_container(image, command=SERVE, keep=True)
        kept = engine.containers.get(provider._container_id or "")
    try:
        kept.reload()
        assert kept.status == "running"
        LocalDockerProvider().wait_for_ready(url)
    finally:
        kept.remove(force=True, v=True)


def test_what_is_kept_but_never_worked_does_not_stay(image: str, left: Callable[..., list[str]]) -> None:
    before = left()
    provider = LocalDockerProvider(keep=True)
    with pytest.raises(TimeoutError):
        provider.wait_for_ready(provider.start_container(image, command=[*SERVE, "9999"]), 0.5)
    provider.stop_container()
    assert left() == before


def test_the_log_and_the_engines_word_can_be_read(provider: LocalDockerProvider, image: str) -> None:
    assert provider.logs() == ""
    provider.wait_for_ready(provider.start_container(image, command=SERVE))
    assert provider.logs() == "listening on 8000\n"
    assert provider.inspect()["State"]["Running"] is True


def test_attaching_gives_the_address_and_does_not_own(
    provider: LocalDockerProvider, image: str, left: Callable[..., list[str]]
) -> None:
    url = provider.start_container(image, command=[*SERVE, "7860"], container_port=7860, labels={"run": "mine-alone"})
    name = provider._container_name or ""
    for how in (name, provider._container_id or "", "run=mine-alone"):
        with LocalDockerProvider.attach(how) as guest:
            assert guest.url == url
            guest.wait_for_ready(url)
    with LocalDockerProvider.attach(name) as guest, pytest.raises(TimeoutError):
        guest.wait_for_ready(f"{url}/nowhere", 0)
    assert f"/{name}" in left()
    with LocalDockerProvider.attach(name) as guest:
        provider.stop_container()
        assert "something else has removed it" in str(guest.failure())


@pytest.mark.parametrize("what", ["nonsense-container", "run=nobody-has-this"])
def test_attaching_to_nothing_is_an_error(what: str) -> None:
    with pytest.raises(ContainerError, match=what):
        LocalDockerProvider.attach(what)
