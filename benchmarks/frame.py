"""Measures cases against each other in the same run, in interleaved blocks.

A machine's speed drifts, so only ratios between cases that took turns mean something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

Case = Callable[[], float | list[float] | None]


class Unavailable(Exception):
    """The benchmark cannot be run here; the message says why."""


@dataclass(frozen=True)
class Must:
    """A promise about the ratio of one case to another, as a bound from above or from below.

    Attributes:
        id: Its name in the JSON output.
        says: What is promised, in words.
        ratio: What is bounded.
        at_most: The bound from above.
        at_least: The bound from below.
    """

    id: str
    says: str
    ratio: Callable[[Result], float]
    at_most: float | None = None
    at_least: float | None = None

    @property
    def bound(self) -> float:
        """The bound, whichever it is."""
        bound = self.at_most if self.at_least is None else self.at_least
        assert bound is not None
        return bound

    def verdict(self, result: Result) -> dict[str, Any]:
        """What was measured, what was promised, and whether it holds."""
        ratio = self.ratio(result)
        holds = ratio <= self.bound if self.at_least is None else ratio >= self.bound
        return {"ratio": round(ratio, 4), "must": self.bound, "holds": holds}

    def skipped(self, why: str) -> dict[str, Any]:
        """What is said of a promise that could not be measured."""
        return {"ratio": None, "must": self.bound, "holds": None, "skipped": why}


def times(case: str, reference: str) -> Callable[[Result], float]:
    """How many times as long ``case`` takes as ``reference``."""
    return lambda result: result.ratio(case, reference)


@dataclass
class Bench:
    """What to measure.

    Attributes:
        title: One line on what is compared.
        cases: Name: one sample, or a list of them. It returns what it measured, or ``None`` to be timed from outside,
            in seconds.
        reference: The case that the others are divided by; empty where they are of different kinds.
        blocks: Every case has its turn in each.
        per_block: Calls of a case in one block.
        unit: Of the numbers: ``s`` is shown as milliseconds.
        musts: Promises on the result.
        warm_up: Every case has one call that is not measured, first.
        processes: Of a case: the side ("client", "server") and the id of the process whose CPU time is told.
    """

    title: str
    cases: dict[str, Case]
    reference: str = ""
    blocks: int = 10
    per_block: int = 1
    unit: str = "s"
    musts: list[Must] = field(default_factory=list)
    warm_up: bool = True
    processes: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass
class Result:
    """Samples of every case, block after block, and the CPU seconds of one sample on each side."""

    bench: Bench
    blocks: dict[str, list[list[float]]]
    cpu: dict[str, dict[str, float]]

    def samples(self, case: str) -> list[float]:
        """All samples of a case."""
        return [sample for block in self.blocks[case] for sample in block]

    def median(self, case: str) -> float:
        """The middle sample."""
        return median(self.samples(case))

    def p95(self, case: str) -> float:
        """The sample that 95 of 100 do not pass."""
        samples = self.samples(case)
        return quantiles(samples, n=20, method="inclusive")[-1] if len(samples) > 1 else samples[0]

    def ratio(self, case: str, reference: str | None = None) -> float:
        """The median over the blocks of a case's median divided by the reference's in the same block."""
        base = self.blocks[reference or self.bench.reference]
        return median(median(mine) / median(other) for mine, other in zip(self.blocks[case], base, strict=True))


def measure(bench: Bench) -> Result:
    """Run a benchmark."""
    for case in bench.cases.values() if bench.warm_up else ():
        case()
    blocks: dict[str, list[list[float]]] = {name: [] for name in bench.cases}
    cpu = {name: dict.fromkeys(sides, 0.0) for name, sides in bench.processes.items()}
    names = list(bench.cases)
    for turn in range(bench.blocks):
        # Alternating, so that no case always runs in the wake of the same other.
        for name in names if turn % 2 == 0 else reversed(names):
            sides = bench.processes.get(name, {})
            before = {side: cpu_s(process) for side, process in sides.items()}
            blocks[name].append([sample for _ in range(bench.per_block) for sample in _samples(bench.cases[name])])
            for side, process in sides.items():
                cpu[name][side] += cpu_s(process) - before[side]
    for name, sides_s in cpu.items():
        count = sum(map(len, blocks[name]))
        cpu[name] = {side: total / count for side, total in sides_s.items()}
    return Result(bench, blocks, cpu)


def _samples(case: Case) -> list[float]:
    start = perf_counter()
    measured = case()
    elapsed = perf_counter() - start
    if measured is None:
        return [elapsed]
    return measured if isinstance(measured, list) else [measured]


def repeated(step: Callable[[], object], count: int) -> Case:
    """A case of ``count`` samples: the seconds that each ``step()`` took."""

    def case() -> list[float]:
        taken = []
        for _ in range(count):
            start = perf_counter()
            step()
            taken.append(perf_counter() - start)
        return taken

    return case


def cpu_s(process: int) -> float:
    """Seconds that the threads of a process have run; 0 where the system does not tell (it is Linux's)."""
    total = 0
    for schedstat in Path(f"/proc/{process}/task").glob("*/schedstat"):
        try:
            total += int(schedstat.read_text().split()[0])
        except OSError:  # that thread has just ended
            continue
    return total / 1e9
