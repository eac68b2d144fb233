"""One seed for many episodes."""

from __future__ import annotations

import random


class Seeds:
    """What a client says as the seed of a reset that is given none."""

    _seeding: tuple[int, int] | None = None

    def set_seed(self, seed: int | None) -> None:
        """Let ``seed`` decide all later resets that are given no seed: the first gets it, the others follow from it.

        Args:
            seed: Nothing is sent at once; ``None`` leaves the seeds to the server again.
        """
        self._seeding = None if seed is None else (seed, 0)

    def _seed_of(self, given: int | None) -> int | None:
        if given is not None or self._seeding is None:
            return given
        seed, used = self._seeding
        self._seeding = seed, used + 1
        return random.Random(f"{seed}:{used}").getrandbits(31) if used else seed
