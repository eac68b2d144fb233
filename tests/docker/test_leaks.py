"""Whatever happens to the owner of containers, none of them stays; and nobody else's goes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from openenv.containers import LocalDockerProvider
from tests.docker.conftest import SERVE, OwnerProcess, eventually

Owner = Callable[[str], OwnerProcess]
Left = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("sys.exit(7)", 7),
        ("raise ValueError('oops')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("del made[:]", 0),
    ],
    ids=["end", "exit", "exception", "interrupt", "garbage"],
)
def test_the_interpreters_end_leaves_nothing(owner: Owner, left: Left, ending: str, code: int) -> None:
    other = owner(f"made = start(2)\ntell('ready')\nsys.stdin.read(0)\n{ending}")
    assert other.told() == "ready"
    assert other.end()[0] == code
    assert left(other.session) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_leaves_nothing_and_ends_the_process_as_it_would_have(
    owner: Owner, left: Left, number: signal.Signals, code: int
) -> None:
    other = owner("made = start(2)\ntell('ready')\ntime.sleep(600)")
    other.told()
    other.process.send_signal(number)
    assert other.end()[0] == code
    assert left(other.session) == []


def test_a_handler_of_the_programs_own_is_left_alone(owner: Owner, left: Left) -> None:
    other = owner(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nmade = start()\ntell('ready')\ntime.sleep(600)"
    )
    other.told()
    other.process.send_signal(signal.SIGTERM)
    assert other.end()[0] == 5
    assert left(other.session) == []


def test_sigkill_leaves_nothing_within_five_seconds_and_a_neighbours_stay(
    owner: Owner, left: Left, provider: LocalDockerProvider, image: str
) -> None:
    provider.start_container(image, command=SERVE)
    other = owner("made = start(4)\ntell('ready')\ntime.sleep(600)")
    other.told()
    assert len(left(other.session)) == 4
    other.process.kill()
    other.end()
    assert eventually(lambda: not left(other.session), 5), left(other.session)
    assert f"/{provider._container_name}" in left()


def test_sigkill_in_the_middle_of_starting_leaves_nothing(owner: Owner, left: Left) -> None:
    other = owner("tell('now')\nstart(3)\ntell('done')\ntime.sleep(600)")
    other.told()
    assert eventually(lambda: left(other.session), 20)
    other.process.kill()
    other.end()
    assert eventually(lambda: not left(other.session), 8), left(other.session)
    # What the engine was just making comes late.
    assert not eventually(lambda: left(other.session), 2)


def test_sigkill_of_the_whole_process_group_leaves_nothing(owner: Owner, left: Left) -> None:
    other = owner("made = start(1)\ntell('ready')\ntime.sleep(600)")
    other.told()
    os.killpg(other.process.pid, signal.SIGKILL)
    other.end()
    assert eventually(lambda: not left(other.session), 5), left(other.session)


def test_a_killed_reaper_is_replaced_with_the_next_container(owner: Owner, left: Left) -> None:
    other = owner(
        "first = start()\nOWNER._lease._process.kill()\nOWNER._lease._process.wait()\nsecond = start()\n"
        "tell('ready')\ntime.sleep(600)"
    )
    other.told()
    other.process.kill()
    other.end()
    assert eventually(lambda: not left(other.session), 5), left(other.session)


def test_a_reaper_that_cannot_start_is_one_warning_and_all_else_works(owner: Owner, left: Left) -> None:
    other = owner("sys.executable = '/nonexistent/python'\nmade = start(2)\ntell('ready')")
    other.told()
    code, complaints = other.end()
    assert code == 0
    assert complaints.count("cannot be started") == 1
    assert left(other.session) == []


def test_the_reaper_goes_when_its_work_is_done(owner: Owner) -> None:
    other = owner("made = start()\ntell(OWNER._lease._process.pid)\nmade[0].stop_container()")
    pid = int(other.told())
    assert other.end() == (0, "")

    def gone() -> bool:
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    assert eventually(gone, 5)


@pytest.mark.parametrize(
    "child",
    [
        "pid = os.fork()\nif not pid: sys.exit(0)\nos.waitpid(pid, 0)",
        "pid = os.fork()\nif not pid: made[0].stop_container(); del made; sys.exit(0)\nos.waitpid(pid, 0)",
        "import multiprocessing as mp\np = mp.get_context('fork').Process(target=made[0].stop_container)\n"
        "p.start(); p.join()",
        "import multiprocessing as mp\np = mp.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "p.start(); p.terminate(); p.join()",
    ],
    ids=["exit", "stop", "multiprocessing", "terminated"],
)
def test_a_forked_child_never_stops_its_parents_container(owner: Owner, left: Left, child: str) -> None:
    other = owner(f"made = start()\n{child}\ntell('ready')\ntime.sleep(600)")
    assert other.told() == "ready"
    assert len(left(other.session)) == 1
    other.process.terminate()
    other.end()
    assert left(other.session) == []


def test_a_forked_child_that_lives_on_does_not_keep_a_dead_parents_container(owner: Owner, left: Left) -> None:
    other = owner(
        "made = start()\npid = os.fork()\nif not pid: time.sleep(20); os._exit(0)\ntell(pid)\ntime.sleep(600)"
    )
    child = int(other.told())
    other.process.kill()
    other.process.wait(10)
    try:
        assert eventually(lambda: not left(other.session), 5), left(other.session)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_owns_what_it_starts(owner: Owner, left: Left) -> None:
    other = owner(
        "made = start()\npid = os.fork()\nif not pid:\n    tell(OWNER.session)\n    mine = start()\n    os._exit(0)\n"
        "os.waitpid(pid, 0)\ntell('ready')\ntime.sleep(600)"
    )
    session = other.told()
    assert session != other.session
    assert other.told() == "ready"
    assert eventually(lambda: not left(session), 5)
    assert len(left(other.session)) == 1


def test_a_container_that_is_kept_on_purpose_outlives_sigkill(
    owner: Owner, left: Left, engine: object, image: str
) -> None:
    import docker

    other = owner(
        "one = LocalDockerProvider(keep=True)\none.start_container(IMAGE, command=SERVE)\nmade = start()\n"
        "tell(one._container_id)\ntime.sleep(600)"
    )
    kept = other.told()
    other.process.kill()
    other.end()
    assert isinstance(engine, docker.DockerClient)
    try:
        assert eventually(lambda: len(left(other.session)) == 1, 5)
        assert engine.containers.get(kept).status == "running"
    finally:
        engine.api.remove_container(kept, force=True, v=True)


def test_threads_that_come_and_go_keep_their_containers(owner: Owner, left: Left) -> None:
    other = owner(
        "made = []\nt = threading.Thread(target=lambda: made.extend(start()))\nt.start(); t.join()\n"
        "tell('ready')\ntime.sleep(600)"
    )
    other.told()
    assert len(left(other.session)) == 1
    other.process.kill()
    other.end()
    assert eventually(lambda: not left(other.session), 5)
