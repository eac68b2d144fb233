"""What a client shows of its container, and clients of a folder with a Dockerfile."""

from __future__ import annotations

import os
import pty
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv
from openenv.core import ContainerError


def test_a_client_shows_its_container(echo_image: str) -> None:
    with EchoEnv.from_docker_image(echo_image) as env:
        env.reset()
        container = env.container
        assert container.name in repr(container)
        assert container.id.startswith(repr(container).split()[-1].rstrip(">"))
        assert container.image == echo_image
        assert container.status == "running"
        assert env.base_url.endswith(f":{container.ports[8000]}")
        stats = container.stats()
        assert 5 << 20 < stats.memory_bytes < 500 << 20
        assert stats.processes >= 1
        assert stats.cpu_percent >= 0
        assert stats.received_bytes > 0
        assert "OPENENV_READY" in container.logs(10)
        with EchoEnv.attach(container.name) as guest:
            assert guest.container.id == container.id
    assert env.container is None


def test_a_client_of_an_address_has_no_container() -> None:
    assert EchoEnv("http://localhost:1").container is None


@pytest.fixture
def folder(tmp_path: Path, echo_image: str, engine: DockerClient) -> Iterator[Path]:
    made = tmp_path / f"Openenv_Test_{uuid.uuid4().hex[:8]}"
    made.mkdir()
    (made / "Dockerfile").write_text(f"FROM {echo_image}\nENV SPOKEN=yes\n")
    yield made
    for found in engine.images.list(f"{made.name.lower().replace('_', '-')}:latest"):
        engine.images.remove(str(found.id), force=True)


def test_a_folder_with_a_dockerfile_becomes_a_client(folder: Path) -> None:
    with EchoEnv.from_dockerfile(folder) as env:
        env.reset()
        assert env.step(EchoAction(message="built")).observation.echoed_message == "built"
        assert env.container.image == f"{folder.name.lower().replace('_', '-')}:latest"


def test_a_build_that_fails_names_the_step_and_shows_the_last_lines(folder: Path) -> None:
    with (folder / "Dockerfile").open("a") as file:
        file.write("RUN echo before-the-end && exit 9\n")
    with pytest.raises(ContainerError, match=r"failed in Step 3/3 : RUN echo before.*code: 9") as caught:
        EchoEnv.from_dockerfile(folder)
    assert "before-the-end" in caught.value.logs


def test_a_folder_without_a_dockerfile_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is neither .*Dockerfile"):
        EchoEnv.from_dockerfile(tmp_path)


@pytest.mark.parametrize("variable", [None, "0"])
def test_building_shows_its_phases_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    from openenv.containers.build import build_directory

    primary, secondary = pty.openpty()
    with os.fdopen(secondary, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr("openenv.containers.progress.find_spec", lambda name: None)
        monkeypatch.delenv("OPENENV_PROGRESS", raising=False)
        if variable is not None:
            monkeypatch.setenv("OPENENV_PROGRESS", variable)
        tag = build_directory(folder, None, None)
        terminal.write("end\n")
    shown = os.read(primary, 10_000).decode()
    os.close(primary)
    assert (f"building {tag}: ENV SPOKEN=yes (2/2)" in shown) == (variable is None)
