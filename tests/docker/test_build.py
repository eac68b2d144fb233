"""`openenv build`, and the Dockerfile as any Docker builds it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient
from docker.errors import ImageNotFound

from envs.echo_env import EchoAction, EchoEnv
from openenv.cli import main
from tests.docker.conftest import ROOT


@pytest.fixture
def tag(engine: DockerClient) -> Iterator[str]:
    name = f"openenv-test-{uuid.uuid4().hex[:8]}:1"
    yield name
    with contextlib.suppress(ImageNotFound):
        engine.images.remove(name, force=True)


def plays(image: str) -> bool:
    with EchoEnv.from_docker_image(image) as env:
        env.reset()
        return env.step(EchoAction(message="hello")).observation.echoed_message == "hello"


def test_an_environment_is_built_from_the_installed_packages(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build", "echo_env", "-t", tag]) == 0
    assert capsys.readouterr().out == f"built {tag}\n"
    assert plays(tag)


def test_building_again_is_all_cache(tag: str, engine: DockerClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "echo_env", "-t", tag]) == 0
    first = engine.images.get(tag).id
    capsys.readouterr()
    assert main(["build", "echo_env", "-t", tag]) == 0
    assert engine.images.get(tag).id == first
    assert "Running in" not in capsys.readouterr().err


def test_the_dockerfile_is_built_from_a_checkout_without_us(tag: str, image: str, tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("there is no `docker` command")
    for package in ("openenv", "envs"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [
            docker,
            "build",
            "-f",
            "envs/echo_env/server/Dockerfile",
            "--build-arg",
            f"BASE_IMAGE={image}",
            "-t",
            tag,
            ".",
        ],
        cwd=tmp_path,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert plays(tag)


def test_a_directory_is_built_with_a_tag(tag: str, tmp_path: Path, engine: DockerClient) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE_IMAGE=python:3.11-slim\nFROM ${BASE_IMAGE}\nCOPY . /here\n")
    (tmp_path / ".dockerignore").write_text("secret\n")
    (tmp_path / "secret").touch()
    (tmp_path / "public").touch()
    assert main(["build", str(tmp_path), "-t", tag, "--quiet"]) == 0
    output = engine.containers.run(tag, ["ls", "/here"], remove=True)
    assert output.split() == [b"Dockerfile", b"public"]


def test_a_failing_step_is_shown_with_what_it_printed(
    tag: str, tmp_path: Path, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "Dockerfile").write_text(f"FROM {image}\nRUN echo what went wrong && exit 4\n")
    assert main(["build", str(tmp_path), "-t", tag, "--quiet"]) == 1
    complaint = capsys.readouterr().err
    assert "non-zero code: 4" in complaint
    assert "what went wrong" in complaint


def test_a_base_image_that_nobody_has_is_named(tag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "echo_env", "-t", tag, "--base-image", "127.0.0.1:9/nobody:1", "-q"]) == 1
    assert "127.0.0.1:9" in capsys.readouterr().err
