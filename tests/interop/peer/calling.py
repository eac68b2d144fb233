"""Drives one of the peer's clients by remote control: JSON lines over a socket, one answer for each call.

A call is `{"on": NAME, "call": METHOD, "args": [...], "kwargs": {...}}`; `on` names a client: "main", or one that an
earlier `new_session` made (`"keep": NAME`). Exceptions are answers too: `{"error": {"kind", "bases", "message"}}`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import time
from typing import Any


def run(kit: Any, url: str, options: dict[str, Any], announce: int) -> None:
    """Obey one connection until it closes; where it is expected goes to the descriptor `announce`.

    Options: `kind`, `style` ("sync", "async" or "auto"), and those of the client.
    """
    options = dict(options)
    kind, style = options.pop("kind", "generic"), options.pop("style", "sync")
    listener = socket.create_server(("127.0.0.1", 0))
    os.write(announce, f"127.0.0.1:{listener.getsockname()[1]}\n".encode())
    os.close(announce)
    connection, _ = listener.accept()
    loop = asyncio.new_event_loop() if style == "async" else None
    clients: dict[str, Any] = {}
    with connection, connection.makefile("rw", encoding="utf-8", newline="\n") as stream:
        for line in stream:
            request = json.loads(line)
            start = time.monotonic()
            try:
                if not clients:
                    made = kit.client(kind, url, options)
                    clients["main"] = made.sync() if style == "sync" and hasattr(made, "sync") else made
                value = _call(clients[request["on"]], request, loop)
                if "keep" in request:
                    clients[request["keep"]], value = value, None
                answer = {"value": kit.plain(value)}
            except Exception as error:
                bases = [base.__name__ for base in type(error).__mro__]
                answer = {"error": {"kind": type(error).__name__, "bases": bases, "message": str(error)}}
            answer["seconds"] = time.monotonic() - start
            stream.write(json.dumps(answer) + "\n")
            stream.flush()


def _call(client: Any, request: dict[str, Any], loop: asyncio.AbstractEventLoop | None) -> Any:
    member = getattr(client, request["call"])
    if not callable(member):
        return member

    async def inside() -> Any:
        value = member(*request["args"], **request["kwargs"])
        return await value if inspect.isawaitable(value) else value

    value = loop.run_until_complete(inside()) if loop else member(*request["args"], **request["kwargs"])
    return None if value is client else value
