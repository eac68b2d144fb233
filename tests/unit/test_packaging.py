"""What is built installs into a clean environment, and everything works from there."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import openenv

ROOT = Path(__file__).parents[2]
PACKAGES = ("openenv", "envs")
JUNK = shutil.ignore_patterns(".git", ".venv", "*.egg-info", "__pycache__", "build", "dist", ".*_cache", ".hypothesis")


def call(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist, and a wheel built from that sdist."""
    tree = tmp_path_factory.mktemp("tree") / "project"
    shutil.copytree(ROOT, tree, ignore=JUNK)
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree, cwd=tree)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel in it; its dependencies are those of this interpreter."""
    home = tmp_path_factory.mktemp("clean")
    call(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    call(*pip, "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home)
    (site,) = (home / "lib").glob("python*/site-packages")
    # A line of a .pth file adds one directory and reads no .pth files there: this tree itself stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_pyproject_says_nothing_but_how_to_build() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    assert len(lines) == 3
    assert lines[0] == "[build-system]"


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"envs/echo_env/server/Dockerfile", "openenv/py.typed", "envs/py.typed"} <= expected
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_the_metadata_says_who_what_and_for_whom(metadata: Message) -> None:
    assert metadata["Name"] == "openenv-client"
    assert metadata["Version"] == openenv.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_a_base_install_asks_for_five_packages_and_no_more(metadata: Message) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {line.split(">")[0].strip() for line in needed}
    assert names == {"requests", "docker", "dataclasses-json", "websockets", "msgspec"}


def test_the_installed_package_is_used_and_not_this_tree(clean: Path) -> None:
    where = call(clean / "python", "-c", "import openenv; print(openenv.__file__)", cwd=clean)
    assert Path(where.strip()).is_relative_to(clean.parent)


def test_the_installed_command_runs(clean: Path) -> None:
    assert call(clean / "openenv", "--version", cwd=clean) == f"openenv-client {openenv.__version__}\n"
    assert "build" in call(clean / "openenv", "--help", cwd=clean)
    assert "usage: openenv build" in call(clean / "python", "-m", "openenv", "build", "--help", cwd=clean)


def test_an_episode_runs_from_the_installed_wheel(clean: Path) -> None:
    code = (
        "from envs.echo_env import EchoAction, EchoEnv\n"
        "with EchoEnv.from_process() as env:\n"
        "    env.reset()\n"
        "    print(env.step(EchoAction(message='hello')).observation.echoed_message, env.state().step_count)\n"
    )
    assert call(clean / "python", "-c", code, cwd=clean) == "hello 1\n"
