"""What TRL's trainers want of an environment, without TRL; the trainer itself is in tests/training."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest

from envs.coding_env.client import CodingEnv
from envs.echo_env import EchoAction, EchoEnv
from openenv.core import Action, GenericHTTPEnvClient, HTTPEnvClient, Observation, State, ToolEnv, TypedHooks
from openenv.core.errors import ConfigurationError, OpenEnvError
from openenv.integrations.trl import EnvironmentFactory, env_reward, environment_factory, rollout_func
from openenv.server import Environment, create_app
from openenv.server.thread import serve_in_thread
from openenv.server.tools import ToolEnvironment, tool

ROOT = Path(__file__).parents[2]


@dataclass(kw_only=True)
class GuessTheNumber(Action):
    """Guess a number, and say how sure you are.

    Attributes:
        number: From 1 to 10; what is outside
            is refused.
        sure: How sure.
    """

    number: int
    sure: Literal["very", "not"] = "not"
    reasons: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Hint(Observation):
    text: str


class Guessing(Environment[GuessTheNumber, Hint, State]):
    """Three guesses; pays at the end alone."""

    def __init__(self) -> None:
        self.state = State()

    def reset(self, seed: int | None = None, level: int = 1) -> Hint:
        self.state = State()
        return Hint(text=f"seed {seed}, level {level}")

    def step(self, action: GuessTheNumber) -> Hint:
        if action.number > 10:
            raise ValueError("from 1 to 10")
        self.state.step_count += 1
        over = self.state.step_count == 3
        return Hint(text=f"{action.number} {action.sure} {action.reasons}", done=over, reward=5 if over else None)


class GuessEnv(TypedHooks[GuessTheNumber, Hint, State], HTTPEnvClient[GuessTheNumber, Hint, State]): ...


class Calculator(ToolEnvironment):
    @tool
    def divide(self, a: int, b: int = 1) -> float:
        """Divide a by b."""
        return a / b

    def reward(self, name: str, arguments: dict[str, Any], result: Any) -> float:
        return 1.0


@pytest.fixture(scope="module")
def guess_url() -> Iterator[str]:
    with serve_in_thread(create_app(Guessing, GuessTheNumber, Hint)) as url:
        yield url


@pytest.fixture(scope="module")
def tools_url() -> Iterator[str]:
    with serve_in_thread(create_app(Calculator, dict, dict)) as url:
        yield url


@pytest.fixture
def guess(guess_url: str) -> Any:
    return environment_factory(GuessEnv, guess_url)()


def tools_of(environment: Any) -> dict[str, Any]:
    """As TRL looks for them."""
    members = inspect.getmembers(type(environment), predicate=inspect.isfunction)
    return {name: getattr(environment, name) for name, _ in members if not name.startswith("_")}


def test_all_that_a_trainer_finds_are_the_tools_and_its_own_two_methods(echo_url: str) -> None:
    environment = environment_factory(EchoEnv, echo_url)()
    assert set(tools_of(environment)) == {"echo", "reset", "get_reward"}
    older = {name for name, _ in inspect.getmembers(environment, predicate=inspect.ismethod) if name[0] != "_"}
    assert older == {"echo", "reset", "get_reward"}


def test_a_tool_says_what_the_action_class_says(guess: Any) -> None:
    made = guess.guess_the_number
    assert inspect.getdoc(made) == (
        "Guess a number, and say how sure you are.\n\n"
        "Args:\n"
        "    number: From 1 to 10; what is outside is refused.\n"
        "    sure: How sure.\n"
        "    reasons: The reasons.\n\n"
        "Returns:\n"
        "    What the environment answers."
    )
    hints = get_type_hints(made)
    assert hints == {"number": int, "sure": Literal["very", "not"], "reasons": list[str], "return": str}
    required = [p.name for p in inspect.signature(made).parameters.values() if p.default is p.empty]
    assert required == ["number"]


def test_no_environment_is_called_before_the_first_reset() -> None:
    assert environment_factory(CodingEnv, "http://127.0.0.1:9")().code.__name__ == "code"


def test_all_environments_of_a_factory_are_of_one_class(guess_url: str) -> None:
    factory = environment_factory(GuessEnv, guess_url)
    assert type(factory()) is type(factory())
    assert type(factory()).__name__ == "GuessEnvRollout"


def test_reset_gets_the_columns_that_it_shall_get(guess_url: str) -> None:
    row = {"prompt": [{"role": "user", "content": "x"}], "seed": 4, "level": 2, "answer": "y"}
    assert environment_factory(GuessEnv, guess_url)().reset(**row) == "\n\nseed 4, level 1"
    both = environment_factory(GuessEnv, guess_url, reset_columns=("seed", "level"))()
    assert both.reset(**row) == "\n\nseed 4, level 2"
    assert both.reset(**{**row, "seed": None}) == "\n\nseed None, level 2"


def test_a_rollout_earns_what_its_steps_paid(guess: Any) -> None:
    guess.reset()
    assert guess.get_reward() == 0.0  # it did nothing, and so earned nothing
    assert guess.guess_the_number(number=3) == "3 not []"
    assert guess.get_reward() is None  # the environment has not said
    guess.guess_the_number(3, sure="very", reasons=["a"])
    guess.guess_the_number(number=3)
    assert guess.get_reward() == 5.0
    guess.reset()
    assert guess.get_reward() == 0.0


def test_after_the_end_nothing_is_done_any_more(guess: Any) -> None:
    guess.reset()
    told = [guess.guess_the_number(number=1) for _ in range(5)]
    assert told[3:] == ["The episode is over."] * 2
    assert guess.get_reward() == 5.0


def test_the_model_reads_what_the_environment_said_of_its_action_and_no_more(guess: Any) -> None:
    guess.reset()
    with pytest.raises(ValueError, match="from 1 to 10") as failed:
        guess.guess_the_number(number=11)
    assert "http" not in str(failed.value)
    assert "request" not in str(failed.value)
    with pytest.raises(ValueError, match="number"):
        guess.guess_the_number(number="many")
    with pytest.raises(TypeError, match="colour"):
        guess.guess_the_number(number=1, colour="red")
    assert guess.guess_the_number(number=1) == "1 not []"  # the episode goes on


def test_a_server_that_died_is_neither_text_nor_reward_and_the_next_episode_has_another() -> None:
    made: list[EchoEnv] = []

    def make() -> EchoEnv:
        made.append(EchoEnv.from_process())
        return made[-1]

    environment: Any = environment_factory(make, tools={"echo": EchoAction})()
    environment.reset()
    environment.echo(message="hello")
    made[0]._provider.stop_container()
    assert environment.echo(message="hello") == ""
    assert environment.echo(message="hello") == ""
    assert environment.get_reward() is None
    assert "Echo environment ready!" in environment.reset()
    environment.echo(message="hello")
    assert environment.get_reward() == pytest.approx(0.5)
    assert "closed" in repr(made[0])
    made[-1].close()


def test_a_mistake_in_a_hook_ends_the_training_and_is_not_text(echo_url: str) -> None:
    class Mistaken(EchoEnv):
        def _parse_result(self, payload: dict[str, Any]) -> Any:
            if payload["observation"]["message_length"]:
                raise KeyError("colour")
            return super()._parse_result(payload)

    environment: Any = environment_factory(Mistaken, echo_url)()
    environment.reset()
    assert environment.echo(message="hello") == ""
    with pytest.raises(KeyError, match="colour"):
        environment.get_reward()


def test_a_server_that_is_not_there_ends_the_training() -> None:
    with pytest.raises(OpenEnvError, match="cannot reach"):
        environment_factory(EchoEnv, "http://127.0.0.1:9")().reset()


def test_a_factory_travels_even_after_it_was_used(echo_url: str) -> None:
    factory = environment_factory(EchoEnv, echo_url)
    factory()
    again: EnvironmentFactory = pickle.loads(pickle.dumps(factory))
    environment: Any = again()
    environment.reset()
    assert "hello" in environment.echo(message="hello")


def _play(factory: EnvironmentFactory) -> float | None:
    environment: Any = factory()
    environment.reset(seed=1)
    environment.echo(message="hello")
    return environment.get_reward()


def test_a_spawned_process_makes_its_own(echo_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_play, (environment_factory(EchoEnv, echo_url),)) == pytest.approx(0.5)


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "del environment; import gc; gc.collect()"])
def test_what_it_started_ends_with_it(end: str, tmp_path: Path) -> None:
    code = (
        "from envs.echo_env import EchoEnv\n"
        "from openenv.integrations.trl import environment_factory\n"
        "environment = environment_factory(EchoEnv.from_process)()\n"
        "environment.reset()\n"
        "print(environment._client._provider._process.pid, flush=True)\n"
        f"{end}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert not done.stderr
    for _ in range(100):
        if not Path(f"/proc/{done.stdout.strip()}").exists():
            return
        time.sleep(0.05)
    os.kill(int(done.stdout), 9)
    pytest.fail("the server is still there")


def test_the_tools_of_a_tool_environment_are_those_that_it_lists(tools_url: str) -> None:
    environment: Any = environment_factory(ToolEnv, tools_url)()
    made = environment.divide
    assert get_type_hints(made) == {"a": int, "b": int, "return": str}
    assert inspect.getdoc(made).startswith("Divide a by b.\n\nArgs:\n    a: The a.\n    b: The b.\n")
    environment.reset()
    assert environment.divide(a=6, b=4) == "1.5"
    assert environment.divide(a=6) == "6.0"
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        environment.divide(a=6, b=0)
    assert environment.get_reward() == 2.0


def test_functions_can_be_tools(echo_url: str) -> None:
    def shout(word: str, times: int = 1) -> EchoAction:
        """Shout a word.

        Args:
            word: What to shout.
            times: How often.
        """
        return EchoAction(message=word.upper() * times)

    environment: Any = environment_factory(
        EchoEnv, echo_url, tools={"shout": shout}, observe=lambda result: result.observation.echoed_message
    )()
    assert environment.reset() == "\n\nEcho environment ready!"
    assert environment.shout(word="hi", times=2) == "HIHI"
    assert "word: What to shout." in inspect.getdoc(environment.shout)


def test_the_reward_may_be_another_sum(guess_url: str) -> None:
    environment: Any = environment_factory(GuessEnv, guess_url, reward=lambda results: float(len(results)))()
    environment.reset()
    environment.guess_the_number(number=1)
    assert environment.get_reward() == 1.0


def test_a_tool_without_hints_is_refused_with_the_parameter(echo_url: str) -> None:
    def shout(word): ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigurationError, match=r"'word'.*'shout'"):
        environment_factory(EchoEnv, echo_url, tools={"shout": shout})()


def test_a_tool_cannot_take_the_trainers_names(echo_url: str) -> None:
    with pytest.raises(ConfigurationError, match="reset"):
        environment_factory(EchoEnv, echo_url, tools={"reset": EchoAction})()


def test_a_client_without_an_action_class_needs_tools(echo_url: str) -> None:
    with pytest.raises(ConfigurationError, match="tools="):
        environment_factory(GenericHTTPEnvClient, echo_url)()


def test_rollouts_of_completions_have_the_rewards_of_their_steps(echo_url: str) -> None:
    closed: list[EchoEnv] = []

    def make() -> EchoEnv:
        closed.append(EchoEnv(echo_url))
        return closed[0]

    def generate(prompts: list[str], trainer: object) -> dict[str, Any]:
        texts = ["a", "bb", "ccc", "dddd"]
        return {"prompt_ids": [[1]] * 4, "completion_ids": [[2]] * 4, "logprobs": [[0.0]] * 4, "text": texts}

    roll = rollout_func(make, generate, lambda text: EchoAction(message=text), seed=len)
    output = roll(["x", "y"], None)
    assert set(output) == {"prompt_ids", "completion_ids", "logprobs", "env_reward"}
    assert output["env_reward"] == [pytest.approx(0.1 * n) for n in (1, 2, 3, 4)]
    assert env_reward(["a"] * 4, env_reward=output["env_reward"], prompts=[]) == output["env_reward"]
    assert len(closed) == 1
    del roll
    assert "closed" in repr(closed[0])


def test_a_completion_that_the_environment_refuses_has_no_reward(guess_url: str) -> None:
    def generate(prompts: list[str], trainer: object) -> dict[str, Any]:
        return {"prompt_ids": [], "completion_ids": [], "logprobs": [], "text": ["11", "3"]}

    roll = rollout_func(lambda: GuessEnv(guess_url), generate, lambda text: GuessTheNumber(number=int(text)))
    assert roll(["x", "y"], None)["env_reward"] == [None, None]


def test_importing_it_loads_neither_trl_nor_numpy() -> None:
    code = "import sys, openenv.integrations.trl; print({'trl', 'torch', 'numpy', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
