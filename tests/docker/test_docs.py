"""The examples of the pages that need a Docker engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_examples_that_need_an_engine_run(echo_image: str, left: Callable[..., list[str]]) -> None:
    assert echo_image == "echo-env:latest"
    found = [
        (page.name, example)
        for page in sorted((ROOT / "docs").glob("*.md"))
        for example in re.findall(r"^```python docker\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    ]
    assert found
    for name, example in found:
        exec(compile(example, name, "exec", dont_inherit=True), {"__name__": name})
    assert left() == []
