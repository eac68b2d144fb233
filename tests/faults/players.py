"""Players of counted episodes: each ends exactly right, or with a named error in time."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable

from envs.echo_env import EchoAction, EchoEnv
from openenv.core import EpisodeLost, OpenEnvError, Timeouts
from openenv.core.timing import GRACE_S
from tests.faults.world import Slot

STEP_S = 3.0
RESET_S = 5.0
#: What may be added to a limit by a machine that has much else to do.
SLACK_S = 3.0


class Score:
    """What came of all episodes.

    Attributes:
        right: Episodes that were counted right to their ends.
        named: Errors that were said to players, by name.
        wrong: What must never happen, in words.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.right = self.steps = 0
        self.named: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, outcome: str | OpenEnvError, steps: int) -> None:
        with self._lock:
            self.steps += steps
            if isinstance(outcome, OpenEnvError):
                self.named[type(outcome).__name__] += 1
            elif outcome:
                self.wrong.append(outcome)
            else:
                self.right += 1


class Wrong(AssertionError):
    """A count, a reward or an answer is not what it must be."""


def play(env: EchoEnv, chance: random.Random) -> int:
    """One episode: how many steps it had.

    Raises:
        Wrong: It was not counted right.
        OpenEnvError: It ended by a fault.
    """
    _timed(env.reset, RESET_S)
    count = chance.randrange(5, 80)
    said = 0.0
    for number in range(1, count + 1):
        message = "x" * chance.randrange(0, 400)
        result = _timed(lambda message=message: env.step(EchoAction(message=message)), STEP_S)
        if result.observation.metadata.get("step") != number or result.observation.echoed_message != message:
            raise Wrong(f"step {number} of {message[:20]!r} was answered {str(result)[:200]}")
        said += float(result.reward or 0)
        if chance.random() < 0.05:
            time.sleep(chance.uniform(0, 0.3))
    state = _timed(env.state, STEP_S)
    if state.step_count != count:
        raise Wrong(f"{count} steps were counted as {state.step_count}")
    return count


def _timed(call: Callable[[], object], limit_s: float) -> object:
    start = time.monotonic()
    try:
        return call()
    finally:
        took = time.monotonic() - start
        if took > limit_s + GRACE_S + SLACK_S:
            raise Wrong(f"a call with a limit of {limit_s:g} s took {took:.1f} s")


class Player(threading.Thread):
    """Plays one episode after the other on whatever slot chance gives it, until it is told to stop."""

    def __init__(self, number: int, seed: int, slots: list[Slot], score: Score, stop: threading.Event) -> None:
        super().__init__(name=f"player-{number}", daemon=True)
        self._chance = random.Random(f"{seed}-{number}")
        self._slots, self._score, self._stop_asked = slots, score, stop

    def run(self) -> None:
        while not self._stop_asked.is_set():
            slot = self._chance.choice(self._slots)
            transport = self._chance.choice(["auto", "auto", "websocket"])
            limits = Timeouts(connect=2.0, reset=RESET_S, step=STEP_S, state=STEP_S, close=1.0)
            env = EchoEnv(slot.url, timeouts=limits, transport=transport)
            try:
                for _ in range(self._chance.randrange(1, 4)):
                    if not self._episode(env):
                        break
            finally:
                env.close()

    def _episode(self, env: EchoEnv) -> bool:
        steps = 0
        outcome: str | OpenEnvError = ""
        try:
            steps = play(env, self._chance)
        except OpenEnvError as error:
            outcome = error
            if not error.message or (isinstance(error, EpisodeLost) and not error.episode_lost):
                outcome = f"an error that says nothing: {error!r}"
        except Wrong as wrong:
            outcome = str(wrong)
        except Exception:
            outcome = traceback.format_exc()
        self._score.add(outcome, steps)
        return not outcome
