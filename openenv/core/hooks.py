"""The three hooks of an environment, and the mixin that supplies them for typed dataclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, get_args, get_origin

from openenv.core import codec
from openenv.core.errors import DecodeError, EncodeError
from openenv.core.types import ActT, ObsT, State, StateT, StepResult

_RESULT_KEYS = frozenset({"observation", "reward", "done", "metadata", "terminated", "truncated", "openenv"})


def truncated_of(payload: dict[str, Any], metadata: dict[str, Any] | None) -> bool | None:
    """Whether a limit ended the episode, where the server says so: by itself or as Gymnasium's wrappers do."""
    told = payload.get("truncated")
    if told is None and metadata:
        told = metadata.get("truncated", metadata.get("TimeLimit.truncated"))
    return told


class Hooks(ABC, Generic[ActT, ObsT, StateT]):
    """What differs between environments. Everything else of a client is the same for all."""

    @abstractmethod
    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """The action as the JSON object that the server expects under ``"action"``."""

    @abstractmethod
    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """The server's answer to ``/reset`` or ``/step``, decoded from its encoding, as a result."""

    @abstractmethod
    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """The server's answer to ``/state``, decoded from its encoding, as a state."""


class TypedHooks(Hooks[ActT, ObsT, StateT]):
    """The hooks of dataclasses: name them and the rest follows.

    ::

        class EchoEnv(TypedHooks[EchoAction, EchoObservation, EchoState],
                      HTTPEnvClient[EchoAction, EchoObservation, EchoState]): ...

    ``observation_defaults`` and ``state_defaults`` stand in for keys that a server leaves out.
    """

    action_type: ClassVar[type[Any]]
    observation_type: ClassVar[type[Any]]
    state_type: ClassVar[type[Any]] = State
    observation_defaults: ClassVar[dict[str, Any]] = {}
    state_defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, TypedHooks):
                types = [kind for kind in get_args(base) if isinstance(kind, type)]
                for name, kind in zip(("action_type", "observation_type", "state_type"), types, strict=False):
                    setattr(cls, name, kind)

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        if not isinstance(action, (self.action_type, dict)):
            raise EncodeError(
                f"{type(self).__name__} takes {self.action_type.__name__}; got {type(action).__name__} {action!r:.60}",
                remedy=f"Write {self.action_type.__name__}(...).",
                path="$.action",
            )
        payload = codec.fields(action)
        if not payload.get("metadata", True):
            del payload["metadata"]
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        seen = payload.get("observation")
        if seen is None:
            seen = {}
        elif not isinstance(seen, dict):
            raise DecodeError(
                f"the observation must be an object; got {type(seen).__name__} {seen!r:.60}",
                path="$.observation",
                expected="object",
            )
        reward = payload["reward"] if "reward" in payload else seen.get("reward")
        done = bool(payload["done"] if "done" in payload else seen.get("done"))
        observation: ObsT = codec.decode(
            self.observation_type, {**self.observation_defaults, **seen, "reward": reward, "done": done},
            where="$.observation",
        )  # fmt: skip
        metadata = payload.get("metadata")
        if not _RESULT_KEYS.issuperset(payload):
            metadata = {**{k: v for k, v in payload.items() if k not in _RESULT_KEYS}, **(metadata or {})}
        return StepResult(
            observation, reward, done, metadata, payload.get("terminated"), truncated_of(payload, metadata)
        )

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        value: StateT = codec.decode(self.state_type, {**self.state_defaults, **payload})
        return value
