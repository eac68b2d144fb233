"""Test environments, written once for all generations of the peer's server.

`kit` gives the base classes of the generation (`era_http`, `era_websocket`). Each environment shows one thing that a
client has to get right.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

Built = tuple[Callable[[], Any], type, type, type]


def build(kit: Any, name: str, options: dict[str, Any]) -> Built:
    """The factory and the models (action, observation, state) of an environment; `kit.build_NAME` comes first."""
    special = getattr(kit, f"build_{name}", None)
    built: Built = special(options) if special else globals()[f"_{name}"](kit, options)
    return built


def _base(kit: Any, state_class: type | None = None) -> type:
    """An environment that keeps an episode id and counts steps."""
    make_state = state_class or kit.State

    class Base(kit.Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._state = make_state(episode_id=str(uuid.uuid4()), step_count=0)

        def begin(self, episode_id: str | None) -> None:
            self._state = make_state(episode_id=episode_id or str(uuid.uuid4()), step_count=0)

        @property
        def state(self) -> Any:
            return self._state

    return Base


def _echo(kit: Any, options: dict[str, Any]) -> Built:
    """The common example. Its metadata says what the server passed on."""
    action = kit.model("EchoAction", kit.Action, message=str)
    observation = kit.model("EchoObservation", kit.Observation, echoed_message=str, message_length=(int, 0))

    class Echo(_base(kit)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, **extra: Any) -> Any:
            self.begin(episode_id)
            said = {key: value for key, value in (("seed", seed), ("extra", extra)) if value not in (None, {})}
            return observation(
                echoed_message="Echo environment ready!", message_length=0, reward=0.0, done=False, metadata=said
            )

        def step(self, action: Any, timeout_s: float | None = None, **extra: Any) -> Any:
            self._state.step_count += 1
            said: dict[str, Any] = {"step": self._state.step_count}
            if timeout_s is not None:
                said["timeout_s"] = timeout_s
            if extra:
                said["extra"] = extra
            if action.metadata:
                said["sent"] = dict(action.metadata)
            size = len(action.message)
            return observation(echoed_message=action.message, message_length=size, reward=size * 0.1, metadata=said)

    return Echo, action, observation, kit.State


def _counter(kit: Any, options: dict[str, Any]) -> Built:
    """Ends after `limit` steps (option of the server or of reset, default 5)."""
    action = kit.model("CounterAction", kit.Action, amount=(int, 1))
    observation = kit.model("CounterObservation", kit.Observation, count=(int, 0), total=(int, 0))
    default = options.get("limit", 5)

    class Counter(_base(kit)):
        total, limit = 0, default

        def reset(
            self, seed: int | None = None, episode_id: str | None = None, limit: int | None = None, **_: Any
        ) -> Any:
            self.begin(episode_id)
            self.total, self.limit = 0, limit or default
            return observation(reward=0)

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            self._state.step_count += 1
            self.total += action.amount
            count = self._state.step_count
            return observation(count=count, total=self.total, reward=action.amount, done=count >= self.limit)

    return Counter, action, observation, kit.State


def _echo_counted(kit: Any, options: dict[str, Any]) -> Built:
    """The echo environment's models with the counter's memory: an episode of `limit` steps, each reward its number."""
    action = kit.model("EchoAction", kit.Action, message=str)
    observation = kit.model("EchoObservation", kit.Observation, echoed_message=str, message_length=(int, 0))
    limit = options.get("limit", 100)

    class EchoCounted(_base(kit)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self.begin(episode_id)
            return observation(echoed_message=f"seed {seed}", reward=None)

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            self._state.step_count += 1
            count = self._state.step_count
            message = action.message
            return observation(echoed_message=message, message_length=len(message), reward=count, done=count >= limit)

    return EchoCounted, action, observation, kit.State


def _recorder(kit: Any, options: dict[str, Any]) -> Built:
    """Its observation is what reached the environment; its state has fields that no client knows."""
    action = kit.model("RecorderAction", kit.Action, note=(str, ""))
    observation = kit.model("RecorderObservation", kit.Observation, reset=(dict, {}), step=(dict, {}))
    state = kit.model("RecorderState", kit.State, mood=(str, "calm"), history=(list, []))

    class Recorder(_base(kit, state)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, **extra: Any) -> Any:
            self.begin(episode_id)
            return observation(reset={"seed": seed, "episode_id": episode_id, "extra": extra})

        def step(self, action: Any, timeout_s: float | None = None, **extra: Any) -> Any:
            self._state.step_count += 1
            self._state.history = [*self._state.history, action.note]
            seen = {"note": action.note, "metadata": dict(action.metadata), "timeout_s": timeout_s, "extra": extra}
            return observation(step=seen)

    return Recorder, action, observation, state


def _failing(kit: Any, options: dict[str, Any]) -> Built:
    """Raises when it is told to, goes on afterwards."""
    action = kit.model("FailingAction", kit.Action, message=str)
    observation = kit.model("FailingObservation", kit.Observation, count=(int, 0))

    class Failing(_base(kit)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, fail: bool = False, **_: Any) -> Any:
            if fail:
                raise ValueError("reset refused")
            self.begin(episode_id)
            return observation()

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            if action.message == "fail":
                raise ValueError("step refused: fail")
            self._state.step_count += 1
            return observation(count=self._state.step_count)

    return Failing, action, observation, kit.State


def _strict(kit: Any, options: dict[str, Any]) -> Built:
    """Insists on reset before step, as many environments do."""
    action = kit.model("StrictAction", kit.Action, message=(str, ""))
    observation = kit.model("StrictObservation", kit.Observation, count=(int, 0))

    class Strict(_base(kit)):
        begun = False

        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self.begin(episode_id)
            self.begun = True
            return observation()

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            if not self.begun:
                raise RuntimeError("call reset first")
            self._state.step_count += 1
            return observation(count=self._state.step_count)

    return Strict, action, observation, kit.State


def _broken(kit: Any, options: dict[str, Any]) -> Built:
    """Its factory fails, always."""
    _, action, observation, state = _echo(kit, options)

    def broken_factory() -> Any:
        raise RuntimeError("no licence for this simulator")

    return broken_factory, action, observation, state


def _slow(kit: Any, options: dict[str, Any]) -> Built:
    """Sleeps for as long as the action says, on the thread that runs it."""
    action = kit.model("SlowAction", kit.Action, seconds=(float, 0.0))
    observation = kit.model("SlowObservation", kit.Observation, slept=(float, 0.0), count=(int, 0))

    class Slow(_base(kit)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, seconds: float = 0.0, **_: Any) -> Any:
            time.sleep(seconds)
            self.begin(episode_id)
            return observation(slept=seconds)

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            time.sleep(action.seconds)
            self._state.step_count += 1
            return observation(slept=action.seconds, count=self._state.step_count)

    return Slow, action, observation, kit.State


def _big(kit: Any, options: dict[str, Any]) -> Built:
    """An observation of as many characters as the action asks for."""
    action = kit.model("BigAction", kit.Action, size=int)
    observation = kit.model("BigObservation", kit.Observation, blob=(str, ""))

    class Big(_base(kit)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self.begin(episode_id)
            return observation()

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            return observation(blob="x" * action.size)

    return Big, action, observation, kit.State


def _rewards(kit: Any, options: dict[str, Any]) -> Built:
    """A reward of the kind that the action names."""
    action = kit.model("RewardsAction", kit.Action, kind=str)
    observation = kit.model("RewardsObservation", kit.Observation, kind=(str, ""))
    rewards = {"none": None, "int": 1, "zero": 0, "true": True, "false": False, "float": 0.25}

    class Rewards(_base(kit)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self.begin(episode_id)
            return observation()

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            return observation(kind=action.kind, reward=rewards[action.kind])

    return Rewards, action, observation, kit.State


def _novel(kit: Any, options: dict[str, Any]) -> Built:
    """An echo environment that is newer than its clients: observation and state have fields that they do not know."""
    action = kit.model("EchoAction", kit.Action, message=str)
    observation = kit.model(
        "EchoObservation", kit.Observation, echoed_message=str, message_length=(int, 0), novelty=(dict, {})
    )
    state = kit.model("NovelState", kit.State, mood=(str, "calm"))

    class Novel(_base(kit, state)):
        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self.begin(episode_id)
            return observation(echoed_message="ready", novelty={"deep": [1, {"er": None}]})

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            self._state.step_count += 1
            message = action.message
            return observation(echoed_message=message, message_length=len(message), novelty={"n": 1}, reward=0.5)

    return Novel, action, observation, state


def _tools(kit: Any, options: dict[str, Any]) -> Built:
    """Tools: `add(a, b)`, `calls()` which counts within the session, and `fail(reason)` which fails."""
    tools = kit.tools

    class Tools(tools.Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            server = tools.Server("calculator")
            self._state = kit.State(episode_id=str(uuid.uuid4()), step_count=0)
            self._calls = 0

            @server.tool
            def add(a: int, b: int) -> int:
                """Add two integers."""
                self._calls += 1
                return a + b

            @server.tool
            def calls() -> int:
                """How often `add` was called in this session."""
                return self._calls

            @server.tool
            def fail(reason: str) -> str:
                """Always fails."""
                raise ValueError(f"tool failed: {reason}")

            super().__init__(server)

        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Any:
            self._state = kit.State(episode_id=episode_id or str(uuid.uuid4()), step_count=0)
            self._calls = 0
            return kit.Observation(done=False, reward=0.0)

        def _step_impl(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            raise ValueError(f"not a tool action: {type(action).__name__}")

        @property
        def state(self) -> Any:
            return self._state

    return Tools, kit.Action, kit.Observation, kit.State
