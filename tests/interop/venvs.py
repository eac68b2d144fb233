"""Virtual environments with released versions of the peer, made once and kept.

The peer is another implementation of the same protocol and its package has our name, so it never shares an
interpreter with us. `python -m tests.interop.venvs` makes all of them beforehand; `OPENENV_INTEROP_DIR` says where
(default: `~/.cache/openenv-interop`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

# The peer itself goes in without its dependencies, then what its servers and clients really import: of the full set
# (a page builder, three model SDKs, a hub client) nothing is touched by a server without a page. Exact versions,
# because a suite about a protocol must not change when somebody releases a web framework.
_WEB = ("fastapi==0.165.0", "starlette==1.10.0", "pydantic==2.14.4", "uvicorn==0.54.0", "websockets==17.4")
_TOOLS = ("fastmcp==3.4.11", "mcp==1.30.0", "httpx==0.28.1")
_COMMON = (*_WEB, "requests==2.34.2")

PEERS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "0.1.1": ("openenv-core==0.1.1", _COMMON, "import openenv_core.env_server, openenv_core.http_env_client"),
    "0.3.0": (
        "openenv-core==0.3.0",
        (*_COMMON, *_TOOLS),
        "import openenv.core.mcp_client, openenv.core.env_server.mcp_environment",
    ),
    "0.10.0": (
        "openenv==0.10.0",
        (*_COMMON, *_TOOLS, "openai==3.57.0"),  # a production server imports its rollouts, and they the SDK
        "import openenv.core.mcp_client, openenv.core.env_server.mcp_environment",
    ),
}
"""version -> (requirement, what it needs to serve and to call, an import that proves the installation)"""

_BUILD_LIMIT_S = 600.0


class VenvError(RuntimeError):
    """The environment of a peer cannot be made; the message holds the last lines of the command that failed."""


def root() -> Path:
    """The directory that holds all environments of peers."""
    return Path(os.environ.get("OPENENV_INTEROP_DIR") or Path.home() / ".cache" / "openenv-interop")


def directory(version: str) -> Path:
    """Where the environment of `version` is, or will be: named after everything that decides its content."""
    requirement, needs, proof = PEERS[version]
    content = "\n".join((requirement, *needs, proof, sys.base_prefix, sys.version))
    return root() / f"{version}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def python(version: str) -> Path:
    """The interpreter of the peer's environment, which is made first if it is not there.

    Raises:
        VenvError: it cannot be made, for instance because there is no package index.
    """
    home = directory(version)
    interpreter, done = home / "bin" / "python", home / "complete"
    with locked(home.parent / f"{home.name}.lock"):
        if not done.exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(version, home, interpreter)
            done.touch()
    return interpreter


def _make(version: str, home: Path, interpreter: Path) -> None:
    requirement, needs, proof = PEERS[version]
    pip = [str(interpreter), "-I", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    run([sys.executable, "-I", "-m", "venv", str(home)])
    run([*pip, *needs])
    run([*pip, "--no-deps", requirement])
    run([str(interpreter), "-I", "-c", proof])  # compiles just what is used


def run(command: list[str]) -> None:
    """Run the command, without the Python variables of this process.

    Raises:
        VenvError: it failed, or took too long.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=_BUILD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise VenvError(f"{' '.join(command)} took longer than {_BUILD_LIMIT_S:.0f} s") from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise VenvError(f"{' '.join(command)} failed with exit code {done.returncode}:\n{tail}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file, so that of several test processes one builds and the others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_all() -> dict[str, Path | Exception]:
    """The interpreter of every peer, or why there is none."""
    with ThreadPoolExecutor() as pool:
        made = {version: pool.submit(python, version) for version in PEERS}
    found: dict[str, Path | Exception] = {}
    for version, future in made.items():
        try:
            found[version] = future.result()
        except (VenvError, OSError) as error:
            found[version] = error
    return found


def main() -> int:
    """Make every environment and say where it is, how large it is and how long it took."""
    start = time.monotonic()
    found = make_all()
    for version, result in found.items():
        size = sum(file.lstat().st_size for file in directory(version).rglob("*")) / 1e6
        sys.stdout.write(f"{version}: {result}{'' if isinstance(result, Exception) else f' ({size:.0f} MB)'}\n")
    sys.stdout.write(f"{time.monotonic() - start:.1f} s\n")
    return any(isinstance(result, Exception) for result in found.values())


if __name__ == "__main__":
    sys.exit(main())
