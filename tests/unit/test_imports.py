"""What an import costs and gives: names that stay, and nothing loaded that is not needed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

import openenv

HEAVY = {"asyncio", "docker", "websockets", "numpy", "starlette", "uvicorn", "uvloop", "httptools", "ale_py", "pytest"}

# Code that exists imports these; a name is moved by leaving a re-export behind, never taken away.
PUBLIC = {
    "openenv": ["HTTPEnvClient", "StepResult", "__version__"],
    "openenv.core": [
        "Action",
        "ContainerProvider",
        "HTTPEnvClient",
        "LocalDockerProvider",
        "LocalProcessProvider",
        "Observation",
        "OpenEnvError",
        "State",
        "StepResult",
        "Timeouts",
        "TypedHooks",
    ],
    "openenv.core.types": ["Action", "Observation", "State", "StepResult"],
    "openenv.core.client_types": ["StepResult"],
    "openenv.core.http_client": ["HTTPEnvClient"],
    "openenv.core.http_env_client": ["HTTPEnvClient"],
    "openenv.core.runner_env": ["HTTPEnvClient"],
    "openenv.core.containers.runtime": ["ContainerProvider", "LocalDockerProvider"],
    "openenv.containers": ["ContainerProvider", "LocalDockerProvider", "LocalProcessProvider"],
    "openenv.server": ["Environment", "create_app"],
    "openenv.cli": ["main"],
    "envs.echo_env": ["EchoAction", "EchoEnv", "EchoObservation", "EchoState"],
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names])
def test_a_public_name_can_be_imported(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("name", ["HTTPEnvClient", "StepResult", "ContainerProvider", "LocalDockerProvider"])
def test_a_name_is_one_object_wherever_it_is_imported_from(name: str) -> None:
    homes = [module for module, names in PUBLIC.items() if name in names]
    assert len({id(getattr(importlib.import_module(home), name)) for home in homes}) == 1, homes


@pytest.mark.parametrize("module", ["openenv", "openenv.core"])
def test_every_name_that_a_package_lists_is_there(module: str) -> None:
    package = importlib.import_module(module)
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None, name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        openenv.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "statement",
    ["import openenv", "from envs.echo_env import EchoEnv", "import openenv.core, openenv.cli", "import envs"],
)
def test_an_import_loads_nothing_that_only_some_need(statement: str) -> None:
    code = f"{statement}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not HEAVY & set(json.loads(done.stdout))
    assert not done.stderr
