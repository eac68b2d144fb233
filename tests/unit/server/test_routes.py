from __future__ import annotations

import functools
from typing import Any

import pytest

from openenv.core import codec
from tests.unit.server.asgi import ID, Client, on_app
from tests.unit.server.envs import Counting, Heard, Say


def on(work: Any, **options: Any) -> Any:
    return on_app(work, Counting, action=Say, **options)


def test_health_says_protocol_instance_name_and_sessions() -> None:
    async def work(client: Client) -> None:
        before = await client.call("GET", "/health")
        await client.reset()
        after = await client.call("GET", "/health")
        assert before.value == {
            "status": "healthy",
            "protocol": 1,
            "batch": True,
            "instance": before.headers["openenv-instance"],
            "name": "counting",
            "sessions": {"active": 0, "max": 3},
        }
        assert after.value["sessions"] == {"active": 1, "max": 3}

    on(work, name="counting", max_sessions=3)


def test_the_name_is_the_factory_where_none_is_given() -> None:
    async def work(client: Client) -> None:
        assert (await client.call("GET", "/health")).value["name"] == "Counting"

    on(work)


def test_a_result_has_reward_and_done_beside_the_observation() -> None:
    async def work(client: Client) -> None:
        await client.reset()
        step = await client.step()
        assert step.value == {"observation": {"message": "hi", "count": 1}, "reward": 1, "done": False}

    on(work)


def test_metadata_that_is_not_empty_stands_in_the_observation_and_at_the_top() -> None:
    async def work(client: Client) -> None:
        reset = await client.reset(value={"seed": 7, "level": 2})
        assert reset.value["metadata"] == reset.value["observation"]["metadata"] == {"seed": 7, "level": 2}

    on(work)


@pytest.mark.parametrize(
    "body",
    [
        {"action": {"message": "hi"}},
        {"action": {"message": "hi"}, "timeout_s": 15},
        {"action": {"message": "hi"}, "timeout_s": None},
        {"action": {"message": "hi"}, "timeout_s": 0},
        {"action": {"message": "hi"}, "timeout_s": 0.5, "request_id": "r1"},
        {"action": {"message": "hi", "metadata": {"who": "me"}}},
        {"message": "hi"},
        {"message": "hi", "timeout_s": 15, "request_id": "r2"},
    ],
)
def test_a_step_takes_the_bodies_of_every_generation_of_clients(body: dict[str, Any]) -> None:
    async def work(client: Client) -> None:
        assert (await client.reset(session=None)).status == 200
        step = await client.step(session=None, value=body)
        assert (step.status, step.value["observation"]["message"]) == (200, "hi")

    on(work)


def test_an_action_carries_its_metadata_to_the_environment() -> None:
    class Telling(Counting):
        def step(self, action: Say) -> Heard:
            return Heard(message=str(action.metadata))

    async def work(client: Client) -> None:
        await client.reset()
        step = await client.step(value={"action": {"message": "hi", "metadata": {"who": "me"}}})
        assert step.value["observation"]["message"] == "{'who': 'me'}"

    on_app(work, Telling, action=Say)


@pytest.mark.parametrize("value", [None, {}, {"seed": 3, "episode_id": "e"}])
def test_a_reset_takes_no_body_an_empty_one_and_options(value: Any) -> None:
    async def work(client: Client) -> None:
        assert (await client.reset(value=value)).status == 200
        assert (await client.state()).value["episode_id"] == ("e" if value else "begun")

    on(work)


def test_a_query_is_ignored() -> None:
    async def work(client: Client) -> None:
        assert (await client.call("POST", "/reset?seed=1", {})).status == 200

    on(work)


@pytest.mark.parametrize(("method", "value"), [("GET", None), ("POST", None), ("POST", {})])
def test_the_state_is_read_by_get_and_by_post(method: str, value: Any) -> None:
    async def work(client: Client) -> None:
        await client.reset()
        await client.step()
        state = await client.call(method, "/state", value, session=ID)
        assert (state.status, state.value) == (200, {"episode_id": "begun", "step_count": 1})

    on(work)


def test_the_schema_has_the_types_and_the_protocol() -> None:
    async def work(client: Client) -> None:
        schema = (await client.call("GET", "/schema")).value
        assert schema["action"]["properties"]["message"] == {"type": "string"}
        assert schema["action"]["required"] == ["message"]
        assert schema["observation"] == {}  # dict: anything
        assert "step_count" in schema["state"]["properties"]
        assert schema["protocol"] == 1

    on(work)


def test_the_metadata_says_what_is_known_and_null_for_the_rest() -> None:
    async def work(client: Client) -> None:
        metadata = (await client.call("GET", "/metadata")).value
        assert metadata == {
            "name": "Counting",
            "description": "Counts its steps, on the event loop.",
            "version": None,
            "author": None,
            "documentation_url": None,
            "readme_content": None,
        }

    on(work)


def test_a_class_with_arguments_is_described_as_the_class() -> None:
    async def work(client: Client) -> None:
        description = (await client.call("GET", "/metadata")).value["description"]
        assert description == "Counts its steps, on the event loop."

    on_app(work, functools.partial(Counting), action=Say)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/reset", "POST"),
        ("PUT", "/step", "POST"),
        ("DELETE", "/state", "GET, POST"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/session", "DELETE"),
        ("POST", "/schema", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_405_in_the_envelope(method: str, path: str, allow: str) -> None:
    async def work(client: Client) -> None:
        answer = await client.call(method, path)
        assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
        assert sorted(answer.headers["allow"].split(", ")) == allow.split(", ")
        assert answer.value["error"]["request_id"] == answer.headers["x-request-id"]

    on(work)


def test_an_unknown_path_is_404_in_the_envelope() -> None:
    async def work(client: Client) -> None:
        answer = await client.call("GET", "/nowhere", headers={"x-request-id": "r-7"})
        assert (answer.status, answer.code) == (404, "NOT_FOUND")
        assert answer.value["error"]["request_id"] == answer.headers["x-request-id"] == "r-7"

    on(work)


@pytest.mark.parametrize(("target", "location"), [("/reset/", "/reset"), ("/state/?a=b", "/state?a=b")])
def test_a_trailing_slash_is_redirected_with_its_method(target: str, location: str) -> None:
    async def work(client: Client) -> None:
        answer = await client.call("POST", target, {})
        assert (answer.status, answer.headers["location"]) == (307, location)

    on(work)


def test_a_path_prefix_of_a_proxy_is_understood() -> None:
    async def work(client: Client) -> None:
        assert (await client.call("POST", "/reset", {}, root_path="/envs/echo")).status == 200
        redirect = await client.call("POST", "/reset/", {}, root_path="/envs/echo")
        assert redirect.headers["location"] == "/envs/echo/reset"

    on(work)


def test_a_request_id_is_carried_back_or_made() -> None:
    async def work(client: Client) -> None:
        given = await client.call("GET", "/health", headers={"x-request-id": "mine"})
        made = [(await client.call("GET", "/health")).headers["x-request-id"] for _ in range(2)]
        assert given.headers["x-request-id"] == "mine"
        assert made[0] != made[1]
        assert all(made)

    on(work)


def test_messagepack_is_spoken_where_it_is_asked_for() -> None:
    async def work(client: Client) -> None:
        headers = {"accept": f"{codec.MSGPACK}, {codec.JSON}", "content-type": codec.MSGPACK}
        await client.reset()
        step = await client.step(body=codec.to_msgpack({"action": {"message": "hi"}}), headers=headers)
        refused = await client.step(body=codec.to_msgpack({"action": {}}), headers=headers)
        assert (step.media, step.value["observation"]["message"]) == (codec.MSGPACK, "hi")
        assert (refused.media, refused.code) == (codec.MSGPACK, "VALIDATION_ERROR")

    on(work)


def test_an_application_can_be_served_again_after_it_was_stopped() -> None:
    from envs.echo_env.client import EchoEnv
    from envs.echo_env.server.app import app
    from openenv.server import serve_in_thread

    for _ in range(2):
        with serve_in_thread(app) as url, EchoEnv(url) as env:
            assert env.reset().observation.message_length == 0


def test_the_largest_body_and_message_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import websockets.sync.client as sockets
    from websockets.exceptions import ConnectionClosed

    from envs.echo_env import EchoAction, EchoEnv, EchoObservation
    from envs.echo_env.server.environment import EchoEnvironment
    from openenv.core.errors import ConfigurationError, InvalidRequest
    from openenv.server import create_app, serve_in_thread

    monkeypatch.setenv("OPENENV_MAX_BODY_BYTES", "1000")
    with serve_in_thread(create_app(EchoEnvironment, EchoAction, EchoObservation)) as url, EchoEnv(url) as env:
        env.reset()
        with pytest.raises(InvalidRequest, match="1000"):
            env.step(EchoAction(message="x" * 2000))
        assert env.step(EchoAction(message="x")).observation.message_length == 1
        with sockets.connect(url.replace("http", "ws") + "/ws", compression=None) as socket:
            socket.send("x" * 2000)
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=5)
    monkeypatch.setenv("OPENENV_MAX_BODY_BYTES", "many")
    with pytest.raises(ConfigurationError, match=r"OPENENV_MAX_BODY_BYTES.*many"):
        create_app(EchoEnvironment, EchoAction, EchoObservation)
