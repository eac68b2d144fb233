"""What an installation weighs and an import costs. ``python -m benchmarks.install`` makes the peer's, to compare."""

from __future__ import annotations

import configparser
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.frame import Bench, Must, Unavailable, times
from benchmarks.imports import OURS, import_s
from benchmarks.processes import PEER, ROOT

PEER_IMPORT = "from openenv.core import GenericEnvClient"
_MB, _COUNT, _IMPORT = "MB without bytecode", "distributions", "seconds to import a client"

MUSTS = [
    Must(
        "install_size_vs_peer", "size on disk, as a share of the peer's", times(f"{_MB}, ours", f"{_MB}, peer"), 1 / 20
    ),
    Must(
        "install_distributions_vs_peer",
        "distributions, as a share of the peer's",
        times(f"{_COUNT}, ours", f"{_COUNT}, peer"),
        1 / 7,
    ),
    Must(
        "import_vs_peer", "time to import, as a share of the peer's", times(f"{_IMPORT}, ours", f"{_IMPORT}, peer"), 0.1
    ),
]

#: Run by the interpreter whose site-packages it measures; ours and the peer's are weighed by the same lines.
_WEIGH = """
from importlib.metadata import distributions
weight, count = 0, 0
for found in distributions():
    if found.metadata["Name"].lower() in ("pip", "setuptools", "wheel"):
        continue
    count += 1
    for file in found.files or ():
        path = file.locate()
        if file.suffix != ".pyc" and path.is_file():
            weight += path.stat().st_size
print(weight / 1e6, count)
"""


@contextmanager
def bench(*, quick: bool) -> Iterator[Bench]:
    """Compare with everything that the peer brings along."""
    interpreter = _peer() / "bin" / "python"
    if not (_peer() / "complete").exists():
        raise Unavailable(f"the peer's full installation is not at {_peer()}; `python -m benchmarks.install` makes it")
    our_mb, our_count = _ours()
    done = subprocess.run([interpreter, "-Ic", _WEIGH], check=True, capture_output=True, text=True, timeout=120)
    peer_mb, peer_count = map(float, done.stdout.split())
    yield Bench(
        f"what an installation weighs, against the peer {PEER}",
        {
            f"{_MB}, ours": lambda: our_mb,
            f"{_MB}, peer": lambda: peer_mb,
            f"{_COUNT}, ours": lambda: float(our_count),
            f"{_COUNT}, peer": lambda: peer_count,
            f"{_IMPORT}, ours": lambda: import_s(OURS),
            f"{_IMPORT}, peer": lambda: import_s(PEER_IMPORT, str(interpreter), _peer()),
        },
        blocks=2 if quick else 5,
        unit="",
        musts=MUSTS,
    )


def _peer() -> Path:
    from tests.interop.venvs import root

    return root() / f"full-{PEER}-python{sys.version_info.major}.{sys.version_info.minor}"


def _ours() -> tuple[float, int]:
    """What ``pip install`` of this project without extras brings: megabytes and number of distributions."""
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg")
    waiting = declared["options"]["install_requires"].split()
    seen: set[str] = set()
    size = sum(_size(folder.rglob("*")) for folder in (ROOT / "openenv", ROOT / "envs"))
    while waiting:
        name = _name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        size += _size(Path(str(file.locate())) for file in found.files or ())
        waiting += [line for line in found.requires or () if _is_for_us(line)]
    return size / 1e6, len(seen) + 1


def _name(requirement: str) -> str:
    from packaging.requirements import Requirement

    return Requirement(requirement).name.lower().replace("_", "-")


def _is_for_us(requirement: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate({"extra": ""})


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.is_file())


def main() -> None:
    home = _peer()
    venv.create(home, with_pip=True, clear=True)
    pip = [str(home / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", f"openenv=={PEER}"]
    subprocess.run(pip, check=True, cwd=home)
    (home / "complete").touch()
    print(home)


if __name__ == "__main__":
    main()
