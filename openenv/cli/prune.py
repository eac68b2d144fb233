"""``openenv prune``."""

from __future__ import annotations

import argparse

from openenv.containers.census import Found, census, remove
from openenv.containers.engine import Engine
from openenv.containers.network import remove_network


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv prune``."""
    parser = subparsers.add_parser(
        "prune",
        help="remove containers whose owners are gone",
        description=(
            "Remove the containers of this package whose owner process is certainly gone. Those of live owners are "
            "never touched; those of owners that cannot be seen from here, and those that are kept on purpose, are "
            "only listed unless asked for."
        ),
    )
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, only say what would be")
    parser.add_argument("--unknown", action="store_true", help="also where the owner cannot be seen from here")
    parser.add_argument("--kept", action="store_true", help="also those that are kept on purpose")


def run(args: argparse.Namespace) -> int:
    """Remove what may be removed, and say what was left and why."""
    engine = Engine.find()
    count = 0
    try:
        for found in census(engine):
            reason = _spared(found, args)
            if reason:
                print(f"left {found.name}: {reason}")
                continue
            count += 1
            if args.dry_run:
                print(f"would remove {found.name} ({found.image}), owner {found.owner}")
            else:
                remove(engine, found)
                print(f"removed {found.name} ({found.image}), owner {found.owner}")
        if not args.dry_run and not census(engine):
            remove_network(engine)
    finally:
        engine.rest()
    print(f"{count} {'to remove' if args.dry_run else 'removed'}")
    return 0


def _spared(found: Found, args: argparse.Namespace) -> str:
    if found.kept:
        return "" if args.kept else "kept on purpose (--kept)"
    if found.owner == "alive":
        return f"its owner, pid {found.owner_pid}, is alive"
    if found.owner == "unknown" and not args.unknown:
        return "its owner cannot be seen from here (--unknown)"
    return ""
