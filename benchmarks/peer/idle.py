"""Opens and resets as many sessions as it is told, says so, and as many again for each line that it reads."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kit

URL, COUNT = sys.argv[1], int(sys.argv[2])
Client = kit.KINDS["echo"][3]


async def main() -> None:
    clients = []
    while True:
        for _ in range(COUNT):
            clients.append(Client(base_url=URL))
            await clients[-1].reset()
        sys.stdout.write("idle\n")
        sys.stdout.flush()
        if not await asyncio.to_thread(sys.stdin.readline):
            return


asyncio.run(main())
