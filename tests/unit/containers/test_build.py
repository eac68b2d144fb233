"""What goes into an image, and what `openenv build` refuses before it asks an engine."""

from __future__ import annotations

import configparser
import re
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from openenv.cli import main
from openenv.containers.build import _pack, environment_folder

ROOT = Path(__file__).parents[3]
DOCKERFILES = sorted((ROOT / "envs").glob("*/server/Dockerfile"))


def packed() -> bytes:
    folder = environment_folder("echo_env")
    assert folder is not None
    context = BytesIO()
    _pack(context, {"openenv": ROOT / "openenv", "envs/echo_env": folder})
    return context.getvalue()


def test_the_context_holds_both_packages_and_nothing_that_was_made_by_running() -> None:
    with tarfile.open(fileobj=BytesIO(packed())) as archive:
        names = archive.getnames()
    assert {"openenv/server/run.py", "envs/__init__.py", "envs/echo_env/server/Dockerfile"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or not name.startswith(("openenv/", "envs/"))]


def test_the_context_is_the_same_to_the_byte_each_time() -> None:
    assert packed() == packed()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.parent.name)
def test_an_image_asks_for_the_same_versions_as_the_package(dockerfile: Path) -> None:
    options = configparser.ConfigParser()
    options.read(ROOT / "setup.cfg")
    declared = options["options"]["install_requires"] + options["options.extras_require"]["server"]
    known = {line.partition(";")[0].strip() for line in declared.splitlines()}
    wanted = set(re.findall(r'"([\w.-]+>=[\d.]+)"', dockerfile.read_text()))
    ours = {line.partition(">")[0] for line in known}
    assert {line for line in wanted if line.partition(">")[0] in ours} <= known
    assert "docker>=7.1" not in wanted


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.parent.name)
def test_a_dockerfile_needs_no_buildkit_no_curl_and_no_root(dockerfile: Path) -> None:
    text = dockerfile.read_text()
    assert "ARG BASE_IMAGE=python:3.11-slim\nFROM ${BASE_IMAGE}" in text
    assert not re.search(r"--mount|--chmod|--link|<<|curl", text)
    assert re.search(r"^USER \d+:\d+$", text, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nonsense_env"], "no environment 'nonsense_env'"),
        (["./nowhere", "-t", "x"], "there is neither"),
        (["{here}", "-t", "x"], "there is neither"),
    ],
)
def test_what_cannot_be_built_is_told_without_an_engine(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert main(["build", *(word.format(here=tmp_path) for word in words)]) == 1
    assert told in capsys.readouterr().err


def test_without_an_engine_the_build_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert main(["build", "echo_env"]) == 1
    assert "no Docker engine answers" in capsys.readouterr().err
