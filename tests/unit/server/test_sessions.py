"""docs/protocol.md, "Sessions"."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from openenv.core import codec
from openenv.server import memory
from tests.unit.server.asgi import ID, OTHER, Client, on_app, simulate, simulated_app
from tests.unit.server.envs import Counting, Say, World


def in_world(work: Callable[[Client, World], Coroutine[Any, Any, None]], **options: Any) -> World:
    """Run ``work`` against simulated environments; afterwards all of them are closed exactly once."""
    world = World()

    async def main() -> None:
        async with Client(simulated_app(world.factory, world.workers, **options)) as client:
            await work(client, world)

    simulate(main())
    assert [env.closed for env in world.made] == [1] * len(world.made)
    return world


def on(work: Any, **options: Any) -> Any:
    return on_app(work, Counting, action=Say, **options)


# --- 1 ----------------------------------------------------------------------------------------------------------


def test_the_first_reset_that_names_an_id_makes_the_session() -> None:
    async def work(client: Client, world: World) -> None:
        first, second = await client.reset(ID), await client.reset(OTHER)
        assert [first.value["observation"]["env"], second.value["observation"]["env"]] == ["env-0", "env-1"]
        again = await client.reset(ID)
        assert again.value["observation"]["env"] == "env-0"

    in_world(work)


def test_every_call_of_a_session_is_answered_with_its_id_and_the_instance() -> None:
    async def work(client: Client) -> None:
        health = await client.call("GET", "/health")
        calls = [
            await client.step(ID),
            await client.reset(ID),
            await client.step(ID),
            await client.state(ID),
            await client.step(ID, value={"action": {}}),
            await client.delete(ID),
            await client.reset(ID),
        ]
        assert [answer.status for answer in calls] == [404, 200, 200, 200, 422, 200, 410]
        assert {answer.headers["openenv-session"] for answer in calls} == {ID}
        assert {answer.headers["openenv-instance"] for answer in calls} == {health.value["instance"]}

    on(work)


def test_the_instance_is_new_at_each_start() -> None:
    async def work(client: Client) -> str:
        return (await client.reset()).headers["openenv-instance"]

    assert on(work) != on(work)


# --- 2 ----------------------------------------------------------------------------------------------------------


def test_an_idle_session_ends_and_its_environment_is_closed() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        await client.step()
        await asyncio.sleep(99)
        assert (await client.state()).status == 200
        await asyncio.sleep(99)
        assert world.open == 1
        await asyncio.sleep(10)
        late = await client.step()
        assert (late.status, late.code, late.detail) == (410, "SESSION_CLOSED", {"reason": "expired"})
        assert world.open == 0

    in_world(work, idle_s=100)


def test_a_session_that_was_never_stepped_ends_after_a_minute() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        await asyncio.sleep(59)
        assert world.open == 1
        await asyncio.sleep(7)
        assert world.open == 0

    in_world(work)


def test_a_call_that_runs_is_not_idle() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        assert (await client.step(value={"action": {"block": 500}})).status == 200

    in_world(work, idle_s=20)


# --- 3 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["reset", "step", "state"])
def test_a_deleted_session_is_remembered_as_closed(call: str) -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        assert (await client.delete()).value == {"closed": True}
        late = await getattr(client, call)()
        assert (late.status, late.code, late.detail) == (410, "SESSION_CLOSED", {"reason": "deleted"})

    assert len(in_world(work).made) == 1


def test_deleting_an_unknown_id_keeps_a_late_reset_from_making_it() -> None:
    async def work(client: Client, world: World) -> None:
        assert (await client.delete()).value == {"closed": False}
        assert (await client.reset()).status == 410

    assert in_world(work).made == []


def test_closed_ids_are_forgotten_after_ten_minutes() -> None:
    async def work(client: Client, world: World) -> None:
        await client.delete()
        await asyncio.sleep(599)
        assert (await client.reset()).status == 410
        await asyncio.sleep(2)
        assert (await client.reset()).status == 200

    in_world(work)


def test_the_memory_of_closed_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TOMBSTONES", 3)
    stones = memory.Tombstones()
    for number in range(5):
        stones.add(b"%d" % number, "deleted", float(number))
    assert [stones.reason(b"%d" % number, 5.0) for number in range(5)] == [None, None, *["deleted"] * 3]


# --- 4 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["step", "state"])
def test_calls_of_an_unknown_session_never_make_one(call: str) -> None:
    async def work(client: Client, world: World) -> None:
        answer = await getattr(client, call)()
        assert (answer.status, answer.code) == (404, "SESSION_NOT_FOUND")

    assert in_world(work).made == []


# --- 5 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["reset", "step", "state"])
def test_calls_without_an_id_share_the_default_session(first: str) -> None:
    async def work(client: Client, world: World) -> None:
        answers = [await getattr(client, name)(None) for name in (first, "reset", "step", "state")]
        assert [answer.status for answer in answers] == [200] * 4
        assert {answer.headers["openenv-session"] for answer in answers} == {"default"}

    assert len(in_world(work).made) == 1


def test_the_default_session_does_not_expire() -> None:
    async def work(client: Client, world: World) -> None:
        await client.step(None)
        await asyncio.sleep(100_000)
        assert (await client.step(None)).value["observation"]["steps"] == 2

    in_world(work, idle_s=10)


def test_a_server_without_a_default_session_asks_for_one() -> None:
    async def work(client: Client, world: World) -> None:
        for answer in (await client.reset(None), await client.step(None), await client.state(None)):
            assert (answer.status, answer.code) == (400, "SESSION_REQUIRED")

    assert in_world(work, default_session=False).made == []


def test_the_default_session_cannot_be_deleted() -> None:
    async def work(client: Client) -> None:
        answer = await client.delete(None)
        assert (answer.status, answer.code) == (400, "SESSION_REQUIRED")

    on(work)


def test_a_number_without_a_session_counts_for_nothing() -> None:
    async def work(client: Client) -> None:
        answers = [await client.reset(None, seq=9), await client.step(None, seq=4), await client.step(None, seq=4)]
        assert [(answer.status, answer.seq) for answer in answers] == [(200, None)] * 3
        assert (await client.state(None)).value["step_count"] == 2

    on(work)


@pytest.mark.parametrize(
    "bad", ["default", "short", "x" * 65, "spaces are not allowed here", "unicode-ä-is-no-good-either"]
)
def test_a_malformed_id_is_refused(bad: str) -> None:
    async def work(client: Client) -> None:
        for answer in (await client.reset(bad), await client.step(bad), await client.delete(bad)):
            assert (answer.status, answer.code) == (400, "INVALID_SESSION_ID")

    on(work)


# --- 6 ----------------------------------------------------------------------------------------------------------


def test_ids_may_stand_in_the_body() -> None:
    async def work(client: Client) -> None:
        instance = (await client.call("GET", "/health")).value["instance"]

        async def call(method: str, path: str, seq: int | None, **more: Any) -> Any:
            ids = {"session": ID} if seq is None else {"session": ID, "seq": seq}
            answer = await client.call(method, path, {**more, "openenv": ids})
            assert answer.value.pop("openenv") == {"session": ID, "instance": instance, "seq": seq}
            return answer.value

        assert (await call("POST", "/reset", 1, level=3))["metadata"]["level"] == 3
        first = await call("POST", "/step", 2, action={"message": "a"})
        assert first == await call("POST", "/step", 2, action={"message": "a"})
        assert (await call("POST", "/step", 3, message="bare"))["observation"] == {"message": "bare", "count": 2}
        assert (await call("POST", "/state", None))["step_count"] == 2
        assert (await call("POST", "/step", 4, action={}))["error"]["code"] == "VALIDATION_ERROR"
        assert await call("POST", "/session/close", None) == {"closed": True}
        assert await call("DELETE", "/session", None) == {"closed": False}

    on(work)


def test_ids_in_a_messagepack_body_are_answered_there() -> None:
    async def work(client: Client) -> None:
        body = codec.to_msgpack({"openenv": {"session": ID, "seq": 1}})
        headers = {"accept": codec.MSGPACK, "content-type": codec.MSGPACK}
        reset = await client.call("POST", "/reset", body=body, headers=headers)
        assert (reset.media, reset.value["openenv"]["session"]) == (codec.MSGPACK, ID)

    on(work)


def test_headers_win_over_the_body() -> None:
    async def work(client: Client) -> None:
        reset = await client.reset(ID, seq=1, value={"openenv": {"session": OTHER, "seq": 5}})
        assert (reset.headers["openenv-session"], reset.seq) == (ID, "1")
        assert "openenv" not in reset.value

    on(work)


@pytest.mark.parametrize("ids", [7, {"seq": 1}, {"session": 5}, {"session": ID, "seq": "x"}, {"session": ID, "seq": 0}])
def test_malformed_ids_in_the_body_are_named(ids: Any) -> None:
    async def work(client: Client) -> None:
        answer = await client.call("POST", "/reset", {"openenv": ids})
        assert (answer.status, answer.code, answer.seq) == (422, "VALIDATION_ERROR", None)

    on(work)


# --- logs -------------------------------------------------------------------------------------------------------


def test_logs_show_six_characters_of_an_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "openenv.server")

    async def work(client: Client, world: World) -> None:
        await client.reset()
        await asyncio.sleep(70)

    in_world(work)
    assert "sessio..." in caplog.text
    assert ID[:8] not in caplog.text
