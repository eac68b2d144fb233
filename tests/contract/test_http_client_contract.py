"""What existing code relies on in `HTTPEnvClient`, line by line; each test is named after its line.

Where the first client looked accidental and a paper asks for better, the better is tested and the test says so.
Unless a test says otherwise, the server is one of the first generation: it keeps no sessions.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests

from openenv.core import ContainerProvider, HTTPEnvClient, StepResult
from openenv.core.errors import ClientClosed, ConcurrentUse, ConfigurationError, ProtocolError
from tests.contract.providers import NotedProvider
from tests.wire.behaviours import EraServer, Faulty, SessionServer, changed, instead
from tests.wire.clients import SAY, PlainEnv
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import HTML, Reply, ScriptedServer

HOOKS = ("_step_payload", "_parse_result", "_parse_state")
Call = Callable[[PlainEnv], Any]
CALLS: dict[str, Call] = {
    "/reset": lambda env: env.reset(),
    "/step": lambda env: env.step(SAY),
    "/state": lambda env: env.state(),
}
every_call = pytest.mark.parametrize("path", CALLS)


@pytest.fixture
def era(serve: Serve) -> ScriptedServer:
    return serve(EraServer())


@pytest.fixture
def env(era: ScriptedServer, client: MakeClient) -> PlainEnv:
    return client(era)


@pytest.fixture
def dead_url() -> Iterator[str]:
    """The URL of a port on which nothing listens, and nobody else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


# --- the class ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["openenv.core", "openenv.core.http_env_client", "openenv.core.runner_env"])
def test_the_client_class_imports_from_the_configured_path(module: str) -> None:
    code = f"from {module} import HTTPEnvClient; print(HTTPEnvClient.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == HTTPEnvClient.__module__


def test_the_base_class_cannot_be_instantiated() -> None:
    with pytest.raises(TypeError, match="abstract"):
        HTTPEnvClient("http://127.0.0.1:1")  # type: ignore[abstract]


@pytest.mark.parametrize("missing", HOOKS)
def test_exactly_three_abstract_hooks_each_one_is_required(missing: str) -> None:
    assert HTTPEnvClient.__abstractmethods__ == set(HOOKS)
    hooks = {name: lambda self, value: value for name in HOOKS if name != missing}
    partial = type("Partial", (HTTPEnvClient,), hooks)
    with pytest.raises(TypeError, match=missing):
        partial("http://127.0.0.1:1")


def test_generic_in_two_parameters_action_observation() -> None:
    class Two(HTTPEnvClient[dict, list]):  # type: ignore[type-arg]
        pass

    action, observation = TypeVar("action"), TypeVar("observation")
    assert Two.__orig_bases__[0].__args__[:2] == (dict, list)  # type: ignore[attr-defined]
    assert HTTPEnvClient[action, observation].__parameters__ == (action, observation)  # type: ignore[misc,valid-type]


def test_constructor_order_base_url_request_timeout_s_default_headers_provider() -> None:
    names = list(inspect.signature(HTTPEnvClient.__init__).parameters)
    assert names[1:5] == ["base_url", "request_timeout_s", "default_headers", "provider"]


def test_defaults_15_s_no_headers_no_provider_base_url_required() -> None:
    parameters = inspect.signature(HTTPEnvClient.__init__).parameters
    assert parameters["base_url"].default is inspect.Parameter.empty
    assert parameters["request_timeout_s"].default == 15.0
    assert parameters["default_headers"].default is None
    assert parameters["provider"].default is None
    with pytest.raises(TypeError):
        PlainEnv()  # type: ignore[call-arg]


# --- the URL and the limit ---------------------------------------------------------------------------------------


def test_one_trailing_slash_of_base_url_is_dropped(era: ScriptedServer, client: MakeClient) -> None:
    client(era.url + "/").reset()
    assert era.posts()[0].target == "/reset"


def test_several_trailing_slashes_are_dropped(era: ScriptedServer, client: MakeClient) -> None:
    client(era.url + "///").reset()
    assert era.posts()[0].target == "/reset"


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_path_prefix_survives_url_is_base_and_reset(serve: Serve, client: MakeClient, slash: str) -> None:
    server = serve(lambda request: Reply(body={"observation": {}}) if request.method == "POST" else Reply(status=404))
    client(f"{server.url}/envs/echo{slash}").reset()
    assert server.posts()[0].target == "/envs/echo/reset"


def test_an_int_timeout_is_accepted_second_positional_argument(era: ScriptedServer, client: MakeClient) -> None:
    env = client(era, 7)
    env.step(SAY)
    assert era.posts("/step")[0].value()["timeout_s"] == 7


def test_a_numeric_string_timeout_is_accepted(era: ScriptedServer, client: MakeClient) -> None:
    env = client(era, "7.5")
    env.step(SAY)
    assert era.posts("/step")[0].value()["timeout_s"] == 7


@pytest.mark.parametrize("limit", ["soon", object(), [3]])
def test_a_timeout_that_is_no_number_fails_at_construction(limit: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="request_timeout_s"):
        PlainEnv("http://127.0.0.1:1", limit)


def test_constructing_sends_nothing_and_needs_no_live_server(
    era: ScriptedServer, client: MakeClient, dead_url: str
) -> None:
    client(era)
    client(dead_url)
    assert (era.requests, era.connections) == ([], 0)


def test_a_base_url_without_scheme_is_refused_at_once() -> None:
    """Better than the original, which failed in the first call."""
    with pytest.raises(ConfigurationError, match="http://localhost:8000"):
        PlainEnv("localhost:8000")


# --- reset, step, state ------------------------------------------------------------------------------------------


def test_reset_is_one_post_to_reset(era: ScriptedServer, env: PlainEnv) -> None:
    env.reset()
    assert [(r.method, r.target) for r in era.requests if r.method != "GET"] == [("POST", "/reset")]


def test_bare_reset_sends_the_json_object_as_application_json(era: ScriptedServer, env: PlainEnv) -> None:
    env.reset()
    sent = era.posts()[0]
    assert (sent.body, sent.header("Content-Type")) == (b"{}", "application/json")


def test_reset_returns_parse_result_of_decoded_body_hook_called_once(serve: Serve, client: MakeClient) -> None:
    body = {"observation": {"n": [1, None]}, "reward": 2, "done": True, "more": "x"}
    env = client(serve(Faulty(EraServer()).on("/reset", instead(Reply(body=body)))))
    result = env.reset()
    assert env.hooks == [("_parse_result", body)]
    assert result == StepResult({"n": [1, None]}, 2, True)


def test_step_is_one_post_to_step_with_exactly_action_and_timeout_s(era: ScriptedServer, env: PlainEnv) -> None:
    env.step(SAY)
    (sent,) = era.posts()
    assert (sent.target, sent.value()) == ("/step", {"action": SAY, "timeout_s": 15})


def test_timeout_s_is_the_request_timeout_truncated_to_int(era: ScriptedServer, client: MakeClient) -> None:
    env = client(era, 2.9)
    env.step(SAY)
    sent = era.posts("/step")[0].value()["timeout_s"]
    assert (sent, type(sent)) == (2, int)


def test_a_limit_of_one_call_is_sent_as_it_is(era: ScriptedServer, env: PlainEnv) -> None:
    """Better than the original, which had none."""
    env.step(SAY, timeout_s=2.9)
    env.step(SAY, 0.25)
    env.step(SAY, timeout_s=None)
    assert [r.value()["timeout_s"] for r in era.posts("/step")] == [2.9, 0.25, None]


def test_no_limit_at_all_is_sent_as_null(era: ScriptedServer, client: MakeClient) -> None:
    client(era, None).step(SAY)
    assert era.posts("/step")[0].value() == {"action": SAY, "timeout_s": None}


def test_the_exact_limit_is_sent_to_a_server_that_keeps_sessions(serve: Serve, client: MakeClient) -> None:
    server = serve(SessionServer())
    env = client(server, 2.9)
    env.reset()
    env.step(SAY)
    env.step(SAY, timeout_s=1.25)
    env.step(SAY, timeout_s=None)
    assert [r.value()["timeout_s"] for r in server.posts("/step")] == [2.9, 1.25, None]


def test_timeout_s_of_a_20_s_client_is_20(era: ScriptedServer, client: MakeClient) -> None:
    client(era, 20).step(SAY)
    assert b'"timeout_s":20}' in era.posts("/step")[0].body.replace(b" ", b"")


def test_timeouts_below_one_second_are_sent_as_they_are(era: ScriptedServer, client: MakeClient) -> None:
    """Better than the original, which sent 0; newer servers answer that with 422."""
    client(era, 0.5).step(SAY)
    assert era.posts("/step")[0].value()["timeout_s"] == 0.5


def test_step_payload_gets_the_action_object_itself_its_dict_is_sent_under_action(
    era: ScriptedServer, env: PlainEnv
) -> None:
    action = {"message": "this very one"}
    env.step(action)
    assert env.told("_step_payload")[0] is action
    assert era.posts("/step")[0].value()["action"] == action


def test_step_returns_parse_results_value(era: ScriptedServer, client: MakeClient) -> None:
    class Odd(PlainEnv):
        def _parse_result(self, payload: dict[str, Any]) -> Any:
            return "whatever the hook says"

    assert client(era, kind=Odd).step(SAY) == "whatever the hook says"


def test_step_needs_no_earlier_reset_and_is_not_guarded_after_done(serve: Serve, client: MakeClient) -> None:
    over = instead(Reply(body={"observation": {}, "done": True}))
    server = serve(Faulty(EraServer()).on("/step", over, over))
    env = client(server)
    assert env.step(SAY).done is True
    assert env.step(SAY).done is True
    assert env.step(SAY).done is False
    assert len(server.posts("/step")) == 3


def test_state_is_a_get_to_state_without_body_and_returns_parse_states_value(
    era: ScriptedServer, env: PlainEnv
) -> None:
    env.step(SAY)
    state = env.state()
    (sent,) = era.of("GET", "/state")
    assert (sent.target, sent.body, sent.header("Content-Length")) == ("/state", b"", None)
    assert state is env.told("_parse_state")[0]
    assert state == {"episode_id": "e-1", "step_count": 1}


def test_state_is_a_method_not_a_property(env: PlainEnv) -> None:
    assert inspect.isfunction(HTTPEnvClient.state)
    assert callable(env.state)


# --- headers, cookies, connections -------------------------------------------------------------------------------


@every_call
def test_default_headers_travel_on_reset_step_and_state(era: ScriptedServer, client: MakeClient, path: str) -> None:
    CALLS[path](client(era, default_headers={"X-Who": "me", "Authorization": "Basic abc"}))
    sent = next(r for r in era.requests if r.path == path)
    assert (sent.header("X-Who"), sent.header("Authorization")) == ("me", "Basic abc")


def test_headers_of_one_client_do_not_leak_into_another(era: ScriptedServer, client: MakeClient) -> None:
    client(era, default_headers={"X-Who": "one"}).step(SAY)
    client(era).step(SAY)
    assert [r.header("X-Who") for r in era.posts("/step")] == ["one", None]


def test_one_session_per_client_cookies_persist_in_it_and_are_not_shared(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(EraServer()).on("/reset", changed(headers=[("Set-Cookie", "lane=7; Path=/")])))
    first = client(server)
    first.reset()
    first.step(SAY)
    client(server).step(SAY)
    assert [r.header("Cookie") for r in server.posts("/step")] == ["lane=7", None]


def test_calls_of_one_client_reuse_one_kept_alive_connection(era: ScriptedServer, env: PlainEnv) -> None:
    env.reset()
    for _ in range(5):
        env.step(SAY)
    env.state()
    assert {r.connection for r in era.requests} == {1}


# --- failures ----------------------------------------------------------------------------------------------------


@every_call
def test_a_server_slower_than_request_timeout_s_gives_requests_timeout(
    serve: Serve, client: MakeClient, path: str
) -> None:
    server = serve(Faulty(EraServer()).on(path, instead(Reply(held=True))))
    with pytest.raises(requests.Timeout):
        CALLS[path](client(server, 0.3))
    assert len([r for r in server.requests if r.path == path]) == 1


@every_call
def test_an_unreachable_server_gives_requests_connection_error_on_each_call(
    client: MakeClient, dead_url: str, path: str
) -> None:
    env = client(dead_url, 0.5)
    for _ in range(2):
        with pytest.raises(requests.ConnectionError):
            CALLS[path](env)


@every_call
@pytest.mark.parametrize("status", [404, 422, 500, 503])
def test_an_error_status_gives_http_error_carrying_the_response_no_parse_hook_no_retry(
    serve: Serve, client: MakeClient, path: str, status: int
) -> None:
    server = serve(Faulty(EraServer()).on(path, *[instead(Reply(status=status, body={"detail": "no"}))] * 3))
    env = client(server)
    with pytest.raises(requests.HTTPError) as caught:
        CALLS[path](env)
    assert caught.value.response.status_code == status
    assert caught.value.response.json() == {"detail": "no"}
    assert not [name for name, _ in env.hooks if name.startswith("_parse")]
    assert len(server.posts(path)) == (0 if path == "/state" else 1)


@every_call
def test_a_200_with_a_body_that_is_not_json_raises_a_value_error(serve: Serve, client: MakeClient, path: str) -> None:
    env = client(serve(Faulty(EraServer()).on(path, instead(HTML))))
    with pytest.raises(ValueError, match="HTML"):
        CALLS[path](env)


@every_call
@pytest.mark.parametrize("body", [{}, {"observation": None}, {"never": {"heard": ["of"]}, "done": "maybe"}])
def test_whatever_json_object_arrives_is_handed_to_the_hook_unchecked(
    serve: Serve, client: MakeClient, path: str, body: dict[str, Any]
) -> None:
    env = client(serve(Faulty(EraServer()).on(path, instead(Reply(body=body)))))
    CALLS[path](env)
    assert env.hooks[-1] == ("_parse_state" if path == "/state" else "_parse_result", body)


@every_call
@pytest.mark.parametrize("body", [[1], "text", 3, None, True])
def test_json_that_is_no_object_never_reaches_the_hook(
    serve: Serve, client: MakeClient, path: str, body: object
) -> None:
    """Better than the original, whose hooks then failed in their own ways."""
    env = client(serve(Faulty(EraServer()).on(path, instead(Reply(body=json.dumps(body).encode())))))
    with pytest.raises(ProtocolError, match="object"):
        CALLS[path](env)
    assert not [name for name, _ in env.hooks if name.startswith("_parse")]


@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_a_307_is_followed_with_the_same_method_and_body(serve: Serve, client: MakeClient, path: str) -> None:
    moved = instead(Reply(status=307, headers=[("Location", f"/moved{path}")]))
    era = EraServer()

    def answer(request: Any) -> Reply:
        return era(dataclasses.replace(request, target=request.target.removeprefix("/moved")))

    server = serve(Faulty(answer).on(path, moved))
    result = CALLS[path](client(server))
    first, second = server.posts()
    assert (second.method, second.target, second.body) == ("POST", f"/moved{path}", first.body)
    assert result.observation["message_length"] == (2 if path == "/step" else 0)


def test_gzip_answers_are_decoded(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(EraServer()).on("/step", changed(gzip=True)))
    assert client(server).step(SAY).observation == {"echoed_message": "hi", "message_length": 2}


@pytest.mark.parametrize("hook", HOOKS)
def test_exceptions_of_hooks_pass_through_a_failing_payload_hook_sends_nothing(
    era: ScriptedServer, client: MakeClient, hook: str
) -> None:
    class Own(Exception):
        pass

    error = Own()

    def fail(self: Any, value: Any) -> Any:
        raise error

    env = client(era, kind=type("Failing", (PlainEnv,), {hook: fail}))
    with pytest.raises(Own) as caught:
        env.state() if hook == "_parse_state" else env.step(SAY)
    assert caught.value is error
    assert len(era.posts()) == (1 if hook == "_parse_result" else 0)


@pytest.mark.parametrize("bad", [object(), 1j, {("a", "b"): 1}])
def test_a_payload_that_is_not_json_able_raises_before_anything_is_sent(
    era: ScriptedServer, env: PlainEnv, bad: object
) -> None:
    with pytest.raises((TypeError, ValueError)):
        env.step({"message": bad})
    assert era.posts() == []


@pytest.mark.parametrize("message", ["żółć 🐍 \u2028 \x00 \"'\\", "x" * 3_000_000])
def test_unicode_and_large_payloads_arrive_intact(era: ScriptedServer, env: PlainEnv, message: str) -> None:
    result = env.step({"message": message})
    assert era.posts("/step")[0].value()["action"]["message"] == message
    assert result.observation["echoed_message"] == message


def test_raw_utf_8_answers_are_decoded_as_utf_8(serve: Serve, client: MakeClient) -> None:
    raw = '{"observation": "żółć 🐍"}'.encode()
    server = serve(
        Faulty(EraServer()).on("/step", instead(Reply(body=raw, headers=[("Content-Type", "application/json")])))
    )
    assert client(server).step(SAY).observation == "żółć 🐍"


# --- close -------------------------------------------------------------------------------------------------------


def test_close_without_provider_returns_none_and_sends_nothing(era: ScriptedServer, env: PlainEnv) -> None:
    env.reset()
    before = list(era.requests)
    assert env.close() is None  # type: ignore[func-returns-value]
    assert era.requests == before


def test_close_calls_provider_stop_container_once_without_arguments(era: ScriptedServer, client: MakeClient) -> None:
    provider = NotedProvider(era.url)
    client(era, 15.0, None, provider).close()
    assert provider.calls == [("stop_container", ())]


def test_a_second_close_raises_nothing(era: ScriptedServer, client: MakeClient) -> None:
    provider = NotedProvider(era.url)
    env = client(era, provider=provider)
    env.close()
    env.close()
    assert provider.names() == ["stop_container"]


def test_an_error_of_stop_container_reaches_the_caller_of_close(era: ScriptedServer, client: MakeClient) -> None:
    error = RuntimeError("the engine is away")
    provider = NotedProvider(era.url, stop_container=error)
    env = client(era, provider=provider)
    with pytest.raises(RuntimeError) as caught:
        env.close()
    assert caught.value is error
    del provider.failures["stop_container"]


@every_call
def test_a_closed_client_is_a_named_error(era: ScriptedServer, env: PlainEnv, path: str) -> None:
    """Better than the original, which could be used on, and so kept the connection open."""
    env.close()
    with pytest.raises(ClientClosed):
        CALLS[path](env)
    assert era.requests == []


# --- from_docker_image -------------------------------------------------------------------------------------------


def test_from_docker_image_start_image_ready_url_client_that_owns_the_provider(era: ScriptedServer) -> None:
    provider = NotedProvider(era.url)
    env = PlainEnv.from_docker_image("echo-env:latest", provider=provider)
    assert provider.calls == [("start_container", {"image": "echo-env:latest"}), ("wait_for_ready", era.url)]
    assert env.reset().observation["echoed_message"] == "Echo environment ready!"
    env.close()
    assert provider.names() == ["start_container", "wait_for_ready", "stop_container"]


def test_from_docker_image_is_a_classmethod_of_image_and_provider_none(era: ScriptedServer) -> None:
    parameters = list(inspect.signature(PlainEnv.from_docker_image).parameters.values())
    assert [p.name for p in parameters[:2]] == ["image", "provider"]
    assert parameters[1].default is None
    with PlainEnv.from_docker_image("i", NotedProvider(era.url)) as env:
        assert type(env) is PlainEnv


def test_a_failing_start_propagates_and_readiness_is_not_polled() -> None:
    error = RuntimeError("no such image")
    provider = NotedProvider("http://127.0.0.1:1", start_container=error)
    with pytest.raises(RuntimeError) as caught:
        PlainEnv.from_docker_image("i", provider)
    assert caught.value is error
    assert "wait_for_ready" not in provider.names()


def test_a_readiness_timeout_propagates_as_timeout_error() -> None:
    error = TimeoutError("not ready")
    with pytest.raises(TimeoutError) as caught:
        PlainEnv.from_docker_image("i", NotedProvider("http://127.0.0.1:1", wait_for_ready=error))
    assert caught.value is error


def test_after_a_readiness_timeout_no_container_is_left() -> None:
    """Better than the original, which left it running."""
    provider = NotedProvider("http://127.0.0.1:1", wait_for_ready=TimeoutError("not ready"))
    with pytest.raises(TimeoutError):
        PlainEnv.from_docker_image("i", provider)
    assert provider.names() == ["start_container", "wait_for_ready", "stop_container"]


def test_keyword_extras_go_to_start_container(era: ScriptedServer) -> None:
    provider = NotedProvider(era.url)
    PlainEnv.from_docker_image("i", provider, port=9, env_vars={"A": "1"}, shm_size="1g").close()
    assert provider.calls[0] == ("start_container", {"image": "i", "port": 9, "env_vars": {"A": "1"}, "shm_size": "1g"})


def test_no_provider_given_runtime_error_names_docker_when_it_is_absent(tmp_path: Path) -> None:
    code = (
        "from envs.echo_env import EchoEnv\n"
        "try:\n    EchoEnv.from_docker_image('echo-env:latest')\n"
        "except RuntimeError as error:\n    print(error)"
    )
    # A process of its own: the docker SDK leaves its socket to the garbage collector when nobody answers.
    environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "Docker" in done.stdout, done.stderr


# --- around it ---------------------------------------------------------------------------------------------------


def test_usable_inside_a_running_event_loop(era: ScriptedServer, client: MakeClient) -> None:
    async def cell() -> StepResult[Any]:
        with client(era) as env:
            env.reset()
            env.state()
            return env.step(SAY)

    assert asyncio.run(cell()).observation["echoed_message"] == "hi"


def test_threads_that_share_a_client_are_told_at_once(serve: Serve, client: MakeClient) -> None:
    """Better than the original, where they got through and mixed their episodes."""
    server = serve(Faulty(EraServer()).on("/step", instead(Reply(held=True))))
    env = client(server)
    failures: list[BaseException] = []

    def step() -> None:
        try:
            env.step(SAY)
        except ClientClosed as error:
            failures.append(error)

    other = threading.Thread(target=step)
    other.start()
    server.wait_for("/step")
    with pytest.raises(ConcurrentUse):
        env.step(SAY)
    with pytest.raises(ConcurrentUse):
        env.reset()
    assert len(server.posts()) == 1
    env.close()
    other.join(10)
    assert [type(error) for error in failures] == [ClientClosed]


def test_step_result_dataclass_generic_observation_required() -> None:
    result: StepResult[dict[str, int]] = StepResult[dict[str, int]](observation={"a": 1})
    assert dataclasses.is_dataclass(StepResult)
    assert (result.observation, result.reward, result.done) == ({"a": 1}, None, False)
    assert StepResult({}, 0.5, True) == StepResult(observation={}, reward=0.5, done=True)
    with pytest.raises(TypeError):
        StepResult()  # type: ignore[call-arg]


def test_step_result_is_one_class_under_both_import_paths() -> None:
    from openenv.core.client_types import StepResult as old
    from openenv.core.types import StepResult as new

    assert StepResult is old is new


def test_container_provider_abstract_start_container_stop_container_wait_for_ready() -> None:
    assert ContainerProvider.__abstractmethods__ == {"start_container", "stop_container", "wait_for_ready"}
    start = inspect.signature(ContainerProvider.start_container).parameters
    assert (start["port"].default, start["env_vars"].default) == (None, None)
    assert inspect.signature(ContainerProvider.wait_for_ready).parameters["timeout_s"].default == 30.0
    with pytest.raises(TypeError, match="abstract"):
        ContainerProvider()  # type: ignore[abstract]


@pytest.mark.parametrize("module", ["openenv.containers", "openenv.core.containers.runtime"])
def test_providers_have_one_class_under_each_import_path(module: str) -> None:
    code = (
        f"from {module} import ContainerProvider, LocalDockerProvider\n"
        "import openenv.core as core\n"
        "assert core.ContainerProvider is ContainerProvider and core.LocalDockerProvider is LocalDockerProvider"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
