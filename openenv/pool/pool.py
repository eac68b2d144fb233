"""Many environments of one kind, stepped together, over one server or several."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, Self

from openenv.core import protocol
from openenv.core.errors import ClientClosed, ConcurrentUse, ConfigurationError, EpisodeLost, OpenEnvError
from openenv.core.http_client import HTTPEnvClient
from openenv.core.timing import UNSET, Limit, LimitArg, seconds
from openenv.core.types import ActT, ObsT, StateT
from openenv.pool.lanes import Lane, LaneCall, Server
from openenv.pool.results import PoolResult, Timing
from openenv.pool.servers import Fleet
from openenv.pool.stats import Stats

_MODES: Final = ("disabled", "next_step", "same_step")
_ON_LOST: Final = ("replace", "keep")


class EnvPool(Generic[ActT, ObsT, StateT]):
    """N lanes, each an environment with a session of its own. For one thread at a time.

    ::

        with EnvPool(EchoEnv, "http://localhost:8000", lanes=64) as pool:
            pool.reset(seeds=7)
            for result in pool.step([EchoAction(message="hi")] * 64):
                ...

    A lane that fails does not disturb the others: its error stands in the result, and where its episode is lost, it
    is left out until the next reset. Nothing is reset by itself unless ``autoreset`` says so.

    Args:
        client: The class of clients whose hooks are used.
        where: The URL of a server or several of them, the name of an image, or a function without arguments that makes
            the client of one lane.
        lanes: How many environments.
        containers: Where ``where`` is an image: how many containers.
        sessions_per_container: Likewise, how many sessions each may have (``MAX_CONCURRENT_ENVS``).
        group_size: How many lanes in a row are a group, which is reset with one seed and one set of options.
        autoreset: ``"disabled"``; or, as Gymnasium names it, ``"next_step"``: the step after the end of an episode is a
            reset; ``"same_step"``: an episode that ends is followed by a reset within the same step, and ``final_obs``
            of the result has the last observation.
        on_lost: What ``reset`` does with lanes whose server is gone: ``"replace"`` begins them on another server, or in
            a new container; ``"keep"`` leaves them failed.
        client_options: Arguments of the constructor of ``client``.
        container_options: Arguments of ``start_container``.

    Raises:
        ConfigurationError: An argument cannot work.
        OpenEnvError: A server cannot be reached or started; nothing is left behind.
    """

    def __init__(
        self,
        client: type[HTTPEnvClient[ActT, ObsT, StateT]],
        where: str | Sequence[str] | Callable[[], Any],
        lanes: int,
        *,
        containers: int = 1,
        sessions_per_container: int | None = None,
        group_size: int = 1,
        autoreset: str = "disabled",
        on_lost: str = "replace",
        client_options: Mapping[str, Any] | None = None,
        container_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._closed = True
        _check_numbers(lanes, containers, group_size)
        _check_choice("autoreset", autoreset, _MODES)
        _check_choice("on_lost", on_lost, _ON_LOST)
        self.group_size, self.autoreset, self._on_lost = group_size, autoreset, on_lost
        self.stats = Stats()
        self._pid = os.getpid()
        self._fleet = Fleet(
            client,
            where,
            lanes,
            containers=containers,
            sessions_per_container=sessions_per_container,
            client_options=dict(client_options or {}),
            container_options=dict(container_options or {}),
        )
        self._closed = False
        self._threads: ThreadPoolExecutor | None = None
        self._lanes = [self._fleet.place(index) for index in range(lanes)]
        self._proto: HTTPEnvClient[ActT, ObsT, StateT] = self._fleet.proto
        #: Lanes whose episode has ended with their last step.
        self._ended: set[int] = set()
        #: Steps whose results nobody has fetched.
        self._sent: dict[int, LaneCall] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def client(self) -> HTTPEnvClient[ActT, ObsT, StateT]:
        """A client of one of the servers, for what concerns it as a whole, such as ``schema()``; not to be closed."""
        return self._proto

    # --- rounds ---

    def reset(
        self,
        seeds: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        lanes: Sequence[int] | None = None,
        timeout_s: LimitArg = UNSET,
    ) -> PoolResult[ObsT]:
        """Begin an episode in all lanes, or in those of ``lanes``.

        Args:
            seeds: One for each lane, or for each group; or one number, from which they count up.
            options: What the environment's reset takes: for all, or a list as ``seeds``.
            lanes: Which lanes.
            timeout_s: Limit in seconds.
        """
        chosen = self._chosen(lanes)
        if self._on_lost == "replace":
            self._fleet.replace(self._lanes, chosen)
        seed_of = self._spread("seeds", seeds, chosen)
        option_of = self._spread("options", options, chosen)
        limit = self._limit("reset", timeout_s)
        calls = []
        for place, index in enumerate(chosen):
            body = protocol.reset_body(seed_of[place], None, dict(option_of[place] or {}))
            calls.append(LaneCall(self._lanes[index], "reset", body, limit))
        return self._round(calls)

    def step(self, actions: Sequence[ActT] | Mapping[int, ActT], timeout_s: LimitArg = UNSET) -> PoolResult[ObsT]:
        """One step in every lane, in the order of the lanes; or in those that a mapping names.

        Lanes whose episode is lost are left out, with their error in the result.
        """
        return self._round(self._calls(actions, timeout_s))

    def send(self, actions: Sequence[ActT] | Mapping[int, ActT], timeout_s: LimitArg = UNSET) -> None:
        """Begin a step in every lane, or in those that a mapping names; :meth:`recv` gives the results.

        Raises:
            ConcurrentUse: A lane is still in the step before.
        """
        calls = self._calls(actions, timeout_s)
        for call in calls:
            if call.lane.index in self._sent:
                raise ConcurrentUse(
                    f"lane {call.lane.index} is still in the step before", remedy="Call recv() until it is done."
                )
        for call in calls:
            self._sent[call.lane.index] = call
        self._run([call for call in calls if not call.answered], 0, 0.0, Timing())

    def recv(self, min_ready: int | None = None, within: float | None = None) -> PoolResult[ObsT]:
        """Results of what was sent: of ``min_ready`` lanes or more, or of as many as are done ``within`` seconds.

        Lanes that are not done are named in ``pending``; their results come with a later call.
        """
        self._usable()
        waiting = [call for call in self._sent.values() if not call.answered]
        done = len(self._sent) - len(waiting)
        timing = Timing()
        wanted = len(self._sent) if min_ready is None else min(min_ready, len(self._sent))
        if waiting and done < wanted:
            only = wanted - done if min_ready is not None else None
            self._run(waiting, only, within, timing)
        ready = [call for call in self._sent.values() if call.answered]
        for call in ready:
            del self._sent[call.lane.index]
        result = self._result(ready, timing)
        result.pending = sorted(self._sent)
        return result

    def state(self, *, timeout_s: LimitArg = UNSET) -> list[StateT | None]:
        """Of each lane where its episode stands; ``None`` where it failed."""
        limit = self._limit("state", timeout_s)
        calls = [LaneCall(lane, "state", {}, limit) for lane in self._lanes if lane.failed is None]
        self._run(calls, None, None, Timing())
        found = {call.lane.index: self._proto._parse_state(call.payload) for call in calls if call.payload is not None}
        return [found.get(index) for index in range(len(self))]

    # --- the end ---

    def close(self) -> None:
        """Free all sessions, and remove the containers that this pool started. May be called again."""
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        self._closed = True
        if self._threads is not None:
            self._threads.shutdown()
        self._fleet.close()

    def __enter__(self) -> Self:
        self._usable()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and not sys.is_finalizing() and self._pid == os.getpid():
            warnings.warn(f"{self!r} was never closed", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def __repr__(self) -> str:
        return f"<EnvPool of {len(self._lanes)} lanes on {len(self._fleet.servers)} servers>"

    def _repr_html_(self) -> str:
        lost = sum(lane.failed is not None for lane in self._lanes)
        title = f"{len(self)} lanes on {len(self._fleet.servers)} servers, {lost} lost; {self.stats.steps} steps"
        return self.stats.html(title)

    # --- within ---

    def _usable(self) -> None:
        if self._pid != os.getpid():
            raise ClientClosed("this pool belongs to the process that made it", remedy="Make one in each process.")
        if self._closed:
            raise ClientClosed("this pool is closed", remedy="Make a new one.")

    def _limit(self, name: str, given: LimitArg) -> Limit:
        self._usable()
        limit: Limit = self._proto._session.limit(name, given if given is UNSET else seconds(given, "timeout_s"))
        return limit

    def _chosen(self, lanes: Sequence[int] | None) -> list[int]:
        chosen = list(range(len(self))) if lanes is None else [int(lane) for lane in lanes]
        for index in chosen:
            if not 0 <= index < len(self):
                raise ConfigurationError(f"there is no lane {index}; there are 0 to {len(self) - 1}")
            if index in self._sent:
                raise ConcurrentUse(f"lane {index} is still in a step", remedy="Call recv() until it is done.")
        return chosen

    def _spread(self, name: str, given: Any, chosen: list[int]) -> list[Any]:
        """Of each chosen lane what was given for it, or for its group."""
        if given is None or isinstance(given, Mapping):
            return [given] * len(chosen)
        groups = sorted({index // self.group_size for index in chosen})
        if isinstance(given, int):
            return [given + index // self.group_size for index in chosen]
        values = list(given)
        if len(values) == len(chosen):
            return values
        if len(values) == len(groups):
            return [values[groups.index(index // self.group_size)] for index in chosen]
        raise ConfigurationError(
            f"{name} has {len(values)} values, for {len(chosen)} lanes"
            + (f" in {len(groups)} groups" if self.group_size > 1 else "")
        )

    def _calls(self, actions: Sequence[ActT] | Mapping[int, ActT], timeout_s: LimitArg) -> list[LaneCall]:
        limit = self._limit("step", timeout_s)
        if isinstance(actions, Mapping):
            pairs = [(self._lanes[index], actions[index]) for index in self._chosen(list(actions))]
        else:
            if len(actions) != len(self._lanes):
                raise ConfigurationError(
                    f"{len(actions)} actions for {len(self)} lanes",
                    remedy="Give one for each lane, or a mapping {lane: action}.",
                )
            pairs = list(zip(self._lanes, actions, strict=True))
        told = protocol.number(limit)
        payload = self._proto._step_payload
        resets = self._ended if self.autoreset == "next_step" else ()
        calls = []
        for lane, action in pairs:
            if lane.failed is not None:
                calls.append(LaneCall(lane, "step", {}, limit, error=_left_out(lane)))
            elif lane.index in resets:
                calls.append(LaneCall(lane, "reset", {}, self._limit("reset", UNSET)))
            else:
                calls.append(LaneCall(lane, "step", {"action": payload(action), "timeout_s": told}, limit))
        return calls

    def _round(self, calls: list[LaneCall]) -> PoolResult[ObsT]:
        timing = Timing()
        self._run([call for call in calls if call.error is None], None, None, timing)
        return self._result(calls, timing)

    def _run(self, calls: list[LaneCall], min_ready: int | None, within_s: float | None, timing: Timing) -> None:
        """Make ``calls`` on whichever servers they belong to."""
        if not calls:
            return
        by_server: dict[Server, list[LaneCall]] = {}
        for call in calls:
            by_server.setdefault(self._fleet.server_of(call.lane), []).append(call)
        if len(by_server) == 1:
            ((server, own),) = by_server.items()
            server.run(own, min_ready, within_s, timing)
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._fleet.servers), thread_name_prefix="openenv-pool")
        if min_ready is None or min_ready == 0:
            jobs = [
                self._threads.submit(server.run, own, min_ready, within_s, timing) for server, own in by_server.items()
            ]
            for job in jobs:
                job.result()
            return
        # The first ones may come from any server: all are asked in turn, for a short time each.
        end = None if within_s is None else time.monotonic() + within_s
        while sum(call.answered for call in calls) < min_ready and (end is None or time.monotonic() < end):
            for own in by_server.values():
                left = [call for call in own if not call.answered]
                if left:
                    self._fleet.server_of(left[0].lane).run(left, 1, 0.005, timing)

    def _result(self, calls: list[LaneCall], timing: Timing) -> PoolResult[ObsT]:
        start = time.perf_counter()
        result: PoolResult[ObsT] = PoolResult([None] * len(self._lanes), timing=timing, group_size=self.group_size)
        results, parse, ended = result.results, self._proto._parse_result, self._ended
        answered = []
        for call in calls:
            index = call.lane.index
            ended.discard(index)
            if call.payload is not None:
                try:
                    results[index] = told = parse(call.payload)
                except OpenEnvError as error:
                    result.errors[index] = error
                    continue
                answered.append(index)
                if told.done:
                    ended.add(index)
            elif call.error is not None:
                result.errors[index] = call.error
        timing.decode += time.perf_counter() - start
        if self.autoreset == "same_step" and ended:
            self._reset_ended(result)
        self.stats.add(timing, answered, len(result.errors))
        return result

    def _reset_ended(self, result: PoolResult[ObsT]) -> None:
        """The lanes whose episode has just ended begin another; their result keeps the reward of the last step."""
        limit = self._limit("reset", UNSET)
        calls = [LaneCall(self._lanes[index], "reset", {}, limit) for index in sorted(self._ended)]
        self._run(calls, None, None, result.timing)
        for call in calls:
            index = call.lane.index
            last = result.results[index]
            if call.payload is None or last is None:
                if call.error is not None:
                    result.errors[index] = call.error
                continue
            result.final_obs[index] = last.observation
            last.observation = self._proto._parse_result(call.payload).observation
            self._ended.discard(index)


def _left_out(lane: Lane) -> OpenEnvError:
    """What a step of a lane whose episode is lost is answered, without asking anybody."""
    before = lane.failed
    told = before.message if before is not None else ""
    return EpisodeLost(f"lane {lane.index} is lost: {told}", remedy="Call reset() to begin a new episode.")


def _check_numbers(lanes: int, containers: int, group_size: int) -> None:
    for name, value in (("lanes", lanes), ("containers", containers), ("group_size", group_size)):
        if value < 1:
            raise ConfigurationError(f"{name} must be a whole number from 1; got {value!r}")
    if lanes % group_size:
        raise ConfigurationError(f"{lanes} lanes are no whole number of groups of {group_size}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigurationError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
