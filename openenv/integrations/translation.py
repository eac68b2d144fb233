"""Between what an environment says and hears and the elements of Gymnasium's spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from openenv.core import codec
from openenv.core.errors import ConfigurationError, ServerError
from openenv.core.types import StepResult
from openenv.integrations.spaces import into, out_of, space_of

#: Fields that the five values of a step tell already.
_TOLD_ELSEWHERE = frozenset({"done", "reward", "metadata", "terminated", "truncated"})

#: A field of the class of observations or actions, or a function.
Part = str | Callable[[Any], Any]


class Translation:
    """The spaces of an environment, and its actions and results in and out of them.

    Args:
        client: A client, which tells the schemas and the class of the actions.
        observation: See :func:`openenv.integrations.gymnasium.to_gymnasium`, as of the others.
        action: What the agent's action is.
        observation_space: Of what the agent sees.
        action_space: Of what the agent does.
        no_reward: What a step pays for which no reward came.
        example: Gives an observation, where only one can tell the shape of an array.

    Raises:
        ConfigurationError: There is no space for a field, or the server has no ``/schema``.
    """

    def __init__(
        self,
        client: Any,
        observation: Part | None,
        action: Part | None,
        observation_space: Space[Any] | None,
        action_space: Space[Any] | None,
        no_reward: float | None,
        example: Callable[[], Any],
    ) -> None:
        self._no_reward = no_reward
        self._action_type = getattr(client, "action_type", None)
        known = _known(action, action_space) and _known(observation, observation_space)
        schemas = {} if known else _schemas(client)
        self._action = _field("action", action, action_space, schemas)
        self._observation = _field("observation", observation, observation_space, schemas)
        if action_space is None:
            action_space = _space("action", self._action, schemas["action"])
        if observation_space is None:
            seen = codec.fields(example()) if _has_array(schemas["observation"]) else None
            observation_space = _space("observation", self._observation, schemas["observation"], seen)
        self.observation_space, self.action_space = observation_space, action_space

    def act(self, action: Any) -> Any:
        """The environment's action for an element of the action space."""
        if callable(self._action):
            return self._action(action)
        plain = out_of(self.action_space, action)
        told = {self._action: plain} if self._action is not None else plain
        kind = self._action_type
        return kind(**told) if isinstance(kind, type) and kind is not dict else told

    def see(self, observation: Any) -> Any:
        """What the agent sees of an observation: an element of the observation space."""
        if callable(self._observation):
            return self._observation(observation)
        if self._observation is None:
            return into(self.observation_space, observation, "observation")
        seen = codec.fields(observation)[self._observation]
        return into(self.observation_space, seen, f"observation.{self._observation}")

    def info(self, observation: Any, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
        """What came besides: the metadata, and the fields that the agent does not see."""
        fields = codec.fields(observation)
        info = {**(metadata or {}), **(fields.get("metadata") or {})}
        if self._observation is not None:
            told = {*_TOLD_ELSEWHERE, self._observation}
            info |= {name: value for name, value in fields.items() if name not in told}
        return info

    def pay(self, reward: Any) -> float:
        """A reward as a number.

        Raises:
            ConfigurationError: There is none, and nothing was given to stand for it.
        """
        if reward is not None:
            return float(reward)
        if self._no_reward is None:
            raise ConfigurationError(
                "the environment sent no reward with this step, and Gymnasium wants a number",
                remedy="Where that means nothing was earned, say no_reward=0.0.",
            )
        return self._no_reward

    def picture(self) -> str | None:
        """Which part of what the agent sees is a picture: the name of the field, "" where it is all of it."""
        whole = self.observation_space
        for name, part in whole.spaces.items() if isinstance(whole, spaces.Dict) else [("", whole)]:
            shape = part.shape if isinstance(part, spaces.Box) and part.dtype == np.uint8 else ()
            if len(shape) == 2 or (len(shape) == 3 and shape[2] == 3):
                return name
        return None

    @property
    def modes(self) -> list[str]:
        """In which ways there is something to render."""
        return ["ansi"] if self.picture() is None else ["rgb_array", "ansi"]

    def render(self, mode: str | None, observation: Any) -> Any:
        """An observation as a picture of height, width and three colours, or as text."""
        if mode is None:
            return None
        if mode == "ansi":
            return str(observation)
        seen = self.see(observation)
        if isinstance(self.observation_space, spaces.Dict):
            seen = seen[self.picture()]
        return np.repeat(seen[..., None], 3, axis=2) if seen.ndim == 2 else seen

    def check_mode(self, mode: str | None) -> str | None:
        """``mode``, if there is something to render in it.

        Raises:
            ConfigurationError: There is not.
        """
        if mode is not None and mode not in self.modes:
            raise ConfigurationError(f"render_mode must be one of {', '.join(self.modes)}; got {mode!r}")
        return mode


def ends(result: StepResult[Any]) -> tuple[bool, bool]:
    """Whether the environment ended the episode, and whether a limit did; all that ends is the former, if untold."""
    truncated = bool(result.truncated)
    return bool(result.done and not truncated if result.terminated is None else result.terminated), truncated


def _schemas(env: Any) -> dict[str, Any]:
    try:
        return dict(env.schema())
    except ServerError as error:
        raise ConfigurationError(
            f"the server does not tell its schemas: {error.message}",
            remedy="Give observation_space and action_space.",
        ) from error


def _wanted(which: str, schema: Mapping[str, Any]) -> list[str]:
    names = [name for name in schema.get("properties", {}) if name not in _TOLD_ELSEWHERE]
    if which == "action" and (required := [name for name in names if name in schema.get("required", ())]):
        return required
    return names


def _known(part: Part | None, space: Space[Any] | None) -> bool:
    """Whether there is nothing to ask the server's schemas."""
    return space is not None and (part is not None or isinstance(space, spaces.Dict))


def _field(which: str, part: Part | None, space: Space[Any] | None, schemas: Mapping[str, Any]) -> Part | None:
    """The one field that the space is about, or ``None`` where it is about several."""
    if _known(part, space):
        return part
    if callable(part):
        raise ConfigurationError(f"{which} is a function, and {which}_space is missing", remedy=f"Give {which}_space.")
    names = _wanted(which, schemas[which])
    if part is not None and part not in schemas[which].get("properties", {}):
        raise ConfigurationError(f"{which} has no field {part!r}; it has {', '.join(names)}")
    if part is None and space is not None and len(names) != 1:
        raise ConfigurationError(
            f"{which}_space {space} is that of one field, and {which} has {', '.join(names)}",
            remedy=f"Say which: {which}=..., or give a Dict.",
        )
    return part if part is not None else names[0] if len(names) == 1 else None


def _space(which: str, part: Part | None, schema: Mapping[str, Any], example: Any = None) -> Space[Any]:
    names = [part] if isinstance(part, str) else _wanted(which, schema)
    inner = {**schema, "type": "object", "properties": {name: schema["properties"][name] for name in names}}
    made = space_of(inner, which, example=example, acting=which == "action")
    assert isinstance(made, spaces.Dict)
    return made[part] if isinstance(part, str) else made


def _has_array(schema: Any) -> bool:
    """Whether a field of the schema is an array whose shape nobody tells."""
    parts = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    return any(part.get("type") == "array" or _has_array(part) for part in parts)
