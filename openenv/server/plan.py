"""What an environment's class wants: found out once for each environment, from its methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from openenv.core.errors import ConfigurationError
from openenv.server.session import RESET, STATE, STEP

_CLOSE = "close"
_ALWAYS_KNOWN = frozenset({"seed", "episode_id"})


class Invalid(Exception):
    """What was sent does not fit; ``errors`` says where."""

    def __init__(self, loc: list[Any], msg: str) -> None:
        super().__init__(msg)
        self.errors = [{"loc": loc, "msg": msg}]


class Plan:
    """How environments of one class are called, found out once.

    Attributes:
        inline: The operations that run on the event loop without a task or a thread.
        coroutine: The operations that are ``async def``.
        bound: All calls happen on one thread.
    """

    def __init__(self, env: Any) -> None:
        kind = type(env)
        self.kind = kind.__name__
        for name in (RESET, STEP):
            if not callable(getattr(env, name, None)):
                raise ConfigurationError(
                    f"the factory returned {env!r:.80}, which has no method {name}",
                    remedy="Return an openenv.server.Environment.",
                )
        state = inspect.getattr_static(kind, STATE, None)
        self.state_is_method = inspect.isfunction(state) or isinstance(state, (classmethod, staticmethod))
        self.coroutine = frozenset(
            name for name in (RESET, STEP, STATE, _CLOSE) if inspect.iscoroutinefunction(getattr(kind, name, None))
        )
        self.bound = bool(getattr(env, "thread_bound", False))
        blocking = bool(getattr(env, "blocking", True))
        if self.bound and (self.coroutine or not blocking):
            raise ConfigurationError(
                f"{self.kind} says thread_bound = True, but has coroutines or says blocking = False",
                remedy="Use plain methods and blocking = True, or drop thread_bound.",
            )
        self.inline = frozenset[str]() if blocking else frozenset({RESET, STEP, STATE, _CLOSE}) - self.coroutine
        named, self.any_option, self.required = _parameters(env.reset)
        self.options = frozenset(named)
        self.step_takes_limit = "timeout_s" in _parameters(env.step)[0]

    def fit_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options of ``/reset`` that the environment takes.

        Raises:
            Invalid: One is unknown, is missing or has the wrong type.
        """
        seed, episode_id = given.get("seed"), given.get("episode_id")
        if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
            raise Invalid(["seed"], f"seed must be an integer or null; got {seed!r:.60}")
        if episode_id is not None and not isinstance(episode_id, str):
            raise Invalid(["episode_id"], f"episode_id must be text or null; got {episode_id!r:.60}")
        if self.any_option:
            options = given
        else:
            unknown = given.keys() - self.options - _ALWAYS_KNOWN
            if unknown:
                names = ", ".join(sorted(unknown))
                known = ", ".join(sorted(self.options | _ALWAYS_KNOWN))
                raise Invalid([min(unknown)], f"{self.kind}.reset has no option {names}; it has {known}")
            options = {name: value for name, value in given.items() if name in self.options}
        if self.required and (missing := self.required - options.keys()):
            name = min(missing)
            raise Invalid([name], f"{self.kind}.reset needs the option {name}")
        return options


def _parameters(method: Callable[..., Any]) -> tuple[list[str], bool, frozenset[str]]:
    """The names that ``method`` takes, whether it takes any, and those that it needs."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # written in C
        return [], True, frozenset()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = frozenset(p.name for p in named if p.default is p.empty)
    return [p.name for p in named], any(p.kind is p.VAR_KEYWORD for p in parameters), required
