"""A client as its author writes it: the three hooks by hand, or supplied for dataclasses. Checked, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from openenv.core import Action, HTTPEnvClient, Observation, State, StepResult, TypedHooks


@dataclass(kw_only=True)
class Move(Action):
    to: int


@dataclass(kw_only=True)
class Board(Observation):
    cells: list[int]


class ByHand(HTTPEnvClient[Move, Board]):
    """Two parameters, as clients that exist have it."""

    def _step_payload(self, action: Move) -> dict[str, Any]:
        return {"to": action.to}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Board]:
        return StepResult(observation=Board(cells=payload["cells"]), reward=payload.get("reward"))

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


class Supplied(TypedHooks[Move, Board, State], HTTPEnvClient[Move, Board, State]):
    pass


class Forgotten(HTTPEnvClient[Move, Board]):
    pass


def use() -> None:
    assert_type(ByHand("http://x").step(Move(to=1)), StepResult[Board])
    assert_type(ByHand("http://x").state(), State)
    assert_type(Supplied("http://x").reset().observation.cells, list[int])
    Forgotten("http://x")  # type: ignore[abstract]
