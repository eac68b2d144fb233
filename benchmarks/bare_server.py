"""A server that does nothing but JSON, under our settings of uvicorn: ``python -m benchmarks.bare_server``.

What it takes is what a step costs before there are sessions, checks and an environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from openenv.server.run import address, config, listen

Message = MutableMapping[str, Any]


async def app(scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Any]) -> None:
    """Answer a step as the echo environment does."""
    said = json.loads((await receive())["body"])["action"]["message"]
    metadata = {"original_message": said, "step": 1}
    body = json.dumps(
        {
            "observation": {"echoed_message": said, "message_length": len(said), "metadata": metadata},
            "reward": len(said) * 0.1,
            "done": False,
            "metadata": metadata,
        }
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    listener = listen("127.0.0.1", 0)
    sys.stdout.write(f"OPENENV_READY {address(listener, '127.0.0.1')}\n")
    sys.stdout.flush()
    listener.listen()
    uvicorn.Server(config(app, lifespan="off")).run(sockets=[listener])


if __name__ == "__main__":
    main()
