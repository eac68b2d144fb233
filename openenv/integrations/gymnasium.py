"""An environment as a ``gymnasium.Env``.

::

    env = to_gymnasium(CartEnv("http://localhost:8000"))
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gymnasium is not installed. Say: pip install 'openenv-client[gymnasium]'", name="gymnasium"
    ) from error
import numpy as np
from gymnasium import Space, spaces
from gymnasium.error import ResetNeeded

from openenv.core import codec
from openenv.core.errors import ConfigurationError, ServerError
from openenv.core.types import StepResult
from openenv.integrations.spaces import into, out_of, space_of

#: Fields that the five values of a step tell already.
_TOLD_ELSEWHERE = frozenset({"done", "reward", "metadata", "terminated", "truncated"})
_SEEDS = 1 << 31

#: A field of the class of observations or actions, or a function.
Part = str | Callable[[Any], Any]


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """A client of an environment as a ``gymnasium.Env``; :func:`to_gymnasium` makes it.

    After a reset with a seed, later resets without one draw theirs from ``np_random``, so that one seed decides all
    episodes. Errors of the client pass through: no observation and no reward is made up for a step that failed. Fields
    of the observation that are not in its space are in ``info``, with the metadata that came.
    """

    def __init__(
        self,
        env: Any,
        observation: Part | None,
        action: Part | None,
        observation_space: Space[Any] | None,
        action_space: Space[Any] | None,
        render_mode: str | None,
        reset_options: Mapping[str, Any] | None,
        no_reward: float | None,
    ) -> None:
        self.client = env
        self._reset_options = dict(reset_options or {})
        self._no_reward = no_reward
        self._last: StepResult[Any] | None = None
        self._seeded = False
        known = _known(action, action_space) and _known(observation, observation_space)
        schemas = {} if known else _schemas(env)
        self._action = _field("action", action, action_space, schemas)
        self._observation = _field("observation", observation, observation_space, schemas)
        if action_space is None:
            action_space = _space("action", self._action, schemas["action"])
        if observation_space is None:
            example = None
            if _has_array(schemas["observation"]):
                example = codec.fields(self.client.reset(**self._reset_options).observation)
            observation_space = _space("observation", self._observation, schemas["observation"], example)
        self.observation_space, self.action_space = observation_space, action_space
        modes = ["ansi"] if self._picture_space() is None else ["rgb_array", "ansi"]
        self.metadata = {"render_modes": modes, "render_fps": 30}
        if render_mode is not None and render_mode not in modes:
            raise ConfigurationError(f"render_mode must be one of {', '.join(modes)}; got {render_mode!r}")
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; ``options`` are those of the environment's reset, for this episode only."""
        super().reset(seed=seed)
        self._seeded = self._seeded or seed is not None
        if seed is None and self._seeded:
            seed = int(self.np_random.integers(_SEEDS))
        given = {**self._reset_options, **(options or {}), **({} if seed is None else {"seed": seed})}
        result = self._last = self.client.reset(**given)
        return self._observe(result)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act once.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
            ConfigurationError: The environment paid nothing, not even 0, and ``no_reward`` was not given.
            OpenEnvError: See :mod:`openenv.core.errors`; where ``episode_lost`` is true, ``reset`` begins another.
        """
        if self._last is None:
            raise ResetNeeded("reset() begins the episode that step() goes on with")
        result = self._last = self.client.step(self._act(action))
        observation, info = self._observe(result)
        truncated = bool(result.truncated)
        terminated = bool(result.done and not truncated if result.terminated is None else result.terminated)
        return observation, self._pay(result.reward), terminated, truncated, info

    def render(self) -> Any:
        """What is to be seen: an array of height, width and three colours, or text.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        if self.render_mode is None:
            return None
        if self._last is None:
            raise ResetNeeded("reset() begins the episode that render() can show")
        if self.render_mode == "ansi":
            return str(self._last.observation)
        seen = self._see(self._last.observation)
        if isinstance(self.observation_space, spaces.Dict):
            seen = seen[self._picture_space()]
        return np.repeat(seen[..., None], 3, axis=2) if seen.ndim == 2 else seen.copy()

    def close(self) -> None:
        """Close the client, and with it the container that it owns. May be called again."""
        self.client.close()

    # --- within ---

    def _act(self, action: Any) -> Any:
        if callable(self._action):
            return self._action(action)
        plain = out_of(self.action_space, action)
        told = {self._action: plain} if self._action is not None else plain
        kind = getattr(self.client, "action_type", None)
        return kind(**told) if isinstance(kind, type) and kind is not dict else told

    def _see(self, observation: Any) -> Any:
        if callable(self._observation):
            return self._observation(observation)
        if self._observation is None:
            return into(self.observation_space, observation, "observation")
        return into(
            self.observation_space, codec.fields(observation)[self._observation], f"observation.{self._observation}"
        )

    def _observe(self, result: StepResult[Any]) -> tuple[Any, dict[str, Any]]:
        fields = codec.fields(result.observation)
        info = {**(result.metadata or {}), **(fields.get("metadata") or {})}
        if self._observation is not None:
            told = {*_TOLD_ELSEWHERE, self._observation}
            info |= {name: value for name, value in fields.items() if name not in told}
        return self._see(result.observation), info

    def _pay(self, reward: Any) -> float:
        if reward is None:
            if self._no_reward is None:
                raise ConfigurationError(
                    "the environment sent no reward with this step, and Gymnasium wants a number",
                    remedy="Where that means nothing was earned, say to_gymnasium(..., no_reward=0.0).",
                )
            return self._no_reward
        return float(reward)

    def _picture_space(self) -> str | None:
        """Which part of an observation is a picture: the name of the field, "" where it is all of it."""
        whole = self.observation_space
        for name, part in whole.spaces.items() if isinstance(whole, spaces.Dict) else [("", whole)]:
            shape = part.shape if isinstance(part, spaces.Box) and part.dtype == np.uint8 else ()
            if len(shape) == 2 or (len(shape) == 3 and shape[2] == 3):
                return name
        return None


def to_gymnasium(
    env: Any,
    *,
    observation: Part | None = None,
    action: Part | None = None,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    render_mode: str | None = None,
    reset_options: Mapping[str, Any] | None = None,
    no_reward: float | None = None,
) -> GymnasiumEnv:
    """A client of an environment as a ``gymnasium.Env``.

    Spaces that are not given come from the server's ``/schema``: whole numbers with bounds are ``Discrete``, numbers
    ``Box``, booleans and enums ``Choices`` (a ``Discrete`` that knows the values), text ``Text``, arrays ``Box`` or
    ``Sequence``, several fields a ``Dict``; a single field is its own space. ``done``, ``reward`` and ``metadata`` are
    left out of observations. Of an action the fields without a default are asked for. Where the shape of an array is
    not in the schema, one reset tells it.

    Args:
        env: A synchronous client, such as an ``HTTPEnvClient`` or what ``EnvClient.sync()`` gives. ``close`` closes it.
        observation: The field of the observation that the agent sees, or a function of the observation; with a
            function ``observation_space`` is needed.
        action: The field that the agent's action fills, or a function that makes the environment's action of it; with
            a function ``action_space`` is needed.
        observation_space: What the agent sees.
        action_space: What the agent does.
        render_mode: ``"rgb_array"`` where a part of the observation is a picture, ``"ansi"``, or nothing.
        reset_options: Given to each reset of the environment.
        no_reward: What a step pays for which the environment sent no reward. By default that is an error.

    Raises:
        ConfigurationError: There is no space for a field, or the server has no ``/schema``; says what to give.
    """
    return GymnasiumEnv(
        env, observation, action, observation_space, action_space, render_mode, reset_options, no_reward
    )


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
