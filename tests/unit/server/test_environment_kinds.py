"""What environments may look like, and where their methods run."""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from openenv.core.errors import ConfigurationError
from openenv.core.types import Observation, State
from openenv.server import Environment, create_app
from openenv.server.threads import Workers
from tests.unit.server.asgi import ID, OTHER, Client, on_app
from tests.unit.server.envs import Counting, Heard, Say

MAIN = threading.current_thread


class Noting(Environment[Say, Heard, State]):
    """Notes the thread of each of its calls."""

    def __init__(self) -> None:
        self.threads = [threading.get_ident()]
        self.count = 0

    def reset(self) -> Heard:
        self.threads.append(threading.get_ident())
        return Heard()

    def step(self, action: Say) -> Heard:
        self.threads.append(threading.get_ident())
        self.count += 1
        return Heard(message=action.message, count=self.count)

    @property
    def state(self) -> State:
        self.threads.append(threading.get_ident())
        return State(step_count=self.count)

    def close(self) -> None:
        self.threads.append(threading.get_ident())


async def play(client: Client) -> None:
    assert (await client.reset()).status == 200
    for count in (1, 2):
        assert (await client.step()).value["observation"]["count"] == count
    assert (await client.state()).value["step_count"] == 2
    await client.delete()


def played(kind: type, **options: Any) -> Any:
    """The environment of ``kind`` after one episode."""
    made: list[Any] = []

    def factory() -> Any:
        made.append(kind())
        return made[-1]

    on_app(play, factory, action=Say, **options)
    return made[0]


# --- where calls run --------------------------------------------------------------------------------------------


def test_a_blocking_environment_runs_off_the_event_loop() -> None:
    assert threading.get_ident() not in played(Noting).threads


def test_an_environment_that_does_not_block_runs_on_the_event_loop() -> None:
    class Quick(Noting):
        blocking = False

    env = played(Quick)
    assert set(env.threads[1:]) == {threading.get_ident()}
    assert len(env.threads) == 6


def test_a_thread_bound_environment_has_one_thread_for_all_its_calls() -> None:
    class Bound(Noting):
        thread_bound = True

    made: list[Bound] = []

    def factory() -> Bound:
        made.append(Bound())
        return made[-1]

    async def work(client: Client) -> None:
        for _ in range(3):
            await asyncio.gather(client.reset(ID), client.reset(OTHER))
            await asyncio.gather(client.step(ID), client.step(OTHER))

    on_app(work, factory, action=Say)
    threads = [set(env.threads) for env in made]
    assert [len(ids) for ids in threads] == [1, 1]
    assert threads[0] != threads[1]
    assert all(len(env.threads) == 8 for env in made)  # made, 3 resets, 3 steps, closed


def test_coroutines_run_on_the_event_loop() -> None:
    class Coroutines:
        def __init__(self) -> None:
            self.count = 0
            self.closed = False

        async def reset(self) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {}

        async def step(self, action: Say) -> Heard:
            await asyncio.sleep(0)
            self.count += 1
            return Heard(count=self.count)

        async def state(self) -> State:
            return State(step_count=self.count)

        async def close(self) -> None:
            self.closed = True

    assert played(Coroutines).closed


def test_plain_and_coroutine_methods_may_be_mixed() -> None:
    class Mixed(Noting):
        async def step(self, action: Say) -> Heard:  # type: ignore[override]
            await asyncio.sleep(0)
            return super().step(action)

    env = played(Mixed)
    assert env.threads[2:4] == [threading.get_ident()] * 2
    assert threading.get_ident() not in env.threads[4:]


def test_a_state_may_be_a_method() -> None:
    class WithMethod(Counting):
        def __init__(self) -> None:
            self.count = 0

        def reset(self) -> Heard:  # type: ignore[override]
            return Heard()

        def step(self, action: Say) -> Heard:
            self.count += 1
            return Heard(count=self.count)

        def state(self) -> dict[str, int]:  # type: ignore[override]
            return {"step_count": self.count}

    played(WithMethod)


def test_an_environment_need_not_have_close() -> None:
    class Bare:
        def __init__(self) -> None:
            self.state = State()

        def reset(self) -> Heard:
            return Heard()

        def step(self, action: Say) -> Heard:
            self.state.step_count += 1
            return Heard(count=self.state.step_count)

    played(Bare)


def test_a_close_that_fails_is_logged_and_frees_its_slot(caplog: pytest.LogCaptureFixture) -> None:
    class Clinging(Counting):
        def close(self) -> None:
            raise OSError("stuck")

    async def work(client: Client) -> None:
        for session in (ID, OTHER):
            assert (await client.reset(session)).status == 200
            await client.delete(session)

    on_app(work, Clinging, action=Say, max_sessions=1)
    assert "Clinging.close() failed" in caplog.text


def test_idle_threads_end() -> None:
    async def main() -> None:
        workers = Workers()
        await asyncio.gather(*(workers.run(int) for _ in range(5)))
        assert workers.count == 5
        workers.end_idle(longer_than_s=0.0)
        assert workers.count == 0
        assert await workers.run(threading.current_thread) is not threading.main_thread()

    asyncio.run(main())


def test_a_thread_is_used_again() -> None:
    async def main() -> None:
        workers = Workers()
        threads = {await workers.run(threading.get_ident) for _ in range(20)}
        assert (len(threads), workers.count) == (1, 1)

    asyncio.run(main())


# --- options of reset -------------------------------------------------------------------------------------------


def reset_with(kind: type, value: dict[str, Any]) -> Any:
    async def work(client: Client) -> Any:
        return await client.reset(value=value)

    return on_app(work, kind, action=Say)


def test_seed_and_episode_id_need_not_be_declared() -> None:
    assert reset_with(Noting, {"seed": 3, "episode_id": "e"}).status == 200


def test_an_option_that_the_environment_does_not_have_is_named() -> None:
    answer = reset_with(Counting, {"seed": 3, "levl": 2, "size": 1})
    assert (answer.status, answer.code) == (422, "VALIDATION_ERROR")
    assert answer.detail["errors"][0]["loc"] == ["levl"]
    assert "levl, size; it has episode_id, level, seed" in answer.value["error"]["message"]


def test_an_environment_with_any_options_gets_all_of_them() -> None:
    class Any_(Counting):
        def reset(self, **options: Any) -> Heard:  # type: ignore[override]
            return Heard(metadata=options)

    given = {"seed": 3, "anything": [1, {"a": None}]}
    assert reset_with(Any_, given).value["metadata"] == given


def test_a_missing_option_is_named() -> None:
    class Needing(Counting):
        def reset(self, level: int) -> Heard:  # type: ignore[override]
            return Heard(count=level)

    answer = reset_with(Needing, {})
    assert (answer.status, answer.detail["errors"][0]["loc"]) == (422, ["level"])
    assert reset_with(Needing, {"level": 4}).value["observation"]["count"] == 4


@pytest.mark.parametrize("value", [{"seed": "7"}, {"seed": 1.5}, {"seed": True}, {"episode_id": 7}])
def test_seed_and_episode_id_are_checked(value: dict[str, Any]) -> None:
    answer = reset_with(Counting, value)
    assert (answer.status, answer.detail["errors"][0]["loc"]) == (422, list(value))


def test_a_step_that_asks_for_its_limit_gets_it() -> None:
    class Limited(Counting):
        def step(self, action: Say, timeout_s: float | None = None) -> Heard:
            return Heard(message=repr(timeout_s))

    async def work(client: Client) -> None:
        await client.reset()
        for given, got in ((2.5, "2.5"), (None, "None"), (0, "None")):
            step = await client.step(value={"action": {"message": "x"}, "timeout_s": given})
            assert step.value["observation"]["message"] == got

    on_app(work, Limited, action=Say)


# --- actions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "loc"),
    [
        ({"action": {}}, ["action", "message"]),
        ({"action": {"message": 3}}, ["action", "message"]),
        ({"action": {"message": "x", "extra": 1}}, ["action", "extra"]),
        ({"mesage": "x"}, ["action", "mesage"]),
        ({"action": "x"}, ["action", "action"]),
        ({"action": {"message": "x"}, "timeout_s": "soon"}, ["timeout_s"]),
        ({"action": {"message": "x"}, "timeout_s": -1}, ["timeout_s"]),
        ({"action": {"message": "x"}, "timeout_s": True}, ["timeout_s"]),
        ([], []),
        ("text", []),
    ],
)
def test_a_bad_step_names_the_field_and_the_session_lives_on(value: Any, loc: list[Any]) -> None:
    async def work(client: Client) -> None:
        await client.reset()
        answer = await client.step(value=value)
        assert (answer.status, answer.code) == (422, "VALIDATION_ERROR")
        assert answer.detail["errors"][0]["loc"] == loc
        assert answer.detail["errors"][0]["msg"]
        assert (await client.step()).value["observation"]["count"] == 1

    on_app(work, Counting, action=Say)


def test_a_field_deep_in_an_action_is_named() -> None:
    @dataclass(kw_only=True)
    class Nested(Say):
        moves: list[dict[str, int]] = field(default_factory=list)

    async def work(client: Client) -> None:
        answer = await client.step(None, value={"action": {"message": "x", "moves": [{"up": "no"}]}})
        assert answer.detail["errors"][0]["loc"][:2] == ["action", "moves"]

    on_app(work, Counting, action=Nested)


# --- results ----------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Full(Observation):
    value: Any = None
    terminated: bool | None = None
    truncated: bool | None = None


def stepped(result: Any, **options: Any) -> Any:
    class Giving(Counting):
        def step(self, action: Say) -> Any:
            return result() if isinstance(result, type) else result

    async def work(client: Client) -> Any:
        await client.reset()
        answer = await client.step()
        assert (await client.state()).status == 200
        return answer

    return on_app(work, Giving, action=Say, **options)


@pytest.mark.parametrize("reward", [None, True, 1, 0, 1.0, -0.5])
def test_a_reward_travels_as_it_is(reward: Any) -> None:
    got = stepped(Full(reward=reward)).value["reward"]
    assert (got, type(got)) == (reward, type(reward))


def test_terminated_and_truncated_stand_beside_the_observation() -> None:
    answer = stepped(Full(done=True, terminated=True, truncated=False))
    assert answer.value == {
        "observation": {"value": None},
        "reward": None,
        "done": True,
        "terminated": True,
        "truncated": False,
    }


def test_what_the_environment_does_not_say_is_left_out() -> None:
    assert stepped(Full()).value == {"observation": {"value": None}, "reward": None, "done": False}


def test_an_observation_may_be_a_dict() -> None:
    assert stepped({"x": 1, "reward": 2, "done": True}).value == {"observation": {"x": 1}, "reward": 2, "done": True}


@pytest.mark.parametrize("result", [None, 7, "text"])
def test_a_result_that_is_no_observation_is_named(result: Any) -> None:
    answer = stepped(result)
    assert (answer.status, answer.code) == (500, "EXECUTION_ERROR")
    assert "Giving.step must return a dataclass or a dict" in answer.value["error"]["message"]


def test_a_coroutine_from_a_plain_method_is_named() -> None:
    class Wrong(Counting):
        def step(self, action: Say) -> Any:
            async def later() -> Heard:
                return Heard()

            return later()

    async def work(client: Client) -> None:
        answer = await client.step(None)
        assert (answer.status, "declare it with async def" in answer.value["error"]["message"]) == (500, True)

    on_app(work, Wrong, action=Say)


@pytest.mark.parametrize(("value", "path"), [(math.nan, "observation.value"), ({"a": [object()]}, "value.a[0]")])
def test_what_cannot_travel_is_an_error_that_names_its_path(value: Any, path: str) -> None:
    answer = stepped(Full(value=value))
    assert (answer.status, answer.code) == (500, "ENCODE_ERROR")
    assert path in answer.value["error"]["message"]


# --- errors -----------------------------------------------------------------------------------------------------


class Failing(Counting):
    def step(self, action: Say) -> Heard:
        if action.message == "exit":
            raise SystemExit(3)
        if action.message == "stop":
            raise StopIteration("no more")
        raise ValueError(f"no {action.message}")


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("message", "kind"), [("good", "ValueError"), ("exit", "SystemExit"), ("stop", "StopIteration")]
)
def test_an_environment_that_raises_is_500_with_its_type(message: str, kind: str, blocking: bool) -> None:
    class Kind(Failing):
        pass

    Kind.blocking = blocking

    async def work(client: Client) -> None:
        await client.reset()
        for _ in range(2):
            answer = await client.step(value={"action": {"message": message}})
            assert (answer.status, answer.code, answer.detail) == (500, "EXECUTION_ERROR", {"type": kind})
        assert (await client.state()).status == 200

    on_app(work, Kind, action=Say)


def test_the_traceback_is_told_where_the_server_allows_it() -> None:
    async def work(client: Client) -> Any:
        await client.reset()
        return (await client.step()).detail["traceback"]

    trace = on_app(work, Failing, action=Say, tracebacks=True)
    assert "ValueError: no hi" in trace
    assert __file__ in trace


def test_the_server_logs_what_an_environment_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def work(client: Client) -> None:
        await client.reset()
        await client.step(headers={"x-request-id": "r-77"})

    on_app(work, Failing, action=Say)
    assert "r-77" in caplog.text
    assert "ValueError: no hi" in caplog.text


# --- create_app -------------------------------------------------------------------------------------------------


def test_an_instance_is_no_factory() -> None:
    with pytest.raises(ConfigurationError, match="Give the class itself"):
        create_app(Counting(), Say, Heard)  # type: ignore[arg-type]


def test_an_abstract_environment_names_what_it_lacks() -> None:
    class Half(Environment[Say, Heard, State]):
        def reset(self) -> Heard:
            return Heard()

    with pytest.raises(ConfigurationError, match="lacks step"):
        create_app(Half, Say, Heard)


def test_a_factory_of_something_else_is_named() -> None:
    async def work(client: Client) -> None:
        answer = await client.reset()
        assert (answer.code, "which has no method reset" in answer.value["error"]["message"]) == ("FACTORY_ERROR", True)

    on_app(work, lambda: 7)


def test_a_thread_bound_environment_with_coroutines_is_refused() -> None:
    class Both(Noting):
        thread_bound = True

        async def step(self, action: Say) -> Heard:  # type: ignore[override]
            return Heard()

    assert reset_with(Both, {}).code == "FACTORY_ERROR"


def test_what_is_not_given_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "5")
    monkeypatch.setenv("OPENENV_TRACEBACKS", "1")
    monkeypatch.setenv("OPENENV_TOKEN", "sesame")
    monkeypatch.setenv("OPENENV_SESSION_IDLE", "7.5")

    async def work(client: Client) -> None:
        assert (await client.call("GET", "/health")).value["sessions"]["max"] == 5
        assert (await client.reset()).status == 401
        known = {"authorization": "Bearer sesame"}
        await client.reset(headers=known)
        assert "traceback" in (await client.step(headers=known)).detail

    on_app(work, Failing, action=Say)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAX_CONCURRENT_ENVS", "many"),
        ("MAX_CONCURRENT_ENVS", "0"),
        ("OPENENV_SESSION_IDLE", "-1"),
        ("OPENENV_TOKEN", "ä"),
    ],
)
def test_a_variable_that_cannot_work_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=variable):
        create_app(Counting, Say, Heard)
