"""``openenv logs``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from openenv.containers.census import pick
from openenv.containers.engine import Engine, engine_trouble


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv logs``."""
    parser = subparsers.add_parser(
        "logs", help="print what a container printed", description="Print what a container of this package printed."
    )
    parser.add_argument("name", help="its name, or the beginning of its id; see `openenv ps`")
    parser.add_argument("-n", "--tail", type=int, metavar="LINES", help="only the last lines")


def run(args: argparse.Namespace) -> int:
    """Print the log."""
    engine = Engine.find()
    try:
        found = pick(engine, args.name)
        tail: Any = "all" if args.tail is None else args.tail
        with engine_trouble(f"reading the log of {found.name}", engine.address.url):
            data: bytes = engine.client.api.logs(found.id, stdout=True, stderr=True, tail=tail)
    finally:
        engine.rest()
    sys.stdout.write(data.decode("utf-8", "replace"))
    return 0
