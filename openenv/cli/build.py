"""``openenv build``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from openenv.containers.build import build_directory, build_environment, environment_folder

_BASE = "OPENENV_BASE_IMAGE"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv build``."""
    parser = subparsers.add_parser(
        "build",
        help="build the Docker image of an environment",
        description="Build the Docker image of an environment of the package envs, or of a directory.",
        epilog="examples: openenv build echo_env    openenv build ./my_env -t my-env:latest",
    )
    parser.add_argument("what", metavar="NAME|DIR", help="an environment such as echo_env, or a directory")
    parser.add_argument("-t", "--tag", help="name of the image (default for echo_env: echo-env:latest)")
    parser.add_argument(
        "--base-image",
        default=os.environ.get(_BASE) or None,
        help=f"image to build on, instead of the Dockerfile's own (default: ${_BASE}, if set)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print the engine's output only where it fails")


def run(args: argparse.Namespace) -> int:
    """Build, and print the tag."""
    os.environ.setdefault("OPENENV_PROGRESS", "0")  # the engine's own words are shown instead

    def say(line: str) -> None:
        if not args.quiet:
            print(line, file=sys.stderr, flush=True)

    directory = Path(args.what)
    if environment_folder(args.what) is None and (directory.is_dir() or os.sep in args.what):
        tag = build_directory(directory, args.tag, args.base_image, say)
    else:
        tag = build_environment(args.what, args.tag, args.base_image, say)
    print(f"built {tag}")
    return 0
