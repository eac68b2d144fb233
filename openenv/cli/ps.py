"""``openenv ps``."""

from __future__ import annotations

import argparse
import dataclasses
import json

from openenv.containers.census import Found, census
from openenv.containers.engine import Engine


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv ps``."""
    parser = subparsers.add_parser(
        "ps",
        help="list the containers of environments",
        description="List the containers of this package on the Docker engine, and whether their owners still live.",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: argparse.Namespace) -> int:
    """Print the containers."""
    engine = Engine.find()
    found = census(engine)
    engine.rest()
    if args.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        for line in table(found):
            print(line)
    return 0


def table(found: list[Found]) -> list[str]:
    """Lines for people."""
    rows = [("NAME", "IMAGE", "STATUS", "PORTS", "OWNER")]
    for one in found:
        owner = f"{one.owner} (pid {one.owner_pid})" if one.owner_pid else one.owner
        rows.append((one.name, one.image, one.status, ", ".join(one.ports), f"{owner}{', kept' if one.kept else ''}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
