"""Two packages of one name in one place, and folders that hide ours, are told in one clear error."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with our packages in it, as an installation has them."""
    site = tmp_path / "site"
    for package in ("openenv", "envs"):
        shutil.copytree(ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    return site


def run(code: str, *path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # Neither the repository nor an editable installation of it may be found, so the path is said in full.
    places = [*map(str, path), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    setup = f"import sys; sys.path[:0] = {places!r}\n"
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", setup + code],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def install_other(site: Path, distribution: str) -> None:
    """Write what the other distributions write: their files over ours, and a record beside them."""
    server = site / "openenv" / "core" / "env_server"
    server.mkdir(parents=True)
    (server / "__init__.py").write_text("")
    record = site / f"{distribution.replace('-', '_')}-9.9.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("")


def the_last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


def test_our_package_alone_imports(site: Path, tmp_path: Path) -> None:
    done = run("import openenv; from envs.echo_env import EchoEnv; print(openenv.__file__)", site, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(site / "openenv" / "__init__.py")


@pytest.mark.parametrize("distribution", ["openenv", "openenv-core"])
@pytest.mark.parametrize(
    "statement", ["import openenv", "from envs.echo_env import EchoEnv", "import openenv.core.http_client"]
)
def test_another_distribution_installed_before_ours_is_named(
    site: Path, tmp_path: Path, distribution: str, statement: str
) -> None:
    install_other(site, distribution)
    error = the_last_line(run(statement, site, cwd=tmp_path))
    assert error.startswith(f"ImportError: `openenv-client` and `{distribution}` are installed in the same place")
    assert f"pip uninstall -y {distribution}" in error
    assert "pip install --force-reinstall --no-deps openenv-client" in error


@pytest.mark.parametrize("statement", ["from envs.echo_env import EchoEnv", "import openenv.core.http_client"])
def test_another_distribution_installed_over_ours_is_named_by_the_files_that_it_left(
    site: Path, tmp_path: Path, statement: str
) -> None:
    install_other(site, "openenv")
    for theirs in ("openenv/__init__.py", "openenv/core/__init__.py"):
        (site / theirs).write_text("")
    error = the_last_line(run(statement, site, cwd=tmp_path))
    assert error.startswith("ImportError: `openenv-client` and `openenv` are installed in the same place")


def test_files_that_another_distribution_took_along_are_missed_in_words(site: Path, tmp_path: Path) -> None:
    (site / "openenv" / "__init__.py").unlink()
    (site / "openenv" / "core" / "__init__.py").unlink()
    error = the_last_line(run("from envs.echo_env import EchoEnv", site, cwd=tmp_path))
    assert error.startswith("ImportError: Files of `openenv-client` are missing")


def test_another_openenv_earlier_on_the_path_is_told_by_envs(site: Path, tmp_path: Path) -> None:
    (tmp_path / "first" / "openenv").mkdir(parents=True)
    (tmp_path / "first" / "openenv" / "__init__.py").write_text("")
    error = the_last_line(run("from envs.echo_env import EchoEnv", tmp_path / "first", site, cwd=tmp_path))
    assert error.startswith("ImportError: The package `openenv` that is found first is not that of `openenv-client`")


def test_another_openenv_that_is_found_first_is_told_though_our_modules_are_found_too(
    site: Path, tmp_path: Path
) -> None:
    # As with an editable installation, whose finder adds the modules that the other package lacks.
    other = tmp_path / "first" / "openenv"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text(f"__path__.append({str(site / 'openenv')!r})")
    error = the_last_line(run("from envs.echo_env import EchoEnv", tmp_path / "first", site, cwd=tmp_path))
    assert error.startswith(f"ImportError: The package `openenv` that is found first, {other}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with a folder ``envs`` of its own."""
    (tmp_path / "project" / "envs" / "mine").mkdir(parents=True)
    (tmp_path / "project" / "envs" / "mine" / "__init__.py").write_text("x = 1")
    return tmp_path / "project"


def test_a_package_envs_of_the_user_that_hides_ours_is_told(site: Path, project: Path) -> None:
    (project / "envs" / "__init__.py").write_text("")
    done = run("import openenv\nfrom envs.echo_env import EchoEnv", project, site, cwd=project)
    error = the_last_line(done)
    assert error.startswith("ModuleNotFoundError: No module named 'envs.echo_env'. The folder ")
    assert str(project / "envs") in error
    assert "Rename that folder" in error


def test_a_package_envs_of_the_user_goes_on_working(site: Path, project: Path) -> None:
    (project / "envs" / "__init__.py").write_text("")
    code = (
        "import openenv\nfrom importlib.util import find_spec\nfrom envs.mine import x\n"
        "print(x, find_spec('envs.no_such_thing'))"
    )
    assert run(code, project, site, cwd=project).stdout.split() == ["1", "None"]


def test_a_plain_folder_envs_of_the_user_and_ours_are_both_found(site: Path, project: Path) -> None:
    code = "from envs.echo_env import EchoEnv\nfrom envs.mine import x\nprint(EchoEnv.__name__, x)"
    done = run(code, project, site, cwd=project)
    assert done.stdout.split() == ["EchoEnv", "1"], done.stderr


def test_serving_a_hidden_environment_is_told(site: Path, project: Path) -> None:
    (project / "envs" / "__init__.py").write_text("")
    error = the_last_line(
        run("from openenv.cli import main; sys.exit(main(['serve', 'echo_env']))", project, site, cwd=project)
    )
    assert error.startswith("openenv serve: envs.echo_env.server.app:app cannot be served. The folder ")
    assert str(project / "envs") in error
