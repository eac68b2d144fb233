"""Trainers as they are released, on environments of this project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openenv.server.thread import serve_in_thread

pytestmark = pytest.mark.timeout(420)

#: What no model may read of a server, a container or the way to them.
INFRASTRUCTURE = re.compile(r"error|http|connect|server|container|process|exit|127\.0\.0\.1|traceback", re.I)


@pytest.fixture(scope="module")
def mortal_url() -> Iterator[str]:
    from tests.training.mortal import app

    with serve_in_thread(app) as url:
        yield url


def answers(heard: list[str]) -> list[str]:
    return [text for prompt in heard for text in re.findall(r"<tool_response>\n(.*?)\n</tool_response>", prompt, re.S)]


def test_ppo_learns_to_balance_the_pole(run_with: Callable[..., str]) -> None:
    told = run_with("sb3", "-m", "examples.train_cart_pole")
    (found,) = re.finditer(r"mean return at random ([\d.]+), after training ([\d.]+)", told)
    random, trained = float(found[1]), float(found[2])
    assert random < 40
    assert trained > 5 * random


def test_wrapped_atari_frames_are_those_of_the_emulator(told_by: Callable[..., Any]) -> None:
    told = told_by("sb3", "atari_wrappers.py")
    assert told["same"]
    assert told["shape"] == [4, 84, 84]
    assert told["episodes"] > 0
    assert 'obs_type="grayscale"' in told["told"]


def test_the_examples_of_the_page_run_those_with_atari_wrappers_too(run_with: Callable[..., str]) -> None:
    assert "1 passed" in run_with("sb3", "-m", "pytest", "-q", "tests/integrations/test_trainers_page.py")


def test_a_data_loader_plays_in_its_workers(run_with: Callable[..., str]) -> None:
    assert "the same returns" in run_with("sb3", "-m", "examples.many_processes", "DataLoader")


def test_grpo_rewards_what_the_environment_paid(told_by: Callable[..., Any], mortal_url: str) -> None:
    told = told_by("trl", "trl_rollouts.py", "a,bb,ccc,dddd", mortal_url)
    assert told["rewards"] == [pytest.approx(0.25)] * 2
    assert told["failures"] == [0, 0]
    assert any(told["losses"])
    assert {'{"echoed_message":"ccc","message_length":3}'} < set(answers(told["heard"]))
    function = told["schema"]["function"]
    assert (function["name"], function["description"]) == ("echo", "Say `message`.")
    assert function["parameters"]["properties"] == {"message": {"type": "string", "description": "The message."}}
    assert function["parameters"]["required"] == ["message"]


def test_a_model_reads_what_it_did_wrong(told_by: Callable[..., Any], mortal_url: str) -> None:
    told = told_by("trl", "trl_rollouts.py", "stumble,bb,bb,bb", mortal_url)
    assert any("a stone was in the way" in text for text in answers(told["heard"]))
    assert told["failures"] == [0.25, 0.25]


def test_a_server_that_dies_is_neither_read_by_the_model_nor_rewarded(told_by: Callable[..., Any]) -> None:
    told = told_by("trl", "trl_rollouts.py", "die,bb,bb,bb")
    assert told["rewards"] == [pytest.approx(0.2)] * 2  # of the three that lived; the next step had a new server
    assert answers(told["heard"]).count("") == 2
    assert not [text for text in answers(told["heard"]) if INFRASTRUCTURE.search(text)]


def test_torchrl_finds_nothing_wrong_and_seeds(told_by: Callable[..., Any]) -> None:
    told = told_by("torchrl", "torchrl_env.py")
    assert told["first"] == told["again"]
    assert told["reward"] == 5.0


def test_verifiers_plays_an_episode(told_by: Callable[..., Any], echo_url: str) -> None:
    told = told_by("verifiers", "verifiers_run.py", echo_url)
    assert told["rewards"] == {"openenv_reward": pytest.approx(0.7)}
    assert [turn.get("observation", {}).get("message_length") for turn in told["heard"]] == [0, 5, 2, None]
    assert told["heard"][0]["action_schema"]["title"] == "EchoAction"


@pytest.mark.docker
def test_skyrl_drives_a_container(told_by: Callable[..., Any], echo_image: str) -> None:
    first, last = told_by("skyrl", "skyrl_env.py", echo_image.partition(":")[0])
    assert first[:2] == [pytest.approx(0.5), False]
    assert last[:2] == [pytest.approx(0.2), True]
    assert "hello" in first[2]
