"""A server inside the process of the test."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from openenv.server import create_app, serve_in_thread
from tests.unit.server.envs import Counting, Heard, Say


def test_it_answers_when_entered_and_is_gone_when_left() -> None:
    made: list[Counting] = []

    def factory() -> Counting:
        made.append(Counting())
        return made[-1]

    with serve_in_thread(create_app(factory, Say, Heard)) as url:
        assert url.startswith("http://127.0.0.1:")
        assert requests.post(f"{url}/reset", json={}, timeout=10).status_code == 200
        assert made[0].closed == 0
    assert made[0].closed == 1
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{url}/health", timeout=10)
    assert not [thread for thread in threading.enumerate() if thread.name == "openenv-server"]


def test_it_works_inside_a_running_event_loop() -> None:
    async def main() -> int:
        with serve_in_thread(create_app(Counting, Say, Heard)) as url:
            reply = await asyncio.to_thread(requests.get, f"{url}/health", timeout=10)
        return reply.status_code

    assert asyncio.run(main()) == 200


def test_several_have_ports_of_their_own() -> None:
    app = "envs.echo_env.server.app:app"
    with serve_in_thread(app) as first, serve_in_thread(create_app(Counting, Say, Heard, name="b")) as second:
        names = [requests.get(f"{url}/health", timeout=10).json()["name"] for url in (first, second)]
    assert names == ["echo_env", "b"]


def test_calls_in_flight_are_answered_when_it_is_left() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Waiting(Counting):
        blocking = True

        def step(self, action: Say) -> Heard:
            begun.set()
            go_on.wait(20)
            return Heard(message="done")

    with ThreadPoolExecutor() as pool:
        with serve_in_thread(create_app(Waiting, Say, Heard)) as url:
            requests.post(f"{url}/reset", json={}, timeout=10)
            step = pool.submit(requests.post, f"{url}/step", json={"message": "x"}, timeout=30)
            assert begun.wait(10)
            threading.Timer(0.3, go_on.set).start()
        assert step.result().json()["observation"]["message"] == "done"


def test_a_server_that_cannot_start_says_why() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no ROM"})

    with pytest.raises(RuntimeError, match="did not start"), serve_in_thread(broken):
        pass
