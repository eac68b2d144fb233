"""What code may use: from the variables of the server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_MIB = 1 << 20

#: The field of each variable, and how many of the field's unit are one of the variable's.
_VARIABLES = {
    "CODING_TIMEOUT_S": ("timeout_s", 1),
    "CODING_MEMORY_MB": ("memory_bytes", _MIB),
    "CODING_PROCESSES": ("processes", 1),
    "CODING_FILE_MB": ("file_bytes", _MIB),
    "CODING_OUTPUT_BYTES": ("output_bytes", 1),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What code may use.

    Attributes:
        timeout_s: Seconds for each step.
        memory_bytes: Address space of each process.
        processes: Processes and threads of a session.
        file_bytes: The largest file that it may write.
        output_bytes: What is kept of stdout, and as much of stderr, for each step.

    Raises:
        ValueError: One is not positive.
    """

    timeout_s: float = 10.0
    memory_bytes: int = 512 * _MIB
    processes: int = 64
    file_bytes: int = 64 * _MIB
    output_bytes: int = _MIB

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0; got {getattr(self, name)!r}")

    @classmethod
    def from_variables(cls, variables: Mapping[str, str] | None = None) -> Self:
        """The settings that ``variables`` (``os.environ``) say; an empty one is not given.

        Raises:
            ValueError: One of them cannot work; names it.
        """
        given = os.environ if variables is None else variables
        values: dict[str, float] = {}
        for variable, (name, unit) in _VARIABLES.items():
            text = given.get(variable, "").strip()
            if not text:
                continue
            try:
                number = float(text) if name == "timeout_s" else int(text) * unit
            except ValueError:
                number = 0
            if not 0 < number < float("inf"):
                raise ValueError(f"{variable} must be a positive number; got {text!r}")
            values[name] = number
        return cls(**values)  # type: ignore[arg-type]  # whole numbers where they must be
