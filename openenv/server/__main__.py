"""``python -m openenv.server MODULE:APP``."""

from __future__ import annotations

import argparse
import sys


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m openenv.server", description="Serve an environment.")
    parser.add_argument("app", help="MODULE:APP, as in envs.echo_env.server.app:app")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 lets the system pick (default: %(default)s)")
    parser.add_argument("--uds", metavar="PATH", help="listen on a Unix socket instead")
    given = parser.parse_args()

    from openenv.core.errors import ConfigurationError
    from openenv.server.run import run

    try:
        run(given.app, given.host, given.port, uds=given.uds)
    except ConfigurationError as error:
        sys.exit(f"error: {error}")


main()
