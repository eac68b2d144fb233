"""Games that are really played."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from envs.atari_env import AtariAction, AtariEnv, AtariObservation
from envs.atari_env.server.app import app
from envs.atari_env.server.environment import AtariEnvironment
from envs.atari_env.server.games import game_file, games, main
from envs.atari_env.server.settings import Settings
from openenv.core.errors import EnvironmentFailed
from openenv.server import serve_in_thread


def made(**settings: Any) -> AtariEnvironment:
    return AtariEnvironment(Settings(**settings))


def play(env: AtariEnvironment, seed: int | None, steps: int = 120) -> list[AtariObservation]:
    """An episode of always the same actions."""
    choice = random.Random(4)
    seen = [env.reset(seed=seed)]
    seen += [env.step(AtariAction(choice.choice(seen[0].legal_actions))) for _ in range(steps)]
    return seen


def frames(seen: list[AtariObservation]) -> list[bytes]:
    return [one.screen.tobytes() for one in seen]


def test_pong_begins_as_the_first_generation_had_it() -> None:
    env = made()
    seen = env.reset()
    assert (seen.screen.shape, seen.screen.dtype) == ((210, 160, 3), numpy.uint8)
    assert (seen.screen_shape, seen.legal_actions, seen.lives) == ([210, 160, 3], [0, 1, 2, 3, 4, 5], 0)
    assert (seen.reward, type(seen.reward), seen.done) == (0.0, float, False)
    assert (seen.terminated, seen.truncated) == (False, False)
    assert seen.metadata == {"action_meanings": ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]}
    assert (env.state.game_name, env.state.step_count, env.state.frameskip) == ("pong", 0, 4)


@pytest.mark.parametrize(("obs_type", "shape"), [("rgb", [210, 160, 3]), ("grayscale", [210, 160]), ("ram", [128])])
def test_each_kind_of_screen_has_its_shape(obs_type: str, shape: list[int]) -> None:
    env = made(game_name="breakout", obs_type=obs_type)
    seen = [env.reset(), env.step(AtariAction(1))]
    assert [one.screen_shape for one in seen] == [shape, shape]
    assert seen[0].screen.shape == tuple(shape)
    assert seen[0].screen.any()


def test_the_screen_of_a_step_stays_what_it_was() -> None:
    env = made(game_name="breakout")
    first = env.reset(seed=1)
    before = first.screen.copy()
    for _ in range(10):
        env.step(AtariAction(2))
    assert (first.screen == before).all()


def test_a_step_is_frameskip_frames() -> None:
    env = made(game_name="breakout", frameskip=3)
    start = env.reset(seed=1)
    seen = [env.step(AtariAction(0)) for _ in range(5)]
    assert [one.episode_frame_number for one in seen] == [3, 6, 9, 12, 15]
    assert seen[-1].frame_number - start.frame_number == 15
    assert env.state.step_count == 5


def test_rewards_are_the_sum_over_the_frames_of_a_step() -> None:
    """Without chance, one step of 60 frames pays what 60 steps of one frame pay."""
    one, many = made(game_name="pong", frameskip=60), made(game_name="pong", frameskip=1)
    one.reset(seed=3)
    many.reset(seed=3)
    coarse = [one.step(AtariAction(0)).reward for _ in range(10)]
    fine = [sum(many.step(AtariAction(0)).reward for _ in range(60)) for _ in range(10)]  # type: ignore[misc]
    assert coarse == fine
    assert min(coarse) < 0  # type: ignore[type-var]


@pytest.mark.parametrize("game", ["pong", "breakout", "beam_rider"])
@pytest.mark.parametrize("chance", [0.0, 0.25])
def test_the_same_seed_and_actions_give_the_same_frames(game: str, chance: float) -> None:
    """Beam Rider keeps memory over a plain reset of the emulator."""
    env = made(game_name=game, repeat_action_probability=chance)
    first = frames(play(env, seed=7))
    assert frames(play(env, seed=7)) == first
    assert frames(play(made(game_name=game, repeat_action_probability=chance), seed=7)) == first


def test_sticky_actions_depend_on_the_seed() -> None:
    env = made(game_name="breakout", repeat_action_probability=0.25)
    assert frames(play(env, seed=7)) != frames(play(env, seed=8))


def test_sticky_actions_without_a_seed_are_not_the_same_each_time() -> None:
    kind = {"game_name": "breakout", "repeat_action_probability": 0.25}
    assert len({tuple(frames(play(made(**kind), seed=None))) for _ in range(3)}) > 1


@pytest.mark.parametrize("seed", [0, -1, 2**31, 2**40 + 3])
def test_any_integer_is_a_seed(seed: int) -> None:
    env = made(repeat_action_probability=0.5)
    assert frames(play(env, seed, steps=20)) == frames(play(env, seed, steps=20))


def test_a_game_that_is_over_is_terminated_and_stays_so() -> None:
    env = made(game_name="pong", frameskip=60)
    env.reset(seed=1)
    seen = [env.step(AtariAction(0)) for _ in range(80)]
    over = next(one for one in seen if one.done)
    assert (over.terminated, over.truncated) == (True, False)
    assert sum(one.reward for one in seen) == -21  # type: ignore[misc]
    assert (seen[-1].done, seen[-1].reward, seen[-1].episode_frame_number) == (True, 0, over.episode_frame_number)


def test_the_cap_on_frames_truncates() -> None:
    env = made(game_name="breakout", max_frames=40)
    env.reset()
    seen = [env.step(AtariAction(0)) for _ in range(10)]
    assert [one.done for one in seen] == [False] * 9 + [True]
    assert (seen[-1].terminated, seen[-1].truncated) == (False, True)
    assert not env.reset().done


def test_a_lost_life_is_told_where_that_is_wanted() -> None:
    env = made(game_name="breakout", life_loss=True, frameskip=30)
    assert env.reset(seed=1).lives == 5
    seen = [env.step(AtariAction(1)) for _ in range(40)]
    lost = [one.lives for one in seen if one.metadata["life_lost"]]
    assert lost[:2] == [4, 3]
    assert all(one.metadata == {} for one in play(made(game_name="breakout"), seed=1, steps=3)[1:])


def test_the_full_action_space_has_18_actions() -> None:
    assert made(game_name="breakout", full_action_space=True).reset().legal_actions == list(range(18))


@pytest.mark.parametrize("action_id", [-1, 4, 99])
def test_an_illegal_action_is_named_with_the_legal_ones_and_changes_nothing(action_id: int) -> None:
    env = made(game_name="breakout")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=rf"{action_id} is not legal in breakout; 0 \(NOOP\), 1 \(FIRE\), 2 \(RIGHT\)"):
        env.step(AtariAction(action_id))
    assert env.state.step_count == 0
    assert env.step(AtariAction(0)).episode_frame_number == 4


def test_options_of_a_reset_hold_for_its_episode_alone() -> None:
    env = made(game_name="pong")
    assert env.reset(game_name="breakout", obs_type="ram", frameskip=2, mode=4, difficulty=1).lives == 5
    state = env.state
    assert (state.game_name, state.obs_type, state.frameskip) == ("breakout", "ram", 2)
    assert (state.mode, state.difficulty) == (4, 1)
    assert env.reset().screen_shape == [210, 160, 3]
    assert (env.state.game_name, env.state.mode) == ("pong", None)


def test_modes_and_difficulties_change_the_game() -> None:
    plain, other = made(game_name="breakout"), made(game_name="breakout", mode=8, difficulty=1)
    assert frames(play(plain, seed=1)) != frames(play(other, seed=1))


@pytest.mark.parametrize("name", ["mode", "difficulty"])
def test_a_mode_that_the_game_has_not_is_named_with_those_it_has(name: str) -> None:
    with pytest.raises(ValueError, match=rf"breakout has no {name} 77; it has 0, "):
        made(game_name="breakout", **{name: 77}).reset()


def test_a_reset_that_is_refused_leaves_the_episode() -> None:
    env = made(game_name="breakout")
    env.reset(episode_id="mine")
    for wrong in ({"game_name": "nonsense"}, {"mode": 77}, {"frameskip": 0}):
        with pytest.raises(ValueError):
            env.reset(**wrong)  # type: ignore[arg-type]
    assert env.step(AtariAction(0)).episode_frame_number == 4
    assert (env.state.episode_id, env.state.game_name) == ("mine", "breakout")


def test_episodes_have_ids_and_counts() -> None:
    env = made()
    env.reset()
    first = env.state.episode_id
    env.step(AtariAction(0))
    assert env.state.step_count == 1
    env.reset()
    assert env.state.episode_id != first
    assert env.state.step_count == 0
    env.reset(episode_id="mine")
    assert env.state.episode_id == "mine"


def test_a_step_before_any_reset_plays() -> None:
    """As the first generation of clients may do."""
    assert made().step(AtariAction(0)).episode_frame_number == 4


def test_every_game_of_the_list_can_be_loaded() -> None:
    assert len(games()) > 100
    assert {"pong", "breakout", "ms_pacman", "space_invaders", "montezuma_revenge"} < set(games())
    assert "combat" not in games()
    assert made(game_name="adventure").reset().screen_shape == [250, 160, 3]


@pytest.mark.parametrize(
    ("name", "hint"), [("brekout", "breakout"), ("SpaceInvaders", "space_invaders"), ("ms-pacman", "ms_pacman")]
)
def test_an_unknown_game_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {hint}"):
        game_file(name)


def test_an_unknown_game_says_how_to_list_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"no game 'xyzzy'; `python -m envs\.atari_env\.server\.games` lists all"):
        game_file("xyzzy")
    main()
    assert capsys.readouterr().out.split() == list(games())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(app) as served:
        yield served


def test_a_client_plays_what_the_environment_plays(url: str) -> None:
    here = play(made(game_name="breakout", repeat_action_probability=0.25), seed=5, steps=30)
    choice = random.Random(4)
    with AtariEnv(url) as env:
        there = [env.reset(seed=5, game_name="breakout", repeat_action_probability=0.25)]
        there += [env.step(AtariAction(choice.choice([0, 1, 2, 3]))) for _ in range(30)]
        assert env.state().game_name == "breakout"
    assert [one.observation for one in there] == here
    assert (there[-1].terminated, there[-1].truncated) == (False, False)
    assert there[-1].observation.screen.shape == (210, 160, 3)


def test_a_client_is_told_of_an_illegal_action_and_the_episode_goes_on(url: str) -> None:
    with AtariEnv(url) as env:
        env.reset()
        with pytest.raises(EnvironmentFailed, match=r"action_id 6 is not legal in pong; 0 \(NOOP\)") as caught:
            env.step(AtariAction(6))
        assert caught.value.remote_type == "ValueError"
        assert env.step(AtariAction(0)).observation.episode_frame_number == 4
