"""Many of the peer's synchronous clients in threads: reads how many steps each, writes the seconds of all together."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))

import kit

URL, COUNT = sys.argv[1], int(sys.argv[2])
_, Action, _, Client = kit.KINDS["echo"]

clients = [Client(base_url=URL).sync() for _ in range(COUNT)]
with ThreadPoolExecutor(COUNT) as threads:
    list(threads.map(lambda client: client.connect().reset(), clients))
    for line in sys.stdin:
        steps = int(line)

        def play(client: object, steps: int = steps) -> None:
            for _ in range(steps):
                assert client.step(Action(message="hello, world")).observation.message_length == 12

        start = perf_counter()
        list(threads.map(play, clients))
        sys.stdout.write(json.dumps([perf_counter() - start]) + "\n")
        sys.stdout.flush()
    list(threads.map(lambda client: client.close(), clients))
