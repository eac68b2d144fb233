"""What a type checker sees where people use an environment. Checked by mypy, never run."""

from __future__ import annotations

from typing import assert_type

from envs.echo_env import EchoAction, EchoEnv, EchoObservation, EchoState
from openenv.core import StepResult


def an_episode() -> None:
    with EchoEnv.from_docker_image("echo-env:latest", env_vars={"A": "b"}) as env:
        assert_type(env, EchoEnv)
        assert_type(env.reset(), StepResult[EchoObservation])
        result = env.reset(seed=7, episode_id="e", level="hard")
        assert_type(result.observation.echoed_message, str)
        assert_type(result.done, bool)
        assert_type(result.reward, bool | int | float | None)
        assert_type(env.step(EchoAction(message="x"), timeout_s=None), StepResult[EchoObservation])
        assert_type(env.state(), EchoState)
        assert_type(env.state().step_count, int)


def other_ways_to_make_one() -> None:
    assert_type(EchoEnv.from_process(), EchoEnv)
    assert_type(EchoEnv("http://127.0.0.1:8000", 30, {"A": "b"}), EchoEnv)


def mistakes_are_seen(env: EchoEnv) -> None:
    env.step("hello")  # type: ignore[arg-type]
    EchoAction(messsage="x")  # type: ignore[call-arg]
    env.reset().observation.text  # type: ignore[attr-defined]  # noqa: B018
