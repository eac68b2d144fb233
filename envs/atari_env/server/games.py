"""The games that the emulator has."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

from ale_py import ALEInterface, LoggerMode, roms

ALEInterface.setLoggerMode(LoggerMode.Error)


@cache
def games() -> dict[str, Path]:
    """The files of all games by name, such as ``pong`` and ``space_invaders``.

    Those that the emulator has but cannot play are left out: loading one ends the process.
    """
    found = {name: roms.get_rom_path(name) for name in sorted(roms.get_all_rom_ids())}
    return {name: path for name, path in found.items() if path is not None and ALEInterface.isSupportedROM(path)}


def game_file(name: str) -> Path:
    """The file of the game ``name``.

    Raises:
        ValueError: There is no such game; names the nearest.
    """
    known = games()
    if name in known:
        return known[name]
    wanted = name.lower().replace("-", "_").replace(" ", "_")
    near = [game for game in known if game.replace("_", "") == wanted.replace("_", "")]
    near = near or difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"there is no game {name!r}; {hint}`python -m envs.atari_env.server.games` lists all {len(known)}")


def main() -> None:
    print(*games(), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
