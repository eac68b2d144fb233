"""The environments of the benchmarks as authors write them for the peer: pydantic models, three hooks."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from uuid import uuid4

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server import Action, Environment, Observation, State

GAME, SEED = "breakout", 7


class EchoAction(Action):
    message: str


class EchoObservation(Observation):
    echoed_message: str = ""
    message_length: int = 0


class EchoEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id=str(uuid4()), step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> EchoObservation:
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return EchoObservation(echoed_message="ready", done=False, reward=0.0)

    def step(self, action: EchoAction, timeout_s: float | None = None, **_: Any) -> EchoObservation:
        self._state.step_count += 1
        size = len(action.message)
        return EchoObservation(
            echoed_message=action.message,
            message_length=size,
            done=False,
            reward=size * 0.1,
            metadata={"original_message": action.message, "step": self._state.step_count},
        )

    @property
    def state(self) -> State:
        return self._state


class EchoClient(EnvClient[EchoAction, EchoObservation, State]):
    def _step_payload(self, action: EchoAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[EchoObservation]:
        seen = payload.get("observation", {})
        observation = EchoObservation(
            echoed_message=seen.get("echoed_message", ""),
            message_length=seen.get("message_length", 0),
            done=payload.get("done", False),
            reward=payload.get("reward"),
            metadata=seen.get("metadata", {}),
        )
        return StepResult(observation=observation, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))


class AtariAction(Action):
    action_id: int


class AtariObservation(Observation):
    screen: list[int]
    screen_shape: list[int]
    legal_actions: list[int]
    lives: int = 0
    episode_frame_number: int = 0
    frame_number: int = 0


class AtariEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        from ale_py import ALEInterface, LoggerMode, roms

        super().__init__()
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setInt("random_seed", SEED)
        self._ale.setInt("frame_skip", 4)
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.loadROM(roms.get_rom_path(GAME))
        self._actions = self._ale.getMinimalActionSet()
        self._state = State(episode_id=str(uuid4()), step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> AtariObservation:
        self._ale.reset_game()
        self._state = State(episode_id=str(uuid4()), step_count=0)
        return self._observe(0.0)

    def step(self, action: AtariAction, timeout_s: float | None = None, **_: Any) -> AtariObservation:
        self._state.step_count += 1
        return self._observe(float(self._ale.act(self._actions[action.action_id])))

    def _observe(self, reward: float) -> AtariObservation:
        screen = self._ale.getScreenRGB()
        return AtariObservation(
            screen=screen.flatten().tolist(),
            screen_shape=list(screen.shape),
            legal_actions=list(range(len(self._actions))),
            lives=self._ale.lives(),
            episode_frame_number=self._ale.getEpisodeFrameNumber(),
            frame_number=self._ale.getFrameNumber(),
            done=self._ale.game_over(),
            reward=reward,
        )

    @property
    def state(self) -> State:
        return self._state


class AtariClient(EnvClient[AtariAction, AtariObservation, State]):
    def _step_payload(self, action: AtariAction) -> dict[str, Any]:
        return {"action_id": action.action_id}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[AtariObservation]:
        seen = payload.get("observation", {})
        observation = AtariObservation(
            screen=seen.get("screen", []),
            screen_shape=seen.get("screen_shape", []),
            legal_actions=seen.get("legal_actions", []),
            lives=seen.get("lives", 0),
            episode_frame_number=seen.get("episode_frame_number", 0),
            frame_number=seen.get("frame_number", 0),
            done=payload.get("done", False),
            reward=payload.get("reward"),
        )
        return StepResult(observation=observation, reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))


class SleepyAction(Action):
    pass


class SleepyObservation(Observation):
    pass


class SleepyEnvironment(EchoEnvironment):
    """Each step takes a second in which the server can do something else."""

    def step(self, action: SleepyAction, timeout_s: float | None = None, **_: Any) -> SleepyObservation:
        raise NotImplementedError

    async def reset_async(self, *_: Any, **__: Any) -> SleepyObservation:
        return SleepyObservation(done=False, reward=0.0)

    async def step_async(self, action: SleepyAction, timeout_s: float | None = None, **_: Any) -> SleepyObservation:
        await asyncio.sleep(1.0)
        return SleepyObservation(done=False, reward=1.0)


KINDS: dict[str, tuple[type, type, type, type]] = {
    "echo": (EchoEnvironment, EchoAction, EchoObservation, EchoClient),
    "sleepy": (SleepyEnvironment, SleepyAction, SleepyObservation, EchoClient),
    "atari": (AtariEnvironment, AtariAction, AtariObservation, AtariClient),
}


def share(folders: list[str]) -> None:
    """Find what is not installed here in those folders; what is installed here comes first."""
    sys.path += folders
