"""What existing code relies on in the Atari environment's models and client, and what a screen is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from envs.atari_env import AtariAction, AtariEnv, AtariObservation, AtariState
from openenv.core import codec
from openenv.core.errors import DecodeError

ROOT = Path(__file__).parents[3]
SENT = {
    "screen": [1, 2, 3, 4, 5, 6],
    "screen_shape": [1, 2, 3],
    "legal_actions": [0, 1],
    "lives": 3,
    "episode_frame_number": 8,
    "frame_number": 16,
}


@pytest.fixture
def env() -> AtariEnv:
    return AtariEnv("http://127.0.0.1:1")


def test_action_id_is_required_the_rest_is_pong_rgb_false() -> None:
    action = AtariAction(action_id=2)
    assert (action.game_name, action.obs_type, action.full_action_space) == ("pong", "rgb", False)
    assert AtariAction(2) == action
    with pytest.raises(TypeError, match="action_id"):
        AtariAction()  # type: ignore[call-arg]


def test_the_payload_has_all_four_fields(env: AtariEnv) -> None:
    action = AtariAction(3, game_name="breakout", obs_type="ram", full_action_space=True)
    assert env._step_payload(action) == {
        "action_id": 3, "game_name": "breakout", "obs_type": "ram", "full_action_space": True,
    }  # fmt: skip


def test_a_result_has_every_field(env: AtariEnv) -> None:
    payload = {"observation": {**SENT, "metadata": {"a": 1}}, "reward": 1.5, "done": True, "truncated": True}
    result = env._parse_result({**payload, "terminated": False})
    seen = result.observation
    assert seen.screen.tolist() == [[[1, 2, 3], [4, 5, 6]]]
    assert seen.screen.dtype == numpy.uint8
    assert (seen.screen_shape, seen.legal_actions) == ([1, 2, 3], [0, 1])
    assert (seen.lives, seen.episode_frame_number, seen.frame_number) == (3, 8, 16)
    assert (seen.reward, seen.done, seen.metadata) == (1.5, True, {"a": 1})
    assert (seen.terminated, seen.truncated) == (False, True) == (result.terminated, result.truncated)
    assert (result.reward, result.done) == (1.5, True)


def test_an_empty_answer_parses_to_empty_lists_and_zeros(env: AtariEnv) -> None:
    seen = env._parse_result({}).observation
    assert (seen.screen, seen.screen_shape, seen.legal_actions) == ([], [], [])
    assert (seen.lives, seen.episode_frame_number, seen.frame_number) == (0, 0, 0)
    assert (seen.reward, seen.done, seen.terminated, seen.truncated) == (None, False, None, None)


def test_state_has_nine_fields(env: AtariEnv) -> None:
    sent = {
        "episode_id": "e", "step_count": 2, "game_name": "breakout", "obs_type": "ram", "full_action_space": True,
        "mode": 4, "difficulty": 1, "repeat_action_probability": 0.25, "frameskip": 2,
    }  # fmt: skip
    assert env._parse_state(sent) == AtariState(**sent)  # type: ignore[arg-type]
    assert len(AtariState.__dataclass_fields__) == 9


def test_an_absent_game_is_unknown_and_an_absent_frameskip_4(env: AtariEnv) -> None:
    state = env._parse_state({})
    assert (state.game_name, state.frameskip) == ("unknown", 4)


def test_a_state_of_ones_own_is_pong() -> None:
    state = AtariState()
    settings = (state.game_name, state.obs_type, state.full_action_space, state.mode, state.difficulty)
    assert settings == ("pong", "rgb", False, None, None)
    assert (state.repeat_action_probability, state.frameskip) == (0.0, 4)


def observation(**changes: Any) -> AtariObservation:
    return AtariObservation(**{**SENT, **changes})


def test_an_array_of_the_wire_is_kept_as_it_is() -> None:
    sent = codec.to_msgpack({**SENT, "screen": numpy.arange(6, dtype=numpy.uint8).reshape(1, 2, 3)})
    value = codec.from_msgpack(bytearray(sent))
    seen = codec.decode(AtariObservation, value)
    assert seen.screen is value["screen"]
    assert seen.screen.flags.writeable


@pytest.mark.parametrize("shape", [[6], [2, 3], [1, 2, 3]])
def test_a_flat_list_gets_the_declared_shape(shape: list[int]) -> None:
    screen = observation(screen_shape=shape).screen
    assert (screen.shape, screen.flags.writeable) == (tuple(shape), True)


def test_a_screen_that_does_not_fit_its_shape_is_left_as_it_came() -> None:
    assert observation(screen_shape=[210, 160, 3]).screen == SENT["screen"]


@pytest.mark.parametrize("screen", [[1, 2, 3, 4, 5, 256], [1, 2, 3, 4, 5, -1], ["a"] * 6, 7])
def test_what_is_no_screen_is_a_decode_error(screen: object) -> None:
    with pytest.raises(DecodeError, match="AtariObservation"):
        codec.decode(AtariObservation, {**SENT, "screen": screen})


def test_without_numpy_the_screen_is_the_flat_list() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from envs.atari_env import AtariObservation\n"
        "from openenv.core import codec\n"
        f"seen = codec.decode(AtariObservation, {SENT!r})\n"
        "assert seen.screen == [1, 2, 3, 4, 5, 6], seen.screen\n"
        "assert seen.render().width == 4\n"
        f"assert seen.to_dict()['screen'] == {SENT['screen']!r}"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_numpy_is_imported_with_the_first_screen_and_not_before() -> None:
    code = (
        "import sys\nfrom envs.atari_env import AtariEnv, AtariObservation\n"
        "env = AtariEnv('http://127.0.0.1:1'); env._parse_result({})\n"
        "assert not {'numpy', 'ale_py'} & set(sys.modules)\n"
        f"AtariObservation(**{SENT!r})\n"
        "assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_observations_are_compared_by_their_pixels() -> None:
    assert observation() == observation(screen=numpy.array([[[1, 2, 3], [4, 5, 6]]], numpy.uint8))
    assert observation() != observation(screen=[1, 2, 3, 4, 5, 7])
    assert observation() != observation(lives=2)
    assert observation() != "a screen"


def test_dataclasses_json_agrees_with_the_wire() -> None:
    told = observation().to_dict()
    assert told["screen"] == SENT["screen"]
    assert AtariObservation.from_dict(told) == codec.decode(AtariObservation, told) == observation()
    assert AtariObservation.from_json(observation().to_json()) == observation()


def test_the_schema_says_that_a_screen_is_a_list_of_integers() -> None:
    screen = codec.json_schema(AtariObservation)["properties"]["screen"]
    assert screen == {"type": "array", "items": {"type": "integer"}}
