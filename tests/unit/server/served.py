"""An environment for server processes: its steps sleep, and it writes down that it was closed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from openenv.core.types import State
from openenv.server import Environment, create_app


class Sleepy(Environment[dict[str, Any], dict[str, Any], State]):
    made = 0

    def __init__(self) -> None:
        Sleepy.made += 1
        self.number = Sleepy.made
        self.state = State()

    def reset(self) -> dict[str, Any]:
        return {}

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        time.sleep(action["sleep"])
        return {"slept": action["sleep"]}

    def close(self) -> None:
        Path(os.environ["CLOSED_DIR"], str(self.number)).touch()


app = create_app(Sleepy, dict, dict, max_sessions=16, max_body_bytes=100_000)
