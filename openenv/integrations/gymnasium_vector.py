"""A pool of environments as a ``gymnasium.vector.VectorEnv``.

::

    envs = to_gymnasium_vector(EnvPool(CartEnv, "http://localhost:8000", lanes=64))
    observations, infos = envs.reset(seed=7)
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from gymnasium import Space
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from openenv.core.errors import ConfigurationError
from openenv.core.types import StepResult
from openenv.integrations.translation import Part, Translation, ends
from openenv.pool import EnvPool

_SEEDS = 1 << 31
_MODES = {
    "disabled": AutoresetMode.DISABLED,
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
}


class GymnasiumVectorEnv(VectorEnv[Any, Any, Any]):
    """A pool as a ``gymnasium.vector.VectorEnv``; :func:`to_gymnasium_vector` makes it.

    One seed decides all episodes: automatic resets after a reset with a seed draw theirs from ``np_random``.
    """

    def __init__(
        self,
        pool: EnvPool[Any, Any, Any],
        translation: Translation,
        mode: AutoresetMode,
        render_mode: str | None,
        reset_options: Mapping[str, Any],
        lost_reward: float | None,
    ) -> None:
        self.pool, self.num_envs = pool, len(pool)
        self._translation, self._mode = translation, mode
        self._reset_options, self._lost_reward = dict(reset_options), lost_reward
        self.single_observation_space = translation.observation_space
        self.single_action_space = translation.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"render_modes": translation.modes, "render_fps": 30, "autoreset_mode": mode}
        self.render_mode = translation.check_mode(render_mode)
        self._seeded = False
        self._raw: list[Any] = [None] * self.num_envs
        self._seen: list[Any] = [None] * self.num_envs
        self._over = np.ones(self.num_envs, np.bool_)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere, or where ``options["reset_mask"]`` is true.

        Args:
            seed: One for each, or one number from which they count up.
            options: Of the environments' reset, for these episodes only; ``reset_mask`` is a mask of booleans.
        """
        given = dict(options or {})
        mask = np.asarray(given.pop("reset_mask", np.ones(self.num_envs, np.bool_)), np.bool_)
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ConfigurationError(f"reset_mask must have {self.num_envs} booleans, one of them true; got {mask!r}")
        seeds = [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None:
            if len(seeds) != self.num_envs:
                raise ConfigurationError(f"{len(seeds)} seeds for {self.num_envs} environments")
            self._np_random = np.random.default_rng([number for number in seeds if number is not None])
            self._np_random_seed = seeds[0]
            self._seeded = True
        infos: dict[str, Any] = {}
        lanes = [int(lane) for lane in np.flatnonzero(mask)]
        self._begin(lanes, infos, given, None if seeds is None else [seeds[lane] for lane in lanes])
        return self._batch(), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Act once everywhere.

        Raises:
            gymnasium.error.ResetNeeded: An episode is over or has not begun, and nothing resets it by itself.
            OpenEnvError: A lane failed, and ``lost_reward`` was not given, or its episode is not lost by it.
        """
        resets = np.flatnonzero(self._over).tolist()
        if resets and (self._mode != AutoresetMode.NEXT_STEP or any(self._raw[lane] is None for lane in resets)):
            raise ResetNeeded(f"reset the environments {resets}: options={{'reset_mask': mask}} chooses them")
        rewards = np.zeros(self.num_envs, np.float64)
        terminations, truncations = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        infos: dict[str, Any] = {}
        each = enumerate(iterate(self.action_space, actions))
        todo = {lane: self._translation.act(action) for lane, action in each if not self._over[lane]}
        if todo:
            round_ = self.pool.step(todo)
            if self._lost_reward is None or not all(error.episode_lost for error in round_.errors.values()):
                round_.raise_errors()
            for lane in todo:
                if (result := round_[lane]) is None:
                    rewards[lane], truncations[lane] = self._lost_reward, True
                    self._add_info(infos, {"lost": True, "error": str(round_.errors[lane])}, lane)
                    continue
                rewards[lane] = self._translation.pay(result.reward)
                terminations[lane], truncations[lane] = ends(result)
                self._add_info(infos, self._take(lane, result), lane)
        self._over[resets] = False
        over = terminations | truncations
        if self._mode == AutoresetMode.SAME_STEP:
            resets = np.flatnonzero(over).tolist()
            infos = self._final(infos, resets)
        else:
            self._over |= over
        if resets:
            self._begin(resets, infos)
        return self._batch(), rewards, terminations, truncations, infos

    def render(self) -> tuple[Any, ...] | None:
        """What is to be seen of each environment."""
        if self.render_mode is None:
            return None
        if any(raw is None for raw in self._raw):
            raise ResetNeeded("reset() begins the episodes that render() can show")
        return tuple(self._translation.render(self.render_mode, raw) for raw in self._raw)

    def close_extras(self, **_: Any) -> None:
        """Close the pool, and with it the containers that it owns."""
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- within ---

    def _begin(
        self, lanes: list[int], infos: dict[str, Any], options: Mapping[str, Any] | None = None, seeds: Any = None
    ) -> None:
        if seeds is None and self._seeded:
            seeds = self.np_random.integers(_SEEDS, size=len(lanes)).tolist()
        round_ = self.pool.reset(seeds, {**self._reset_options, **(options or {})}, lanes=lanes)
        round_.raise_errors()
        for lane in lanes:
            result = round_[lane]
            assert result is not None
            self._add_info(infos, self._take(lane, result), lane)
        self._over[lanes] = False

    def _take(self, lane: int, result: StepResult[Any]) -> dict[str, Any]:
        self._raw[lane] = result.observation
        self._seen[lane] = self._translation.see(result.observation)
        return self._translation.info(result.observation, result.metadata)

    def _final(self, infos: dict[str, Any], lanes: Iterable[int]) -> dict[str, Any]:
        """``infos`` with what the lanes saw and were told last apart, as what follows is the next episode's."""
        for lane in lanes:
            told = {
                name: value[lane] for name, value in infos.items() if f"_{name}" in infos and infos[f"_{name}"][lane]
            }
            for name in told:
                infos[f"_{name}"][lane] = False
            self._add_info(infos, {"final_obs": self._seen[lane], "final_info": told}, lane)
        return infos

    def _batch(self) -> Any:
        space = self.single_observation_space
        empty: Any = create_empty_array(space, n=self.num_envs, fn=np.zeros)
        return concatenate(space, self._seen, empty)


def to_gymnasium_vector(
    pool: EnvPool[Any, Any, Any],
    *,
    autoreset: str = "next_step",
    observation: Part | None = None,
    action: Part | None = None,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    render_mode: str | None = None,
    reset_options: Mapping[str, Any] | None = None,
    no_reward: float | None = None,
    lost_reward: float | None = None,
) -> GymnasiumVectorEnv:
    """A pool of environments as a ``gymnasium.vector.VectorEnv``.

    Args:
        pool: What is stepped. It resets nothing by itself (``autoreset="disabled"``); ``close`` closes it.
        autoreset: When an episode that is over is followed by another: ``"next_step"``, ``"same_step"``, or
            ``"disabled"``, where ``reset(options={"reset_mask": mask})`` does it.
        observation: As of :func:`~openenv.integrations.gymnasium.to_gymnasium`.
        action: Likewise.
        observation_space: Of one environment.
        action_space: Of one environment.
        render_mode: As of ``to_gymnasium``.
        reset_options: Given to each reset of an environment, the automatic ones too.
        no_reward: What a step pays for which the environment sent no reward. By default that is an error.
        lost_reward: What a step pays in which an episode was lost by a failure of its server: it then counts as
            truncated with the last observation that came, ``infos["lost"]`` tells, and the next reset begins another.
            By default the failure is raised.

    Raises:
        ConfigurationError: An argument cannot work, or there is no space for a field.
    """
    if autoreset not in _MODES:
        raise ConfigurationError(f"autoreset must be one of {', '.join(_MODES)}; got {autoreset!r}")
    if pool.autoreset != "disabled":
        raise ConfigurationError(
            f"the pool resets by itself ({pool.autoreset}), and would do so without reset_options and seeds",
            remedy="Make it with autoreset='disabled', and give autoreset to to_gymnasium_vector.",
        )
    options = dict(reset_options or {})

    def example() -> Any:
        first = pool.reset(options=options, lanes=[0])
        first.raise_errors()
        return first.observations[0]

    translation = Translation(pool.client, observation, action, observation_space, action_space, no_reward, example)
    return GymnasiumVectorEnv(pool, translation, _MODES[autoreset], render_mode, options, lost_reward)
