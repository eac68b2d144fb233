"""What it costs to import a client, in a fresh interpreter, with bytecode cached."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.frame import Bench, Must, Result

OURS = "import openenv; from envs.echo_env import EchoEnv"
REFERENCE = "import requests, dataclasses_json, msgspec"
EXTRA_S = 0.025


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare the import of a client with that of the libraries which it cannot do without."""
    with tempfile.TemporaryDirectory() as cache:
        cases: dict[str, Callable[[], float | None]] = {
            statement: partial(_import_s, statement, cache) for statement in (REFERENCE, OURS)
        }
        yield Bench(
            "import of a client in a fresh interpreter",
            cases,
            REFERENCE,
            blocks=5 if quick else 30,
            musts=[Must(f"at most {EXTRA_S * 1000:g} ms more than `{REFERENCE}`", _cheap)],
        )


def _cheap(result: Result) -> bool:
    return result.median(OURS) - result.median(REFERENCE) <= EXTRA_S


def _import_s(statement: str, cache: str) -> float:
    code = f"from time import perf_counter as now\nstart = now()\n{statement}\nprint(now() - start)"
    # A cache of its own: whether bytecode was already written must not differ between the cases.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = cache
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=root, check=True, capture_output=True, text=True, timeout=60
    )
    return float(done.stdout)
