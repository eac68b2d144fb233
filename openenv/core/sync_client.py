"""The asynchronous client for plain code: every call is driven over one private event loop."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from openenv.core.logs import logger
from openenv.core.loop_thread import LoopThread, discard, starting
from openenv.core.types import ActT, ObsT, StateT, StepResult

if TYPE_CHECKING:
    from openenv.core.env_client import EnvClient

log = logger("client")

T = TypeVar("T")

THREAD_NAME = "openenv-sync-client-loop"


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """An asynchronous client whose coroutines are plain calls; ``EnvClient.sync()`` makes it.

    ::

        with GenericEnvClient(base_url="http://localhost:8000").sync() as env:
            env.reset()

    The first call starts one event loop in a daemon thread of its own, ``close`` ends both, and the next call begins
    anew; so it works in a notebook, or anywhere else inside a running loop. Calls of several threads overlap on the
    loop where the asynchronous client allows it. Attributes that are not here are those of the asynchronous client,
    its coroutine methods as plain ones. In a forked child it begins with a loop of its own and leaves the parent's
    session alone.

    Args:
        async_client: What is driven; nobody else should use it at the same time.
    """

    def __init__(self, async_client: EnvClient[ActT, ObsT, StateT]) -> None:
        self._async_client = async_client
        self._driver: LoopThread | None = None
        self._sessions: dict[SyncEnvClient[ActT, ObsT, StateT], None] = {}
        self._siblings: dict[SyncEnvClient[ActT, ObsT, StateT], None] | None = None
        self._blocking: dict[str, Callable[..., Any]] = {}

    @property
    def async_client(self) -> EnvClient[ActT, ObsT, StateT]:
        """The client that this one drives."""
        return self._async_client

    # --- the environment ---

    def connect(self) -> Self:
        """Open the connection; where that fails, the loop ends as well.

        Raises:
            TransportError: The server cannot be reached (a ``ConnectionError``).
        """
        self._claim()
        try:
            self._run(self._async_client._connect_async())
        except BaseException:
            if (driver := self._running()) is not None and not driver.calls:
                self._stop_loop()
            raise
        if self._siblings is not None:
            self._siblings[self] = None
        return self

    def disconnect(self) -> None:
        """Close the connection; the loop stays for the next one."""
        self._claim()
        self._run(self._async_client._disconnect_async())

    def reset(self, **options: Any) -> StepResult[ObsT]:
        """Begin a new episode; the arguments are those of the asynchronous client's ``reset``."""
        self._claim()
        return self._run(self._async_client._reset_async(**options))

    def step(self, action: ActT, **options: Any) -> StepResult[ObsT]:
        """Act once; the arguments are those of the asynchronous client's ``step``.

        Raises:
            EpisodeLost: The episode is gone or in doubt; ``reset`` begins another.
        """
        self._claim()
        return self._run(self._async_client._step_async(action, **options))

    def state(self) -> StateT:
        """Where the episode stands."""
        self._claim()
        return self._run(self._async_client._state_async())

    def new_session(self) -> Self:
        """A connected client of another session on the same server, closed with this one.

        Raises:
            CapacityError: The server has no room for it (a ``ConnectionError``).
        """
        self._claim()
        session = type(self)(self._async_client._create_session_client())
        session._siblings = self._sessions
        return session.connect()

    def close(self) -> None:
        """Close the sessions made by :meth:`new_session`, then this client; the loop ends whatever happens."""
        try:
            self._claim()
            for session in list(self._sessions):
                try:
                    session.close()
                except Exception as trouble:  # noqa: BLE001 - the others must be closed all the same
                    log.warning("%r could not be closed: %s: %s", session, type(trouble).__name__, trouble)
            self._run(self._async_client._close_async())
        finally:
            if self._siblings is not None:
                self._siblings.pop(self, None)
            self._stop_loop()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.close()
        except Exception as trouble:
            if error is None:
                raise
            error.add_note(f"closing failed as well: {type(trouble).__name__}: {trouble}")

    # --- the hooks ---

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        return self._async_client._step_payload(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        return self._async_client._parse_result(payload)

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        return self._async_client._parse_state(payload)

    # --- everything else of the asynchronous client ---

    def __getattr__(self, name: str) -> Any:
        # copy and pickle ask half-made objects; a special method of the other client would not work for this one.
        if "_async_client" not in self.__dict__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        try:
            member = getattr(self._async_client, name)
        except AttributeError as error:
            raise AttributeError(
                f"neither {type(self).__name__} nor {type(self._async_client).__name__} has an attribute {name!r}",
                name=name,
                obj=self,
            ) from error
        if not inspect.iscoroutinefunction(member):
            return member

        @wraps(member)
        def blocking(*args: Any, **kwargs: Any) -> Any:
            self._claim()
            return self._run(getattr(self._async_client, name)(*args, **kwargs))

        return self._blocking.setdefault(name, blocking)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.__dict__.get("_async_client"))})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.__dict__.get('_async_client')!r}>"

    def __copy__(self) -> Self:
        raise TypeError(
            f"{type(self).__name__} cannot be copied: two event loops would share one connection. "
            "Use new_session(), or copy.deepcopy() for a client that is not connected."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._async_client,)

    # --- the loop ---

    def _claim(self) -> None:
        """Tell the client that it is used from plain code, where it wants to know."""
        claim = getattr(self._async_client, "_claim_execution_mode", None)
        if claim is not None:
            claim("sync")

    def _run(self, coroutine: Awaitable[T]) -> T:
        """Run a coroutine on the loop, and wait for it."""
        try:
            driver = self._running() or self._start_loop()
        except BaseException:
            discard(coroutine)
            raise
        return driver.run(coroutine)

    def _running(self) -> LoopThread | None:
        driver: LoopThread | None = self.__dict__.get("_driver")  # half-made objects are finalised too
        return None if driver is None or driver.ended else driver

    def _start_loop(self) -> LoopThread:
        with starting:
            driver = self._running()
            if driver is None:
                driver = self._driver = LoopThread(THREAD_NAME)
            return driver

    def _stop_loop(self) -> None:
        with starting:
            driver, self._driver = self._running(), None
        if driver is not None:
            driver.stop()
            driver.join()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop | None:
        driver = self._running()
        return None if driver is None else driver.loop

    @property
    def _loop_thread(self) -> threading.Thread | None:
        driver = self._running()
        return None if driver is None else driver.thread

    def __del__(self, _exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        # Garbage is collected on any thread, the loop's own too: nothing here may wait.
        if not _exiting() and (driver := self._running()) is not None:
            driver.farewell = getattr(self._async_client, "_disconnect_async", None)
            driver.stop()
