"""From the constructor to the end of a client: closing, forgetting, threads, signals, processes, event loops."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from envs.echo_env import EchoAction, EchoEnv
from openenv.core import Timeouts
from openenv.core.errors import ClientClosed, ConcurrentUse, EpisodeError, EpisodeLost
from tests.contract.providers import NotedProvider
from tests.wire.behaviours import EraServer, Faulty, SessionServer, changed, instead, passed
from tests.wire.clients import SAY, PlainEnv
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Reply, ScriptedServer

HELD = instead(Reply(held=True))


@pytest.fixture
def keeper() -> SessionServer:
    return SessionServer()


@pytest.fixture
def server(serve: Serve, keeper: SessionServer) -> ScriptedServer:
    return serve(keeper)


# --- close -------------------------------------------------------------------------------------------------------


def test_close_frees_the_session_on_a_server_that_keeps_one(
    server: ScriptedServer, keeper: SessionServer, client: MakeClient
) -> None:
    env = client(server)
    env.reset()
    (name,) = keeper.sessions
    env.close()
    env.close()
    assert (keeper.deleted, keeper.sessions) == ([name], {})
    assert len(server.of("DELETE", "/session")) == 1


def test_close_sends_nothing_where_no_session_was_begun(server: ScriptedServer, client: MakeClient) -> None:
    env = client(server)
    env.health()
    before = len(server.requests)
    env.close()
    assert len(server.requests) == before


def test_close_sends_nothing_to_a_server_that_keeps_no_sessions(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    env = client(server)
    env.reset()
    env.step(SAY)
    before = len(server.requests)
    env.close()
    assert len(server.requests) == before


def test_close_of_a_server_that_is_gone_raises_nothing(server: ScriptedServer, client: MakeClient) -> None:
    env = client(server, timeouts=Timeouts(close=1))
    env.reset()
    server.close()
    env.close()


def test_close_ends_the_connection(server: ScriptedServer, client: MakeClient) -> None:
    env = client(server)
    env.reset()
    env.close()
    server.wait_closed(server.connections)


def test_an_owner_stops_its_server_also_where_the_session_cannot_be_freed(
    serve: Serve, keeper: SessionServer, client: MakeClient
) -> None:
    server = serve(Faulty(keeper).on("/session", instead(Reply(status=500))))
    provider = NotedProvider(server.url)
    env = client(server, provider=provider)
    env.reset()
    env.close()
    assert provider.names() == ["stop_container"]


@pytest.mark.parametrize("name", ["reset", "state", "health", "schema", "metadata"])
def test_a_closed_client_says_so(server: ScriptedServer, client: MakeClient, name: str) -> None:
    env = client(server)
    env.close()
    with pytest.raises(ClientClosed):
        getattr(env, name)()
    with pytest.raises(ClientClosed):
        env.step(SAY)
    with pytest.raises(ClientClosed), env:
        pass
    assert server.requests == []


def test_with_closes_and_lets_the_error_through(server: ScriptedServer, keeper: SessionServer) -> None:
    def episode() -> None:
        with PlainEnv(server.url) as env:
            env.reset()
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        episode()
    assert len(keeper.deleted) == 1


def test_close_after_a_failed_reset_frees_what_the_server_may_hold(
    serve: Serve, keeper: SessionServer, client: MakeClient
) -> None:
    server = serve(Faulty(keeper).on("/reset", passed, changed(delay=5)))
    env = client(server, 0.3)
    env.reset()
    with pytest.raises(requests.Timeout):
        env.reset()
    env.close()
    assert keeper.sessions == {}


# --- forgotten ---------------------------------------------------------------------------------------------------


def test_a_forgotten_client_warns_and_frees_its_session(server: ScriptedServer, keeper: SessionServer) -> None:
    made = [PlainEnv(server.url)]
    made[0].reset()
    with pytest.warns(ResourceWarning, match="PlainEnv"):
        made.clear()
    assert len(keeper.deleted) == 1


def test_a_forgotten_owner_warns_and_stops_its_server(server: ScriptedServer) -> None:
    provider = NotedProvider(server.url)
    made = [PlainEnv(server.url, provider=provider)]
    with pytest.warns(ResourceWarning, match="PlainEnv"):
        made.clear()
    assert provider.names() == ["stop_container"]


def test_a_forgotten_client_that_held_nothing_is_silent(serve: Serve) -> None:
    server = serve(EraServer())
    env = PlainEnv(server.url)
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del env
        gc.collect()
    server.wait_closed(server.connections)


def test_a_client_whose_construction_failed_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(ValueError):
            PlainEnv("nonsense")
        gc.collect()


# --- threads -----------------------------------------------------------------------------------------------------


class Aside(threading.Thread):
    """Calls something in another thread and keeps what it raised."""

    def __init__(self, call: Any) -> None:
        super().__init__(daemon=True)
        self.call, self.raised = call, None
        self.start()

    def run(self) -> None:
        try:
            self.call()
        except BaseException as error:
            self.raised = error  # type: ignore[assignment]

    def end(self) -> Any:
        self.join(10)
        assert not self.is_alive()
        return self.raised


@pytest.mark.parametrize("name", ["reset", "step", "state"])
def test_a_second_thread_is_refused_at_once(serve: Serve, keeper: SessionServer, client: MakeClient, name: str) -> None:
    server = serve(Faulty(keeper).on("/step", changed(delay=1.0)))
    env = client(server)
    env.reset()
    first = Aside(lambda: env.step(SAY))
    server.wait_for("/step")
    began = time.monotonic()
    with pytest.raises(ConcurrentUse, match="thread"):
        env.step(SAY) if name == "step" else getattr(env, name)()
    assert time.monotonic() - began < 0.8
    assert first.end() is None
    assert env.step(SAY).observation["echoed_message"] == "hi"


def test_a_client_may_move_from_thread_to_thread(server: ScriptedServer, client: MakeClient) -> None:
    env = client(server)
    for call in (env.reset, lambda: env.step(SAY), env.state, env.close):
        assert Aside(call).end() is None


@pytest.mark.parametrize("session", [SessionServer, EraServer])
def test_close_from_another_thread_cuts_the_call_in_flight(serve: Serve, client: MakeClient, session: Any) -> None:
    server = serve(Faulty(session()).on("/step", HELD))
    env = client(server, None)
    env.reset()
    first = Aside(lambda: env.step(SAY))
    server.wait_for("/step")
    began = time.monotonic()
    env.close()
    assert isinstance(first.end(), ClientClosed)
    assert time.monotonic() - began < 5
    assert len(server.posts("/step")) == 1
    assert len(server.of("DELETE", "/session")) == (session is SessionServer)


@pytest.mark.parametrize("own", ["auth object", "session with hooks"])
def test_close_also_cuts_a_call_that_goes_the_way_of_the_callers_things(
    serve: Serve, keeper: SessionServer, client: MakeClient, own: str
) -> None:
    server = serve(Faulty(keeper).on("/step", HELD))
    with requests.Session() as session:
        session.hooks["response"].append(lambda response, **_: None)
        options: dict[str, Any] = {"auth": ("me", "pw")} if own == "auth object" else {"session": session}
        env = client(server, None, **options)
        env.reset()
        first = Aside(lambda: env.step(SAY))
        server.wait_for("/step")
        env.close()
        if own == "session with hooks":
            server.close()  # a session of the caller's cannot be cut, only awaited
        assert isinstance(first.end(), ClientClosed)


def test_close_from_another_thread_while_a_server_is_not_there_yet(client: MakeClient) -> None:
    env = client("http://127.0.0.1:1", None)
    first = Aside(env.reset)
    env.close()
    assert isinstance(first.end(), (ClientClosed, requests.ConnectionError))


# --- Ctrl-C ------------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupts() -> Iterator[int]:
    """A signal that raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("session", [SessionServer, EraServer])
def test_after_ctrl_c_in_mid_step_the_episode_is_lost_until_reset(
    serve: Serve, client: MakeClient, interrupts: int, session: Any
) -> None:
    server = serve(Faulty(session()).on("/step", HELD))
    env = client(server)
    env.reset()

    def interrupt() -> None:
        server.wait_for("/step")
        os.kill(os.getpid(), interrupts)

    aside = Aside(interrupt)
    with pytest.raises(KeyboardInterrupt):
        env.step(SAY)
    aside.end()
    for _ in range(2):
        with pytest.raises(EpisodeLost, match="reset"):
            env.step(SAY)
    assert len(server.posts("/step")) == 1
    assert env.reset().observation["message_length"] == 0
    assert env.step({"message": "after"}).observation["echoed_message"] == "after"


@pytest.mark.parametrize("hook", ["_step_payload", "_parse_result"])
def test_an_interrupt_in_a_hook_leaves_a_client_that_can_go_on(
    server: ScriptedServer, keeper: SessionServer, client: MakeClient, hook: str
) -> None:
    env = client(server)
    env.reset()

    def interrupt(_: object) -> Any:
        raise KeyboardInterrupt

    setattr(env, hook, interrupt)
    with pytest.raises(KeyboardInterrupt):
        env.step(SAY)
    delattr(env, hook)
    ran = 1 if hook == "_parse_result" else 0
    assert env.step({"message": "after"}).observation["echoed_message"] == "after"
    assert env.state()["step_count"] == ran + 1
    assert [number for _, number, _ in keeper.ran] == list(range(1, ran + 3))


# --- event loops and processes -----------------------------------------------------------------------------------


def test_a_whole_episode_inside_a_running_event_loop(server: ScriptedServer, keeper: SessionServer) -> None:
    async def cell() -> float:
        with EchoEnv(server.url) as env:
            env.reset()
            return sum(float(env.step(EchoAction(message="abc")).reward or 0) for _ in range(3))

    assert asyncio.run(cell()) == pytest.approx(0.9)
    assert len(keeper.deleted) == 1


FORKING = """
import os, sys
from envs.echo_env import EchoAction, EchoEnv
from openenv.core.errors import EpisodeError

def play(env, name, steps=200):
    for n in range(steps):
        said = f"{name}-{n}"
        heard = env.step(EchoAction(message=said)).observation.echoed_message
        assert heard == said, (said, heard)
    count = env.state().step_count
    assert count == steps, count

env = EchoEnv(sys.argv[1])
env.reset()
env.step(EchoAction(message="before"))
children = []
for child in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            env.step(EchoAction(message="not mine"))
        except EpisodeError as error:
            assert error.episode_lost, error
        else:
            os._exit(3)
        env.reset()
        play(env, f"child-{child}")
        if child == 1:
            os._exit(0)    # without closing
        env.close()
        sys.exit(0)        # with exit hooks
    children.append(pid)
for n in range(199):
    said = f"parent-{n}"
    assert env.step(EchoAction(message=said)).observation.echoed_message == said
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert env.state().step_count == 200
print(codes)
env.close()
"""


def test_forked_children_have_connections_and_episodes_of_their_own(
    server: ScriptedServer, keeper: SessionServer
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING, server.url], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 0, 0]\n"
    assert len({name for name, _, _ in keeper.ran}) == 4
    assert len(keeper.ran) == 4 * 201
    assert len(keeper.deleted) == 3
    of_connection: dict[int, set[str | None]] = {}
    for request in server.requests:
        of_connection.setdefault(request.connection, set()).add(request.header("OpenEnv-Session"))
    assert all(len(names) == 1 for names in of_connection.values())


CHILD = """
import os, sys
from tests.wire.clients import PlainEnv
from tests.contract.providers import NotedProvider

provider = NotedProvider(sys.argv[1])
env = PlainEnv(sys.argv[1], provider=provider)
env.reset()
if (pid := os.fork()) == 0:
    env.close()
    env.close()
    assert provider.names() == [], provider.calls
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
env.step({"message": "still there"})
env.close()
assert provider.names() == ["stop_container"]
"""


def test_a_forked_child_that_closes_neither_stops_nor_frees_what_is_its_parents(server: ScriptedServer) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, server.url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", [lambda env: pickle.loads(pickle.dumps(env)), copy.copy, copy.deepcopy])
def test_a_copy_has_the_configuration_and_neither_session_nor_ownership(
    server: ScriptedServer, keeper: SessionServer, client: MakeClient, how: Any
) -> None:
    provider = NotedProvider(server.url)
    env = client(
        server, 7.5, {"X-Who": "me"}, provider, timeouts=Timeouts(state=3), auth="s3cret", max_reply_bytes=1 << 20
    )
    env.reset()
    (mine,) = keeper.sessions
    with how(env) as twin:
        assert type(twin) is PlainEnv
        assert twin.base_url == env.base_url
        with pytest.raises(EpisodeError):
            twin.step(SAY)
        twin.reset()
        twin.step(SAY)
        sent = server.posts("/step")[-1]
        assert (sent.header("X-Who"), sent.header("Authorization")) == ("me", "Bearer s3cret")
        assert sent.value()["timeout_s"] == 7.5
        assert sent.header("OpenEnv-Session") not in (mine, None)
    assert provider.names() == []
    assert mine in keeper.sessions
    env.step(SAY)
    env.close()
    assert provider.names() == ["stop_container"]


def test_a_closed_client_pickles_too(server: ScriptedServer, client: MakeClient) -> None:
    env = client(server)
    env.close()
    with pickle.loads(pickle.dumps(env)) as twin:
        assert twin.reset().observation["message_length"] == 0


def test_a_client_with_a_session_of_the_callers_pickles(server: ScriptedServer, client: MakeClient) -> None:
    with requests.Session() as session:
        session.headers["X-Mine"] = "1"
        env = client(server, session=session)
        env.reset()
        with pickle.loads(pickle.dumps(env)) as twin:
            twin.reset()
    assert [r.header("X-Mine") for r in server.posts("/reset")] == ["1", "1"]
