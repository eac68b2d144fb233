"""``openenv doctor``."""

from __future__ import annotations

import argparse
import dataclasses
import json

from openenv.doctor import Finding, examine

_SIGNS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "skipped": "skipped"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv doctor``."""
    parser = subparsers.add_parser(
        "doctor",
        help="look for what is wrong with this machine, the engine or a server",
        description=(
            "Look at Python, proxies, the disk, the Docker engine (one container is started for a moment) and a "
            "server; say what is wrong, and what to do about it. Ends with 1 where there is a problem."
        ),
    )
    parser.add_argument("--url", help="base URL of a server to look at instead of the engine")
    parser.add_argument("--image", help="image to start a container of")
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: argparse.Namespace) -> int:
    """Print each finding as soon as it is there."""
    found = []
    for finding in examine(args.url, args.image):
        found.append(finding)
        if not args.json:
            print("\n".join(lines(finding)), flush=True)
    if args.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2))
    return 1 if any(finding.status == "problem" for finding in found) else 0


def lines(finding: Finding) -> list[str]:
    """A finding for people."""
    head = f"{_SIGNS[finding.status]:<8} {finding.check}: "
    told = [head + finding.found.replace("\n", "\n         ")]
    return [*told, f"         → {finding.remedy}"] if finding.remedy else told
