"""An asynchronous client used from plain code: every type survives the wrapper. Checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type

from envs.echo_env.models import EchoAction, EchoObservation, EchoState
from openenv.core.env_client import EnvClient
from openenv.core.generic_client import GenericEnvClient
from openenv.core.hooks import TypedHooks
from openenv.core.sync_client import SyncEnvClient
from openenv.core.types import StepResult


class AsyncEcho(TypedHooks[EchoAction, EchoObservation, EchoState], EnvClient[EchoAction, EchoObservation, EchoState]):
    pass


class Mine(SyncEnvClient[EchoAction, EchoObservation, EchoState]):
    pass


def an_episode(client: AsyncEcho) -> None:
    with client.sync() as env:
        assert_type(env, SyncEnvClient[EchoAction, EchoObservation, EchoState])
        assert_type(env.reset(), StepResult[EchoObservation])
        assert_type(env.reset(seed=7, level="hard").observation.echoed_message, str)
        assert_type(env.step(EchoAction(message="x"), timeout_s=None), StepResult[EchoObservation])
        assert_type(env.state(), EchoState)
        assert_type(env.new_session(), SyncEnvClient[EchoAction, EchoObservation, EchoState])
        assert_type(env.async_client, EnvClient[EchoAction, EchoObservation, EchoState])


def the_parameters_are_those_of_the_client(client: AsyncEcho) -> None:
    assert_type(SyncEnvClient(client), SyncEnvClient[EchoAction, EchoObservation, EchoState])
    assert_type(SyncEnvClient(client).connect(), SyncEnvClient[EchoAction, EchoObservation, EchoState])


def a_subclass_stays_one(client: AsyncEcho) -> None:
    with Mine(client) as env:
        assert_type(env, Mine)
        assert_type(env.connect(), Mine)
        assert_type(env.new_session(), Mine)


def without_model_classes() -> None:
    with GenericEnvClient("http://127.0.0.1:8000").sync() as env:
        assert_type(env.step({"code": "print('hello')"}), StepResult[dict[str, Any]])
        assert_type(env.state(), dict[str, Any])


def the_hooks_and_what_only_the_async_client_has(env: Mine) -> None:
    assert_type(env._step_payload(EchoAction(message="x")), dict[str, Any])
    assert_type(env._parse_result({}), StepResult[EchoObservation])
    assert_type(env._parse_state({}), EchoState)
    assert_type(env.call_tool("echo", text="x"), Any)


def mistakes_are_seen(env: Mine, client: AsyncEcho) -> None:
    env.step("hello")  # type: ignore[arg-type]
    env.reset().observation.text  # type: ignore[attr-defined]  # noqa: B018
    env.async_client = client  # type: ignore[misc]
    SyncEnvClient("http://127.0.0.1:8000")  # type: ignore[arg-type]
