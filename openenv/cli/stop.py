"""``openenv stop``."""

from __future__ import annotations

import argparse

from openenv.containers.census import pick, remove
from openenv.containers.engine import Engine


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv stop``."""
    parser = subparsers.add_parser(
        "stop",
        help="remove containers by name",
        description="Remove containers of this package, whoever owns them; their clients notice it as a death.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a name, or the beginning of an id; see `openenv ps`")


def run(args: argparse.Namespace) -> int:
    """Remove them, all or none."""
    engine = Engine.find()
    try:
        for found in [pick(engine, name) for name in args.names]:
            remove(engine, found)
            print(f"removed {found.name}")
    finally:
        engine.rest()
    return 0
