"""``openenv version``."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from openenv._version import __version__

_TOLD = ("requests", "docker", "dataclasses-json", "websockets", "msgspec", "starlette", "uvicorn", "numpy")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv version``."""
    parser = subparsers.add_parser(
        "version", help="print the version", description="Print the version, and the versions of what it runs on."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the versions."""
    found: dict[str, Any] = {
        "openenv-client": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _installed(name) for name in _TOLD},
    }
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"openenv-client {__version__} (Python {found['python']}, {found['platform']})")
    for name, installed in found["packages"].items():
        print(f"  {name:<17} {installed or 'not installed'}")
    return 0


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
