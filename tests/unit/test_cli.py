"""The command: exit codes, messages, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from openenv import __version__
from openenv.cli import COMMANDS, main
from openenv.cli.serve import app_path
from openenv.core.errors import ConfigurationError


def usage_error(*words: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error("--help") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_of_its_own(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error(command, "--help") == 0
    assert f"usage: openenv {command}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("nonsense",), ("serve",), ("serve", "echo_env", "--port", "99999")])
def test_a_wrong_call_ends_with_2_and_says_how_it_is_called(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert usage_error(*words) == 2
    assert "usage: openenv" in capsys.readouterr().err


def test_a_failure_ends_with_1_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "not an app"]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.startswith("openenv serve: 'not an app' is neither")
    assert printed.err.count("\n") == 1


def test_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["openenv-client"] == __version__
    assert told["packages"]["requests"]


def test_a_reader_that_stops_reading_is_no_traceback() -> None:
    command = f"{sys.executable} -m openenv version | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""


def test_a_name_is_an_environment_that_comes_along() -> None:
    assert app_path("echo_env") == "envs.echo_env.server.app:app"


def test_a_module_and_an_app_are_taken_as_they_are() -> None:
    assert app_path("my_package.server:make.app") == "my_package.server:make.app"


@pytest.mark.parametrize("name", ["echo-env", "a/b", "module:", ":app", "m:a:b", "../x"])
def test_what_is_neither_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="neither the name of an environment nor MODULE:APP"):
        app_path(name)
