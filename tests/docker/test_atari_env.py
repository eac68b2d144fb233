"""Atari games in real containers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from envs.atari_env import AtariAction, AtariEnv, AtariObservation, AtariState
from examples.atari_random import main as play_example
from openenv.core.errors import ContainerError, EnvironmentFailed
from tests.docker.images import build


@pytest.fixture(scope="session")
def atari_image(image: str, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENENV_BASE_IMAGE", image)
        return build("atari_env", tmp_path_factory, worker_id)


def play(env: AtariEnv, seed: int, steps: int = 150) -> list[AtariObservation]:
    choice = random.Random(11)
    seen = [env.reset(seed=seed).observation]
    for _ in range(steps):
        seen.append(env.step(AtariAction(choice.choice(seen[0].legal_actions))).observation)
    return seen


@pytest.mark.parametrize(("game", "sticky"), [("pong", "0"), ("pong", "0.25"), ("breakout", "0"), ("breakout", "0.25")])
def test_the_same_seed_and_actions_give_the_same_frames_in_two_containers(
    atari_image: str, game: str, sticky: str
) -> None:
    settings = {"ATARI_GAME": game, "ATARI_REPEAT_ACTION_PROB": sticky}
    with (
        AtariEnv.from_docker_image(atari_image, env_vars=settings) as one,
        AtariEnv.from_docker_image(atari_image, env_vars=settings) as two,
    ):
        first = play(one, seed=123)
        assert first == play(two, seed=123)
        assert first == play(two, seed=123), "and again in the same one"
        assert (first == play(one, seed=124)) is (sticky == "0")
    assert len({seen.screen.tobytes() for seen in first}) > 50


def test_the_variables_of_the_container_decide(atari_image: str) -> None:
    settings = {
        "ATARI_GAME": "space_invaders", "ATARI_OBS_TYPE": "grayscale", "ATARI_FULL_ACTION_SPACE": "true",
        "ATARI_FRAMESKIP": "2", "ATARI_MAX_FRAMES": "6", "ATARI_LIFE_LOSS": "1",
    }  # fmt: skip
    with AtariEnv.from_docker_image(atari_image, env_vars=settings) as env:
        seen = env.reset().observation
        assert (seen.screen.shape, seen.legal_actions, seen.lives) == ((210, 160), list(range(18)), 3)
        results = [env.step(AtariAction(0)) for _ in range(3)]
        assert [result.done for result in results] == [False, False, True]
        assert (results[-1].terminated, results[-1].truncated) == (False, True)
        assert results[-1].observation.metadata == {"life_lost": False}
        state = env.state()
        assert isinstance(state, AtariState)
        assert (state.game_name, state.obs_type, state.frameskip) == ("space_invaders", "grayscale", 2)
        assert (state.full_action_space, state.step_count) == (True, 3)


def test_sessions_of_one_container_play_games_of_their_own(atari_image: str) -> None:
    with AtariEnv.from_docker_image(atari_image) as one, AtariEnv(one.base_url) as two:
        assert one.reset(seed=1, game_name="breakout").observation.lives == 5
        assert two.reset(seed=1, game_name="ms_pacman").observation.lives == 3
        with pytest.raises(EnvironmentFailed, match="is not legal in breakout"):
            one.step(AtariAction(8))
        assert two.step(AtariAction(8)).observation.lives == 3
        assert (one.state().game_name, two.state().game_name) == ("breakout", "ms_pacman")


def test_a_container_with_an_unknown_game_dies_at_once_and_its_log_says_why(atari_image: str) -> None:
    with pytest.raises(ContainerError, match="did you mean breakout"):
        AtariEnv.from_docker_image(atari_image, env_vars={"ATARI_GAME": "brekout"})


def test_the_example_plays_and_leaves_a_picture_and_a_plot(
    atari_image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play_example(["--frames", "400", "--folder", str(tmp_path)]) == 0
    assert "container" in capsys.readouterr().out
    assert (tmp_path / "breakout.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "breakout-rewards.svg").read_text().startswith("<svg")
