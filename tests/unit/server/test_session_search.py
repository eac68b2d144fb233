"""A seeded search for double steps, gaps, revived sessions, wrong answers and environments that are left open."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest

from openenv.server.engine import Engine
from openenv.server.environments import Environments
from openenv.server.memory import Tombstones
from openenv.server.session import Call, Reply, Session
from openenv.server.turns import Turns
from tests.unit.server.search import Broken, search

#: More of them for a thorough search: OPENENV_SEARCH_SEEDS=5000.
SEEDS = int(os.environ.get("OPENENV_SEARCH_SEEDS", "80"))


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "openenv.server")


@pytest.mark.parametrize("part", range(4))
def test_no_seed_breaks_a_promise(part: int) -> None:
    assert search_all(range(part, SEEDS, 4)) > SEEDS, "the search did next to nothing"


def test_the_same_seed_plays_the_same_game() -> None:
    assert search(3).ran == search(3).ran


# --- what the search finds --------------------------------------------------------------------------------------


def found(message: str, seeds: int = 150) -> None:
    """Assert that the search finds the bug that was just planted."""
    with pytest.raises(Broken, match=message):
        search_all(range(seeds))


def search_all(seeds: range) -> int:
    """How many calls ran."""
    return sum(len(search(seed).ran) for seed in seeds)


def test_it_finds_a_call_that_runs_again_when_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(self: Engine, session: Session, call: Call) -> Any:
        self._accept(session, call)
        if session.turn is None and session.handle is not None and not session.handle.busy:
            self._turns.begin(session, call)
        else:
            session.queue.append(call)
        return self._wait(session, call)

    monkeypatch.setattr(Engine, "_repeat", repeat)
    found("ran twice|ran after")


def test_it_finds_a_repeated_call_that_does_not_wait_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Engine._repeat

    def repeat(self: Engine, session: Session, call: Call) -> Any:
        first = session.entry
        if first is not None and not first.done:
            session.last -= 1
            return self.submit(call)
        return original(self, session, call)

    monkeypatch.setattr(Engine, "_repeat", repeat)
    found("ran twice")


def test_it_finds_an_answer_of_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Engine._repeat

    def repeat(self: Engine, session: Session, call: Call) -> Any:
        if session.memory is None or session.memory.reply is None:
            return self._wait(session, session.entry) if session.entry else original(self, session, call)
        return session.memory.reply.again()

    monkeypatch.setattr(Engine, "_repeat", repeat)
    found("another number's answer|a wrong answer")


def test_it_finds_a_session_that_is_revived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tombstones, "reason", lambda *_: None)
    found("ran twice|after the session was deleted")


def test_it_finds_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Engine.submit

    def submit(self: Engine, call: Call) -> Any:
        session = self._sessions.get(call.session_id)
        if session is not None and call.seq is not None and call.seq > session.last:
            session.last = call.seq - 1
        return original(self, call)

    monkeypatch.setattr(Engine, "submit", submit)
    found("ran after")


def test_it_finds_a_step_after_one_that_overran(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Turns.settle

    def settle(self: Turns, session: Session, call: Call, reply: Reply) -> Reply:
        answer = original(self, session, call, reply)
        session.must_reset = False
        return answer

    monkeypatch.setattr(Turns, "settle", settle)
    found("ran after a call that overran")


def test_it_finds_an_environment_that_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Environments, handle: Any) -> None:
        if handle.busy:
            handle.abandoned = True
        else:
            self.free(handle)

    monkeypatch.setattr(Environments, "drop", drop)
    found("was not closed|more environments than")


def test_it_finds_a_slot_that_is_given_back_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Environments.drop

    def drop(self: Environments, handle: Any) -> None:
        original(self, handle)
        self.free(handle)

    monkeypatch.setattr(Environments, "drop", drop)
    found("more environments than there may be")


def test_it_finds_an_environment_that_is_closed_in_the_middle_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(self: Environments, handle: Any) -> None:
        if handle.env is not None:
            self.spawn(self.close(handle))
        else:
            handle.abandoned = True

    monkeypatch.setattr(Environments, "drop", drop)
    found("in the middle of a call|closed twice")


def test_it_finds_two_calls_at_once_in_one_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Turns.overran

    def overran(self: Turns, session: Session, call: Call) -> None:
        original(self, session, call)
        if session.handle is not None and session.handle.env is not None:
            session.handle.busy = False

    monkeypatch.setattr(Turns, "overran", overran)
    found("ran while another call did")
