"""A decoded reply becomes a checked, typed result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from benchmarks.frame import Bench, Case, Must, times
from envs.echo_env import EchoEnv, EchoObservation
from openenv.core.types import StepResult

TYPED, BY_HAND = "typed, checked, unknown keys kept", "cls(**dict) twice, by hand"

MUSTS = [Must("decode_vs_by_hand", "its time as a multiple of cls(**dict)", times(TYPED, BY_HAND), at_most=5)]

_OBSERVATION: dict[str, Any] = {"echoed_message": "hello, world", "message_length": 12, "metadata": {"step": 1}}


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with constructing both classes from dicts that are known to fit."""
    payload = {"observation": {**_OBSERVATION, "mood": "calm"}, "reward": 1.2, "done": False}
    count = 200
    with EchoEnv("http://localhost:8000") as env:

        def by_hand() -> StepResult[EchoObservation]:
            return StepResult(EchoObservation(**_OBSERVATION), **_REST)

        if env._parse_result(payload).observation.metadata.get("mood") != "calm":
            raise RuntimeError("the unknown key was lost")
        yield Bench(
            "a payload of two levels becomes a StepResult with an EchoObservation",
            {TYPED: _mean_s(lambda: env._parse_result(payload), count), BY_HAND: _mean_s(by_hand, count)},
            reference=BY_HAND,
            blocks=20 if quick else 60,
            per_block=10,
            musts=MUSTS,
        )


_REST: dict[str, Any] = {"reward": 1.2, "done": False}


def _mean_s(decode: Callable[[], object], count: int) -> Case:
    """One sample: the mean of ``count`` calls, each too short for the clock."""

    def case() -> float:
        start = perf_counter()
        for _ in range(count):
            decode()
        return (perf_counter() - start) / count

    return case
