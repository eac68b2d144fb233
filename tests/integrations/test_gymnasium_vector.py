"""A pool as Gymnasium's vector environment: as its own SyncVectorEnv, over the same environments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from msgspec import Meta

from envs.atari_env import AtariEnv
from envs.echo_env import EchoEnv
from examples.cart_pole import CartPoleEnv
from openenv.core import Action, GenericHTTPEnvClient, Observation, State
from openenv.core.errors import ConfigurationError, OpenEnvError
from openenv.integrations.gymnasium import to_gymnasium
from openenv.integrations.gymnasium_vector import GymnasiumVectorEnv, to_gymnasium_vector
from openenv.pool import EnvPool
from openenv.server import Environment, create_app
from openenv.server.thread import serve_in_thread

LANES = 4
MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


@dataclass(kw_only=True)
class Go(Action):
    far: Annotated[int, Meta(ge=0, le=9)]


@dataclass(kw_only=True)
class Place(Observation):
    at: Annotated[int, Meta(ge=0, le=999)]
    episode: int


class Walk(Environment[Go, Place, State]):
    """Ends at 10; begins where the seed says."""

    episodes = 0

    def __init__(self) -> None:
        self.state = State()
        self.at = 0

    def reset(self, seed: int | None = None, start: int = 0) -> Place:
        self.episodes += 1
        self.at = start + (0 if seed is None else seed % 7)
        return Place(at=self.at, episode=self.episodes, metadata={"begun": True})

    def step(self, action: Go) -> Place:
        if action.far == 9:
            os._exit(3)
        self.at += action.far
        return Place(at=self.at, episode=self.episodes, reward=action.far, done=self.at >= 10)


app = create_app(Walk, Go, Place)


@pytest.fixture(scope="module")
def walk_url() -> Iterator[str]:
    with serve_in_thread(app) as url:
        yield url


def walks(url: str, mode: str, **options: Any) -> GymnasiumVectorEnv:
    pool = EnvPool(GenericHTTPEnvClient, url, lanes=LANES)
    return to_gymnasium_vector(pool, autoreset=mode, observation="at", **options)


def same(mine: Any, theirs: Any) -> None:
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        if isinstance(value, dict):
            same(value, theirs[name])
        elif name.startswith("_"):
            assert value.tolist() == theirs[name].tolist(), name
        else:
            mask = mine[f"_{name}"]
            assert list(value[mask]) == list(theirs[name][mask]), name


@pytest.mark.parametrize("mode", MODES)
def test_it_does_what_gymnasiums_own_vector_does(cart_url: str, mode: str) -> None:
    theirs = SyncVectorEnv([lambda: to_gymnasium(CartPoleEnv(cart_url))] * LANES, autoreset_mode=MODES[mode])
    ours = to_gymnasium_vector(EnvPool(CartPoleEnv, cart_url, lanes=LANES), autoreset=mode)
    assert isinstance(ours, VectorEnv)
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    assert ours.metadata["autoreset_mode"] is MODES[mode]
    (mine, infos), (his, told) = ours.reset(seed=3), theirs.reset(seed=3)
    assert (mine == his).all()
    same(infos, told)
    choice, ended, running = np.random.default_rng(1), 0, np.ones(LANES, np.bool_)
    for _ in range(60):
        actions = choice.integers(2, size=LANES)
        if ended and mode != "disabled":
            break  # automatic resets draw other seeds here and there
        a, b = ours.step(actions), theirs.step(actions)
        over = a[2] | a[3]
        # What follows an end in the same step is the next episode.
        running = ~over if mode == "same_step" else np.ones(LANES, np.bool_)
        assert (a[0][running] == b[0][running]).all()
        assert [x.tolist() for x in a[1:4]] == [x.tolist() for x in b[1:4]]
        if over.any():
            ended += 1
            if mode == "same_step":
                for lane in np.flatnonzero(over):
                    assert (a[4]["final_obs"][lane] == b[4]["final_obs"][lane]).all()
                assert a[4]["_final_obs"].tolist() == b[4]["_final_obs"].tolist() == over.tolist()
            if mode == "disabled":
                options = {"reset_mask": over}
                mine, his = ours.reset(seed=5, options=dict(options)), theirs.reset(seed=5, options=dict(options))
                assert (mine[0] == his[0]).all()
    assert ended
    ours.close()
    theirs.close()


def test_the_step_after_the_end_resets_and_pays_nothing(walk_url: str) -> None:
    with walks(walk_url, "next_step") as envs:
        seen, infos = envs.reset()
        assert (seen.tolist(), infos["episode"].tolist()) == ([0] * 4, [1] * 4)
        assert infos["begun"].all()
        seen, rewards, ended, *_ = envs.step(np.array([8, 7, 1, 1]))
        seen, rewards, ended, *_ = envs.step(np.array([2, 3, 1, 1]))
        assert (seen.tolist(), ended.tolist()) == ([10, 10, 2, 2], [True, True, False, False])
        seen, rewards, ended, _, infos = envs.step(np.array([5, 5, 5, 5]))
        assert (seen.tolist(), rewards.tolist(), ended.any()) == ([0, 0, 7, 7], [0, 0, 5, 5], False)
        assert infos["episode"].tolist() == [2, 2, 1, 1]
        assert infos["_begun"].tolist() == [True, True, False, False]


def test_the_end_is_told_apart_where_the_same_step_resets(walk_url: str) -> None:
    with walks(walk_url, "same_step") as envs:
        envs.reset()
        envs.step(np.array([8, 1, 1, 1]))
        seen, rewards, ended, _, infos = envs.step(np.array([4, 1, 1, 1]))
    assert (seen.tolist(), rewards.tolist()) == ([0, 2, 2, 2], [4, 1, 1, 1])
    assert ended.tolist() == [True, False, False, False]
    assert (infos["final_obs"][0], infos["final_info"]["episode"][0]) == (12, 1)
    assert infos["episode"].tolist() == [2, 1, 1, 1]


def test_a_mask_chooses_what_is_reset_and_nothing_else_is(walk_url: str) -> None:
    with walks(walk_url, "disabled") as envs:
        envs.reset()
        envs.step(np.array([8, 3, 1, 1]))
        envs.step(np.array([2, 3, 1, 1]))
        with pytest.raises(ResetNeeded, match=r"\[0\]"):
            envs.step(np.array([1, 1, 1, 1]))
        seen, _ = envs.reset(options={"reset_mask": np.array([True, False, False, False]), "start": 4})
        assert seen.tolist() == [4, 6, 2, 2]
        assert envs.step(np.array([1, 1, 1, 1]))[0].tolist() == [5, 7, 3, 3]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_one_seed_decides_all_episodes_and_options_come_with_each(walk_url: str, mode: str) -> None:
    def play(envs: GymnasiumVectorEnv) -> list[Any]:
        rounds = [envs.reset(seed=2)[0].tolist()]
        return rounds + [envs.step(np.array([5, 5, 5, 5]))[0].tolist() for _ in range(6)]

    with walks(walk_url, mode) as envs, walks(walk_url, mode, reset_options={"start": 1}) as later:
        first = play(envs)
        assert play(envs) == first
        assert play(later)[0] == [at + 1 for at in first[0]]
        assert len({tuple(seen) for seen in first}) > 2


def test_a_lost_lane_is_raised_or_truncated_as_you_say() -> None:
    with GenericHTTPEnvClient.from_process("tests.integrations.test_gymnasium_vector:app") as server:
        envs = walks(server.base_url, "next_step")
        envs.reset()
        with pytest.raises(OpenEnvError):
            envs.step(np.array([9, 1, 1, 1]))
        envs.close()
    with (
        GenericHTTPEnvClient.from_process("tests.integrations.test_gymnasium_vector:app") as dying,
        GenericHTTPEnvClient.from_process("tests.integrations.test_gymnasium_vector:app") as living,
    ):
        pool = EnvPool(GenericHTTPEnvClient, [dying.base_url, living.base_url], lanes=LANES)
        with to_gymnasium_vector(pool, observation="at", lost_reward=-1.0) as envs:
            envs.reset()
            envs.step(np.array([2, 2, 2, 2]))
            mine = pool._fleet.server_of(pool._lanes[0])
            gone = np.array([pool._fleet.server_of(lane) is mine for lane in pool._lanes])
            actions = np.where(gone, 1, 3)
            actions[0] = 9
            seen, rewards, ended, truncated, infos = envs.step(actions)
            assert truncated.tolist() == gone.tolist() == infos["lost"].tolist()
            assert rewards.tolist() == np.where(gone, -1.0, 3.0).tolist()
            assert (seen.tolist(), ended.any()) == (np.where(gone, 2, 5).tolist(), False)
            seen, rewards, *_ = envs.step(np.array([1, 1, 1, 1]))
            assert seen.tolist() == np.where(gone, 0, 6).tolist()


def test_frames_text_and_statistics(atari_url: str, echo_url: str) -> None:
    pool = EnvPool(AtariEnv, atari_url, lanes=2)
    with to_gymnasium_vector(
        pool,
        observation="screen",
        action="action_id",
        action_space=gymnasium.spaces.Discrete(4),
        reset_options={"game_name": "breakout"},
        render_mode="rgb_array",
    ) as games:
        envs = RecordEpisodeStatistics(games)
        seen, _ = envs.reset(seed=1)
        assert (seen.shape, seen.dtype) == ((2, 210, 160, 3), np.uint8)
        envs.step(envs.action_space.sample())
        frames = games.render()
        assert frames is not None
        assert [frame.shape for frame in frames] == [(210, 160, 3)] * 2
    with to_gymnasium_vector(EnvPool(EchoEnv, echo_url, lanes=2), observation="echoed_message") as echoes:
        echoes.reset()
        assert echoes.step(("a", "bb"))[:2][0] == ("a", "bb")


def test_a_pool_that_resets_by_itself_is_refused(walk_url: str) -> None:
    with EnvPool(GenericHTTPEnvClient, walk_url, lanes=2, autoreset="next_step") as pool:
        with pytest.raises(ConfigurationError, match="autoreset='disabled'"):
            to_gymnasium_vector(pool)
