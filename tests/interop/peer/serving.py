"""Serves one test environment, with the peer's server or ours."""

from __future__ import annotations

import os
import socket
from typing import Any

import environments


def run(kit: Any, name: str, options: dict[str, Any], port: int, announce: int) -> None:
    """Serve until a signal ends the process; the URL goes to the descriptor `announce`.

    `options` are those of `environments.build`, of `kit.app`, and `uvicorn`.
    """
    factory, action, observation, state = environments.build(kit, name, options)
    app = kit.app(factory, action, observation, state, options)
    if hasattr(kit, "serve"):
        os.dup2(announce, 1)
        os.close(announce)
        kit.serve(app, port)
        return

    import uvicorn

    # The protocol is named because asyncio switches Nagle's algorithm off only where it reads IPPROTO_TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    config = uvicorn.Config(app, log_level="info", timeout_graceful_shutdown=1, **options.get("uvicorn", {}))
    # It listens already: whoever connects from now on is served.
    os.write(announce, f"http://127.0.0.1:{listener.getsockname()[1]}\n".encode())
    os.close(announce)
    uvicorn.Server(config).run(sockets=[listener])
