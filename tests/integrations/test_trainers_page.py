"""Every example of docs/trainers.md runs, one after the other, where what it needs is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_examples_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    found = re.findall(r"(?:^<!-- needs (\w+) -->\n)?^```python\n(.*?)^```", page, re.M | re.S)
    code = "\n".join(block for needed, block in found if not needed or find_spec(needed))
    assert len(found) >= 8
    # A file of its own: spawned processes import the program that started them.
    program = tmp_path / "page.py"
    program.write_text("if __name__ == '__main__':\n" + re.sub(r"^(?=.)", "    ", code, flags=re.M), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[" in done.stdout.splitlines()[-1]
