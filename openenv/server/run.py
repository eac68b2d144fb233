"""Running an application under uvicorn, as containers and ``openenv serve`` do."""

from __future__ import annotations

import gc
import importlib.util
import logging
import socket
import sys
from typing import Any

import uvicorn

from openenv.core.errors import ConfigurationError
from openenv.server.body import max_body_bytes

#: Idle connections of clients are kept for this many seconds.
KEEP_ALIVE_S = 300
#: Seconds that calls in flight get at the end.
GRACEFUL_S = 5


def config(app: Any, **options: Any) -> uvicorn.Config:
    """The configuration of uvicorn that this project wants; ``options`` are uvicorn's own."""
    fast = importlib.util.find_spec
    settings: dict[str, Any] = {
        "http": "openenv.server.direct:DirectProtocol" if fast("httptools") else "auto",
        "loop": "uvloop" if fast("uvloop") else "auto",
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": GRACEFUL_S,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "log_level": "warning",
        "lifespan": "on",
        "workers": 1,
        "ws": "websockets-sansio",
        "ws_max_size": max_body_bytes(),  # a larger message ends the socket
        "ws_per_message_deflate": True,  # for clients that ask; ours do where the link is not loopback
    }
    return uvicorn.Config(app, **{**settings, **options})


def run(app: Any, host: str = "127.0.0.1", port: int = 8000, *, uds: str | None = None) -> None:
    """Serve ``app`` until SIGTERM or Ctrl-C.

    Prints ``OPENENV_READY URL`` once it listens.

    Args:
        app: An ASGI application, or where to import one from, as in ``envs.echo_env.server.app:app``.
        host: The address to listen on.
        port: The port; 0 for one that the system picks.
        uds: The path of a Unix socket to listen on instead.

    Raises:
        ConfigurationError: The address cannot be listened on.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if uds is not None:
        server, url = _Server(config(app, uds=uds)), f"unix:{uds}"
        server.announced = url
        server.run()
    else:
        listener = listen(host, port)
        server = _Server(config(app))
        server.announced = address(listener, host)
        server.run(sockets=[listener])
    if not server.started:
        sys.exit(3)


class _Server(uvicorn.Server):
    """uvicorn's, which says when it listens."""

    announced = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what was imported stays: no collection need look at it in the middle of a step
        # A thousand steps in flight are many thousand objects that live for a moment: with Python's own thresholds
        # a server with many sessions looks for garbage for half of its time.
        gc.set_threshold(20_000, 50, 100)
        sys.stdout.write(f"OPENENV_READY {self.announced}\n")
        sys.stdout.flush()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigurationError: It cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, because asyncio switches Nagle's algorithm (40 ms a call) off only where it reads IPPROTO_TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            remedy="Is another server running there? Port 0 lets the system pick one.",
        ) from error
    listener.set_inheritable(False)
    return listener


def address(listener: socket.socket, host: str) -> str:
    """The URL of a listening socket; a wildcard address is reached through the loopback."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{reachable}:{listener.getsockname()[1]}"
