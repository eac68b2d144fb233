"""Whose owner is dead: only where that is certain."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from openenv.containers.census import owner_of
from openenv.containers.labels import BOOT, HOST, NAMESPACE, PID, STARTED, boot_id, owner_labels
from openenv.containers.reaper import started

pytestmark = pytest.mark.skipif(not boot_id(), reason="this system does not tell its boots apart")


@pytest.fixture
def mine() -> dict[str, str]:
    return owner_labels("session", port=8000, keep=False)


def test_this_process_is_alive(mine: dict[str, str]) -> None:
    assert owner_of(mine, local=True) == "alive"


def test_a_process_that_ended_is_dead(mine: dict[str, str]) -> None:
    other = subprocess.Popen(["sleep", "600"])
    since = started(other.pid)
    labels = {**mine, PID: str(other.pid), STARTED: since}
    assert owner_of(labels, local=True) == "alive"
    other.kill()
    other.wait()
    assert owner_of(labels, local=True) == "dead"


def test_a_process_id_that_was_used_again_is_not_the_owner(mine: dict[str, str]) -> None:
    assert owner_of({**mine, STARTED: str(int(mine[STARTED]) - 1)}, local=True) == "dead"
    assert mine[PID] == str(os.getpid())


def test_an_owner_before_the_last_boot_of_this_machine_is_dead(mine: dict[str, str]) -> None:
    assert owner_of({**mine, BOOT: "another"}, local=True) == "dead"


@pytest.mark.parametrize(
    "change",
    [
        {BOOT: "another", HOST: f"not-{socket.gethostname()}"},
        {NAMESPACE: "pid:[1]"},
        {PID: ""},
        {PID: "x"},
        {STARTED: ""},
        {BOOT: ""},
    ],
    ids=["another machine", "another container", "no pid", "odd pid", "no time", "no boot"],
)
def test_what_cannot_be_known_is_not_called_dead(mine: dict[str, str], change: dict[str, str]) -> None:
    assert owner_of({**mine, **change}, local=True) == "unknown"


def test_another_boot_on_a_remote_engine_is_unknown(mine: dict[str, str]) -> None:
    assert owner_of({**mine, BOOT: "another"}, local=False) == "unknown"
