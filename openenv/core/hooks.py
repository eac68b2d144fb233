"""The three hooks of an environment, and the mixin that supplies them for typed dataclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, ForwardRef, Generic, TypeVar, get_args, get_origin

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


def _wrong(name: str, expected: str, got: Any) -> DecodeError:
    return DecodeError(
        f"{name} must be of type {expected}; got {type(got).__name__} {got!r:.60}", path=f"$.{name}", expected=expected
    )


def _flag(name: str, value: Any) -> bool:
    if value is not None and not isinstance(value, (bool, int, float)):
        raise _wrong(name, "bool", value)
    return bool(value)


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


def _types_of(base: Any) -> tuple[Any, ...]:
    """What the generic ``base`` gives to :class:`TypedHooks`, by way of however many classes between."""
    origin, given = get_origin(base) or base, get_args(base)
    if origin is TypedHooks:
        return given
    named = dict(zip(getattr(origin, "__parameters__", ()), given, strict=False))
    for parent in getattr(origin, "__orig_bases__", ()):
        if found := _types_of(parent):
            return tuple(named.get(kind, kind) for kind in found)
    return ()


@cache
def _class_of(kind: Any) -> Any:
    """The class of a generic such as ``Move[int]``, else ``kind`` itself."""
    return get_origin(kind) or kind


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
        generic = [base for base in cls.__dict__.get("__orig_bases__", ()) if get_origin(base) is not None]
        for base in generic:
            for name, kind in zip(("action_type", "observation_type", "state_type"), _types_of(base), strict=False):
                if name not in cls.__dict__ and not isinstance(kind, (TypeVar, ForwardRef)):
                    setattr(cls, name, kind)

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        wanted = _class_of(self.action_type)  # type: ignore[arg-type]
        if wanted is not Any and not isinstance(action, (wanted, dict)):
            raise EncodeError(
                f"{type(self).__name__} takes {wanted.__name__}; got {type(action).__name__} {action!r:.60}",
                remedy=f"Write {wanted.__name__}(...).",
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
            raise _wrong("observation", "object", seen)
        reward = payload["reward"] if "reward" in payload else seen.get("reward")
        done = payload["done"] if "done" in payload else seen.get("done")
        if type(done) is not bool:
            done = _flag("done", done)
        metadata = payload.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise _wrong("metadata", "object", metadata)
        known: frozenset[str] = codec.field_names(self.observation_type)  # type: ignore[arg-type]
        told = {**self.observation_defaults, **seen} if self.observation_defaults else seen.copy()
        if not known or "reward" in known:
            told["reward"] = reward
        if not known or "done" in known:
            told["done"] = done
        observation: ObsT = codec.decode(self.observation_type, told, where="$.observation")
        if not _RESULT_KEYS.issuperset(payload):
            metadata = {**{k: v for k, v in payload.items() if k not in _RESULT_KEYS}, **(metadata or {})}
        truncated = payload.get("truncated")
        if truncated is None and metadata:
            truncated = truncated_of(payload, metadata)
        return StepResult(observation, reward, done, metadata, payload.get("terminated"), truncated)

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        value: StateT = codec.decode(self.state_type, {**self.state_defaults, **payload})
        return value
