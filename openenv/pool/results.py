"""What a round of a pool gave: one result for each lane, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, overload

from openenv.core.errors import OpenEnvError
from openenv.core.types import ObsT, StepResult


@dataclass
class Timing:
    """Seconds that a round took.

    Attributes:
        encode: Making the requests.
        exchange: From sending them until the last answer was read.
        server: What the slowest server said that it took itself; ``None`` where none says it.
        decode: Making results of the answers.
    """

    encode: float = 0.0
    exchange: float = 0.0
    server: float | None = None
    decode: float = 0.0


@dataclass
class PoolResult(Sequence["StepResult[ObsT] | None"], Generic[ObsT]):
    """One round. A sequence of the lanes' results in the order of the lanes.

    Attributes:
        results: Of each lane its result, or ``None`` where it has none in this round.
        errors: Of the lanes that failed, why. They have no result.
        pending: Lanes that are still at it: their results come with a later ``recv``.
        final_obs: Of lanes that were reset within this round, the last observation of the episode before.
        timing: Where the time went.
        group_size: How many lanes in a row are a group.
    """

    results: list[StepResult[ObsT] | None]
    errors: dict[int, OpenEnvError] = field(default_factory=dict)
    pending: list[int] = field(default_factory=list)
    final_obs: dict[int, ObsT] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    group_size: int = 1

    @overload
    def __getitem__(self, lane: int) -> StepResult[ObsT] | None: ...
    @overload
    def __getitem__(self, lane: slice) -> list[StepResult[ObsT] | None]: ...
    def __getitem__(self, lane: int | slice) -> Any:
        return self.results[lane]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[StepResult[ObsT] | None]:
        return iter(self.results)

    @property
    def ready(self) -> list[int]:
        """Lanes that have a result in this round."""
        return [lane for lane, result in enumerate(self.results) if result is not None]

    @property
    def lost(self) -> list[bool]:
        """Of each lane whether its episode is over by a failure: only ``reset`` brings it back."""
        return [(error := self.errors.get(lane)) is not None and error.episode_lost for lane in range(len(self))]

    @property
    def observations(self) -> list[ObsT | None]:
        """Of each lane."""
        return [None if result is None else result.observation for result in self.results]

    @property
    def rewards(self) -> list[bool | int | float | None]:
        """Of each lane; ``None`` where the environment gave none, or where there is no result."""
        return [None if result is None else result.reward for result in self.results]

    @property
    def dones(self) -> list[bool]:
        """Of each lane whether its episode has ended."""
        return [result is not None and result.done for result in self.results]

    @property
    def whole_groups(self) -> list[bool]:
        """Of each group whether none of its lanes has failed."""
        count = len(self) // self.group_size
        broken = {lane // self.group_size for lane in self.errors}
        return [group not in broken for group in range(count)]

    def raise_errors(self) -> None:
        """Raise the error of the first lane that failed, if one did.

        Raises:
            OpenEnvError: With a note about how many lanes failed.
        """
        if self.errors:
            lane, error = next(iter(sorted(self.errors.items())))
            error.add_note(f"lane {lane}; {len(self.errors)} of {len(self)} lanes failed")
            raise error
