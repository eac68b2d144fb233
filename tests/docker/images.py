"""Images of the environments, built from this tree once in a run."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest


def build(name: str, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    """The tag of the image of ``envs.<name>``; the first worker that comes builds it."""
    from openenv.cli import main

    shared: Path = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    built = shared / f"{name}-image-built"
    with (shared / f"{name}-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            assert main(["build", name]) == 0, f"`openenv build {name}` failed; its output is above"
            built.touch()
    return f"{name.replace('_', '-')}:latest"
