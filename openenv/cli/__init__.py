"""The command ``openenv``. Each subcommand is a module, imported only when it is asked for.

Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly, 130 it was interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from openenv._version import __version__

#: Name of the subcommand (and of its module here): what it does. A module has ``add_parser(subparsers)``, which adds
#: the parser of that name, and ``run(args) -> int``.
COMMANDS = {
    "build": "build the Docker image of an environment",
    "doctor": "look for what is wrong with this machine, the engine or a server",
    "logs": "print what a container printed",
    "prune": "remove containers whose owners are gone",
    "ps": "list the containers of environments",
    "serve": "serve an environment from this interpreter",
    "stop": "remove containers by name",
    "version": "print the version, and what it runs on",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="openenv", description="Environments: build, serve, look after.")
    parser.add_argument("--version", action="version", version=f"openenv-client {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = next((word for word in words if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        if name == wanted:
            import_module(f"openenv.cli.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    args = parser.parse_args(words)
    return _guarded(args)


def _guarded(args: argparse.Namespace) -> int:
    from openenv.core.errors import OpenEnvError

    try:
        code: int = import_module(f"openenv.cli.{args.command}").run(args)
        sys.stdout.flush()
        return code
    except OpenEnvError as error:
        print(f"openenv {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone; a second complaint at exit would help nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
