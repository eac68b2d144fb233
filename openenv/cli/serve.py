"""``openenv serve``."""

from __future__ import annotations

import argparse
import re
import sys
from importlib import import_module
from operator import attrgetter
from typing import Any

from openenv._clash import shadow
from openenv.core.errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z_]\w*")
_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of ``openenv serve``."""
    parser = subparsers.add_parser(
        "serve",
        help="serve an environment from this interpreter",
        description="Serve an environment until Ctrl-C or SIGTERM.",
        epilog="examples: openenv serve echo_env    openenv serve my_package.server.app:app --port 9000",
    )
    parser.add_argument("app", help="the name of an environment of the package envs, or MODULE:APP")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="port; 0 lets the system pick (default: %(default)s)")
    parser.add_argument(
        "--processes",
        type=_count,
        default=1,
        metavar="N",
        help="N servers on N ports, for one that keeps a core busy; each prints its address, for a pool to use",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    # As `python -m` has it: an app in the current directory is found.
    if ":" in args.app and "" not in sys.path:
        sys.path.insert(0, "")
    app = app_path(args.app)
    try:
        from openenv.server.run import run as serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ConfigurationError(
            f"`openenv serve` needs {error.name}, which is not installed.",
            remedy="Install it: pip install 'openenv-client[server]'.",
        ) from error
    found = _load(app)
    if args.processes > 1:
        from openenv.cli.serve_many import serve_many

        return serve_many(app, args.host, args.port, args.processes)
    serve(found, host=args.host, port=args.port)
    return 0


def app_path(name: str) -> str:
    """Turn what people type into ``module:app``.

    Raises:
        ConfigurationError: It is neither an environment's name nor MODULE:APP, or a folder hides it.
    """
    if _NAME.fullmatch(name):
        name = f"envs.{name}.server.app:app"
    elif not _APP.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is neither the name of an environment nor MODULE:APP.",
            remedy="Say for example echo_env, or my_package.server.app:app.",
        )
    reason = shadow(name.partition(":")[0])
    if reason is not None:
        raise ConfigurationError(f"{name} cannot be served. {reason}")
    return name


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except ModuleNotFoundError as error:
        # One that the environment itself lacks is its own affair, with its own traceback.
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"{path} cannot be served: there is no module {error.name}.",
            remedy="Is it spelled so, and is its package installed here, or in the current directory?",
        ) from error
    except AttributeError as error:
        if error.name is None or error.name not in name.split("."):
            raise
        raise ConfigurationError(
            f"{path} cannot be served: there is no {error.name} in {module}.", remedy="Say MODULE:APP."
        ) from error


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port (0 to 65535)")
    return port


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is no number of processes (1 or more)")
    return count
