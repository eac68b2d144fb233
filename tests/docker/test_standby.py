"""Containers that stand by, and many at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from docker import DockerClient

from envs.echo_env import EchoAction, EchoEnv
from openenv.containers import LocalDockerProvider, StandbyPool, start_many
from openenv.containers.owner import OWNER
from openenv.core.errors import ConfigurationError, ContainerError, ContainerNotReady
from tests.docker.conftest import OwnerProcess, eventually

Left = Callable[..., list[str]]
Owner = Callable[[str], OwnerProcess]


def quick() -> LocalDockerProvider:
    return LocalDockerProvider(stop_timeout_s=1)


def test_what_is_taken_plays_at_once_and_is_replaced(echo_image: str, left: Left) -> None:
    with StandbyPool(echo_image, 2, provider=quick) as standby:
        standby.wait_until_full()
        assert "2 of 2" in repr(standby)
        with standby.take(EchoEnv) as env:
            env.reset()
            assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
            assert env.container.status == "running"
            standby.wait_until_full()
            assert len(left()) == 3
    assert left() == []


def test_they_stand_still_until_they_are_taken(echo_image: str, engine: DockerClient, left: Left) -> None:
    with StandbyPool(echo_image, 1, provider=quick) as standby:
        standby.wait_until_full()
        (name,) = left()
        assert engine.containers.get(name.lstrip("/")).status == "paused"
        taken = standby.take()
        assert f"/{taken._container_name}" == name
        assert taken.inspect()["State"]["Status"] == "running"
        taken.stop_container()


def test_one_that_died_is_never_handed_out(echo_image: str, engine: DockerClient, left: Left) -> None:
    with StandbyPool(echo_image, 2, provider=quick) as standby:
        standby.wait_until_full()
        dead = left()[1]  # the engine names the newest first: this one would be the next
        engine.api.remove_container(dead, force=True)
        with standby.take(EchoEnv) as env:
            env.reset()
            assert f"/{env.container.name}" != dead
        standby.wait_until_full()
    assert left() == []


def test_many_threads_get_a_container_each(echo_image: str, left: Left) -> None:
    names: list[str] = []
    with StandbyPool(echo_image, 3, provider=quick) as standby:

        def play() -> None:
            with standby.take(EchoEnv) as env:
                env.reset()
                names.append(env.container.name)

        threads = [threading.Thread(target=play) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(names)) == 6
    assert left() == []


def test_why_there_is_none_is_told_and_tried_again(image: str, left: Left) -> None:
    with StandbyPool(image, 1, provider=quick, command=["sh", "-c", "echo no such thing; exit 4"]) as standby:
        for _ in range(2):
            with pytest.raises(ContainerError, match="exit code 4") as caught:
                standby.take(timeout_s=30)
            assert "no such thing" in caught.value.logs
    assert left() == []


def test_waiting_for_one_has_a_limit(image: str) -> None:
    with StandbyPool(image, 1, provider=quick, command=["sleep", "60"], start_timeout_s=4) as standby:
        with pytest.raises(ContainerNotReady, match=r"after 0\.5 s"):
            standby.take(timeout_s=0.5)


def test_a_client_that_cannot_be_made_leaves_no_container(echo_image: str, left: Left) -> None:
    with StandbyPool(echo_image, 1, provider=quick) as standby:
        standby.wait_until_full()
        with pytest.raises(ConfigurationError):
            standby.take(EchoEnv, transport="pigeon")
    assert left() == []


def test_closing_while_one_is_started_leaves_nothing(echo_image: str, left: Left) -> None:
    standby = StandbyPool(echo_image, 2, provider=quick)
    time.sleep(0.1)
    standby.close()
    assert left() == []
    with pytest.raises(ContainerError, match="closed"):
        standby.take()


def test_a_killed_owner_leaves_none_standing(owner: Owner, left: Left, echo_image: str) -> None:
    other = owner(
        f"from openenv.containers import StandbyPool\npool = StandbyPool({echo_image!r}, 2)\npool.wait_until_full()\n"
        "tell('ready')\ntime.sleep(600)"
    )
    assert other.told() == "ready"
    other.process.send_signal(signal.SIGKILL)
    other.end()
    assert eventually(lambda: not left(other.session), 6), left(other.session)


def test_a_forked_child_is_told_that_the_pool_is_not_its_own(echo_image: str, left: Left) -> None:
    with StandbyPool(echo_image, 1, provider=quick) as standby:
        standby.wait_until_full()
        pid = os.fork()
        if not pid:
            try:
                standby.take()
            except ContainerError as error:
                os._exit(7 if "process that made it" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert len(left(OWNER.session)) == 1


@pytest.mark.parametrize("wrong", [{"size": 0}, {"at_once": 0}])
def test_sizes_are_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="from 1; got 0"):
        StandbyPool("x", **wrong)


# --- many at once ---


def test_many_are_started_and_ready(echo_image: str, left: Left) -> None:
    made = start_many(echo_image, 5, make=quick)
    assert len(made.ready) == 5
    assert len({one.url for one in made.ready}) == 5
    for one in made.ready:
        one.stop_container()
    assert left() == []


def test_all_or_nothing_leaves_nothing(image: str, left: Left) -> None:
    with pytest.raises(ContainerError, match="exit code 3") as caught:
        start_many(image, 3, make=quick, command=["sh", "-c", "exit 3"])
    assert "none was kept" in "".join(caught.value.__notes__)
    assert left() == []


def test_some_may_fail_where_that_is_wanted(echo_image: str, left: Left) -> None:
    turns = iter(range(3))

    def sometimes() -> LocalDockerProvider:
        made = quick()
        if next(turns) == 1:
            made.start_container = lambda *_, **__: (_ for _ in ()).throw(ContainerError("not this one"))  # type: ignore[method-assign]
        return made

    made = start_many(echo_image, 3, make=sometimes, all_or_nothing=False, at_once=1)
    assert [len(made.ready), [error.message for error in made.failed]] == [2, ["not this one"]]
    for one in made.ready:
        one.stop_container()
    assert left() == []
