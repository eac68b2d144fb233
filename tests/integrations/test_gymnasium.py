"""Environments as Gymnasium's: its own checker and wrappers are the judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FrameStackObservation, RecordEpisodeStatistics, TimeLimit
from msgspec import Meta

from envs.atari_env import AtariAction, AtariEnv
from envs.atari_env.gym import to_gymnasium as atari_to_gymnasium
from envs.echo_env import EchoEnv
from examples.cart_pole import CartPoleEnv
from openenv.core import Action, GenericEnvClient, GenericHTTPEnvClient, Observation, State
from openenv.core.errors import ConfigurationError, DecodeError, EpisodeNotBegun
from openenv.integrations.gymnasium import GymnasiumEnv, to_gymnasium
from openenv.integrations.spaces import Choices, Text
from openenv.server import Environment, create_app
from openenv.server.thread import serve_in_thread

# Only an environment that gymnasium.make made can be made again in another mode.
pytestmark = pytest.mark.filterwarnings("ignore:.*alternative render modes:UserWarning")


@dataclass(kw_only=True)
class Turn(Action):
    way: Literal["left", "right"]
    hard: bool
    force: Annotated[float, Meta(ge=-1, le=1)]
    gear: Annotated[int, Meta(ge=1, le=6)]
    note: str = ""


@dataclass(kw_only=True)
class Dials(Observation):
    last: Literal["none", "left", "right"]
    braking: bool
    force: Annotated[float, Meta(ge=-1, le=1)]
    gear: Annotated[int, Meta(ge=1, le=6)]
    log: list[int]


class Car(Environment[Turn, Dials, State]):
    """Says what it was told; gets out of breath after three steps, and pays nothing."""

    def __init__(self) -> None:
        self.state = State()

    def reset(self, level: int = 1) -> Dials:
        self.state = State()
        return Dials(last="none", braking=False, force=0.0, gear=level, log=[])

    def step(self, action: Turn) -> Dials:
        self.state.step_count += 1
        return Dials(
            last=action.way,
            braking=action.hard,
            force=action.force,
            gear=action.gear,
            log=list(range(self.state.step_count)),
            done=self.state.step_count == 3,
            metadata={"note": action.note},
        )


@pytest.fixture(scope="module")
def car_url() -> Iterator[str]:
    with serve_in_thread(create_app(Car, Turn, Dials)) as url:
        yield url


@pytest.fixture
def echo(echo_url: str) -> Iterator[GymnasiumEnv]:
    env = to_gymnasium(EchoEnv(echo_url), render_mode="ansi")
    yield env
    env.close()


@pytest.fixture
def cart(cart_url: str) -> Iterator[GymnasiumEnv]:
    env = to_gymnasium(CartPoleEnv(cart_url))
    yield env
    env.close()


@pytest.fixture
def pong(atari_url: str) -> Iterator[GymnasiumEnv]:
    env = atari_to_gymnasium(AtariEnv(atari_url), render_mode="rgb_array")
    yield env
    env.close()


def test_gymnasium_finds_nothing_wrong_with_echo(echo: GymnasiumEnv) -> None:
    check_env(echo)


def test_gymnasium_finds_nothing_wrong_with_atari(pong: GymnasiumEnv) -> None:
    check_env(pong)


def test_gymnasium_finds_nothing_wrong_with_an_action_of_many_kinds(car_url: str) -> None:
    with to_gymnasium(GenericHTTPEnvClient(car_url), no_reward=0.0) as env:
        check_env(env)


def test_gymnasium_finds_nothing_wrong_with_what_its_make_makes(echo_url: str) -> None:
    def make(render_mode: str | None = None) -> GymnasiumEnv:
        return to_gymnasium(EchoEnv(echo_url), render_mode=render_mode)

    gymnasium.register("openenv/Echo-v0", entry_point=make, max_episode_steps=3)
    try:
        env = gymnasium.make("openenv/Echo-v0", render_mode="ansi")
        check_env(env.unwrapped)
        env.reset()
        assert [env.step("a")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
        env.close()
    finally:
        del gymnasium.registry["openenv/Echo-v0"]


def test_a_field_that_is_alone_is_its_own_space(cart: GymnasiumEnv) -> None:
    assert cart.action_space == spaces.Discrete(2)
    assert cart.observation_space == spaces.Box(-np.inf, np.inf, (4,), np.float64)
    seen, _ = cart.reset(seed=3)
    assert seen in cart.observation_space


def test_spaces_follow_the_schema(car_url: str) -> None:
    with to_gymnasium(GenericHTTPEnvClient(car_url)) as env:
        assert env.action_space == spaces.Dict(
            {
                "way": Choices(("left", "right")),
                "hard": Choices((False, True)),
                "force": spaces.Box(-1, 1, (), np.float64),
                "gear": spaces.Discrete(6, start=1),
            }
        )
        assert isinstance(env.observation_space["log"], spaces.Sequence)
    with to_gymnasium(GenericHTTPEnvClient(car_url), action="note") as env:
        assert isinstance(env.action_space, Text)


def test_what_an_agent_does_arrives_as_what_the_environment_hears(car_url: str) -> None:
    with to_gymnasium(GenericHTTPEnvClient(car_url), no_reward=0.0) as env:
        env.reset()
        seen, *_ = env.step({"way": 1, "hard": np.int64(1), "force": np.array(0.5), "gear": np.int64(6)})
        assert seen == {"last": 2, "braking": 1, "force": np.array(0.5), "gear": 6, "log": (0,)}


def test_one_field_may_be_seen_and_the_others_are_told_in_info(car_url: str) -> None:
    with to_gymnasium(GenericHTTPEnvClient(car_url), observation="gear", no_reward=0.0) as env:
        gear, info = env.reset(options={"level": 4})
        assert (gear, info) == (4, {"last": "none", "braking": False, "force": 0.0, "log": []})


def test_functions_may_say_what_is_seen_and_done(echo_url: str) -> None:
    env = to_gymnasium(
        EchoEnv(echo_url),
        observation=lambda seen: seen.message_length,
        observation_space=spaces.Discrete(100),
        action=lambda number: {"message": "x" * int(number)},
        action_space=spaces.Discrete(100),
    )
    with env:
        env.reset()
        seen, reward, *_ = env.step(np.int64(7))
    assert (seen, reward) == (7, pytest.approx(0.7))


@pytest.mark.parametrize("make", [CartPoleEnv, GenericHTTPEnvClient, lambda url: GenericEnvClient(url).sync()])
def test_every_synchronous_client_will_do(cart_url: str, make: Any) -> None:
    with to_gymnasium(make(cart_url)) as env:
        seen, _ = env.reset(seed=1)
        assert seen in env.observation_space
        assert env.step(1)[1:4] == (1.0, False, False)


def test_one_seed_decides_this_episode_and_those_after_it(cart: GymnasiumEnv) -> None:
    def three(seed: int) -> list[Any]:
        return [cart.reset(seed=seed)[0].tolist(), cart.reset()[0].tolist(), cart.reset()[0].tolist()]

    first = three(5)
    assert three(5) == first
    assert three(6) != first
    assert len({tuple(seen) for seen in first}) == 3


def test_a_pole_that_falls_terminates(cart: GymnasiumEnv) -> None:
    cart.reset(seed=1)
    ended = terminated = truncated = False
    while not ended:
        *_, terminated, truncated, _ = cart.step(0)
        ended = terminated or truncated
    assert (terminated, truncated) == (True, False)


def test_the_usual_wrappers_work(cart_url: str) -> None:
    env = RecordEpisodeStatistics(TimeLimit(to_gymnasium(CartPoleEnv(cart_url)), 5))
    env.reset(seed=0)
    info: dict[str, Any] = {}
    for _ in range(5):
        *_, truncated, info = env.step(env.action_space.sample())
    assert truncated
    assert (info["episode"]["r"], info["episode"]["l"]) == (5.0, 5)
    env.close()


def test_frames_can_be_stacked(pong: GymnasiumEnv) -> None:
    env = FrameStackObservation(pong, 4)
    seen, _ = env.reset(seed=0)
    assert (seen.shape, seen.dtype) == ((4, 210, 160, 3), np.uint8)


def test_a_limit_of_frames_truncates(atari_url: str) -> None:
    with atari_to_gymnasium(AtariEnv(atari_url), game_name="breakout", max_frames=12) as env:
        env.reset(seed=0)
        ends = [env.step(0)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_atari_frames_are_those_of_ale_itself(atari_url: str) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    theirs = gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0, obs_type="ram")
    with atari_to_gymnasium(AtariEnv(atari_url), game_name="breakout", obs_type="ram", frameskip=1) as ours:
        assert ours.action_space == theirs.action_space
        assert ours.get_action_meanings() == theirs.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        ours.reset(seed=1)
        theirs.reset(seed=1)
        for step in range(200):
            mine, his = ours.step(step % 4), theirs.step(step % 4)
            assert mine[1:4] == his[1:4]
            assert (mine[4]["lives"], mine[4]["episode_frame_number"]) == (
                his[4]["lives"],
                his[4]["episode_frame_number"],
            )
    theirs.close()


def test_vectors_of_gymnasium_run_many(cart_url: str) -> None:
    envs = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(CartPoleEnv(cart_url))] * 3)
    seen, _ = envs.reset(seed=[1, 2, 3])
    assert seen.shape == (3, 4)
    seen, rewards, *_ = envs.step(np.array([0, 1, 0]))
    assert rewards.tolist() == [1.0, 1.0, 1.0]
    envs.close()


def test_a_picture_is_rendered_in_colours(pong: GymnasiumEnv, atari_url: str) -> None:
    pong.reset()
    assert pong.render().shape == (210, 160, 3)
    with atari_to_gymnasium(AtariEnv(atari_url), obs_type="grayscale", render_mode="rgb_array") as grey:
        grey.reset()
        assert grey.render().shape == (210, 160, 3)


def test_text_is_rendered_as_text(echo: GymnasiumEnv) -> None:
    with pytest.raises(ResetNeeded):
        echo.render()
    echo.reset()
    echo.step("hello")
    assert "hello" in echo.render()


def test_frames_do_not_share_memory(pong: GymnasiumEnv) -> None:
    first, _ = pong.reset()
    kept = first.copy()
    pong.render()[...] = 0
    for _ in range(5):
        pong.step(2)
    assert (first == kept).all()


def test_a_step_without_a_reward_is_no_step_that_paid_nothing(car_url: str) -> None:
    with to_gymnasium(GenericHTTPEnvClient(car_url)) as env:
        env.reset()
        with pytest.raises(ConfigurationError, match="no_reward"):
            env.step(env.action_space.sample())


def test_a_whole_number_without_bounds_is_no_action(atari_url: str) -> None:
    with AtariEnv(atari_url) as client, pytest.raises(ConfigurationError, match=r"action\.action_id.*action_space"):
        to_gymnasium(client, observation="screen")


def test_a_field_that_is_not_there_is_named_with_those_that_are(echo_url: str) -> None:
    with EchoEnv(echo_url) as client, pytest.raises(ConfigurationError, match=r"'text'.*echoed_message"):
        to_gymnasium(client, observation="text")


def test_a_space_of_one_field_finds_the_field_where_there_is_one(atari_url: str) -> None:
    env = to_gymnasium(AtariEnv(atari_url), observation="lives", action_space=spaces.Discrete(6))
    with env:
        env.reset()
        env.step(np.int64(5))
    with EchoEnv(atari_url) as client, pytest.raises(ConfigurationError, match=r"screen, screen_shape.*observation="):
        to_gymnasium(client, observation_space=spaces.Discrete(6), action_space=spaces.Discrete(6))


def test_options_of_one_reset_come_before_those_of_all(car_url: str) -> None:
    with to_gymnasium(
        GenericHTTPEnvClient(car_url), observation="gear", reset_options={"level": 2}, no_reward=0.0
    ) as env:
        assert [env.reset()[0], env.reset(options={"level": 5})[0], env.reset()[0]] == [2, 5, 2]


def test_a_function_needs_a_space(echo_url: str) -> None:
    with EchoEnv(echo_url) as client, pytest.raises(ConfigurationError, match="observation_space"):
        to_gymnasium(client, observation=len)


def test_a_space_that_does_not_fit_is_told_with_the_field(atari_url: str) -> None:
    env = to_gymnasium(
        AtariEnv(atari_url),
        observation="screen",
        observation_space=spaces.Box(0, 255, (84, 84), np.uint8),
        action=AtariAction,
        action_space=spaces.Discrete(6),
    )
    with env, pytest.raises(DecodeError, match=r"observation\.screen"):
        env.reset()


def test_a_step_needs_an_episode(cart: GymnasiumEnv) -> None:
    with pytest.raises(ResetNeeded):
        cart.step(0)


def test_errors_of_the_client_pass_through_and_nothing_is_made_up(cart_url: str) -> None:
    with to_gymnasium(CartPoleEnv(cart_url)) as env:
        env.reset()
        CartPoleEnv.disconnect(env.client)  # the server forgets the episode
        with pytest.raises(EpisodeNotBegun):
            env.step(0)


def test_closing_closes_the_client_and_may_be_repeated(cart_url: str) -> None:
    client = CartPoleEnv(cart_url)
    env = to_gymnasium(client)
    env.close()
    env.close()
    assert "closed" in repr(client)
