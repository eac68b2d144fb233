"""Calls of many sessions in one request: each as if it had come alone."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from openenv.core import codec
from openenv.server import create_app
from tests.unit.server.asgi import Answer, Client, simulate, simulated_app
from tests.unit.server.envs import Counting, Heard, Say, World

ONE, TWO, THREE = (f"session-of-the-batch-{n}" for n in ("one", "two", "three"))
INSTANT = {"calls": []}


def step(session: str, seq: int, message: str = "hi", limit: float | None = None) -> list[Any]:
    return [session, seq, "step", limit, {"action": {"message": message}}]


def reset(session: str, seq: int = 1, **options: Any) -> list[Any]:
    return [session, seq, "reset", None, options]


async def batch(client: Client, *calls: Any, **more: Any) -> list[list[Any]]:
    answer = await client.call("POST", "/batch", {"calls": list(calls), **more})
    assert answer.status == 200, answer
    replies: list[list[Any]] = answer.value["replies"]
    assert [reply[0] for reply in replies] == [call[0] for call in calls]
    return replies


def app(**options: Any) -> Any:
    return create_app(Counting, Say, Heard, **options)


def test_each_session_is_answered_as_if_it_were_alone() -> None:
    async def main() -> None:
        async with Client(app()) as client:
            begun = await batch(client, reset(ONE, seed=1), reset(TWO, seed=2))
            assert [reply[1:4] for reply in begun] == [[1, 200, False]] * 2
            assert [reply[4]["observation"]["metadata"]["seed"] for reply in begun] == [1, 2]
            stepped = await batch(client, step(TWO, 2, "two"), step(ONE, 2, "one"), [ONE, None, "state", None, {}])
            assert [reply[4]["observation"]["message"] for reply in stepped[:2]] == ["two", "one"]
            assert stepped[2][4]["step_count"] == 1
            alone = await client.call("POST", "/step", {"action": {"message": "x"}}, session=ONE, seq=3)
            assert alone.value["observation"]["count"] == 2

    asyncio.run(main())


def test_two_calls_of_a_session_run_in_their_order() -> None:
    async def main() -> None:
        async with Client(app()) as client:
            replies = await batch(client, reset(ONE), step(ONE, 2, "a"), step(ONE, 3, "b"))
            assert [reply[4]["observation"]["message"] for reply in replies] == ["begun", "a", "b"]

    asyncio.run(main())


def test_a_batch_that_comes_again_does_nothing_again() -> None:
    async def main() -> None:
        async with Client(app()) as client:
            await batch(client, reset(ONE), reset(TWO))
            first = await batch(client, step(ONE, 2), step(TWO, 2))
            again = await batch(client, step(ONE, 2), step(TWO, 2))
            assert [reply[4] for reply in again] == [reply[4] for reply in first]
            assert [reply[3] for reply in again] == [True, True]
            assert (await batch(client, step(ONE, 2, "other")))[0][2] == 422

    asyncio.run(main())


def test_the_same_call_alone_and_in_a_batch_is_one_call_in_either_encoding() -> None:
    body = {"action": {"message": "once"}, "timeout_s": 15}

    async def main() -> None:
        async with Client(app()) as client:
            await batch(client, reset(ONE))
            alone = await client.call("POST", "/step", body, session=ONE, seq=2)
            (reply,) = await batch(client, [ONE, 2, "step", 15, body])
            assert reply[2:4] == [200, True]
            assert reply[4] == alone.value
            packed = await client.call(
                "POST",
                "/batch",
                {"calls": [[ONE, 2, "step", 15, body]]},
                headers={"accept": codec.MSGPACK},
            )
            assert packed.media == codec.MSGPACK
            assert packed.value["replies"][0][4] == alone.value

    asyncio.run(main())


def test_one_that_fails_does_not_disturb_the_others() -> None:
    async def main() -> None:
        async with Client(app(max_sessions=2)) as client:
            replies = await batch(client, reset(ONE), reset(TWO), reset(THREE))
            assert [reply[2] for reply in replies] == [200, 200, 503]
            assert replies[2][1] is None
            replies = await batch(client, step(ONE, 2), [TWO, 2, "step", None, {"action": {}}], step(THREE, 2))
            assert [reply[2] for reply in replies] == [200, 422, 404]
            assert replies[1][4]["error"]["detail"]["errors"][0]["loc"] == ["action", "message"]
            assert [reply[1] for reply in replies] == [2, 2, None]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("entry", "status", "told"),
    [
        ([ONE, None, "step", None, {}], 422, "needs a number"),
        ([ONE, 0, "reset", None, {}], 422, "needs a number"),
        ([ONE, 1, "fly", None, {}], 422, "must be reset, step or state"),
        (["", 1, "reset", None, {}], 400, "session of your own"),
        (["short", 1, "reset", None, {}], 400, "session id"),
        ([ONE, 1, "reset", -1, {}], 422, "above 0"),
        ([ONE, 1, "reset", None, []], 422, "must be an object"),
        ([ONE, None, "state", None, {}], 404, "does not hold"),
    ],
)
def test_an_entry_that_cannot_be_used_says_why(entry: list[Any], status: int, told: str) -> None:
    async def main() -> None:
        async with Client(app()) as client:
            begun, wrong = await batch(client, reset(TWO), entry)
            assert begun[2] == 200
            assert wrong[2] == status
            assert told in wrong[4]["error"]["message"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"{", 400, "cannot be read"),
        (b"[]", 422, "batch"),
        (b"{}", 422, "calls"),
        (b'{"calls": [[1, 2]]}', 422, "calls"),
        (b'{"calls": [], "min_ready": -1}', 422, "min_ready"),
        (b'{"calls": [], "within_s": -1}', 422, "within_s"),
        (b'{"calls": [' + b",".join([b'["a", 1, "step", null, {}]'] * 8193) + b"]}", 422, "at most 8192"),
    ],
)
def test_what_is_no_batch_is_refused_whole(body: bytes, status: int, told: str) -> None:
    async def main() -> Answer:
        async with Client(app()) as client:
            return await client.call("POST", "/batch", body=body)

    answer = asyncio.run(main())
    assert answer.status == status
    assert told in answer.value["error"]["message"]


def test_an_empty_batch_is_answered_by_nothing() -> None:
    async def main() -> None:
        async with Client(app()) as client:
            assert await batch(client) == []

    asyncio.run(main())


def blocked(session: str, seq: int, seconds: float, limit: float | None = None) -> list[Any]:
    return [session, seq, "step", limit, {"action": {"block": seconds}}]


def in_world(world: World, play: Any) -> None:
    async def main() -> None:
        async with Client(simulated_app(world.factory, world.workers, max_sessions=8)) as client:
            await batch(client, reset(ONE), reset(TWO), reset(THREE))
            await play(client, asyncio.get_running_loop().time)

    simulate(main())


def test_blocking_environments_work_at_the_same_time() -> None:
    async def play(client: Client, now: Any) -> None:
        start = now()
        replies = await batch(client, *(blocked(session, 2, 3.0) for session in (ONE, TWO, THREE)))
        assert now() - start == pytest.approx(3.0, abs=0.1)
        assert [reply[2] for reply in replies] == [200] * 3

    in_world(World(), play)


@pytest.mark.parametrize(("more", "after"), [({"min_ready": 1}, 1.0), ({"within_s": 2}, 2.0), ({"min_ready": 0}, 0.0)])
def test_stragglers_are_fetched_by_asking_again(more: dict[str, Any], after: float) -> None:
    async def play(client: Client, now: Any) -> None:
        start = now()
        calls = [blocked(ONE, 2, 1.0), blocked(TWO, 2, 9.0)]
        first = await batch(client, *calls, **more)
        assert now() - start == pytest.approx(after, abs=0.1)
        done = [reply[2] for reply in first]
        assert done == ([200, 202] if after >= 1 else [202, 202])
        assert all(reply[1] == 2 for reply in first)
        again = await batch(client, *calls)
        assert now() - start == pytest.approx(9.0, abs=0.1)
        assert [reply[2:4] for reply in again] == [[200, True], [200, True]]

    in_world(World(), play)


def test_a_batch_says_that_it_still_runs_after_25_seconds() -> None:
    async def play(client: Client, now: Any) -> None:
        start = now()
        (reply,) = await batch(client, blocked(ONE, 2, 40.0))
        assert now() - start == pytest.approx(25.0, abs=0.1)
        assert reply[2] == 202
        (reply,) = await batch(client, blocked(ONE, 2, 40.0))
        assert now() - start == pytest.approx(40.0, abs=0.1)
        assert reply[2] == 200

    in_world(World(), play)


def test_the_limit_of_one_is_its_own() -> None:
    async def play(client: Client, now: Any) -> None:
        start = now()
        replies = await batch(client, blocked(ONE, 2, 50.0, 2.0), blocked(TWO, 2, 3.0))
        assert now() - start == pytest.approx(3.0, abs=0.1)
        assert [reply[2] for reply in replies] == [504, 200]

    in_world(World(), play)


def test_health_says_that_there_are_batches() -> None:
    async def main() -> None:
        async with Client(app()) as client:
            assert (await client.call("GET", "/health")).value["batch"] is True

    asyncio.run(main())


def test_who_asks_is_told_how_long_the_server_took() -> None:
    async def main() -> None:
        async with Client(app()) as client:
            asked = await client.call("POST", "/batch", INSTANT, headers={"openenv-timing": "1"})
            assert asked.headers["server-timing"].startswith("app;dur=")
            assert "server-timing" not in (await client.call("POST", "/batch", INSTANT)).headers

    asyncio.run(main())


def test_arrays_travel_in_batches() -> None:
    numpy = pytest.importorskip("numpy")

    class Pictures(Counting):
        def step(self, action: Say) -> Any:
            return {"picture": numpy.full((2, 3), 7, dtype="uint8")}

    async def main() -> None:
        async with Client(create_app(Pictures, Say, dict)) as client:
            await batch(client, reset(ONE))
            packed = msgspec.msgpack.encode({"calls": [step(ONE, 2)]})
            headers = {"accept": codec.MSGPACK, "content-type": codec.MSGPACK}
            answer = await client.call("POST", "/batch", body=packed, headers=headers)
            picture = answer.value["replies"][0][4]["observation"]["picture"]
            assert (picture == numpy.full((2, 3), 7)).all()
            assert picture.dtype == "uint8"

    asyncio.run(main())
