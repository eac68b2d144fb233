"""An environment as a ``gymnasium.Env``.

::

    env = to_gymnasium(CartEnv("http://localhost:8000"))
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gymnasium is not installed. Say: pip install 'openenv-client[gymnasium]'", name="gymnasium"
    ) from error
from gymnasium import Space
from gymnasium.error import ResetNeeded

from openenv.core.types import StepResult
from openenv.integrations.translation import Part, Translation, ends

_SEEDS = 1 << 31


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
        self._last: StepResult[Any] | None = None
        self._seeded = False
        self._translation = Translation(
            env,
            observation,
            action,
            observation_space,
            action_space,
            no_reward,
            lambda: env.reset(**self._reset_options).observation,
        )
        self.observation_space = self._translation.observation_space
        self.action_space = self._translation.action_space
        self.metadata = {"render_modes": self._translation.modes, "render_fps": 30}
        self.render_mode = self._translation.check_mode(render_mode)

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
        result = self._last = self.client.step(self._translation.act(action))
        observation, info = self._observe(result)
        return observation, self._translation.pay(result.reward), *ends(result), info

    def render(self) -> Any:
        """What is to be seen: an array of height, width and three colours, or text.

        Raises:
            gymnasium.error.ResetNeeded: No episode has begun.
        """
        if self.render_mode is not None and self._last is None:
            raise ResetNeeded("reset() begins the episode that render() can show")
        return self._translation.render(self.render_mode, self._last and self._last.observation)

    def close(self) -> None:
        """Close the client, and with it the container that it owns. May be called again."""
        self.client.close()

    def _observe(self, result: StepResult[Any]) -> tuple[Any, dict[str, Any]]:
        info = self._translation.info(result.observation, result.metadata)
        return self._translation.see(result.observation), info


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
