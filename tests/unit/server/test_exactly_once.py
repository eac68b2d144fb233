"""docs/protocol.md, "Exactly once"."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openenv.server import memory
from tests.unit.server.asgi import ID, OTHER, Answer, Client, on_app
from tests.unit.server.envs import Counting, Say, World
from tests.unit.server.test_sessions import in_world


def on(work: Any, **options: Any) -> Any:
    return on_app(work, Counting, action=Say, **options)


def replayed(answer: Answer) -> bool:
    return answer.headers.get("openenv-replayed") == "true"


def test_the_next_number_runs() -> None:
    async def work(client: Client) -> None:
        answers = [await client.reset(seq=1), await client.step(seq=2), await client.step(seq=3)]
        assert [(a.status, a.seq, replayed(a)) for a in answers] == [(200, str(n), False) for n in (1, 2, 3)]

    on(work)


def test_a_reset_may_jump_ahead() -> None:
    async def work(client: Client) -> None:
        assert (await client.reset(seq=5)).status == 200
        assert (await client.reset(seq=9)).status == 200
        assert (await client.step(seq=10)).status == 200

    on(work)


def test_a_step_may_not_jump_ahead() -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        answer = await client.step(seq=3)
        assert (answer.status, answer.code, answer.detail["expected"]) == (409, "SEQ_MISMATCH", 2)
        assert answer.seq is None
        assert (await client.step(seq=2)).value["observation"]["count"] == 1

    on(work)


@pytest.mark.parametrize("call", ["reset", "step"])
def test_a_number_below_the_last_one_is_refused(call: str) -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        await client.step(seq=2)
        await client.step(seq=3)
        answer = await getattr(client, call)(seq=2)
        assert (answer.status, answer.code, answer.detail["expected"]) == (409, "SEQ_MISMATCH", 4)
        assert (await client.state()).value["step_count"] == 2

    on(work)


def test_the_last_number_again_is_answered_from_memory() -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        first = await client.step(seq=2)
        again = await client.step(seq=2)
        assert (first.body, first.seq, replayed(first)) == (again.body, again.seq, False)
        assert replayed(again)
        assert (await client.state()).value["step_count"] == 1

    on(work)


def test_a_reset_is_repeated_from_memory_too() -> None:
    async def work(client: Client, world: World) -> None:
        assert (await client.reset(seq=1)).body == (await client.reset(seq=1)).body
        assert world.made[0].resets == 1

    in_world(work)


def test_the_last_number_again_waits_for_the_one_that_runs() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        value = {"action": {"block": 3.0}}
        first, second, third = await asyncio.gather(*(client.step(seq=2, value=value) for _ in range(3)))
        assert first.body == second.body == third.body
        assert [replayed(a) for a in (first, second, third)] == [False, True, True]
        assert len(world.made[0].steps) == 1

    in_world(work)


def test_two_resets_of_a_new_session_with_one_number_make_one_environment() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_blocks = 2.0
        first, second = await asyncio.gather(client.reset(seq=1), client.reset(seq=1))
        assert (first.status, first.body) == (second.status, second.body)

    assert [env.resets for env in in_world(work).made] == [1]


def test_the_last_number_with_another_body_is_refused() -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        await client.step(seq=2)
        for answer in (
            await client.step(seq=2, value={"action": {"message": "other"}}),
            await client.reset(seq=2),
            await client.step(seq=2, body=b'{"action":  {"message":"hi"}}'),
        ):
            assert (answer.status, answer.code, answer.seq) == (422, "SEQ_REUSED", None)
        assert (await client.state()).value["step_count"] == 1

    on(work)


def test_long_bodies_are_told_apart_by_a_digest() -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        long = {"action": {"message": "x" * 5000}}
        assert (await client.step(seq=2, value=long)).status == 200
        assert replayed(await client.step(seq=2, value=long))
        assert (await client.step(seq=2, value={"action": {"message": "x" * 4999 + "y"}})).code == "SEQ_REUSED"

    on(work)


def test_an_answer_is_forgotten_after_two_minutes() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        await client.step(seq=2)
        await asyncio.sleep(119)
        assert replayed(await client.step(seq=2))
        await asyncio.sleep(7)
        gone = await client.step(seq=2)
        assert (gone.status, gone.code, gone.seq) == (409, "REPLY_GONE", None)
        assert (await client.step(seq=3)).value["observation"]["steps"] == 2

    in_world(work)


def test_an_answer_that_is_too_large_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "REPLY_BYTES", 1000)

    async def work(client: Client) -> None:
        await client.reset(seq=1)
        long = {"action": {"message": "x" * 1000}}
        assert (await client.step(seq=2, value=long)).status == 200
        assert (await client.step(seq=2, value=long)).code == "REPLY_GONE"
        assert (await client.step(seq=3)).status == 200
        assert replayed(await client.step(seq=3))

    on(work)


def test_the_answers_of_a_server_are_bounded_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TOTAL_BYTES", 5000)

    async def work(client: Client) -> None:
        long = {"action": {"message": "x" * 2000}}
        for session in (ID, OTHER):
            await client.reset(session, seq=1)
            await client.step(session, seq=2, value=long)
        third = "session-of-the-tests-03"
        await client.reset(third, seq=1)
        await client.step(third, seq=2, value=long)
        assert (await client.step(ID, seq=2, value=long)).code == "REPLY_GONE"
        assert replayed(await client.step(OTHER, seq=2, value=long))
        assert replayed(await client.step(third, seq=2, value=long))

    on(work)


@pytest.mark.parametrize(
    ("value", "status"), [({"action": {}}, 422), ([1], 422), ({"action": {"message": "x"}, "timeout_s": -1}, 422)]
)
def test_a_bad_body_uses_its_number_up(value: Any, status: int) -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        bad = await client.step(seq=2, value=value)
        assert (bad.status, bad.seq) == (status, "2")
        assert replayed(await client.step(seq=2, value=value))
        assert (await client.step(seq=3)).value["observation"]["count"] == 1

    on(work)


def test_an_environment_that_raises_uses_the_number_up() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        value = {"action": {"raise": "no"}}
        failed, again = await client.step(seq=2, value=value), await client.step(seq=2, value=value)
        assert (failed.status, failed.seq) == (500, "2")
        assert (again.status, again.body, replayed(again)) == (500, failed.body, True)
        assert len(world.made[0].steps) == 1

    in_world(work)


def test_answers_before_a_number_is_accepted_use_up_nothing() -> None:
    async def work(client: Client, world: World) -> None:
        assert (await client.step(seq=1)).seq is None  # 404
        assert (await client.reset(seq=1, body=b"{", headers={"content-length": "1"})).seq is None  # 400
        assert (await client.reset(seq=1, headers={"host": "example.com"})).seq is None  # 403
        assert (await client.reset(seq=1, body=b"x", headers={"content-type": "text/plain"})).seq is None  # 415
        assert (await client.reset(seq=1)).status == 200

    in_world(work)


def test_a_factory_that_fails_for_a_new_session_uses_up_nothing() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_fails = "no game"
        failed = await client.reset(seq=1)
        assert (failed.status, failed.code, failed.seq) == (500, "FACTORY_ERROR", None)
        assert (failed.value["error"]["message"], failed.detail) == ("no game", {"type": "OSError"})
        assert (await client.step(seq=2)).status == 404
        world.factory_fails = ""
        assert (await client.reset(seq=1)).seq == "1"

    in_world(work)


def test_calls_without_a_number_run_and_leave_the_count_alone() -> None:
    async def work(client: Client) -> None:
        await client.reset(seq=1)
        assert (await client.step()).seq is None
        answer = await client.step(seq=2)
        assert (answer.status, answer.value["observation"]["count"]) == (200, 2)

    on(work)


@pytest.mark.parametrize("seq", ["0", "-1", "x", "1.0", "1_0", "9" * 30, ""])
def test_a_malformed_number_is_named(seq: str) -> None:
    async def work(client: Client) -> None:
        answer = await client.reset(seq=seq)
        assert (answer.status, answer.code, answer.seq) == (422, "VALIDATION_ERROR", None)
        assert answer.detail["errors"][0]["loc"] == ["OpenEnv-Seq"]

    on(work)


# --- clients without numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", [ID, None])
def test_the_same_request_id_in_the_body_repeats_the_last_answer(session: str | None) -> None:
    async def work(client: Client) -> None:
        await client.reset(session)
        value = {"action": {"message": "hi"}, "request_id": "r-1"}
        first, again = await client.step(session, value=value), await client.step(session, value=value)
        assert (first.body, replayed(first), replayed(again)) == (again.body, False, True)
        await client.step(session, value={**value, "request_id": "r-2"})
        assert not replayed(await client.step(session, value=value))
        assert (await client.state(session)).value["step_count"] == 3

    on(work)


def test_the_same_request_id_on_another_route_is_another_call() -> None:
    async def work(client: Client) -> None:
        await client.reset(value={"request_id": "r-1"})
        assert not replayed(await client.step(value={"action": {"message": "hi"}, "request_id": "r-1"}))

    on(work)


def test_the_same_request_id_waits_for_the_call_that_runs() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        value = {"action": {"block": 3.0}, "request_id": "r-1"}
        first, again = await asyncio.gather(client.step(value=value), client.step(value=value))
        assert (first.body, replayed(again)) == (again.body, True)
        assert len(world.made[0].steps) == 1

    in_world(work)
