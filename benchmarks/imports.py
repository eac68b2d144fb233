"""What it costs to import a client, in a fresh interpreter, with bytecode cached."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.frame import Bench, Case, Must, Result
from benchmarks.processes import ROOT

OURS = "import openenv; from envs.echo_env import EchoEnv"
REFERENCE = "import requests, dataclasses_json, msgspec"
EXTRA_S = 0.025


def _extra(result: Result) -> float:
    return result.median(OURS) - result.median(REFERENCE)


MUSTS = [Must("import_extra_s", "seconds more than the libraries that it needs", _extra, EXTRA_S)]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare the import of a client with that of the libraries which it cannot do without."""
    with tempfile.TemporaryDirectory() as cache:
        cases: dict[str, Case] = {
            statement: partial(import_s, statement, cache=cache) for statement in (REFERENCE, OURS)
        }
        yield Bench(
            "import of a client in a fresh interpreter",
            cases,
            reference=REFERENCE,
            blocks=5 if quick else 30,
            musts=MUSTS,
        )


def import_s(statement: str, interpreter: str = sys.executable, cwd: Path = ROOT, *, cache: str | None = None) -> float:
    """Seconds that ``statement`` takes in a fresh interpreter; its bytecode is in ``cache`` where that is given."""
    code = f"from time import perf_counter as now\nstart = now()\n{statement}\nprint(now() - start)"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        env["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run(
        [interpreter, "-c", code], env=env, cwd=cwd, check=True, capture_output=True, text=True, timeout=60
    )
    return float(done.stdout)
