"""`openenv ps`, `logs`, `stop` and `prune` on a real engine."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from docker import DockerClient

from openenv.cli import main
from openenv.containers import LocalDockerProvider
from openenv.containers.labels import KEEP, PID, STARTED, owner_labels
from tests.docker.conftest import SERVE, eventually


@pytest.fixture
def orphan(
    engine: DockerClient, image: str, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[Callable[..., str]]:
    """Makes a container whose labels are as given, besides those of a dead owner; gives its name."""
    made: list[Any] = []
    shared = tmp_path_factory.getbasetemp()
    lock = ((shared if worker_id == "master" else shared.parent) / "orphans.lock").open("w")
    # A test that prunes would take those of another one that runs at the same time.
    fcntl.flock(lock, fcntl.LOCK_EX)

    def make(**labels: str) -> str:
        # The process id is this one's; it began at another time.
        dead = {**owner_labels("nobody", port=8000, keep=False), STARTED: "1"}
        made.append(engine.containers.create(image, ["sleep", "600"], labels={**dead, **labels}))
        return str(made[-1].name)

    yield make
    for one in made:
        if engine.api.containers(all=True, filters={"id": one.id}):
            one.remove(force=True)
    lock.close()


def names(engine: DockerClient) -> set[str]:
    return {item["Names"][0].lstrip("/") for item in engine.api.containers(all=True)}


def test_ps_tells_the_living_from_the_dead(
    provider: LocalDockerProvider, image: str, orphan: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = provider.start_container(image, command=SERVE)
    dead = orphan()
    assert main(["ps", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    mine = listed[provider._container_name or ""]
    assert (mine["owner"], mine["image"]) == ("alive", image)
    assert mine["ports"] == [f"{url.removeprefix('http://')}->8000"]
    assert listed[dead]["owner"] == "dead"
    assert main(["ps"]) == 0
    assert dead in capsys.readouterr().out


def test_prune_removes_the_dead_alone(
    provider: LocalDockerProvider,
    image: str,
    engine: DockerClient,
    orphan: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider.start_container(image, command=SERVE)
    dead, unknown, kept = orphan(), orphan(**{PID: ""}), orphan(**{KEEP: "true"})
    assert main(["prune", "--dry-run"]) == 0
    assert f"would remove {dead}" in capsys.readouterr().out
    assert dead in names(engine)
    assert main(["prune"]) == 0
    printed = capsys.readouterr().out
    assert f"removed {dead}" in printed
    assert f"left {unknown}: its owner cannot be seen from here" in printed
    assert f"left {kept}: kept on purpose" in printed
    there = names(engine)
    assert dead not in there
    assert {unknown, kept, provider._container_name} <= there


def test_logs_prints_the_last_lines(
    provider: LocalDockerProvider, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.start_container(image, command=["sh", "-c", "echo one; echo two; sleep 600"])
    name = provider._container_name or ""

    def printed() -> str:
        assert main(["logs", name, "-n", "1"]) == 0
        return capsys.readouterr().out

    assert eventually(lambda: printed() == "two\n", 10)


def test_stop_removes_by_name_and_knows_only_ours(
    provider: LocalDockerProvider, image: str, engine: DockerClient, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.start_container(image, command=SERVE)
    name = provider._container_name or ""
    assert main(["stop", name, "nonsense"]) == 1
    assert "0 containers of ours are called 'nonsense'" in capsys.readouterr().err
    assert name in names(engine)
    assert main(["stop", name]) == 0
    assert name not in names(engine)
    assert "something else has removed it" in str(provider.failure())
