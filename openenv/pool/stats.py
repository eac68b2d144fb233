"""How long rounds and lanes took, as percentiles."""

from __future__ import annotations

from collections import deque
from typing import Any

from openenv.pool.results import Timing

#: Rounds that are remembered.
_ROUNDS = 4096
_PARTS = ("encode", "exchange", "server", "decode", "total")


class Stats:
    """The last rounds of a pool.

    Attributes:
        rounds: How many there were since the pool was made.
        steps: How many steps of lanes.
        failures: How many calls of lanes failed.
    """

    def __init__(self) -> None:
        self.rounds = self.steps = self.failures = 0
        self._parts: dict[str, deque[float]] = {name: deque(maxlen=_ROUNDS) for name in _PARTS}
        self._lanes: dict[int, deque[float]] = {}

    def add(self, timing: Timing, lanes: list[int], failures: int) -> None:
        """Note a round in which these ``lanes`` were answered."""
        self.rounds += 1
        self.steps += len(lanes)
        self.failures += failures
        total = timing.encode + timing.exchange + timing.decode
        for name, value in zip(
            _PARTS, (timing.encode, timing.exchange, timing.server, timing.decode, total), strict=True
        ):
            if value is not None:
                self._parts[name].append(value)
        for lane in lanes:
            seen = self._lanes.get(lane)
            if seen is None:
                seen = self._lanes[lane] = deque(maxlen=256)
            seen.append(total)

    def percentiles(self) -> dict[str, dict[str, float]]:
        """Of each part of a round ``p50``, ``p95`` and ``p99`` in seconds."""
        return {name: _percentiles(values) for name, values in self._parts.items() if values}

    def lanes(self) -> dict[int, dict[str, float]]:
        """Of each lane the same, of the whole rounds that it was in."""
        return {lane: _percentiles(values) for lane, values in sorted(self._lanes.items())}

    def __call__(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return {
            "rounds": self.rounds,
            "steps": self.steps,
            "failures": self.failures,
            **self.percentiles(),
            "lanes": self.lanes(),
        }

    def html(self, title: str) -> str:
        """A table, and the last rounds as a line."""
        rows = "".join(
            f"<tr><th>{name}</th>" + "".join(f"<td>{value * 1e3:.2f}</td>" for value in told.values()) + "</tr>"
            for name, told in self.percentiles().items()
        )
        head = "<tr><th>ms</th><th>p50</th><th>p95</th><th>p99</th></tr>"
        return f"<p>{title}</p><table>{head}{rows}</table>{self._line()}"

    def _line(self) -> str:
        values = list(self._parts["total"])[-200:]
        if len(values) < 2:
            return ""
        top = max(values)
        points = " ".join(
            f"{400 * at / (len(values) - 1):.0f},{60 - 55 * value / top:.1f}" for at, value in enumerate(values)
        )
        return (
            f'<svg width="400" height="62" role="img" aria-label="seconds of the last {len(values)} rounds, '
            f'at most {top:.4f}"><polyline points="{points}" fill="none" stroke="#47a"/></svg>'
        )


def _percentiles(values: deque[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return {f"p{share}": ordered[round(last * share / 100)] for share in (50, 95, 99)}
