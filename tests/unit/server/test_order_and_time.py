"""docs/protocol.md, "Order and time" and "Capacity"."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from openenv.core.types import State
from tests.unit.server.asgi import ID, OTHER, Client, on_app, simulate, simulated_app
from tests.unit.server.envs import Counting, Heard, Say, World
from tests.unit.server.test_sessions import in_world

THIRD = "session-of-the-tests-03"


def blocked(seconds: float, limit: float | None = None) -> dict[str, Any]:
    return {"action": {"block": seconds}} | ({} if limit is None else {"timeout_s": limit})


def now() -> float:
    return asyncio.get_running_loop().time()


# --- order ------------------------------------------------------------------------------------------------------


def test_the_calls_of_a_session_run_in_the_order_of_their_arrival() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        order: list[int] = []

        async def step(number: int) -> None:
            await client.step(value={"action": {"block": 1.0, "number": number}})
            order.append(number)

        began = now()
        await asyncio.gather(*(step(number) for number in range(5)))
        assert order == [action["number"] for action in world.made[0].steps] == list(range(5))
        assert now() - began == pytest.approx(5.0)

    in_world(work)


def test_sessions_run_in_parallel() -> None:
    async def work(client: Client, world: World) -> None:
        began = now()
        for session in (ID, OTHER, THIRD):
            await client.reset(session)
        await asyncio.gather(*(client.step(session, value=blocked(5)) for session in (ID, OTHER, THIRD)))
        assert now() - began == pytest.approx(5.0)

    in_world(work)


def test_calls_that_wait_have_used_their_numbers_up() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        first, second = await asyncio.gather(client.step(seq=2, value=blocked(2)), client.step(seq=3))
        assert (first.value["observation"]["steps"], second.value["observation"]["steps"]) == (1, 2)
        assert (await client.step(seq=2, value=blocked(2))).code == "SEQ_MISMATCH"

    in_world(work)


# --- /state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("headers", "waits"), [({}, 10.0), ({"openenv-timeout": "2.5"}, 2.5)])
def test_a_state_waits_for_its_turn_within_its_limit(headers: dict[str, str], waits: float) -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        step = asyncio.create_task(client.step(value=blocked(15)))
        await asyncio.sleep(0)
        began = now()
        busy = await client.state(headers=headers)
        assert (busy.status, busy.code, now() - began) == (409, "SESSION_BUSY", pytest.approx(waits))
        assert (await step).status == 200
        assert (await client.state()).status == 200

    in_world(work)


def test_a_state_whose_turn_comes_in_time_is_answered() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        step, state = await asyncio.gather(client.step(value=blocked(9)), client.state())
        assert (step.status, state.status) == (200, 200)

    in_world(work)


@pytest.mark.parametrize("text", ["0", "-3", "soon", "nan", "inf"])
def test_a_malformed_limit_is_named(text: str) -> None:
    async def work(client: Client, world: World) -> None:
        answer = await client.reset(headers={"openenv-timeout": text})
        assert (answer.status, answer.code) == (422, "VALIDATION_ERROR")
        assert answer.detail["errors"][0]["loc"] == ["OpenEnv-Timeout"]

    in_world(work)


# --- 202 --------------------------------------------------------------------------------------------------------


def test_a_call_with_a_number_is_told_to_ask_again_after_25_seconds() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        answers = []
        while not answers or answers[-1].status == 202:
            began = now()
            answers.append(await client.step(seq=2, value=blocked(60)))
            assert now() - began <= 25.001
        assert [(a.status, a.seq) for a in answers] == [(202, "2"), (202, "2"), (200, "2")]
        assert answers[0].code == "STILL_RUNNING"
        assert answers[0].detail["running_s"] == pytest.approx(25.0)
        assert len(world.made[0].steps) == 1

    in_world(work)


def test_a_call_without_a_number_is_never_told_so() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        assert (await client.step(value=blocked(100))).status == 200

    in_world(work)


# --- overrun ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [None, 2])
def test_a_step_that_overruns_is_answered_504(seq: int | None) -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=None if seq is None else 1)
        began = now()
        answer = await client.step(seq=seq, value=blocked(10, limit=3))
        assert (answer.status, answer.code, answer.detail) == (504, "STEP_TIMEOUT", {"timeout_s": 3.0})
        assert now() - began == pytest.approx(3.0)
        assert answer.seq == (None if seq is None else "2")

    in_world(work)


def test_after_an_overrun_every_step_is_refused_until_a_reset() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        await client.step(seq=2, value=blocked(10, limit=3))
        refused = await client.step(seq=3)
        assert (refused.status, refused.code, refused.seq) == (409, "RESET_REQUIRED", None)
        await asyncio.sleep(20)  # the late result is there by now
        assert (await client.step(seq=3)).code == "RESET_REQUIRED"
        assert (await client.step(seq=2, value=blocked(10, limit=3))).code == "STEP_TIMEOUT"
        assert (await client.reset(seq=3)).status == 200
        assert (await client.step(seq=4)).value["observation"]["steps"] == 1

    in_world(work)


def test_a_reset_takes_a_new_environment_while_the_old_one_still_runs() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        await client.step(value=blocked(100, limit=1))
        assert (await client.reset()).value["observation"]["env"] == "env-1"
        assert (await client.call("GET", "/health")).value["sessions"]["active"] == 2
        await asyncio.sleep(110)
        assert [env.closed for env in world.made] == [1, 0]
        assert (await client.call("GET", "/health")).value["sessions"]["active"] == 1

    in_world(work)


def test_a_reset_keeps_the_environment_whose_late_step_has_ended() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        await client.step(value=blocked(5, limit=1))
        await asyncio.sleep(10)
        assert (await client.reset()).value["observation"]["env"] == "env-0"

    in_world(work)


def test_a_state_after_an_overrun_waits_for_the_environment() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        await client.step(value=blocked(30, limit=1))
        assert (await client.state()).code == "SESSION_BUSY"
        assert (await client.state(headers={"openenv-timeout": "60"})).status == 200

    in_world(work)


def test_a_step_that_overruns_before_its_turn_is_answered_504_and_never_runs() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        first, second = await asyncio.gather(client.step(value=blocked(10)), client.step(value=blocked(1, limit=2)))
        assert (first.status, second.status) == (200, 504)
        assert len(world.made[0].steps) == 1
        assert (await client.step()).code == "RESET_REQUIRED"

    in_world(work)


def test_a_step_queued_behind_one_that_overruns_is_refused() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        first, second = await asyncio.gather(client.step(seq=2, value=blocked(9, limit=1)), client.step(seq=3))
        assert (first.code, second.code, second.seq) == ("STEP_TIMEOUT", "RESET_REQUIRED", "3")
        assert len(world.made[0].steps) == 1

    in_world(work)


def test_a_reset_that_overruns_is_answered_504_and_has_to_be_made_again() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        limit = {"openenv-timeout": "2"}
        answer = await client.reset(seq=2, value={"block": 10}, headers=limit)
        assert (answer.status, answer.code, answer.detail) == (504, "RESET_TIMEOUT", {"timeout_s": 2.0})
        assert (await client.step(seq=3)).code == "RESET_REQUIRED"
        assert (await client.reset(seq=3)).value["observation"]["env"] == "env-1"

    in_world(work)


def test_a_first_reset_that_overruns_in_the_factory_is_504_and_keeps_its_number() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_blocks = 30
        limit = {"openenv-timeout": "2"}
        assert (await client.reset(seq=1, headers=limit)).code == "RESET_TIMEOUT"
        assert (await client.reset(seq=1, headers=limit)).headers["openenv-replayed"] == "true"
        await asyncio.sleep(40)
        assert (await client.reset(seq=2)).value["observation"]["env"] == "env-0"

    assert [env.resets for env in in_world(work).made] == [1]


def test_a_reset_overtakes_the_factory_that_still_runs() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_blocks = 30
        assert (await client.reset(seq=1, headers={"openenv-timeout": "2"})).status == 504
        world.factory_blocks = 0
        assert (await client.reset(seq=2)).status == 200
        await asyncio.sleep(60)
        assert world.open == 1

    in_world(work)


def test_an_environment_on_the_event_loop_is_held_to_its_limit_afterwards() -> None:
    class Slow(Counting):
        def step(self, action: Say) -> Heard:
            time.sleep(0.02)
            return super().step(action)

    async def work(client: Client) -> None:
        await client.reset()
        answer = await client.step(value={"action": {"message": "x"}, "timeout_s": 0.001})
        assert (answer.status, answer.code) == (504, "STEP_TIMEOUT")
        assert (await client.step()).code == "RESET_REQUIRED"

    on_app(work, Slow, action=Say)


def test_a_coroutine_that_overruns_is_cancelled() -> None:
    seen: list[str] = []

    class Waiting(Counting):
        async def step(self, action: Say) -> Heard:  # type: ignore[override]
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            raise AssertionError

    async def main() -> None:
        world = World()
        async with Client(simulated_app(Waiting, world.workers, Say)) as client:
            await client.reset()
            answer = await client.step(value={"action": {"message": "x"}, "timeout_s": 5})
            assert answer.code == "STEP_TIMEOUT"
            assert (await client.reset()).status == 200
            assert (await client.call("GET", "/health")).value["sessions"]["active"] == 1
        assert seen == ["cancelled"]

    simulate(main())


# --- failed resets ----------------------------------------------------------------------------------------------


def test_a_reset_that_failed_has_to_be_made_again() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        failed = await client.reset(seq=2, value={"raise": "no level"})
        assert (failed.status, failed.code, failed.seq) == (500, "EXECUTION_ERROR", "2")
        assert (await client.step(seq=3)).code == "RESET_REQUIRED"
        assert (await client.reset(seq=3)).status == 200
        assert (await client.step(seq=4)).status == 200

    in_world(work)


def test_a_step_that_raised_leaves_the_episode_as_it_is() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset()
        assert (await client.step(value={"action": {"raise": "no"}})).status == 500
        assert (await client.step()).value["observation"]["steps"] == 2

    in_world(work)


def test_a_factory_that_fails_for_an_old_session_leaves_it_at_reset_required() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        await client.step(seq=2, value=blocked(500, limit=1))
        world.factory_fails = "no more"
        failed = await client.reset(seq=3)
        assert (failed.status, failed.code, failed.seq) == (500, "FACTORY_ERROR", "3")
        assert (await client.state()).code == (await client.step(seq=4)).code == "RESET_REQUIRED"
        world.factory_fails = ""
        assert (await client.reset(seq=4)).status == 200

    in_world(work)


# --- DELETE -----------------------------------------------------------------------------------------------------


def test_a_delete_waits_for_nobody() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        step = asyncio.create_task(client.step(seq=2, value=blocked(50)))
        queued = asyncio.create_task(client.state())
        await asyncio.sleep(1)
        began = now()
        assert (await client.delete()).value == {"closed": True}
        for answer in (await step, await queued):
            assert (answer.status, answer.code, answer.detail) == (410, "SESSION_CLOSED", {"reason": "deleted"})
        assert now() == began
        assert world.open == 1  # it still runs
        await asyncio.sleep(60)
        assert world.open == 0

    in_world(work)


def test_a_delete_while_the_environment_is_made_leaves_none() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_blocks = 10
        reset = asyncio.create_task(client.reset(seq=1))
        await asyncio.sleep(1)
        await client.delete()
        assert (await reset).status == 410
        await asyncio.sleep(20)
        assert (len(world.made), world.open) == (1, 0)

    in_world(work)


# --- capacity ---------------------------------------------------------------------------------------------------


def test_a_reset_beyond_the_capacity_is_refused_at_once() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(ID)
        await client.reset(OTHER)
        began = now()
        full = await client.reset(THIRD, seq=1)
        assert (full.status, full.code, full.seq) == (503, "CAPACITY_REACHED", None)
        assert full.detail == {"active_sessions": 2, "max_sessions": 2}
        assert now() == began
        assert (await client.reset(None)).code == "CAPACITY_REACHED"
        assert (await client.step(ID)).status == 200

    assert len(in_world(work, max_sessions=2).made) == 2


def test_many_resets_at_once_never_exceed_the_capacity() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_blocks = 1.0
        answers = await asyncio.gather(*(client.reset(f"session-of-the-tests-{n:02}", seq=1) for n in range(9)))
        assert sorted(a.status for a in answers) == [200] * 3 + [503] * 6
        assert {a.seq for a in answers if a.status == 503} == {None}

    assert len(in_world(work, max_sessions=3).made) == 3


def test_an_abandoned_environment_keeps_its_slot_until_it_ends() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(seq=1)
        await client.step(seq=2, value=blocked(100, limit=1))
        full = await client.reset(seq=3)
        assert (full.status, full.code, full.seq) == (503, "CAPACITY_REACHED", None)
        await client.delete()
        assert (await client.reset(OTHER)).code == "CAPACITY_REACHED"
        await asyncio.sleep(100)
        assert (await client.reset(OTHER)).status == 200

    in_world(work, max_sessions=1)


def test_a_reset_waits_for_the_environment_that_is_just_being_closed() -> None:
    async def work(client: Client, world: World) -> None:
        world.close_blocks = 2.0
        await client.reset(ID)
        await client.delete(ID)
        began = now()
        assert (await client.reset(OTHER)).status == 200
        assert now() - began == pytest.approx(2.0)
        assert (world.open, len(world.made)) == (1, 2)

    in_world(work, max_sessions=1)


def test_a_close_that_takes_long_is_not_waited_for() -> None:
    async def work(client: Client, world: World) -> None:
        world.close_blocks = 60.0
        await client.reset(ID)
        await client.delete(ID)
        await asyncio.sleep(1)
        world.close_blocks = 0.0
        assert (await client.reset(OTHER)).code == "CAPACITY_REACHED"
        await asyncio.sleep(60)
        assert (await client.reset(OTHER)).status == 200

    in_world(work, max_sessions=1)


def test_a_factory_that_fails_gives_its_slot_back() -> None:
    async def work(client: Client, world: World) -> None:
        world.factory_fails = "no"
        for _ in range(3):
            assert (await client.reset()).code == "FACTORY_ERROR"
        assert (await client.call("GET", "/health")).value["sessions"] == {"active": 0, "max": 1}

    in_world(work, max_sessions=1)


# --- the end ----------------------------------------------------------------------------------------------------


def test_a_server_that_drains_answers_what_is_in_flight_and_refuses_new_calls() -> None:
    async def work(client: Client, world: World) -> None:
        await client.reset(ID)
        await client.reset(OTHER)
        quick = asyncio.create_task(client.step(ID, value=blocked(2)))
        slow = asyncio.create_task(client.step(OTHER, value=blocked(20)))
        await asyncio.sleep(0)
        client.app.engine.drain()
        began = now()
        for answer in (await client.step(ID), await client.reset(THIRD)):
            assert (answer.status, answer.code) == (503, "SHUTTING_DOWN")
        assert (await quick).status == 200
        assert (await slow).code == "SHUTTING_DOWN"
        assert now() - began < 5

    in_world(work)


def test_shutdown_closes_environments_that_never_return() -> None:
    world = World()

    async def main() -> None:
        client = Client(simulated_app(world.factory, world.workers))
        async with client:
            await client.reset()
            step = asyncio.create_task(client.step(value=blocked(10_000)))
            await asyncio.sleep(1)
            began = now()
        assert now() - began < 5
        assert (await step).code == "SHUTTING_DOWN"

    simulate(main())
    assert [env.closed for env in world.made] == [1]


def test_the_state_of_an_environment_that_was_never_reset_is_its_own() -> None:
    async def work(client: Client, world: World) -> None:
        assert (await client.state(None)).value == {"episode_id": "env-0", "step_count": State().step_count}

    in_world(work)
