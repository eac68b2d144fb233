"""A lane: one environment of a pool; and what the pool asks of those that are on one server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from openenv.core import protocol
from openenv.core.errors import OpenEnvError
from openenv.core.timing import Limit
from openenv.pool.results import Timing


class Lane:
    """One environment.

    Attributes:
        index: Its place in the pool.
        id: Of its session.
        seq: The number of its last call.
        begun: Whether an episode has begun.
        failed: Why its episode is over or in doubt, where it is.
        pending: The call that is not answered yet.
        client: Its own client, where the server takes no batches.
    """

    __slots__ = ("begun", "client", "failed", "id", "index", "pending", "seq")

    def __init__(self, index: int, client: Any = None) -> None:
        self.index, self.client = index, client
        self.renew()

    def renew(self) -> None:
        """Begin again as a stranger."""
        self.id = protocol.new_session_id()
        self.seq = 0
        self.begun = False
        self.failed: OpenEnvError | None = None
        self.pending: LaneCall | None = None


@dataclass(slots=True)
class LaneCall:
    """One call of one lane.

    Attributes:
        lane: Whose.
        op: ``reset``, ``step`` or ``state``.
        body: What a single request would carry.
        limit: Seconds, or ``None``.
        seq: The number under which it was sent; 0 before that.
        payload: The answer, where one came.
        error: Why there is no answer.
    """

    lane: Lane
    op: str
    body: dict[str, Any]
    limit: Limit
    seq: int = 0
    payload: dict[str, Any] | None = None
    error: OpenEnvError | None = None

    @property
    def answered(self) -> bool:
        return self.payload is not None or self.error is not None


class Server(ABC):
    """Some lanes of a pool that are on the same server."""

    def __init__(self, proto: Any) -> None:
        #: A client that sends nothing by itself: hooks, limits, headers and connections of all lanes here.
        self.proto = proto
        self.lanes: list[Lane] = []
        #: The last that was heard of it is that it could not be reached.
        self.doubtful = False
        #: It said that it is shutting down.
        self.ending = False

    @abstractmethod
    def run(self, calls: list[LaneCall], min_ready: int | None, within_s: float | None, timing: Timing) -> None:
        """Make ``calls``, until ``min_ready`` of them are answered or ``within_s`` seconds have passed.

        A call that is not answered then can be given here again. Never raises an :class:`OpenEnvError`: it becomes
        the answer of the calls that it concerns.
        """

    @abstractmethod
    def add(self, index: int) -> Lane:
        """One more lane."""

    @abstractmethod
    def close(self) -> None:
        """Free the sessions on the server and close the connections."""

    @property
    def alive(self) -> bool:
        """Whether the server can be reached and will be there for a while."""
        if self.ending:
            return False
        try:
            self.proto.health()
        except OpenEnvError:
            return False
        return True
