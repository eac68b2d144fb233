"""LocalDockerProvider where the engine misbehaves in ways that a real one does not on demand."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
import requests

from openenv.containers import LocalDockerProvider
from openenv.containers.labels import SDK, SESSION
from openenv.containers.owner import OWNER
from openenv.core.errors import (
    ConfigurationError,
    ContainerDied,
    ContainerError,
    ContainerStartFailed,
    EngineUnavailable,
    ImageMissing,
)
from tests.unit.containers.fakes import FakeDocker, api_error


@pytest.fixture(autouse=True)
def no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing real is started, so nothing has to be watched."""
    monkeypatch.setattr(OWNER, "watch_engine", lambda *_: None)


@pytest.fixture
def engine() -> FakeDocker:
    return FakeDocker()


def provider(engine: FakeDocker, **options: Any) -> LocalDockerProvider:
    return LocalDockerProvider(engine, **options)  # type: ignore[arg-type]


def test_it_returns_the_loopback_address_and_the_port_that_the_engine_picked(engine: FakeDocker) -> None:
    with provider(engine) as made:
        assert made.start_container("echo-env:latest") == "http://127.0.0.1:4711"
    assert engine.made[0]["ports"] == {"8000/tcp": ("127.0.0.1", 0)}


@pytest.mark.parametrize(
    ("exposed", "option", "port"),
    [
        ({}, None, 8000),
        ({"7860/tcp": {}}, None, 7860),
        ({"7860": {}}, None, 7860),
        ({"7860/tcp": {}, "9090/tcp": {}}, None, 8000),
        ({"5353/udp": {}}, None, 8000),
        ({"7860/tcp": {}}, 1234, 1234),
    ],
)
def test_the_port_inside_is_the_given_one_else_the_single_exposed_one_else_8000(
    engine: FakeDocker, exposed: dict[str, Any], option: int | None, port: int
) -> None:
    engine.exposed = exposed
    with provider(engine) as made:
        made.start_container("x", container_port=option)
    assert list(engine.made[0]["ports"]) == [f"{port}/tcp"]


@pytest.mark.parametrize(
    ("image", "base"),
    [
        ("echo-env:latest", "echo-env"),
        ("reg.example:5000/org/echo-env:1.0", "echo-env"),
        ("org/_x@sha256:abc", "x"),
        ("sha256:0dd812407e0f", "sha256"),
    ],
)
def test_a_name_is_the_images_with_a_random_ending(engine: FakeDocker, image: str, base: str) -> None:
    with provider(engine) as made:
        made.start_container(image)
        assert made._container_name is not None
        assert re.fullmatch(rf"{base}-[0-9a-f]{{12}}", made._container_name)


def test_a_name_that_is_taken_is_drawn_again(engine: FakeDocker) -> None:
    engine.fail["create"] = lambda n: api_error(409, "the container name is already in use") if n < 3 else None
    with provider(engine) as made:
        made.start_container("echo-env")
        names = [call for call in engine.calls if call.startswith("create")]
        assert len(set(names)) == 3
        assert names[-1] == f"create {made._container_name}"


def test_a_name_that_was_given_and_is_taken_is_an_error(engine: FakeDocker) -> None:
    engine.fail["create"] = lambda n: api_error(409, 'Conflict. The container name "/mine" is already in use')
    with provider(engine) as made, pytest.raises(ContainerStartFailed, match="/mine"):
        made.start_container("echo-env", name="mine")
    assert [call for call in engine.calls if call.startswith("create")] == ["create mine"]
    assert not any(call.startswith("remove") for call in engine.calls)


def test_a_container_whose_making_was_not_heard_of_is_looked_for_and_removed(engine: FakeDocker) -> None:
    def made_but_not_heard(n: int) -> BaseException:
        engine.alive["unheard"] = {}
        return requests.ReadTimeout("read timed out")

    engine.fail["create"] = made_but_not_heard
    with pytest.raises(EngineUnavailable, match="read timed out"):
        provider(engine).start_container("x")
    assert engine.alive == {}


def test_a_start_that_fails_removes_what_was_made_and_the_cause_is_raised(engine: FakeDocker) -> None:
    engine.fail["start"] = lambda n: api_error(500, "driver failed")
    made = provider(engine)
    with pytest.raises(ContainerStartFailed, match="driver failed"):
        made.start_container("x")
    assert engine.alive == {}
    assert (made._container_id, made._container_name) == (None, None)


def test_an_interrupt_in_the_middle_of_a_start_removes_what_was_made(engine: FakeDocker) -> None:
    engine.fail["inspect"] = lambda n: KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        provider(engine).start_container("x")
    assert engine.alive == {}


def test_a_removal_that_fails_too_is_a_note_and_does_not_hide_the_cause(
    engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubts: list[bool] = []
    monkeypatch.setattr(OWNER, "doubt", lambda: doubts.append(True))
    engine.fail["start"] = lambda n: api_error(500, "driver failed")
    engine.fail["remove"] = lambda n: api_error(500, "stuck")
    with pytest.raises(ContainerStartFailed, match="driver failed") as caught:
        provider(engine).start_container("x")
    assert any("could not be removed" in note and "stuck" in note for note in caught.value.__notes__)
    assert doubts


def test_a_stop_that_fails_is_followed_by_a_forced_removal(engine: FakeDocker) -> None:
    engine.fail["stop"] = lambda n: requests.ReadTimeout("read timed out")
    made = provider(engine)
    made.start_container("x")
    made.stop_container()
    assert engine.alive == {}
    assert made._container_id is None


def test_the_id_is_kept_until_the_container_is_gone(engine: FakeDocker) -> None:
    engine.fail["remove"] = lambda n: api_error(500, "device busy") if n == 1 else None
    made = provider(engine)
    made.start_container("x")
    with pytest.raises(ContainerError, match="device busy"):
        made.stop_container()
    assert made._container_id == "id1"
    made.stop_container()
    assert made._container_id is None
    assert engine.alive == {}


def test_a_removal_that_somebody_else_began_is_waited_for(engine: FakeDocker) -> None:
    busy = "removal of container id1 is already in progress"
    engine.fail["remove"] = lambda n: api_error(409, busy) if n < 3 else api_error(404, "No such container")
    made = provider(engine)
    made.start_container("x")
    made.stop_container()
    assert made._container_id is None


def test_a_second_container_of_one_provider_is_refused(engine: FakeDocker) -> None:
    with provider(engine) as made:
        made.start_container("x")
        with pytest.raises(ContainerError, match=r"runs x-[0-9a-f]+ already"):
            made.start_container("x")
    assert len(engine.made) == 1


def test_an_engine_that_went_away_is_the_failure(engine: FakeDocker) -> None:
    made = provider(engine)
    made.start_container("x")
    engine.fail["inspect"] = lambda n: requests.ConnectionError("no such file")
    failure = made.failure()
    assert isinstance(failure, EngineUnavailable)
    assert "http://127.0.0.1:2375" in str(failure)
    made.stop_container()


def test_a_running_container_has_no_failure(engine: FakeDocker) -> None:
    made = provider(engine)
    assert made.failure() is None
    with made:
        made.start_container("x")
        assert made.failure() is None


def test_a_container_that_somebody_removed_is_named_as_such(engine: FakeDocker) -> None:
    made = provider(engine)
    made.start_container("x")
    engine.fail["inspect"] = lambda n: api_error(404, "No such container")
    failure = made.failure()
    assert isinstance(failure, ContainerDied)
    assert "something else has removed it" in str(failure)
    made.stop_container()


def test_the_servers_tracebacks_are_on_unless_the_caller_says_otherwise(engine: FakeDocker) -> None:
    for given in ({}, {"OPENENV_TRACEBACKS": "0"}):
        with provider(engine) as made:
            made.start_container("x", env_vars={"A": "1", **given})
    assert [one["environment"]["OPENENV_TRACEBACKS"] for one in engine.made] == ["1", "0"]
    assert all(one["environment"]["A"] == "1" for one in engine.made)


def test_labels_of_the_caller_stand_beside_ours(engine: FakeDocker) -> None:
    with provider(engine) as made:
        made.start_container("x", labels={"mine": "yes"})
    labels = engine.made[0]["labels"]
    assert labels["mine"] == "yes"
    assert labels[SESSION] == OWNER.session
    assert labels[SDK]


def test_what_is_kept_on_purpose_is_not_stopped(engine: FakeDocker) -> None:
    with provider(engine, keep=True) as made:
        made.start_container("x")
    assert list(engine.alive) == ["id1"]
    assert made._container_id is None


def test_on_a_remote_engine_the_port_is_published_to_all_and_the_address_is_the_engines(engine: FakeDocker) -> None:
    engine.api.base_url = "http://10.1.2.3:2375"
    with provider(engine) as made:
        assert made.start_container("x") == "http://10.1.2.3:4711"
    assert engine.made[0]["ports"] == {"8000/tcp": ("0.0.0.0", 0)}


def test_no_egress_on_a_remote_engine_is_refused_and_nothing_is_made(engine: FakeDocker) -> None:
    with pytest.raises(ConfigurationError, match=r"egress=False.*http://127\.0\.0\.1:2375"):
        provider(engine).start_container("x", egress=False)
    assert engine.made == []


def test_a_given_host_is_the_one_in_the_address(engine: FakeDocker) -> None:
    with provider(engine, host="fd00::1") as made:
        assert made.start_container("x") == "http://[fd00::1]:4711"


@pytest.mark.parametrize("pull", ["missing", "never"])
def test_an_image_that_is_there_is_not_pulled(engine: FakeDocker, pull: str) -> None:
    with provider(engine, pull=pull) as made:
        made.start_container("x")
    assert not any(call.startswith("pull") for call in engine.calls)


def test_always_pulls_even_what_is_there(engine: FakeDocker) -> None:
    with provider(engine, pull="always") as made:
        made.start_container("x")
    assert engine.calls[0] == "pull x:latest"


@pytest.mark.parametrize(
    ("image", "build"),
    [
        ("echo-env:latest", "openenv build echo_env"),
        ("atari-env", "openenv build atari_env"),
        ("org/thing:2", "openenv build DIRECTORY -t org/thing:2"),
    ],
)
def test_an_image_that_cannot_be_pulled_names_the_command_that_builds_it(
    engine: FakeDocker, image: str, build: str
) -> None:
    import docker.errors

    engine.fail["image"] = lambda n: docker.errors.ImageNotFound("No such image")
    engine.fail["pull"] = lambda n: api_error(500, "dial tcp: lookup registry: no such host")
    with pytest.raises(ImageMissing, match="no such host") as caught:
        provider(engine).start_container(image)
    assert build in caught.value.remedy
    assert f"docker pull {image}" in caught.value.remedy


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pull": "sometimes"}, "pull must be one of"),
        ({"stop_timeout_s": -1}, "stop_timeout_s"),
        ({"start_timeout_s": 0}, "start_timeout_s"),
    ],
)
def test_options_of_the_provider_are_checked(engine: FakeDocker, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        provider(engine, **options)


def test_configuration_travels_and_the_container_does_not(engine: FakeDocker) -> None:
    with provider(engine, pull="never", stop_timeout_s=1.5) as made:
        made.start_container("x")
        copy = pickle.loads(pickle.dumps(made))
        assert (copy.pull, copy.stop_timeout_s, copy._container_id) == ("never", 1.5, None)
        copy.stop_container()
        assert list(engine.alive) == ["id1"]


def test_a_provider_that_is_dropped_warns(engine: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    made = provider(engine)
    made.start_container("x")
    monkeypatch.setattr(type(made._engine.address), "open", lambda self, timeout_s: ClosableDocker(engine))
    with pytest.warns(ResourceWarning, match="was never stopped"):
        del made
    assert engine.alive == {}


class ClosableDocker:
    def __init__(self, engine: FakeDocker) -> None:
        self.api = engine.api

    def close(self) -> None:
        pass
