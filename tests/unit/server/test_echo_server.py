"""The echo environment's server behaves as echo has since the first generation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from envs.echo_env.server.app import app
from envs.echo_env.server.environment import EchoEnvironment
from openenv.server.app import create_app
from tests.unit.server.asgi import OTHER, Client


def on(work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    from envs.echo_env.models import EchoAction, EchoObservation, EchoState

    async def main() -> None:
        echo = create_app(EchoEnvironment, EchoAction, EchoObservation, EchoState, name="echo_env")
        async with Client(echo) as client:
            await work(client)

    asyncio.run(main())


def test_a_reset_greets() -> None:
    async def work(client: Client) -> None:
        assert (await client.reset()).value == {
            "observation": {"echoed_message": "Echo environment ready!", "message_length": 0},
            "reward": 0.0,
            "done": False,
        }

    on(work)


def test_a_step_echoes_and_pays_a_tenth_for_each_character() -> None:
    async def work(client: Client) -> None:
        await client.reset()
        for count, message in enumerate(["Hello", "", "Grüße 🎉"], 1):
            step = (await client.step(value={"action": {"message": message}})).value
            metadata = {"original_message": message, "step": count}
            assert step == {
                "observation": {"echoed_message": message, "message_length": len(message), "metadata": metadata},
                "reward": len(message) * 0.1,
                "done": False,
                "metadata": metadata,
            }

    on(work)


def test_an_episode_is_new_with_each_reset() -> None:
    async def work(client: Client) -> None:
        ids = []
        for _ in range(2):
            await client.reset()
            await client.step()
            state = (await client.state()).value
            assert (UUID(state["episode_id"]).version, state["step_count"]) == (4, 1)
            ids.append(state["episode_id"])
        assert ids[0] != ids[1]
        await client.reset(value={"episode_id": "mine", "seed": 7})
        assert (await client.state()).value == {"episode_id": "mine", "step_count": 0}

    on(work)


def test_sessions_do_not_share_an_episode() -> None:
    async def work(client: Client) -> None:
        await client.reset()
        await client.reset(OTHER)
        await client.step()
        assert [(await client.state(session)).value["step_count"] for session in (OTHER, None)] == [0, 0]

    on(work)


def test_the_app_is_what_uvicorn_is_given() -> None:
    async def main() -> None:
        async with Client(app) as client:
            assert (await client.call("GET", "/health")).value["name"] == "echo_env"
            schema = (await client.call("GET", "/schema")).value
            assert schema["action"]["required"] == ["message"]
            assert set(schema["observation"]["properties"]) > {"echoed_message", "message_length", "reward", "done"}

    asyncio.run(main())
