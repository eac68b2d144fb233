"""The contract of SyncEnvClient, line by line, over asynchronous clients of these tests' own."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import typing
import weakref
from collections.abc import AsyncIterator, Awaitable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import openenv.core
from openenv.core.env_client import EnvClient
from openenv.core.errors import ClientClosed, ConcurrentUse
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from openenv.core.types import StepResult

NAME = "openenv-sync-client-loop"
WAIT = 10.0

Env = SyncEnvClient[Any, Any, Any]


class Fake:
    """An asynchronous client that writes down what was done to it, and where."""

    plain_value = 7
    _private_value = 8

    def __init__(self, log: list[Any] | None = None, name: str = "") -> None:
        self.log: list[Any] = [] if log is None else log
        self.name = name
        self.threads: list[threading.Thread] = []
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.fails: dict[str, BaseException] = {}
        self.made: list[Fake] = []
        self.next_session: Fake | None = None

    async def _note(self, what: str, *details: Any) -> None:
        await asyncio.sleep(0)
        self.log.append((self.name + what, *details))
        self.threads.append(threading.current_thread())
        self.loops.append(asyncio.get_running_loop())
        if what in self.fails:
            raise self.fails[what]

    async def _connect_async(self) -> None:
        await self._note("connect")

    async def _disconnect_async(self) -> None:
        await self._note("disconnect")

    async def _reset_async(self, **options: Any) -> Any:
        await self._note("reset", options)
        return self.result

    async def _step_async(self, action: Any, **options: Any) -> Any:
        await self._note("step", action, options)
        return self.result

    async def _state_async(self) -> Any:
        await self._note("state")
        return {"step_count": 3}

    async def _close_async(self) -> None:
        await self._note("close")

    def _create_session_client(self) -> Fake:
        self.log.append((self.name + "create",))
        if "create" in self.fails:
            raise self.fails["create"]
        made = self.next_session or type(self)(self.log, f"{self.name}{len(self.made)}.")
        self.made.append(made)
        return made

    result = object()

    def _step_payload(self, action: Any) -> Any:
        return ("payload", action)

    def _parse_result(self, payload: Any) -> Any:
        return ("result", payload)

    def _parse_state(self, payload: Any) -> Any:
        return ("state", payload)

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        return threading.current_thread(), args, kwargs

    async def tool(self, *args: Any, **kwargs: Any) -> Any:
        """What the tool does."""
        await asyncio.sleep(0)
        return threading.current_thread(), args, kwargs

    def awaitable(self) -> Awaitable[Any]:
        return self.tool()

    async def stream(self) -> AsyncIterator[int]:
        yield 1


class Claiming(Fake):
    """A client that wants to know whether plain code or coroutines use it."""

    refuses = False

    def _claim_execution_mode(self, mode: str) -> None:
        self.log.append((self.name + "claim", mode))
        if self.refuses:
            raise RuntimeError("already being used in async mode")


def wrap(client: Any = None) -> Env:
    return SyncEnvClient(client or typing.cast("Any", Fake()))


def loop_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == NAME}


def thread_of(env: Env) -> threading.Thread:
    thread = env._loop_thread
    assert isinstance(thread, threading.Thread)
    return thread


def loop_of(env: Env) -> asyncio.AbstractEventLoop:
    loop = env._loop
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop


def gone(threads: set[threading.Thread]) -> bool:
    """Whether all of these end; each is given time."""
    for thread in threads:
        thread.join(WAIT)
    return not any(thread.is_alive() for thread in threads)


def script(text: str) -> subprocess.CompletedProcess[str]:
    """Run it in an interpreter of its own, with every warning shown; it finds the fake of these tests as `Fake`."""
    head = "import asyncio, os, signal, sys, threading, time\nfrom openenv.core import SyncEnvClient\n"
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", head + inspect.getsource(Quiet) + textwrap.dedent(text)],
        cwd=Path(openenv.core.__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class Quiet:
    """As little of an asynchronous client as will do."""

    async def _connect_async(self):  # type: ignore[no-untyped-def]
        return None

    async def _disconnect_async(self):  # type: ignore[no-untyped-def]
        print("disconnected", flush=True)  # noqa: T201

    async def _close_async(self):  # type: ignore[no-untyped-def]
        return None

    async def _state_async(self):  # type: ignore[no-untyped-def]
        return 5


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = loop_threads()
    yield
    if loop_threads() - before:
        gc.collect()
    assert gone(loop_threads() - before), "a loop outlived the test"


# --- making one ---


def test_the_constructor_takes_one_argument_async_client() -> None:
    client: Any = Fake()
    assert list(inspect.signature(SyncEnvClient).parameters) == ["async_client"]
    assert SyncEnvClient(async_client=client).async_client is client


def test_construction_starts_no_thread_and_calls_nothing() -> None:
    before, client = threading.active_count(), Claiming()
    env = wrap(client)
    assert threading.active_count() == before
    assert client.log == []
    assert env._loop is None


def test_async_client_is_a_read_only_view_of_the_wrapped_object() -> None:
    client = Fake()
    env = wrap(client)
    assert env.async_client is typing.cast("Any", client)
    with pytest.raises(AttributeError):
        env.async_client = Fake()  # type: ignore[misc, assignment]
    assert env.async_client is typing.cast("Any", client)


def test_it_is_generic_in_three_parameters() -> None:
    assert len(SyncEnvClient.__parameters__) == 3  # type: ignore[attr-defined]
    assert typing.get_args(SyncEnvClient[int, str, bytes]) == (int, str, bytes)


# --- the loop ---


def test_connect_awaits_the_async_connect_and_returns_the_wrapper_itself() -> None:
    client = Fake()
    env = wrap(client)
    assert env.connect() is env
    assert client.log == [("connect",)]
    env.close()


def test_coroutines_run_on_another_thread_a_daemon_called_openenv_sync_client_loop() -> None:
    client = Fake()
    env = wrap(client)
    env.connect()
    (thread,) = client.threads
    assert thread is not threading.current_thread()
    assert thread.daemon
    assert thread.name == NAME
    env.close()


def test_one_loop_and_one_thread_serve_every_call_of_a_wrapper() -> None:
    client = Fake()
    env = wrap(client)
    env.connect()
    env.reset()
    env.step(1)
    env.state()
    env.disconnect()
    env.close()
    assert len(client.log) == 6
    assert len(set(client.threads)) == len(set(client.loops)) == 1


def test_two_wrappers_have_two_loops_and_two_threads() -> None:
    one, two = wrap().connect(), wrap().connect()
    assert one._loop is not two._loop
    assert one._loop_thread is not two._loop_thread
    one.close()
    assert two.state() == {"step_count": 3}
    two.close()


def test_reset_passes_keywords_through_and_returns_the_result_unchanged() -> None:
    client = Fake()
    env = wrap(client)
    assert env.reset(seed=1, episode_id="e", level=None) is client.result
    assert client.log == [("reset", {"seed": 1, "episode_id": "e", "level": None})]
    env.close()


def test_step_passes_the_action_object_and_keywords_through() -> None:
    client, action = Fake(), object()
    env = wrap(client)
    assert env.step(action, timeout_s=2.5) is client.result
    ((_, sent, options),) = client.log
    assert sent is action
    assert options == {"timeout_s": 2.5}
    env.close()


def test_state_returns_the_async_states_value() -> None:
    env = wrap()
    assert env.state() == {"step_count": 3}
    env.close()


def test_disconnect_returns_none_and_keeps_the_loop_running() -> None:
    env = wrap().connect()
    loop = loop_of(env)
    assert env.disconnect() is None  # type: ignore[func-returns-value]
    assert env._loop is loop
    assert loop.is_running()
    env.close()


# --- closing ---


def test_close_awaits_the_async_close_on_the_same_loop_then_ends_thread_and_loop() -> None:
    client = Fake()
    env = wrap(client).connect()
    loop, thread = loop_of(env), thread_of(env)
    assert env.close() is None  # type: ignore[func-returns-value]
    assert client.log[-1] == ("close",)
    assert client.loops[-1] is loop
    assert loop.is_closed()
    assert not thread.is_alive()


def test_a_failing_async_close_propagates_and_the_loop_still_ends() -> None:
    client, error = Fake(), OSError("no")
    client.fails["close"] = error
    env = wrap(client).connect()
    thread = thread_of(env)
    with pytest.raises(OSError, match="no") as caught:
        env.close()
    assert caught.value is error
    assert not thread.is_alive()


def test_close_on_an_unused_wrapper_runs_the_async_close_and_leaves_no_thread() -> None:
    before, client = loop_threads(), Fake()
    wrap(client).close()
    assert client.log == [("close",)]
    assert loop_threads() == before


def test_closing_twice_raises_nothing_and_leaves_no_thread() -> None:
    before, env = loop_threads(), wrap().connect()
    env.close()
    env.close()
    assert loop_threads() == before


def test_a_closed_wrapper_can_connect_again_on_a_new_loop() -> None:
    env = wrap().connect()
    first = loop_of(env)
    env.close()
    assert env.connect() is env
    assert loop_of(env) is not first
    assert loop_of(env).is_running()
    env.close()


def test_close_cancels_what_the_client_left_running_on_the_loop() -> None:
    ended = threading.Event()

    class Background(Fake):
        async def _connect_async(self) -> None:
            self.task = asyncio.create_task(self.work())

        async def work(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

    wrap(Background()).connect().close()
    assert ended.is_set()


def test_close_ends_the_workers_of_the_loops_executor() -> None:
    before, env = set(threading.enumerate()), wrap()
    env._run(asyncio.to_thread(int))
    env.close()
    assert set(threading.enumerate()) <= before


def test_a_call_that_another_thread_closes_is_client_closed() -> None:
    begun, caught = threading.Event(), list[BaseException]()

    class Slow(Fake):
        async def _step_async(self, action: Any, **options: Any) -> Any:
            begun.set()
            await asyncio.sleep(3600)

    env = wrap(Slow())

    def step() -> None:
        with pytest.raises(ClientClosed, match="closed") as info:
            env.step(1)
        caught.append(info.value)

    stepping = threading.Thread(target=step)
    stepping.start()
    assert begun.wait(WAIT)
    env.close()
    stepping.join(WAIT)
    assert len(caught) == 1


def test_a_call_that_comes_while_the_loop_ends_is_client_closed_instead_of_hanging() -> None:
    ending, called = threading.Event(), threading.Event()

    class Lingering(Fake):
        async def _connect_async(self) -> None:
            self.task = asyncio.create_task(self.linger())
            await asyncio.sleep(0)

        async def linger(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ending.set()
                await asyncio.to_thread(called.wait, WAIT)

    client = Lingering()
    env = wrap(client).connect()
    driver = env._running()
    assert driver is not None
    closing = threading.Thread(target=env.close)
    closing.start()
    assert ending.wait(WAIT)
    threading.Timer(0.05, called.set).start()
    with pytest.raises(ClientClosed):
        driver.run(client._state_async())
    closing.join(WAIT)
    with pytest.raises(ClientClosed):
        driver.run(client._state_async())
    assert ("state",) not in client.log


def test_a_call_that_the_ending_loop_never_took_up_is_client_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    env = wrap().connect()
    driver = env._running()
    assert driver is not None
    post, lost = driver.post, threading.Event()

    def losing(callback: Any) -> None:
        if callback.__name__ == "begin":
            lost.set()
        else:
            post(callback)

    def end() -> None:
        assert lost.wait(WAIT)
        env._stop_loop()

    monkeypatch.setattr(driver, "post", losing)
    ending = threading.Thread(target=end)
    ending.start()
    with pytest.raises(ClientClosed):
        env.state()
    ending.join(WAIT)


# --- errors ---


@pytest.mark.parametrize("kind", [ValueError, ConnectionError, StopAsyncIteration, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("call", ["connect", "reset", "state", "disconnect"])
def test_exceptions_of_the_async_client_surface_as_the_same_object(call: str, kind: type[BaseException]) -> None:
    client, error = Fake(), kind("mine")
    client.fails[call] = error
    env = wrap(client)
    with pytest.raises(kind) as caught:
        getattr(env, call)()
    assert caught.value is error
    env.close()


def test_after_an_error_the_wrapper_keeps_working() -> None:
    client = Fake()
    client.fails["step"] = ValueError("once")
    env = wrap(client).connect()
    thread = thread_of(env)
    with pytest.raises(ValueError, match="once"):
        env.step(1)
    client.fails.clear()
    assert env.step(2) is client.result
    assert env._loop_thread is thread
    env.close()


def test_an_error_that_was_handled_is_freed_at_once() -> None:
    class Mine(Exception):
        pass

    client = Fake()
    client.fails["step"] = Mine()
    env = wrap(client)
    died = weakref.ref(client.fails["step"])
    gc.disable()
    try:
        with pytest.raises(Mine):
            env.step(1)
        client.fails.clear()
        # The loop's thread may still be on its way out of the coroutine.
        env.state()
        assert died() is None
    finally:
        gc.enable()
    env.close()


# --- with ---


def test_with_connects_yields_the_wrapper_and_closes() -> None:
    client = Fake()
    wrapper = wrap(client)
    with wrapper as env:
        assert env is wrapper
        assert client.log == [("connect",)]
        thread = thread_of(env)
    assert client.log == [("connect",), ("close",)]
    assert not thread.is_alive()


def test_an_exception_inside_with_is_not_swallowed_and_close_still_runs() -> None:
    client = Fake()
    with pytest.raises(KeyError, match="mine"):
        with wrap(client):
            raise KeyError("mine")
    assert client.log[-1] == ("close",)


def test_a_close_that_fails_does_not_hide_the_exception_inside_with() -> None:
    client = Fake()
    client.fails["close"] = OSError("the socket is gone")
    with pytest.raises(KeyError, match="mine") as caught:
        with wrap(client):
            raise KeyError("mine")
    assert "the socket is gone" in caught.value.__notes__[0]


def test_a_close_that_fails_at_the_end_of_with_propagates() -> None:
    client = Fake()
    client.fails["close"] = OSError("the socket is gone")
    with pytest.raises(OSError, match="the socket is gone"):
        with wrap(client):
            pass


def test_a_failing_connect_leaves_with_at_once_and_leaves_no_thread() -> None:
    before, client = loop_threads(), Fake()
    client.fails["connect"] = ConnectionError("nobody there")
    with pytest.raises(ConnectionError, match="nobody there"):
        with wrap(client):
            pytest.fail("the body ran")
    assert client.log == [("connect",)]
    assert loop_threads() == before


def test_a_failing_connect_leaves_no_thread_and_the_next_one_may_succeed() -> None:
    before, client = loop_threads(), Fake()
    client.fails["connect"] = ConnectionError("nobody there")
    env = wrap(client)
    with pytest.raises(ConnectionError):
        env.connect()
    assert loop_threads() == before
    assert env._loop is None
    client.fails.clear()
    env.connect().close()


def test_a_failing_connect_does_not_end_the_loop_under_another_threads_call() -> None:
    begun, release = threading.Event(), threading.Event()

    class Slow(Fake):
        async def _state_async(self) -> Any:
            begun.set()
            await asyncio.to_thread(release.wait, WAIT)
            return "state"

    client = Slow()
    client.fails["connect"] = ConnectionError("refused")
    env, states = wrap(client), list[Any]()
    asking = threading.Thread(target=lambda: states.append(env.state()))
    asking.start()
    assert begun.wait(WAIT)
    with pytest.raises(ConnectionError):
        env.connect()
    release.set()
    asking.join(WAIT)
    assert states == ["state"]
    env.close()


# --- the execution mode ---


OPERATIONS: list[tuple[str, tuple[Any, ...], str]] = [
    ("connect", (), "connect"),
    ("disconnect", (), "disconnect"),
    ("reset", (), "reset"),
    ("step", (1,), "step"),
    ("state", (), "state"),
    ("close", (), "close"),
    ("new_session", (), "create"),
]


@pytest.mark.parametrize(("operation", "arguments", "does"), OPERATIONS)
def test_each_operation_first_claims_execution_mode_sync(operation: str, arguments: tuple[Any, ...], does: str) -> None:
    client = Claiming()
    env = wrap(client)
    getattr(env, operation)(*arguments)
    assert client.log[0] == ("claim", "sync")
    assert client.log[1][0] == does
    env.close()


def test_a_forwarded_coroutine_method_claims_it_too() -> None:
    client = Claiming()
    env = wrap(client)
    env.tool()
    assert client.log == [("claim", "sync")]
    env.close()


@pytest.mark.parametrize(("operation", "arguments", "does"), OPERATIONS)
def test_a_refused_claim_propagates_nothing_runs_and_no_thread_is_left(
    operation: str, arguments: tuple[Any, ...], does: str
) -> None:
    before, client = loop_threads(), Claiming()
    client.refuses = True
    with pytest.raises(RuntimeError, match="async mode"):
        getattr(wrap(client), operation)(*arguments)
    assert client.log == [("claim", "sync")]
    assert loop_threads() == before


def test_a_close_whose_claim_is_refused_still_ends_the_loop() -> None:
    client = Claiming()
    env = wrap(client).connect()
    thread, client.refuses = thread_of(env), True
    with pytest.raises(RuntimeError, match="async mode"):
        env.close()
    assert not thread.is_alive()


def test_a_client_without_the_claim_hook_works() -> None:
    assert not hasattr(Fake, "_claim_execution_mode")
    with wrap() as env:
        assert env.reset() is Fake.result


# --- everything else of the asynchronous client ---


def test_unknown_attributes_private_ones_too_come_from_the_async_client_as_they_are() -> None:
    client = Fake()
    env = wrap(client)
    assert env.plain_value == 7
    assert env._private_value == 8
    assert env.log is client.log


def test_plain_methods_run_on_the_callers_thread() -> None:
    assert wrap().plain(1, two=2) == (threading.current_thread(), (1,), {"two": 2})


def test_coroutine_methods_become_blocking_calls_on_the_loop_thread_arguments_intact() -> None:
    env = wrap()
    thread, args, kwargs = env.tool(1, two=2)
    assert thread is env._loop_thread
    assert (args, kwargs) == ((1,), {"two": 2})
    env.close()


def test_the_blocking_form_of_a_coroutine_method_is_cached() -> None:
    env = wrap()
    assert env.tool is env.tool
    assert env.tool.__name__ == "tool"
    assert env.tool.__doc__ == "What the tool does."
    assert not inspect.iscoroutinefunction(env.tool)


def test_the_cached_form_looks_the_method_up_at_call_time() -> None:
    client = Fake()
    env = wrap(client)
    form = env.tool

    async def other(*args: Any) -> Any:
        return "other", args

    client.tool = other  # type: ignore[method-assign]
    assert form(1) == ("other", (1,))
    env.close()


def test_a_name_neither_side_has_gives_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"SyncEnvClient.*Fake.*no_such_name"):
        wrap().no_such_name  # noqa: B018
    assert not hasattr(wrap(), "no_such_name")


def test_a_plain_function_returning_an_awaitable_is_not_wrapped() -> None:
    made = wrap().awaitable()
    assert inspect.iscoroutine(made)
    made.close()


def test_an_async_generator_method_is_not_wrapped() -> None:
    assert inspect.isasyncgen(wrap().stream())


def test_a_partial_of_a_coroutine_function_is_one_too() -> None:
    client: Any = Fake()
    client.bound = partial(client.tool, 1)
    env = wrap(client)
    assert env.bound(2)[1] == (1, 2)
    env.close()


def test_looking_an_attribute_up_starts_nothing() -> None:
    before, client = loop_threads(), Claiming()
    env = wrap(client)
    env.tool, env.plain, env.plain_value  # noqa: B018
    assert loop_threads() == before
    assert client.log == []


def test_the_hooks_delegate_directly() -> None:
    before, env = loop_threads(), wrap()
    hooks: Any = env
    assert hooks._step_payload("a") == ("payload", "a")
    assert hooks._parse_result("b") == ("result", "b")
    assert hooks._parse_state("c") == ("state", "c")
    assert loop_threads() == before


def test_attributes_set_on_the_wrapper_stay_on_the_wrapper() -> None:
    client = Fake()
    env: Any = wrap(client)
    env.label = "mine"
    env.plain_value = 70
    assert env.label == "mine"
    assert env.plain_value == 70
    assert not hasattr(client, "label")
    assert client.plain_value == 7


def test_special_methods_of_the_async_client_are_not_the_wrappers() -> None:
    class Special(Fake):
        def __deepcopy__(self, _: Any) -> str:
            return "another client"

    env = wrap(Special())
    assert not hasattr(env, "__deepcopy__")
    assert typing.cast("Any", copy.deepcopy(env).async_client) == "another client"


def test_completion_offers_what_the_async_client_has() -> None:
    assert {"step", "tool", "plain_value"} <= set(dir(wrap()))


def test_repr_is_short_and_names_the_client() -> None:
    assert repr(SyncEnvClient(GenericEnvClient("http://h:1"))) == (
        "<SyncEnvClient of <GenericEnvClient http://h:1 not connected>>"
    )


# --- sessions ---


def test_new_session_wraps_a_fresh_session_client_already_connected_with_its_own_loop() -> None:
    client = Fake()
    env = wrap(client).connect()
    session = env.new_session()
    assert type(session) is SyncEnvClient
    assert session.async_client is typing.cast("Any", client.made[0])
    assert client.log[-1] == ("0.connect",)
    assert session._loop is not env._loop
    env.close()


def test_closing_the_parent_closes_all_children_first_and_every_loop_ends() -> None:
    client = Fake()
    env = wrap(client).connect()
    sessions = [env.new_session() for _ in range(3)]
    threads = [thread_of(each) for each in (env, *sessions)]
    env.close()
    assert client.log[-4:] == [("0.close",), ("1.close",), ("2.close",), ("close",)]
    assert not any(thread.is_alive() for thread in threads)


def test_a_child_that_fails_to_close_does_not_stop_the_parents_close(caplog: pytest.LogCaptureFixture) -> None:
    client = Fake()
    env = wrap(client)
    one, two = env.new_session(), env.new_session()
    threads = [thread_of(one), thread_of(two)]
    client.made[0].fails["close"] = OSError("the child")
    env.close()
    assert client.log[-3:] == [("0.close",), ("1.close",), ("close",)]
    assert not any(thread.is_alive() for thread in threads)
    assert "the child" in caplog.text


def test_children_are_forgotten_after_close() -> None:
    client = Fake()
    env = wrap(client)
    env.new_session()
    env.close()
    client.log.clear()
    env.close()
    assert client.log == [("close",)]


def test_a_child_can_be_closed_alone_and_the_parent_goes_on() -> None:
    client = Fake()
    env = wrap(client).connect()
    env.new_session().close()
    assert env.step(1) is client.result
    client.log.clear()
    env.close()
    assert client.log == [("close",)], "the child was closed again"


def test_a_child_that_connects_again_is_closed_with_the_parent_again() -> None:
    client = Fake()
    env = wrap(client)
    session = env.new_session()
    session.close()
    session.connect()
    client.log.clear()
    env.close()
    assert client.log == [("0.close",), ("close",)]


def test_a_session_that_cannot_connect_raises_is_not_tracked_and_leaves_no_thread() -> None:
    before, client = loop_threads(), Fake()
    client.next_session = Fake(client.log, "full.")
    client.next_session.fails["connect"] = ConnectionError("CAPACITY_REACHED")
    env = wrap(client)
    with pytest.raises(ConnectionError, match="CAPACITY_REACHED"):
        env.new_session()
    assert loop_threads() == before
    env.close()
    assert ("full.close",) not in client.log


def test_an_error_while_making_the_session_client_propagates() -> None:
    before, client, error = loop_threads(), Fake(), ValueError("no sessions here")
    client.fails["create"] = error
    with pytest.raises(ValueError, match="no sessions here") as caught:
        wrap(client).new_session()
    assert caught.value is error
    assert loop_threads() == before


def test_grandchildren_are_closed_with_their_parents() -> None:
    client = Fake()
    env = wrap(client)
    env.new_session().new_session()
    env.close()
    assert client.log[-3:] == [("0.0.close",), ("0.close",), ("close",)]


def test_new_session_does_not_itself_connect_the_parent() -> None:
    client = Fake()
    env = wrap(client)
    env.new_session()
    assert client.log == [("create",), ("0.connect",)]
    assert env._loop is None
    env.close()


def test_a_session_of_a_subclass_is_one_of_the_subclass() -> None:
    class Mine(SyncEnvClient[Any, Any, Any]):
        pass

    client: Any = Fake()
    env = Mine(client)
    assert type(env.new_session()) is Mine
    env.close()


# --- threads ---


def test_racing_first_uses_make_exactly_one_loop() -> None:
    before, client = loop_threads(), Fake()
    env, barrier = wrap(client), threading.Barrier(8)

    def use() -> None:
        barrier.wait(WAIT)
        env.state()

    racing = [threading.Thread(target=use) for _ in range(8)]
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join(WAIT)
    assert len(client.loops) == 8
    assert len(set(client.loops)) == 1
    assert loop_threads() - before == {env._loop_thread}
    env.close()


def test_calls_from_several_threads_overlap_on_the_loop() -> None:
    class Meeting(Fake):
        met: asyncio.Barrier | None = None

        async def _state_async(self) -> Any:
            self.met = self.met or asyncio.Barrier(3)
            async with asyncio.timeout(WAIT):
                await self.met.wait()
            return "met"

    env, states = wrap(Meeting()), list[Any]()
    asking = [threading.Thread(target=lambda: states.append(env.state())) for _ in range(3)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(2 * WAIT)
    assert states == ["met"] * 3
    env.close()


def test_usable_inside_a_running_event_loop() -> None:
    async def cell() -> Any:
        with wrap() as env:
            env.reset()
            env.new_session()
            return env.state()

    assert asyncio.run(cell()) == {"step_count": 3}


def test_a_call_blocks_its_own_caller_until_the_coroutine_is_done() -> None:
    done = []

    class Slow(Fake):
        async def _state_async(self) -> Any:
            await asyncio.sleep(0.02)
            done.append(True)

    env = wrap(Slow())
    env.state()
    assert done == [True]
    env.close()


def test_run_runs_any_coroutine_on_the_loop() -> None:
    async def which() -> threading.Thread:
        return threading.current_thread()

    env = wrap()
    assert env._run(which()) is env._loop_thread
    env.close()


def test_loop_and_loop_thread_are_none_then_running_then_none_again() -> None:
    env = wrap()
    assert (env._loop, env._loop_thread) == (None, None)
    env.connect()
    assert loop_of(env).is_running()
    assert thread_of(env).is_alive()
    env.close()
    assert (env._loop, env._loop_thread) == (None, None)


def test_stop_loop_is_idempotent() -> None:
    env = wrap().connect()
    thread = thread_of(env)
    env._stop_loop()
    assert not thread.is_alive()
    env._stop_loop()
    assert env._loop is None


def test_the_coroutine_sees_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    async def see() -> str:
        return variable.get()

    env = wrap()
    variable.set("mine")
    assert env._run(see()) == "mine"
    env.close()


def test_a_plain_call_from_within_a_coroutine_of_the_same_client_is_refused_instead_of_hanging() -> None:
    class Recursive(Fake):
        env: Env

        async def _state_async(self) -> Any:
            return self.env.step(1)

    client = Recursive()
    env = client.env = wrap(client)
    with pytest.raises(ConcurrentUse, match="wait for itself"):
        env.state()
    assert env.step(1) is client.result
    env.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_the_client_itself_brought_down_is_replaced() -> None:
    class Fatal(Fake):
        async def _connect_async(self) -> None:
            self.task = asyncio.create_task(self.end())

        async def end(self) -> None:
            raise SystemExit

    env = wrap(Fatal()).connect()
    gone(loop_threads())
    assert env.state() == {"step_count": 3}
    env.close()


# --- forgotten, copied, interrupted, forked ---


def test_dropping_an_unused_wrapper_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    client = Fake()
    env = wrap(client)
    dropped = weakref.ref(env)
    del env
    assert dropped() is None
    assert client.log == []
    assert capfd.readouterr() == ("", "")


def test_finalising_a_half_made_wrapper_raises_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    class Refusing(SyncEnvClient[Any, Any, Any]):
        def __init__(self) -> None:
            raise ValueError("never made")

    with pytest.raises(ValueError, match="never made"):
        Refusing()
    half: Env = object.__new__(SyncEnvClient)
    with pytest.raises(AttributeError, match="anything"):
        half.anything  # noqa: B018
    assert "SyncEnvClient" in repr(half)
    half._stop_loop()
    half.__del__()
    del half
    gc.collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("cycle", [False, True], ids=["alone", "the client knows it"])
def test_a_forgotten_wrapper_is_collected_says_goodbye_and_its_loop_ends(cycle: bool) -> None:
    log: list[Any] = []
    client: Any = Fake(log)
    env = wrap(client).connect()
    env.tool()
    if cycle:
        client._sync = env
    thread, loop = thread_of(env), loop_of(env)
    dropped, client_dropped = weakref.ref(env), weakref.ref(client)
    del env, client
    gc.collect()
    assert gone({thread})
    assert loop.is_closed()
    assert log == [("connect",), ("disconnect",)]
    gc.collect()
    assert dropped() is None
    assert client_dropped() is None


def test_a_forgotten_wrapper_whose_goodbye_fails_ends_all_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    client = Fake()
    client.fails["disconnect"] = OSError("gone")
    env = wrap(client).connect()
    thread = thread_of(env)
    del env
    gc.collect()
    assert gone({thread})
    assert capfd.readouterr() == ("", "")


def test_an_unclosed_wrapper_does_not_keep_the_interpreter_from_exiting() -> None:
    done = script("""
        env = SyncEnvClient(Quiet()).connect()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(3600), env._loop)
        print("end of script", flush=True)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end of script\n", "")


def test_copying_is_refused_with_the_reason() -> None:
    with pytest.raises(TypeError, match=r"two event loops.*new_session"):
        copy.copy(wrap())


def test_a_deep_copy_drives_a_copy_of_the_client_and_has_no_loop_yet() -> None:
    env = SyncEnvClient(GenericEnvClient("http://127.0.0.1:1"))
    twin = copy.deepcopy(env)
    assert type(twin) is SyncEnvClient
    assert twin.async_client is not env.async_client
    assert twin.async_client.base_url == "http://127.0.0.1:1"
    assert twin._loop is None


def test_a_pickle_is_a_wrapper_of_the_clients_configuration() -> None:
    env = GenericEnvClient("http://127.0.0.1:1").sync()
    twin = pickle.loads(pickle.dumps(env))
    assert type(twin) is SyncEnvClient
    assert twin.async_client.base_url == "http://127.0.0.1:1"
    assert twin._loop is None


def test_ctrl_c_cancels_the_coroutine_on_the_loop_before_it_propagates() -> None:
    done = script("""
        class Slow(Quiet):
            async def _state_async(self):
                threading.Timer(0.05, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    print("cancelled", flush=True)
                    raise

        env = SyncEnvClient(Slow())
        try:
            env.state()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(env._run(Quiet()._state_async()), flush=True)
        env.close()
        print([t.name for t in threading.enumerate()], flush=True)
    """)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["cancelled", "interrupted", "5", "['MainThread']"]


def test_ctrl_c_in_connect_leaves_no_thread() -> None:
    done = script("""
        class Slow(Quiet):
            async def _connect_async(self):
                threading.Timer(0.05, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
                await asyncio.sleep(3600)

        try:
            with SyncEnvClient(Slow()):
                print("body")
        except KeyboardInterrupt:
            print([t.name for t in threading.enumerate()], flush=True)
    """)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['MainThread']"]


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")


@needs_fork
def test_a_forked_child_gets_a_loop_of_its_own_and_leaves_the_parents_alone() -> None:
    # Without -W error: newer Pythons warn of every fork beside threads.
    done = script("""
        import gc, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        env, idle = SyncEnvClient(Quiet()).connect(), SyncEnvClient(Quiet()).connect()
        loop, thread = env._loop, env._loop_thread
        child = os.fork()
        if child == 0:
            assert env._loop is None and env._loop_thread is None
            assert env.state() == 5
            assert env._loop is not loop and env._loop.is_running()
            del idle  # the parent's session: not a word on it
            gc.collect()
            env.close()
            assert threading.active_count() == 1
            sys.stdout.flush()
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        for _ in range(20):
            assert env.state() == idle.state() == 5
        assert env._loop is loop and env._loop_thread is thread
        env.close()
        idle.close()
        print("fine")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@needs_fork
def test_a_fork_while_other_threads_make_loops_leaves_the_child_able_to_make_one() -> None:
    done = script("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        end = time.monotonic() + 1
        def churn():
            while time.monotonic() < end:
                SyncEnvClient(Quiet()).close()
        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                with SyncEnvClient(Quiet()) as env:
                    os._exit(env.state())
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        for thread in threads:
            thread.join()
        print("fine")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this platform does not list open files")
def test_fifty_ugly_uses_leave_no_thread_no_loop_and_no_file() -> None:
    def ugly(turn: int) -> None:
        client = Fake()
        env = wrap(client)
        match turn % 7:
            case 0:
                env.connect()  # and forgotten
            case 1:
                client.fails["connect"] = ConnectionError()
                with pytest.raises(ConnectionError), env:
                    pass
            case 2:
                client.next_session = Fake()
                client.next_session.fails["connect"] = ConnectionError()
                with pytest.raises(ConnectionError):
                    env.connect().new_session()
            case 3:
                client.fails["close"] = OSError()
                with pytest.raises(OSError):
                    env.close()
            case 4:
                client.fails["step"] = SystemExit()
                with pytest.raises(SystemExit):
                    env.step(1)
            case 5:
                env.new_session().new_session()  # a whole family, forgotten
            case 6:
                env.connect().close()
                env.reset()

    def count() -> tuple[int, int, int]:
        gc.collect()
        gone(loop_threads() - before)
        gc.collect()
        loops = sum(isinstance(each, asyncio.AbstractEventLoop) for each in gc.get_objects())
        return threading.active_count(), loops, len(list(Path("/proc/self/fd").iterdir()))

    before = loop_threads()
    wrap().close()
    at_first = count()
    for turn in range(50):
        ugly(turn)
    assert count() == at_first


# --- over the clients of this package ---


def test_sync_gives_the_same_wrapper_each_time() -> None:
    client = GenericEnvClient(base_url="http://127.0.0.1:1")
    env = client.sync()
    assert type(env) is SyncEnvClient
    assert env.async_client is client
    assert client.sync() is env


def test_connecting_to_nothing_gives_connection_error_and_leaves_no_thread() -> None:
    before = loop_threads()
    with pytest.raises(ConnectionError):
        GenericEnvClient(base_url="http://127.0.0.1:9").sync().connect()
    assert loop_threads() == before


def test_the_generic_clients_hooks_pass_dicts_through() -> None:
    env = GenericEnvClient(base_url="http://127.0.0.1:1").sync()
    action = {"code": "print(1)"}
    assert env._step_payload(action) == action
    assert env._parse_result({}) == StepResult({}, None, False, None)
    state = {"step_count": 3, "more": [1]}
    assert env._parse_state(state) is state


def test_both_names_are_re_exported_by_the_core_package() -> None:
    assert openenv.core.SyncEnvClient.__module__ == "openenv.core.sync_client"
    assert openenv.core.EnvClient.__module__ == "openenv.core.env_client"


def test_env_client_is_abstract_with_three_hooks_and_generic_in_three_parameters() -> None:
    assert EnvClient.__abstractmethods__ == {"_step_payload", "_parse_result", "_parse_state"}
    assert len(EnvClient.__parameters__) == 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="abstract"):
        EnvClient("http://127.0.0.1:1")  # type: ignore[abstract]


def test_importing_the_package_does_not_import_asyncio() -> None:
    code = "import sys, openenv, openenv.core; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_a_loop_is_given_time_to_end_but_close_does_not_hang_on_a_stubborn_coroutine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("openenv.core.loop_thread.PATIENCE_S", 0.05)
    release = threading.Event()

    class Stubborn(Fake):
        async def _connect_async(self) -> None:
            self.task = asyncio.create_task(self.stay())

        async def stay(self) -> None:
            while not release.is_set():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue

    env = wrap(Stubborn()).connect()
    began = time.monotonic()
    env.close()
    assert time.monotonic() - began < WAIT
    assert NAME in caplog.text
    release.set()
