"""Clients in other processes: what is sent or inherited is a client of its own there, and the parent keeps what it has.

Each runs in a fresh interpreter, so that nothing but the test's own threads are there when it forks.
"""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from examples.cart_pole import CartPoleEnv

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("way", ["threads", *multiprocessing.get_all_start_methods()])
def test_workers_play_the_same_episodes_and_leave_the_parents_alone(way: str) -> None:
    assert "the same returns" in run("-W", "error", "-m", "examples.many_processes", way)


def test_a_client_that_is_inherited_by_fork_is_another_client_there() -> None:
    told = run(
        "-c",
        """
import multiprocessing
from examples.cart_pole import CartPoleEnv, Push
from openenv.core.errors import EpisodeLost

def child():
    try:
        client.step(Push(right=1))
    except EpisodeLost:
        print("lost", flush=True)
    client.reset(seed=1)
    client.step(Push(right=1))
    print("child", client.state().step_count, flush=True)
    client.close()

client = CartPoleEnv.from_process("examples.cart_pole:app")
client.reset(seed=1)
for _ in range(5):
    client.step(Push(right=0))
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(30)
client.step(Push(right=0))
print("parent", client.state().step_count, process.exitcode)
client.close()
""",
    )
    assert told.split("\n")[:3] == ["lost", "child 1", "parent 6 0"]


def test_a_client_that_is_sent_does_not_stop_the_server_that_its_parent_owns() -> None:
    with CartPoleEnv.from_process("examples.cart_pole:app") as owner:
        sent: CartPoleEnv = pickle.loads(pickle.dumps(owner))
        sent.reset(seed=1)
        sent.close()
        owner.reset(seed=1)


def test_a_client_that_is_sent_keeps_its_seed() -> None:
    client = CartPoleEnv("http://127.0.0.1:9")
    client.set_seed(5)
    sent: CartPoleEnv = pickle.loads(pickle.dumps(client))
    assert [sent._seed_of(None) for _ in range(3)] == [client._seed_of(None) for _ in range(3)]
