"""What people write is understood by a type checker: every file beside this one passes mypy --strict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_what_users_write_has_the_types_that_they_expect() -> None:
    files = sorted(str(path.relative_to(ROOT)) for path in HERE.glob("*.py") if path.name != Path(__file__).name)
    # An ignore that is not needed is an error too (strict), so the mistakes in these files must be seen.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *files], cwd=ROOT, capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
