"""Programs run with the trainers' own packages: see `venvs`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv.server.thread import serve_in_thread
from tests.interop.venvs import VenvError
from tests.training import venvs

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(scope="module")
def echo_url() -> Iterator[str]:
    from envs.echo_env.server.app import app

    with serve_in_thread(app) as url:
        yield url


@pytest.fixture(scope="session")
def run_with() -> Callable[..., str]:
    """`run_with(packages, *arguments)`: what Python with these packages prints; fails where it fails."""

    def run(packages: str, *arguments: str) -> str:
        try:
            interpreter = venvs.python(packages)
        except VenvError as error:
            if os.environ.get("OPENENV_REQUIRE_TRAINING") == "1":
                pytest.fail(f"OPENENV_REQUIRE_TRAINING=1, but there is no environment: {error}", pytrace=False)
            pytest.skip(f"no environment with {packages}: {error}")
        offline = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(
            [str(interpreter), *arguments],
            cwd=ROOT,
            env={**os.environ, **offline, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def told_by(run_with: Callable[..., str]) -> Callable[..., Any]:
    """`told_by(packages, script, *arguments)`: the JSON in the last line that a script of `scripts` prints."""

    def told(packages: str, script: str, *arguments: str) -> Any:
        return json.loads(run_with(packages, str(SCRIPTS / script), *arguments).splitlines()[-1])

    return told
