"""What all tests share: markers by directory, and the Docker engine that some of them need."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

_BY_DIRECTORY = ("docker", "interop", "browser", "training")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        lane = item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""
        if lane in _BY_DIRECTORY:
            item.add_marker(lane)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") is None:
        return
    reason = _engine_missing()
    if reason is None:
        return
    if os.environ.get("OPENENV_REQUIRE_DOCKER") == "1":
        pytest.fail(f"OPENENV_REQUIRE_DOCKER=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@cache
def _engine_missing() -> str | None:
    """Why no Docker engine can be used, or ``None`` where one answers."""
    from openenv.containers.engine import Engine
    from openenv.core.errors import EngineUnavailable

    try:
        Engine.find().rest()
    except EngineUnavailable as error:
        return error.message
    return None


@pytest.fixture(scope="session")
def echo_image(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    """The tag of the echo environment's image, built from this tree once in a run."""
    image = "echo-env:latest"
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    built = shared / "echo-image-built"
    with _locked(shared / "echo-image.lock"):
        if not built.exists():
            from openenv.cli import main

            assert main(["build", "echo_env"]) == 0, "`openenv build echo_env` failed; its output is above"
            built.touch()
    return image


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
