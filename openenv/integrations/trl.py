"""Environments for TRL's ``GRPOTrainer``.

::

    trainer = GRPOTrainer(
        model=model,
        train_dataset=dataset,
        environment_factory=environment_factory(EchoEnv, "http://localhost:8000"),
    )

Each rollout has a client, and so a session, of its own. What the model can do are methods made from the environment's
action class (or from the tools that a tool environment lists); their docstrings tell it how. ``get_reward`` pays.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from openenv.core import codec
from openenv.core.errors import (
    ConfigurationError,
    EncodeError,
    EnvironmentFailed,
    EpisodeOver,
    InvalidRequest,
    OpenEnvError,
    ToolFailed,
)
from openenv.core.logs import logger
from openenv.core.tools import ToolEnv, read_result
from openenv.core.types import StepResult
from openenv.integrations.tool_methods import ToolMethod, default_name, of_function, of_tool

log = logger("trl")

_RESERVED = frozenset({"reset", "get_reward"})
_OVER = "The episode is over."

#: What the model did wrong, or may learn from. Everything else that fails is none of its business.
_FOR_THE_MODEL = (EnvironmentFailed, InvalidRequest, EncodeError, EpisodeOver, ToolFailed)


def text_of(result: StepResult[Any]) -> str:
    """What the model reads of a result: the only field of the observation as it is, several as JSON."""
    seen = {k: v for k, v in codec.fields(result.observation).items() if k not in ("done", "reward", "metadata")}
    if len(seen) == 1 and isinstance(only := next(iter(seen.values())), str):
        return only
    return codec.to_json(seen).decode()


def sum_of_rewards(results: list[StepResult[Any]]) -> float | None:
    """The sum of what the steps paid: 0 where the model did nothing, ``None`` where no step said what it pays."""
    paid = [float(result.reward) for result in results if result.reward is not None]
    return sum(paid) if paid or not results else None


class EnvironmentFactory:
    """Makes the environments of rollouts; :func:`environment_factory` makes it. Can be pickled if its parts can."""

    def __init__(
        self,
        make: Callable[[], Any],
        tools: Mapping[str, Callable[..., Any]] | None,
        reset_columns: Iterable[str],
        observe: Callable[[StepResult[Any]], Any],
        reward: Callable[[list[StepResult[Any]]], float | None],
    ) -> None:
        self.make, self.tools, self.observe, self.reward = make, tools, observe, reward
        self.reset_columns = frozenset(reset_columns)
        self._class: type[Rollout] | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Rollout:
        with self._lock:
            if self._class is None:
                methods = {tool.name: tool.method(Rollout._act) for tool in self._methods()}
                if taken := _RESERVED & methods.keys():
                    raise ConfigurationError(
                        f"a tool cannot be called {', '.join(taken)}", remedy="Give tools={another_name: function}."
                    )
                kind = self._client_class()
                self._class = type(f"{kind.__name__ if kind is not None else ''}Rollout", (Rollout,), methods)
        return self._class(self)

    def _methods(self) -> list[ToolMethod]:
        if self.tools is not None:
            return [of_function(name, function) for name, function in self.tools.items()]
        kind = self._client_class()
        if kind is None:
            with self.make() as client:
                kind = type(client)
        if issubclass(kind, ToolEnv):
            with self.make() as client:
                client.reset()
                return [of_tool(tool) for tool in client.list_tools()]
        action_type = getattr(kind, "action_type", None)
        if not isinstance(action_type, type):
            raise ConfigurationError(
                f"{kind.__name__} has no action class to make tools from", remedy="Give tools={name: function}."
            )
        return [of_function(default_name(action_type), action_type)]

    def _client_class(self) -> type[Any] | None:
        """The class of the clients, where ``make`` tells it without being called."""
        make: Any = self.make
        while isinstance(make, functools.partial):
            make = make.func
        kind = getattr(make, "__self__", make)  # of a constructor such as EchoEnv.from_docker_image
        return kind if isinstance(kind, type) else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_class": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


class Rollout:
    """One environment, as TRL wants it: ``reset``, ``get_reward``, and every other public method is a tool.

    Where the server, the container or the way to them fails in the middle of a rollout, the model reads nothing of it
    (its tools give empty text), and ``get_reward`` gives ``None``: TRL leaves the rollout out. The next ``reset``
    begins with a new client; where that fails too, the error ends the training. So does, at ``get_reward``, whatever
    else was raised, as by a hook of the client.
    """

    def __init__(self, factory: EnvironmentFactory) -> None:
        self._factory = factory
        self._client: Any = None
        self._closing: Any = None
        self._results: list[StepResult[Any]] = []
        self._done = False
        self._failure: Exception | None = None

    def reset(self, **row: Any) -> Any:
        """Begin an episode with the columns of the row that the environment's reset shall get."""
        options = {name: row[name] for name in self._factory.reset_columns & row.keys() if row[name] is not None}
        if self._failure is not None:
            self._close()
        try:
            result = self._begin(options)
        except InvalidRequest:  # the row does not fit this environment
            self._close()
            raise
        except OpenEnvError as error:
            log.warning("reset failed and is tried once more with a new client: %s", error)
            self._close()
            try:
                result = self._begin(options)
            except BaseException:
                self._close()
                raise
        self._results, self._done, self._failure = [], result.done, None
        seen = self._factory.observe(result)
        return f"\n\n{seen}" if isinstance(seen, str) and seen else seen or None

    def get_reward(self) -> float | None:
        """What the rollout has earned; ``None`` where nobody can know."""
        if self._failure is None:
            return self._factory.reward(self._results)
        if isinstance(self._failure, OpenEnvError):
            return None
        raise self._failure

    def _begin(self, options: dict[str, Any]) -> StepResult[Any]:
        if self._client is None:
            self._client = self._factory.make()
        result: StepResult[Any] = self._client.reset(**options)
        if self._closing is None:
            self._closing = _close_at_the_end(self, self._client)
        return result

    def _act(self, action: Any) -> Any:
        if self._failure is not None:
            return ""
        if self._client is None:
            raise RuntimeError("reset() comes first")
        if self._done:
            return _OVER
        try:
            result = self._client.step(action)
        except OpenEnvError as error:
            if isinstance(error, _FOR_THE_MODEL) and not error.episode_lost:
                raise ValueError(error.message) from None
            return self._fail(error)
        except Exception as error:  # noqa: BLE001 - get_reward raises it: the trainer would show it to the model
            return self._fail(error)
        self._results.append(result)
        self._done = result.done
        if isinstance(self._client, ToolEnv):
            return self._told(action, result)
        return self._factory.observe(result)

    def _told(self, action: dict[str, Any], result: StepResult[Any]) -> Any:
        try:
            answer = read_result(action["tool_name"], result)
        except ToolFailed as error:
            if error.error_type in ("transport_error", "timeout"):
                return self._fail(error)
            raise ValueError(error.message) from None
        return answer.text or str(answer.data)

    def _fail(self, error: Exception) -> str:
        log.warning("a rollout is left out, because its environment failed: %s", error)
        self._failure = error
        return ""

    def _close(self) -> None:
        client, self._client = self._client, None
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.detach()
        if client is not None:
            try:
                client.close()
            except (OpenEnvError, OSError) as error:
                log.warning("a client could not be closed: %s", error)


def _close_at_the_end(owner: Any, client: Any) -> weakref.finalize[..., Any]:
    """Close ``client`` when ``owner`` goes, and at the end of the interpreter: nobody else does.

    To be called after the first reset: at the end, what was made last is finalised first, and the connections, which
    the first reset makes, must still be there.
    """
    return weakref.finalize(owner, client.close)


def environment_factory(
    make: Callable[..., Any],
    *args: Any,
    tools: Mapping[str, Callable[..., Any]] | None = None,
    reset_columns: Iterable[str] = ("seed",),
    observe: Callable[[StepResult[Any]], Any] = text_of,
    reward: Callable[[list[StepResult[Any]]], float | None] = sum_of_rewards,
    **options: Any,
) -> EnvironmentFactory:
    """What ``GRPOTrainer(environment_factory=...)`` and its asynchronous kin want.

    Args:
        make: Makes a synchronous client: a class such as ``EchoEnv``, a constructor such as
            ``EchoEnv.from_docker_image``, or a function. It is called for each rollout that runs at once, when that
            first resets; where the trainer starts other processes, it must be one that can be pickled.
        *args: Its arguments.
        tools: What the model can do: names, and the functions (or classes) that make an action of the arguments. By
            default the action class of the client, or the tools that a ``ToolEnv`` lists.
        reset_columns: The columns of the data set that the environment's ``reset`` gets.
        observe: What the model reads of a result: text, or a list of content blocks.
        reward: What a rollout has earned, from the results of its steps; ``None`` leaves it out.
        **options: Further arguments of ``make``.

    Raises:
        ConfigurationError: When the trainer asks for the first environment: no tool can be made.
    """
    call = functools.partial(make, *args, **options) if args or options else make
    return EnvironmentFactory(call, tools, reset_columns, observe, reward)


def rollout_func(
    make: Callable[[], Any],
    generate: Callable[[list[Any], Any], Mapping[str, Any]],
    act: Callable[[str], Any],
    *,
    seed: Callable[[Any], int | None] = lambda prompt: None,
) -> RolloutFunc:
    """A ``rollout_func`` for ``GRPOTrainer`` where each completion is one action in an episode of its own.

    What it returns has ``env_reward`` beside what ``generate`` gave: what each step paid, ``None`` where the
    environment said nothing or failed. :func:`env_reward` passes it on as the reward.

    Args:
        make: Makes a synchronous client; called once, when the first rollout begins.
        generate: Called with the prompts and the trainer; gives ``prompt_ids``, ``completion_ids`` and ``logprobs`` as
            TRL wants them, and ``text``, the completions.
        act: Makes the action of a completion's text.
        seed: The seed of the episode of a prompt.
    """
    return RolloutFunc(make, generate, act, seed)


class RolloutFunc:
    """Plays completions; :func:`rollout_func` makes it."""

    def __init__(
        self,
        make: Callable[[], Any],
        generate: Callable[[list[Any], Any], Mapping[str, Any]],
        act: Callable[[str], Any],
        seed: Callable[[Any], int | None],
    ) -> None:
        self._make, self._generate, self._act, self._seed = make, generate, act, seed
        self._client: Any = None

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        if self._client is None:
            self._client = self._make()
            self._client.reset()
            _close_at_the_end(self, self._client)
        output = dict(self._generate(prompts, trainer))
        texts = output.pop("text")
        each = len(texts) // len(prompts) if prompts else 1
        seeds = [self._seed(prompt) for prompt in prompts for _ in range(each)]
        output["env_reward"] = [self._pay(text, seed) for text, seed in zip(texts, seeds, strict=True)]
        return output

    def _pay(self, text: str, seed: int | None) -> float | None:
        """What one step pays; where its episode is lost, another one is tried."""
        for last in (False, True):
            try:
                self._client.reset(**({} if seed is None else {"seed": seed}))
            except OpenEnvError:
                if last:
                    raise
                continue
            try:
                reward = self._client.step(self._act(text)).reward
                return None if reward is None else float(reward)
            except OpenEnvError as error:
                if isinstance(error, _FOR_THE_MODEL) and not error.episode_lost:
                    log.info("the environment refused an action: %s", error)
                    return None
                log.warning("the episode of a rollout was lost: %s", error)
        return None


def env_reward(completions: list[Any], *, env_reward: list[float | None], **_: Any) -> list[float | None]:
    """The reward function that goes with :func:`rollout_func`."""
    return env_reward
