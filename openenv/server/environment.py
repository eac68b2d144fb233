"""What an environment author writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar, Generic

from openenv.core.types import ActT, ObsT, StateT


class Environment(ABC, Generic[ActT, ObsT, StateT]):
    """One environment: one object per session, called by one call at a time.

    Besides the methods below it has ``state``: an attribute, a property or a method that gives its
    :class:`~openenv.core.types.State`. Any method may be ``async def``; it then runs on the server's event loop and
    must not block there.

    Attributes:
        blocking: Plain methods run on threads. ``False`` promises that they return within a millisecond or so; they
            then run on the event loop, without the cost of a thread.
        thread_bound: All calls of one environment, its construction included, happen on one thread of its own.
    """

    blocking: ClassVar[bool] = True
    thread_bound: ClassVar[bool] = False

    @abstractmethod
    def reset(self, *args: Any, **options: Any) -> ObsT | Awaitable[ObsT]:
        """Begin an episode.

        Declare the options that the environment knows, such as ``reset(self, seed=None, episode_id=None, level=1)``;
        they are given by name. ``seed`` and ``episode_id`` need not be declared; other options that are not declared
        are refused, unless there is a ``**options``.
        """

    @abstractmethod
    def step(self, action: ActT) -> ObsT | Awaitable[ObsT]:
        """Take one action. A parameter ``timeout_s`` gets the caller's limit in seconds, or ``None``."""

    def close(self) -> Awaitable[None] | None:
        """Free what the environment holds. Called once, when its session ends."""
        return None
