"""What TorchRL and verifiers call, in their order and by their names; the packages themselves are in tests/training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envs.echo_env import EchoAction, EchoEnv
from examples.cart_pole import CartPoleEnv, Push
from openenv import AutoAction, AutoEnv
from openenv.core import CallToolAction, GenericEnvClient
from openenv.core.errors import ConfigurationError, EpisodeNotBegun
from openenv.server import create_app
from openenv.server.thread import serve_in_thread
from openenv.server.tools import ToolEnvironment, tool

Make = Callable[[str], Any]

synchronous = pytest.mark.parametrize("make", [CartPoleEnv, lambda url: GenericEnvClient(url).sync()])


class Calculator(ToolEnvironment):
    @tool
    def add(self, a: int, b: int) -> int:
        """Add two integers."""
        return a + b


@pytest.fixture(scope="module")
def tools_url() -> Iterator[str]:
    with serve_in_thread(create_app(Calculator, dict, dict)) as url:
        yield url


def motion(result: Any) -> Any:
    seen = result.observation
    return seen["motion"] if isinstance(seen, dict) else seen.motion


@synchronous
def test_as_torchrl_wraps_a_client(make: Make, cart_url: str) -> None:
    given = make(cart_url)
    env = given.sync() if callable(getattr(given, "sync", None)) and isinstance(given, CartPoleEnv) else given
    connect = env.connect
    assert not inspect.iscoroutinefunction(connect)
    connect()
    env.set_seed(5)
    result = env.reset()
    assert not inspect.isawaitable(result)
    result = env.step({"right": 1})
    assert (result.reward, result.done) == (1.0, False)
    env.disconnect()
    env.close()


@synchronous
def test_one_seed_decides_all_later_episodes(make: Make, cart_url: str) -> None:
    env = make(cart_url)

    def three(seed: int) -> list[Any]:
        env.set_seed(seed)
        return [motion(env.reset()) for _ in range(3)]

    first = three(5)
    assert three(5) == first
    assert three(6) != first
    assert first[0] == motion(env.reset(seed=5))
    env.close()


def test_the_seeds_are_the_servers_again_when_none_is_set(cart_url: str) -> None:
    with CartPoleEnv(cart_url) as env:
        env.set_seed(5)
        first = motion(env.reset())
        env.set_seed(None)
        assert motion(env.reset()) != first


def test_a_client_that_disconnected_has_no_episode_and_can_begin_one(cart_url: str) -> None:
    with CartPoleEnv(cart_url) as env:
        env.reset()
        env.disconnect()
        with pytest.raises(EpisodeNotBegun):
            env.step(Push(right=1))
        env.reset()
        env.step(Push(right=1))


def test_disconnecting_leaves_the_server_that_a_client_owns_running() -> None:
    with EchoEnv.from_process() as env:
        env.reset()
        env.disconnect()
        assert env.reset().observation.echoed_message


def test_torchrl_finds_clients_and_actions_by_name(echo_url: str) -> None:
    with AutoEnv.from_env("echo-env", base_url=echo_url) as env:
        assert type(env) is EchoEnv
        env.reset()
        assert env.step(AutoAction.from_env("echo-env")(message="hi")).observation.echoed_message == "hi"
    assert AutoAction.from_env("echo") is EchoAction


def test_an_environment_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"envs\.chess_env"):
        AutoEnv.from_env("chess")


async def _verifiers(url: str) -> tuple[str, dict[str, Any], float]:
    client = GenericEnvClient(base_url=url)
    async with client:
        base_url = client._base_url
        assert base_url is not None
        action = (await client.schema())["action"]
        total = 0.0
        result = await client.reset(seed=1)
        while total < 0.5 and not result.done:
            result = await client.step({"message": "ab"})
            total += float(result.reward or 0.0)
    return base_url.replace("ws://", "http://", 1), action, total


def test_as_verifiers_runs_an_environment(echo_url: str) -> None:
    import asyncio

    base_url, action, total = asyncio.run(_verifiers(echo_url))
    assert base_url == echo_url
    assert (action["title"], action["required"]) == ("EchoAction", ["message"])
    assert total == pytest.approx(0.6)


def test_verifiers_sees_that_an_environment_has_tools(tools_url: str) -> None:
    with GenericEnvClient(tools_url).sync() as env:
        schema = env.schema()["action"]
        assert schema["title"] == "CallToolAction"
        assert schema == CallToolAction.model_json_schema()
        env.reset()
        tools = env.step({"type": "list_tools"}).observation["tools"]
        assert [tool["name"] for tool in tools] == ["add"]
        result = env.step(CallToolAction(tool_name="add", arguments={"a": 2, "b": 3}))
        assert result.observation["result"]["data"] == 5
