"""The variables of the Atari server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs.atari_env.server.settings import Settings

ROOT = Path(__file__).parents[3]


def test_without_variables_it_is_pong() -> None:
    assert Settings.from_variables({}) == Settings()
    assert Settings.from_variables({"ATARI_MODE": "", "ATARI_GAME": " "}) == Settings()


def test_every_variable_is_read() -> None:
    assert Settings.from_variables(
        {
            "ATARI_GAME": "breakout", "ATARI_OBS_TYPE": "grayscale", "ATARI_FULL_ACTION_SPACE": "true",
            "ATARI_MODE": "4",
            "ATARI_DIFFICULTY": "1", "ATARI_REPEAT_ACTION_PROB": "0.25", "ATARI_FRAMESKIP": "2",
            "ATARI_MAX_FRAMES": "1000", "ATARI_LIFE_LOSS": "1",
        }
    ) == Settings(
        game_name="breakout", obs_type="grayscale", full_action_space=True, mode=4, difficulty=1,
        repeat_action_probability=0.25, frameskip=2, max_frames=1000, life_loss=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("ATARI_GAME", "brekout", "did you mean breakout"),
        ("ATARI_OBS_TYPE", "rgba", "one of rgb, grayscale, ram; got 'rgba'"),
        ("ATARI_FULL_ACTION_SPACE", "perhaps", "ATARI_FULL_ACTION_SPACE must be true or false"),
        ("ATARI_MODE", "x", "ATARI_MODE must be a number; got 'x'"),
        ("ATARI_DIFFICULTY", "-1", "difficulty must be a whole number, 0 or more"),
        ("ATARI_REPEAT_ACTION_PROB", "1.5", "from 0 to 1; got 1.5"),
        ("ATARI_REPEAT_ACTION_PROB", "nan", "from 0 to 1; got nan"),
        ("ATARI_FRAMESKIP", "0", r"frameskip must be a whole number, 1 or more; got 0 \(the variables are ATARI_FR"),
        ("ATARI_MAX_FRAMES", "0", "max_frames must be a whole number, 1 or more"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Settings.from_variables({variable: text})


@pytest.mark.parametrize(
    "wrong", [{"full_action_space": 1}, {"mode": True}, {"frameskip": 2.5}, {"repeat_action_probability": "0.1"}]
)
def test_an_option_of_the_wrong_type_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings().but(**wrong)


def test_a_server_with_a_wrong_variable_ends_at_once_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import envs.atari_env.server.app"],
        cwd=ROOT, env={**os.environ, "ATARI_GAME": "brekout"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "did you mean breakout" in done.stderr
