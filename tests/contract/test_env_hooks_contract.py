"""What existing code relies on in the echo environment's client, line by line; each test is named after its line."""

from __future__ import annotations

import pytest

from envs.echo_env import EchoAction, EchoEnv, EchoObservation, EchoState
from openenv.core import StepResult
from tests.wire.behaviours import EraServer, Faulty, instead
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Reply


@pytest.fixture
def env(client: MakeClient) -> EchoEnv:
    made: EchoEnv = client("http://127.0.0.1:1", kind=EchoEnv)
    return made


def test_echo_action_message_metadata_empty_by_default() -> None:
    action = EchoAction(message="x")
    assert (action.message, action.metadata) == ("x", {})
    assert EchoAction(message="y").metadata is not action.metadata


def test_message_is_required() -> None:
    with pytest.raises(TypeError, match="message"):
        EchoAction()  # type: ignore[call-arg]


def test_payload_is_message_alone(env: EchoEnv) -> None:
    assert env._step_payload(EchoAction(message="x")) == {"message": "x"}


def test_result_fields_and_reward_and_done_mirrored_into_the_observation(env: EchoEnv) -> None:
    result = env._parse_result(
        {"observation": {"echoed_message": "x", "message_length": 1}, "reward": 0.1, "done": True}
    )
    seen = EchoObservation(echoed_message="x", message_length=1, reward=0.1, done=True)
    assert result.observation == seen
    assert type(result) is StepResult
    assert (result.reward, result.done) == (0.1, True)


def test_an_empty_answer_parses_to_empty_text_0_none_false(env: EchoEnv) -> None:
    result = env._parse_result({})
    assert (result.observation.echoed_message, result.observation.message_length) == ("", 0)
    assert (result.reward, result.done) == (None, False)
    assert (result.observation.reward, result.observation.done) == (None, False)


def test_observation_metadata_is_kept_when_the_server_sends_it(env: EchoEnv) -> None:
    sent = {"echoed_message": "x", "message_length": 1, "metadata": {"step": 1}}
    result = env._parse_result({"observation": sent, "reward": None, "done": False, "metadata": {"step": 1}})
    assert result.observation.metadata == {"step": 1}
    assert result.metadata == {"step": 1}


def test_unknown_keys_of_a_newer_server_are_kept_in_metadata(env: EchoEnv) -> None:
    """Better than the original, which dropped them."""
    sent = {"echoed_message": "x", "message_length": 1, "mood": "fine"}
    result = env._parse_result({"observation": sent, "reward": 1, "done": False, "cost": 3})
    assert result.observation.metadata == {"mood": "fine"}
    assert result.metadata == {"cost": 3}


def test_state_episode_id_and_step_count_defaults_none_and_0(env: EchoEnv) -> None:
    assert env._parse_state({"episode_id": "e", "step_count": 3}) == EchoState(episode_id="e", step_count=3)
    assert env._parse_state({}) == EchoState(episode_id=None, step_count=0)


def test_on_the_wire_action_message_x_timeout_s_15(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    client(server, kind=EchoEnv).step(EchoAction(message="x"))
    (sent,) = server.posts()
    assert sent.value() == {"action": {"message": "x"}, "timeout_s": 15}
    assert type(sent.value()["timeout_s"]) is int


def test_metadata_of_an_action_travels_where_there_is_some(serve: Serve, client: MakeClient) -> None:
    server = serve(EraServer())
    client(server, kind=EchoEnv).step(EchoAction(message="x", metadata={"who": "me"}))
    assert server.posts()[0].value()["action"] == {"message": "x", "metadata": {"who": "me"}}


def test_echo_observation_needs_echoed_message_the_rest_has_defaults() -> None:
    seen = EchoObservation(echoed_message="x")
    assert (seen.message_length, seen.done, seen.reward) == (0, False, None)
    with pytest.raises(TypeError, match="echoed_message"):
        EchoObservation()  # type: ignore[call-arg]


@pytest.mark.parametrize("reward", [None, True, 3, 0.5])
def test_a_reward_stays_what_it_is(serve: Serve, client: MakeClient, reward: object) -> None:
    body = {"observation": {"echoed_message": "x", "message_length": 1}, "reward": reward, "done": False}
    env = client(serve(Faulty(EraServer()).on("/step", instead(Reply(body=body)))), kind=EchoEnv)
    result = env.step(EchoAction(message="x"))
    assert (result.reward, type(result.reward)) == (reward, type(reward))
    assert (result.observation.reward, type(result.observation.reward)) == (reward, type(reward))
