"""What the engine is doing, for people who wait: on a terminal a bar where ``rich`` is installed, else a line a phase.

Nothing is shown where standard error is no terminal, or where ``OPENENV_PROGRESS`` is ``0``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

Event = Mapping[str, Any]

_STEP = re.compile(r"^Step (\d+)/(\d+) : (.*)")
_WIDEST = 100


@contextmanager
def shown(title: str) -> Iterator[Callable[[Event], None]]:
    """Give what takes the events of the engine's answer to a pull or a build, and shows them."""
    if os.environ.get("OPENENV_PROGRESS") == "0" or not sys.stderr.isatty():
        yield lambda event: None
    elif find_spec("rich") is None:
        yield _Lines(title).take
    else:
        with _bar(title) as take:
            yield take


class Phases:
    """How far a pull or a build is.

    Attributes:
        phase: What is being done.
        done: How much of it, in steps of a build or bytes of a pull.
        total: Of how much; 0 where nobody knows yet.
    """

    def __init__(self) -> None:
        self.phase = ""
        self.done = self.total = 0
        self._layers: dict[str, tuple[int, int]] = {}

    def take(self, event: Event) -> bool:
        """Note an event; whether another phase has begun."""
        before = self.phase
        if (step := _STEP.match(str(event.get("stream", "")))) is not None:
            self.done, self.total = int(step[1]) - 1, int(step[2])
            self.phase = step[3].strip()[:_WIDEST]
        elif "status" in event:
            size = event.get("progressDetail") or {}
            if event["status"] == "Downloading" and size.get("total"):
                self._layers[str(event.get("id"))] = size["current"], size["total"]
                self.done = sum(done for done, _ in self._layers.values())
                self.total = sum(total for _, total in self._layers.values())
            if event["status"] in ("Downloading", "Extracting", "Pull complete"):
                self.phase = str(event["status"]).lower()
        return self.phase != before


class _Lines:
    """A line for each phase."""

    def __init__(self, title: str) -> None:
        self._title, self._phases = title, Phases()

    def take(self, event: Event) -> None:
        phases = self._phases
        if phases.take(event):
            far = f" ({phases.done + 1}/{phases.total})" if "stream" in event else ""
            sys.stderr.write(f"{self._title}: {phases.phase}{far}\n")
            sys.stderr.flush()


@contextmanager
def _bar(title: str) -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.progress import Progress

    phases = Phases()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)

        def take(event: Event) -> None:
            phases.take(event)
            progress.update(
                task, description=f"{title}: {phases.phase}", completed=phases.done, total=phases.total or None
            )

        yield take
