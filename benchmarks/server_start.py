"""From the start of a server's process to its first answer."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from benchmarks.echo_http import APP
from benchmarks.frame import Bench, Must, times
from benchmarks.processes import ROOT, our_server

OURS, LIBRARIES = "process to GET /health", "python -c 'import starlette, uvicorn'"

MUSTS = [Must("server_start_vs_imports", "its time as a multiple of the imports'", times(OURS, LIBRARIES), at_most=2)]


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with a process that only imports the libraries which a server cannot do without."""
    yield Bench(
        "the start of a server's process",
        {OURS: _ours, LIBRARIES: _libraries},
        reference=LIBRARIES,
        blocks=5 if quick else 20,
        musts=MUSTS,
    )


def _ours() -> float:
    start = perf_counter()
    with our_server(APP) as (url, _):
        with urllib.request.urlopen(f"{url}/health", timeout=10) as reply:
            reply.read()
        return perf_counter() - start


def _libraries() -> None:
    subprocess.run([sys.executable, "-c", "import starlette, uvicorn"], cwd=ROOT, check=True, timeout=60)
