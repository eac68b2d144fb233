"""Steps with the peer's synchronous client: reads how many, writes the seconds of each as JSON; line by line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))

import kit

KIND, URL, FOLDERS = sys.argv[1], sys.argv[2], sys.argv[3:]
kit.share(FOLDERS)
_, Action, _, Client = kit.KINDS[KIND]

with Client(base_url=URL).sync() as client:
    client.reset()
    if KIND == "atari":
        import numpy

    def step(number: int) -> None:
        if KIND == "echo":
            assert client.step(Action(message="hello, world")).observation.message_length == 12
            return
        result = client.step(Action(action_id=number % 4))
        seen = result.observation
        numpy.array(seen.screen, dtype=numpy.uint8).reshape(seen.screen_shape)
        if result.done:
            client.reset()

    for line in sys.stdin:
        taken = []
        for number in range(int(line)):
            start = perf_counter()
            step(number)
            taken.append(perf_counter() - start)
        sys.stdout.write(json.dumps(taken) + "\n")
        sys.stdout.flush()
