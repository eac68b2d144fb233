"""The adapters on every generation of servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from envs.echo_env import EchoEnv
from openenv.core import GenericHTTPEnvClient, ToolEnv
from openenv.core.errors import ConfigurationError
from openenv.integrations.gymnasium import to_gymnasium
from openenv.integrations.spaces import Text
from openenv.integrations.trl import environment_factory

Make = Callable[..., Any]


@pytest.mark.filterwarnings("ignore:.*alternative render modes:UserWarning")
@pytest.mark.parametrize("version", ["0.3.0", "0.10.0", "ours"])
def test_gymnasium_reads_the_schemas_of_every_server_that_has_them(server: Make, version: str) -> None:
    with to_gymnasium(GenericHTTPEnvClient(server(version, "echo").url)) as env:
        assert isinstance(env.action_space, Text)
        assert set(env.observation_space.spaces) == {"echoed_message", "message_length"}  # type: ignore[attr-defined]
        check_env(env)
        env.reset(seed=1)
        assert env.step("hello")[0]["message_length"] == 5


def test_the_first_generation_tells_no_schemas_and_works_with_given_spaces(server: Make) -> None:
    url = server("0.1.1", "echo").url
    with GenericHTTPEnvClient(url) as client, pytest.raises(ConfigurationError, match="Give observation_space"):
        to_gymnasium(client)
    with to_gymnasium(
        GenericHTTPEnvClient(url),
        observation="message_length",
        observation_space=spaces.Discrete(100),
        action="message",
        action_space=Text(20),
    ) as env:
        env.reset(seed=1)
        assert env.step("hello")[:2] == (5, pytest.approx(0.5))


@pytest.mark.parametrize("version", ["0.1.1", "0.3.0", "0.10.0", "ours"])
def test_rollouts_of_trl_play_on_every_server(server: Make, version: str) -> None:
    environment: Any = environment_factory(EchoEnv, server(version, "echo").url)()
    environment.reset(seed=3, prompt="x")
    assert "hello" in environment.echo(message="hello")
    assert environment.get_reward() == pytest.approx(0.5)
    environment._close()


@pytest.mark.parametrize("version", ["0.3.0", "0.10.0"])
def test_tools_of_every_server_are_tools_of_the_model(server: Make, version: str) -> None:
    environment: Any = environment_factory(ToolEnv, server(version, "tools").url)()
    assert get_type_hints(environment.add) == {"a": int, "b": int, "return": str}
    environment.reset()
    assert environment.add(a=2, b=3) == "5"
    with pytest.raises(ValueError, match="for no reason"):
        environment.fail(reason="for no reason")
    assert environment.calls() == "1"
    environment._close()
