"""Virtual environments with the trainers' own packages, made once and kept.

Their dependencies are many and pin each other, so each has an environment of its own; the packages that this project
needs are those of the interpreter that runs the tests. `python -m tests.training.venvs` makes all of them beforehand;
`OPENENV_TRAINING_DIR` says where (default: `~/.cache/openenv-training`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from tests.interop.venvs import VenvError, locked, run

# The build for the CPU alone where it can be had: the other one brings gigabytes of libraries for graphics cards.
_TORCH = (("torch==2.13.0+cpu",), ("torch>=2.6",))

PACKAGES: dict[str, tuple[tuple[str, ...], bool, str]] = {
    "sb3": (("stable-baselines3==2.9.2", "opencv-python-headless>=4.10"), True, "import stable_baselines3, cv2"),
    "trl": (("trl==1.16.0", "jmespath>=1"), True, "from trl import GRPOTrainer"),
    "torchrl": (("torchrl==0.14.1",), True, "import torchrl.envs"),
    "verifiers": (("verifiers==0.4.0",), False, "import verifiers.v1.tasksets.openenv.taskset"),
    "skyrl": (("skyrl-gym==0.4.0",), False, "import skyrl_gym"),
}
"""name -> (requirements, whether torch is one more, an import that proves the installation)"""


def root() -> Path:
    """The directory that holds all of them."""
    return Path(os.environ.get("OPENENV_TRAINING_DIR") or Path.home() / ".cache" / "openenv-training")


def directory(name: str) -> Path:
    """Where the environment called `name` is, or will be: named after everything that decides its content."""
    content = repr((PACKAGES[name], _TORCH, sys.prefix, sys.version))
    return root() / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def python(name: str) -> Path:
    """The interpreter of that environment, which is made first if it is not there.

    Raises:
        VenvError: it cannot be made, for instance because there is no package index.
    """
    home = directory(name)
    interpreter, done = home / "bin" / "python", home / "complete"
    with locked(home.parent / f"{home.name}.lock"):
        if not done.exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(name, home, interpreter)
            done.touch()
    return interpreter


def _make(name: str, home: Path, interpreter: Path) -> None:
    requirements, torch, proof = PACKAGES[name]
    run([sys.executable, "-I", "-m", "venv", str(home)])
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "zz-dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [str(interpreter), "-I", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    if torch:
        try:
            run([*pip, *_TORCH[0]])
        except VenvError:
            run([*pip, *_TORCH[1]])
    run([*pip, *requirements])
    run([str(interpreter), "-I", "-c", proof])


def main() -> int:
    """Make every one and say where it is."""
    for name in PACKAGES:
        sys.stdout.write(f"{name}: {python(name)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
