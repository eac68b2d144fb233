"""The echo environment in a real container, from its image to its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
import requests
from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv, EchoObservation, EchoState
from openenv.containers import LocalDockerProvider
from openenv.core.errors import ContainerDied, ContainerError
from tests.docker.conftest import SERVE

Left = Callable[..., list[str]]


def test_an_episode(echo_image: str, left: Left) -> None:
    before = left()
    with EchoEnv.from_docker_image(echo_image) as env:
        assert env.reset(seed=7).observation.echoed_message == "Echo environment ready!"
        result = env.step(EchoAction(message="hello"))
        assert isinstance(result.observation, EchoObservation)
        assert (result.observation.echoed_message, result.reward) == ("hello", 0.5)
        state = env.state()
        assert isinstance(state, EchoState)
        assert state.step_count == 1
    assert left() == before


def test_closing_twice_is_harmless(echo_image: str) -> None:
    env = EchoEnv.from_docker_image(echo_image)
    env.close()
    env.close()


def test_options_reach_the_container(echo_image: str, engine: DockerClient) -> None:
    provider = LocalDockerProvider()
    with EchoEnv.from_docker_image(echo_image, provider, env_vars={"A": "b"}, memory="256m") as env:
        assert env._provider is provider
        found = engine.containers.get(provider._container_id or "")
        assert "A=b" in found.attrs["Config"]["Env"]
        assert found.attrs["HostConfig"]["Memory"] == 256 << 20


def test_an_unknown_option_starts_nothing(echo_image: str, left: Left) -> None:
    before = left()
    with pytest.raises(TypeError, match="did you mean memory"):
        EchoEnv.from_docker_image(echo_image, memroy="1g")
    assert left() == before


def test_a_server_that_dies_while_it_starts_leaves_nothing(echo_image: str, left: Left) -> None:
    before = left()
    with pytest.raises(ContainerError, match="nonsense") as caught:
        EchoEnv.from_docker_image(echo_image, command=["python", "-m", "openenv.server", "nonsense:app"])
    assert caught.value.exit_code
    assert left() == before


def test_a_server_that_never_gets_ready_leaves_nothing(image: str, left: Left) -> None:
    before = left()
    with pytest.raises(TimeoutError, match="was not ready within 1 s"):
        EchoEnv.from_docker_image(image, LocalDockerProvider(start_timeout_s=1), command=[*SERVE, "9999"])
    assert left() == before


def test_a_container_that_is_killed_in_mid_episode_is_one_named_error_within_two_seconds(
    echo_image: str, engine: DockerClient, left: Left
) -> None:
    before = left()
    provider = LocalDockerProvider()
    env = EchoEnv.from_docker_image(echo_image, provider)
    env.reset()
    env.step(EchoAction(message="alive"))
    engine.api.kill(provider._container_id or "")
    start = time.monotonic()
    with pytest.raises(ContainerDied, match="exit code 137") as caught:
        env.step(EchoAction(message="dead"))
    assert time.monotonic() - start < 2
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.episode_lost
    env.close()
    assert left() == before


def test_the_server_runs_without_privileges_and_as_nobody_in_particular(echo_image: str, engine: DockerClient) -> None:
    provider = LocalDockerProvider()
    with EchoEnv.from_docker_image(echo_image, provider, read_only=True):
        inside = engine.containers.get(provider._container_id or "")
        assert inside.exec_run("id -u").output.strip() == b"10001"
        assert inside.exec_run("touch /app/x").exit_code != 0


def test_the_image_says_that_it_is_healthy(echo_image: str, engine: DockerClient) -> None:
    check = engine.images.get(echo_image).attrs["Config"]["Healthcheck"]["Test"]
    provider = LocalDockerProvider()
    with EchoEnv.from_docker_image(echo_image, provider):
        inside = engine.containers.get(provider._container_id or "")
        assert inside.exec_run(check[1:]).exit_code == 0
        wrong = [part.replace("8000", "8001") for part in check[1:]]
        assert inside.exec_run(wrong).exit_code != 0


def test_it_works_where_a_proxy_is_configured(echo_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    given = dict(os.environ)
    with EchoEnv.from_docker_image(echo_image) as env:
        env.reset()
        assert env.step(EchoAction(message="x")).reward == pytest.approx(0.1)
    assert dict(os.environ) == given != before


def test_a_stranger_can_use_a_container_by_its_address_and_does_not_stop_it(echo_image: str) -> None:
    with EchoEnv.from_docker_image(echo_image) as owner:
        with EchoEnv(owner.base_url) as guest:
            guest.reset()
        assert requests.get(f"{owner.base_url}/health", timeout=10).status_code == 200


def test_long_answers_are_compressed_on_a_link_that_is_not_loopback(echo_image: str, engine: DockerClient) -> None:
    with EchoEnv.from_docker_image(echo_image) as owner:
        made = engine.containers.get(owner._provider._container_id)
        address = next(iter(made.attrs["NetworkSettings"]["Networks"].values()))["IPAddress"]
        url, text = f"http://{address}:8000", "tell me " * 10_000
        with EchoEnv(url) as env:
            env.reset()
            assert env.step(EchoAction(message=text)).observation.echoed_message == text
        raw = requests.post(f"{url}/step", json={"action": {"message": text}}, timeout=10)
        assert raw.headers["Content-Encoding"] == "deflate"
        assert int(raw.headers["Content-Length"]) < len(text) / 20
        assert raw.json()["observation"]["echoed_message"] == text


def test_a_client_attached_to_a_container_frees_its_session_and_leaves_the_container(echo_image: str) -> None:
    with EchoEnv.from_docker_image(echo_image) as owner:
        name = owner._provider._container_name
        with EchoEnv.attach(name) as guest:
            guest.reset()
            assert guest.step(EchoAction(message="hi")).reward == pytest.approx(0.2)
            assert guest.health()["sessions"]["active"] == 1
            assert "OPENENV_READY" in guest.logs(tail=20)
        assert owner.health()["sessions"]["active"] == 0
        owner.reset()
    with pytest.raises(ContainerError):
        EchoEnv.attach(name)
