"""What existing code relies on in the coding environment's models and client."""

from __future__ import annotations

import pytest

from envs.coding_env import CodeAction, CodeObservation, CodeState, CodingEnv
from openenv.core.errors import DecodeError


@pytest.fixture
def env() -> CodingEnv:
    return CodingEnv("http://127.0.0.1:1")


def test_the_payload_is_the_code(env: CodingEnv) -> None:
    assert env._step_payload(CodeAction(code="print(1)")) == {"code": "print(1)"}
    assert CodeAction("x") == CodeAction(code="x")


def test_a_result_has_stdout_stderr_and_exit_code(env: CodingEnv) -> None:
    sent = {"stdout": "a", "stderr": "b", "exit_code": 3}
    result = env._parse_result({"observation": sent, "reward": 0.0, "done": False})
    assert result.observation == CodeObservation(stdout="a", stderr="b", exit_code=3, reward=0.0)
    assert (result.reward, result.done) == (0.0, False)


@pytest.mark.parametrize(("sent", "done"), [(1, True), (0, False), (None, False), (True, True)])
def test_done_is_made_a_bool(env: CodingEnv, sent: object, done: bool) -> None:
    assert env._parse_result({"observation": {}, "done": sent}).done is done


def test_an_observation_with_metadata_still_parses(env: CodingEnv) -> None:
    result = env._parse_result({"observation": {"stdout": "a", "metadata": {"last_code": "x"}}, "done": False})
    assert result.observation.metadata == {"last_code": "x"}


def test_an_observation_that_says_nothing_has_defaults(env: CodingEnv) -> None:
    seen = env._parse_result({"observation": {}}).observation
    assert (seen.stdout, seen.stderr, seen.exit_code, seen.reward, seen.done) == ("", "", 0, None, False)


def test_an_answer_without_observation_is_a_key_error(env: CodingEnv) -> None:
    with pytest.raises(KeyError, match="observation"):
        env._parse_result({"reward": 0.0, "done": False})


def test_an_exit_code_that_is_no_number_is_a_decode_error(env: CodingEnv) -> None:
    with pytest.raises(DecodeError, match="exit_code"):
        env._parse_result({"observation": {"exit_code": "0"}})


def test_state_has_the_last_exit_code(env: CodingEnv) -> None:
    sent = {"episode_id": "e", "step_count": 2, "last_exit_code": 1}
    assert env._parse_state(sent) == CodeState(episode_id="e", step_count=2, last_exit_code=1)
    assert env._parse_state({}).last_exit_code == 0
