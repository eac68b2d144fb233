"""Results as Markdown for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.frame import Must, Result


def machine() -> dict[str, Any]:
    """Where and on what the numbers were taken."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or None,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }


def as_json(name: str, result: Result) -> dict[str, Any]:
    """One benchmark as plain data."""
    return {
        "name": name,
        "title": result.bench.title,
        "unit": result.bench.unit,
        "reference": result.bench.reference,
        "cases": {
            case: {
                "median": result.median(case),
                "p95": result.p95(case),
                "ratio": result.ratio(case) if result.bench.reference else None,
                "samples": len(result.samples(case)),
                "cpu": result.cpu.get(case, {}),
            }
            for case in result.bench.cases
        },
    }


def as_markdown(name: str, result: Result) -> str:
    """One benchmark as a table and a list of promises."""
    sides = sorted({side for case in result.cpu.values() for side in case})
    titles = ["case", "median", "p95", "ratio", "samples", *(f"CPU of the {side}" for side in sides)]
    lines = [f"### {name}: {result.bench.title}", "", _row(titles), _row(["---"] * len(titles))]
    unit = result.bench.unit
    for case in result.bench.cases:
        cells = [case, _number(result.median(case), unit), _number(result.p95(case), unit)]
        cells += [f"{result.ratio(case):.2f}" if result.bench.reference else "", str(len(result.samples(case)))]
        cpu = result.cpu.get(case, {})
        cells += [_number(cpu[side], "s") if side in cpu else "" for side in sides]
        lines.append(_row(cells))
    lines.append("")
    for must in result.bench.musts:
        verdict = must.verdict(result)
        holds = "holds" if verdict["holds"] else "**DOES NOT HOLD**"
        lines.append(f"- {holds}: {must.says}: {verdict['ratio']:.3g} ({_bound(must)})")
    return "\n".join(lines) + "\n"


def skipped_markdown(name: str, musts: list[Must], why: str) -> str:
    """What is said of a benchmark that could not be run."""
    lines = [f"### {name}", "", *(f"- not measured: {must.says} ({_bound(must)}): {why}" for must in musts)]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bound(must: Must) -> str:
    return f"at most {must.bound:.3g}" if must.at_least is None else f"at least {must.bound:.3g}"


def _number(value: float, unit: str) -> str:
    return f"{value * 1000:.4g} ms" if unit == "s" else f"{value:.4g} {unit}".strip()
