"""What a server of the first generation (0.1.1) does, seen with nothing but `requests` and `websockets`.

Our clients are written against these facts; where one of them stops being true, it is not our client that broke.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
import requests
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.interop.remote import PeerServer

Serve = Callable[..., PeerServer]


@pytest.fixture
def serve(server: Serve) -> Serve:
    return lambda env, **options: server("0.1.1", env, **options)


@pytest.fixture
def echo(serve: Serve) -> str:
    return serve("echo").url


def test_health_is_one_word(echo: str) -> None:
    answer = requests.get(f"{echo}/health", timeout=5)
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy"})


@pytest.mark.parametrize("body", ["{}", "", '{"seed": 1, "episode_id": "mine", "more": [1]}'])
def test_reset_takes_any_object_or_nothing_and_ignores_it(echo: str, body: str) -> None:
    answer = requests.post(f"{echo}/reset", data=body, headers={"Content-Type": "application/json"}, timeout=5)
    assert answer.status_code == 200
    assert answer.json() == {
        "observation": {"echoed_message": "Echo environment ready!", "message_length": 0},
        "reward": 0.0,
        "done": False,
    }
    assert requests.get(f"{echo}/state", timeout=5).json()["episode_id"] != "mine"


def test_a_list_as_body_of_reset_is_422(echo: str) -> None:
    assert requests.post(f"{echo}/reset", json=[1], timeout=5).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"action": {"message": "Hello"}, "timeout_s": 15},
        {"action": {"message": "Hello"}, "timeout_s": 0, "request_id": "r", "more": 1},
        {"message": "Hello"},
    ],
)
def test_step_takes_an_envelope_or_the_bare_action(echo: str, body: dict[str, object]) -> None:
    answer = requests.post(f"{echo}/step", json=body, timeout=5)
    assert answer.status_code == 200
    assert answer.json() == {
        "observation": {"echoed_message": "Hello", "message_length": 5},
        "reward": 0.5,
        "done": False,
    }


def test_metadata_of_the_action_arrives_and_that_of_the_observation_is_dropped(serve: Serve) -> None:
    url = serve("recorder").url
    answer = requests.post(
        f"{url}/step", json={"action": {"note": "n", "metadata": {"who": "me"}}, "timeout_s": 9}, timeout=5
    ).json()
    assert answer["observation"]["step"] == {"note": "n", "metadata": {"who": "me"}, "timeout_s": None, "extra": {}}
    assert "metadata" not in answer
    assert "metadata" not in answer["observation"]


def test_all_clients_share_one_environment_that_remembers(serve: Serve) -> None:
    url = serve("counter").url
    requests.post(f"{url}/reset", json={}, timeout=5)
    results = []
    for _ in range(5):
        with requests.Session() as session:
            results.append(session.post(f"{url}/step", json={"action": {}}, timeout=5).json())
    assert [result["observation"]["count"] for result in results] == [1, 2, 3, 4, 5]
    assert [result["done"] for result in results] == [False, False, False, False, True]
    first, second = (requests.get(f"{url}/state", timeout=5).json() for _ in range(2))
    assert first == second
    assert first["step_count"] == 5


def test_fields_of_the_state_that_the_environment_added_are_sent(serve: Serve) -> None:
    state = requests.get(f"{serve('recorder').url}/state", timeout=5).json()
    assert state.keys() == {"episode_id", "step_count", "mood", "history"}


@pytest.mark.parametrize(
    ("verb", "path"), [("POST", "/state"), ("GET", "/reset"), ("GET", "/step"), ("DELETE", "/state")]
)
def test_the_wrong_verb_is_405(echo: str, verb: str, path: str) -> None:
    answer = requests.request(verb, echo + path, timeout=5)
    assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"})


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_the_frameworks_own_pages_are_there(echo: str, path: str) -> None:
    assert requests.get(echo + path, timeout=5).status_code == 200


@pytest.mark.parametrize("path", ["/metadata", "/schema", "/", "/web", "/ws", "/mcp", "/list_environments"])
def test_routes_of_later_generations_are_404(echo: str, path: str) -> None:
    answer = requests.get(echo + path, timeout=5)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


def test_a_websocket_is_refused_with_403(echo: str) -> None:
    with pytest.raises(InvalidStatus) as caught, connect(f"{echo.replace('http', 'ws')}/ws", open_timeout=5):
        pass
    assert caught.value.response.status_code == 403


def test_a_slash_at_the_end_is_a_307(echo: str) -> None:
    answer = requests.post(f"{echo}/reset/", json={}, allow_redirects=False, timeout=5)
    assert (answer.status_code, answer.headers["Location"]) == (307, f"{echo}/reset")


@pytest.mark.parametrize("body", ["not json", "", "[1]"])
def test_a_body_of_step_that_is_no_object_is_422(echo: str, body: str) -> None:
    answer = requests.post(f"{echo}/step", data=body, headers={"Content-Type": "application/json"}, timeout=5)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], list)


@pytest.mark.parametrize("action", [{}, {"message": "m", "surprise": 1}, {"massage": "m"}])
def test_wrong_fields_of_an_action_are_a_bare_500(echo: str, action: dict[str, object]) -> None:
    answer = requests.post(f"{echo}/step", json={"action": action}, timeout=5)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_an_environment_that_raises_is_a_bare_500_and_goes_on(serve: Serve) -> None:
    url = serve("failing").url
    answer = requests.post(f"{url}/step", json={"action": {"message": "fail"}}, timeout=5)
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert requests.post(f"{url}/step", json={"action": {"message": "go"}}, timeout=5).status_code == 200


@pytest.mark.parametrize(
    ("kind", "text"),
    [("none", "null"), ("int", "1"), ("zero", "0"), ("true", "true"), ("false", "false"), ("float", "0.25")],
)
def test_a_reward_travels_as_it_is(serve: Serve, kind: str, text: str) -> None:
    answer = requests.post(f"{serve('rewards').url}/step", json={"action": {"kind": kind}}, timeout=5)
    assert json.dumps(answer.json()["reward"]) == text


def test_steps_run_one_after_the_other_while_health_and_state_answer(serve: Serve) -> None:
    url = serve("slow").url

    def step() -> None:
        requests.post(f"{url}/step", json={"action": {"seconds": 0.5}}, timeout=10)

    start = time.monotonic()
    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    for path in ("/health", "/state"):
        assert requests.get(url + path, timeout=5).ok
    answered = time.monotonic() - start
    for thread in threads:
        thread.join()
    assert answered < 1.0 <= time.monotonic() - start


def test_a_broken_environment_is_a_server_that_does_not_start(serve: Serve) -> None:
    with pytest.raises(RuntimeError, match="no licence for this simulator"):
        serve("broken")


def test_the_page_is_fed_by_a_websocket_that_is_no_session(serve: Serve) -> None:
    url = serve("echo", environ={"ENABLE_WEB_INTERFACE": "true"}).url
    assert "<html" in requests.get(f"{url}/web", timeout=5).text
    assert requests.get(f"{url}/web/metadata", timeout=5).json()["name"]
    with connect(f"{url.replace('http', 'ws')}/ws", open_timeout=5) as feed:
        assert json.loads(feed.recv(timeout=5))["type"] == "state_update"
        feed.send(json.dumps({"type": "reset", "data": {}}))
        with pytest.raises(TimeoutError):
            feed.recv(timeout=0.3)
        result = requests.post(f"{url}/web/reset", timeout=5).json()
        assert {"reward", "done", "metadata"} <= result["observation"].keys()
        assert json.loads(feed.recv(timeout=5)).keys() == {"type", "episode_state"}
    assert requests.post(f"{url}/web/step", json={"action": {"message": "Hello"}}, timeout=5).json()["reward"] == 0.5
    assert requests.get(f"{url}/web/state", timeout=5).json()["step_count"] == 1
