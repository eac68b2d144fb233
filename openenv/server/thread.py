"""A server inside this process, for tests and demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from openenv.server.run import address, config, listen

_START_S = 30.0


@contextmanager
def serve_in_thread(app: Any, host: str = "127.0.0.1", **options: Any) -> Iterator[str]:
    """Serve ``app`` on a thread, on a port that the system picks; gives the base URL.

    It answers when the block is entered, and is gone, its environments closed, when the block is left.

    Args:
        app: An ASGI application, or where to import one from.
        host: The address to listen on.
        **options: For ``uvicorn.Config``.

    Raises:
        RuntimeError: It did not start.
    """
    listener = listen(host, 0)
    server = uvicorn.Server(config(app, **options))
    failure: list[BaseException] = []

    def serve() -> None:
        try:
            server.run(sockets=[listener])
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
            failure.append(error)

    thread = threading.Thread(target=serve, name="openenv-server", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread, failure)
        yield address(listener, host)
    finally:
        server.should_exit = True
        thread.join(_START_S)
        listener.close()


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread, failure: list[BaseException]) -> None:
    waited = 0.0
    while not server.started:
        thread.join(0.005)
        waited += 0.005
        if not thread.is_alive() or waited > _START_S:
            raise RuntimeError(f"the server did not start: {failure[0] if failure else 'see its log'!r}")
