"""The asynchronous client: ``reset``, ``step``, ``state`` as coroutines over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from openenv.core import frames, protocol
from openenv.core.errors import (
    CapacityError,
    ConcurrentUse,
    ConfigurationError,
    EpisodeLost,
    OpenEnvError,
    ServerError,
)
from openenv.core.hooks import Hooks
from openenv.core.seeds import Seeds
from openenv.core.sync_client import SyncEnvClient
from openenv.core.timing import UNSET, Deadline, LimitArg, seconds
from openenv.core.types import ActT, ObsT, StateT, StepResult


class EnvClient(Seeds, Hooks[ActT, ObsT, StateT]):
    """An asynchronous client of one environment server: every call is a coroutine, always.

    Subclasses give the three hooks, or take them from :class:`~openenv.core.hooks.TypedHooks`. One socket is one
    session: a lost socket is :class:`EpisodeLost` on ``step`` and a fresh session on ``reset``, and a socket on which
    an answer was late is never used again. :meth:`sync` gives the same client for plain code.

    Args:
        base_url: Where the server is; ``http``, ``https``, ``ws`` or ``wss``. May be left out with a ``provider``.
        connect_timeout_s: Limit in seconds for opening a connection; ``None`` is no limit.
        message_timeout_s: Limit in seconds for each call; ``None`` is no limit.
        max_message_size_mb: A longer answer (MiB) ends the connection; ``None`` is no limit.
        websocket_ping_interval_s: Seconds between keepalive pings; ``None`` sends none.
        websocket_ping_timeout_s: A pong later than that (seconds) ends the connection; ``None`` never does.
        provider: A :class:`~openenv.containers.ContainerProvider`; ``close`` stops what it runs. Without ``base_url``
            ``connect`` starts it, which works where its ``start_container`` needs no arguments.
        headers: Sent when connecting.
        auth: A bearer token.

    Raises:
        ConfigurationError: An argument cannot work, or there is neither ``base_url`` nor ``provider``.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float | None = 10.0,
        message_timeout_s: float | None = 60.0,
        max_message_size_mb: float | None = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        auth: str | None = None,
    ) -> None:
        if base_url is None and provider is None:
            raise ConfigurationError(
                f"{type(self).__name__} needs a base_url or a provider",
                remedy="Write base_url='http://localhost:8000'.",
            )
        self._address = None if base_url is None else protocol.BaseURL(base_url)
        self._connect_timeout = seconds(connect_timeout_s, "connect_timeout_s")
        self._message_timeout = seconds(message_timeout_s, "message_timeout_s")
        size = seconds(max_message_size_mb, "max_message_size_mb")
        self._max_bytes = None if size is None else int(size * (1 << 20))
        self._ping = (
            seconds(websocket_ping_interval_s, "websocket_ping_interval_s"),
            seconds(websocket_ping_timeout_s, "websocket_ping_timeout_s"),
        )
        self._provider = provider
        self._headers = {**(headers or {}), **({"Authorization": f"Bearer {auth}"} if auth else {})}
        self._open()

    def _open(self) -> None:
        """Everything that is neither configuration nor travels in a pickle."""
        self._socket: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._busy = False
        self._doubt = ""
        self._children: list[EnvClient[ActT, ObsT, StateT]] = []
        self._sync: SyncEnvClient[ActT, ObsT, StateT] | None = None

    @classmethod
    async def from_docker_image(
        cls, image: str, provider: Any = None, *, client_options: Mapping[str, Any] | None = None, **options: Any
    ) -> Self:
        """Start a container of ``image`` and return a connected client that owns it.

        Any failure, and cancellation, removes the container.

        Args:
            image: Name of the image.
            provider: What starts it; a :class:`~openenv.containers.LocalDockerProvider` by default.
            client_options: Arguments of the constructor of the client.
            **options: Arguments of the provider's ``start_container``.

        Raises:
            ContainerError: It could not be started or did not get ready.
        """
        if provider is None:
            from openenv.containers import LocalDockerProvider

            provider = await asyncio.to_thread(LocalDockerProvider)

        def start() -> str:
            url: str = provider.start_container(image, **options)
            patience = getattr(provider, "start_timeout_s", None)
            provider.wait_for_ready(url) if patience is None else provider.wait_for_ready(url, patience)
            return url

        # A thread cannot be cancelled: it is waited for, so that what it started is removed.
        starting = asyncio.ensure_future(asyncio.to_thread(start))
        try:
            url = await asyncio.shield(starting)
            client = cls(url, provider=provider, **(client_options or {}))
            await client.connect()
        except BaseException as error:
            if not starting.done():
                await asyncio.wait([starting])
            try:
                await asyncio.shield(asyncio.to_thread(provider.stop_container))
            except Exception as trouble:  # noqa: BLE001 - the cause must not be hidden by it
                error.add_note(f"cleaning up failed as well: {type(trouble).__name__}: {trouble}")
            raise
        return client

    # --- the environment ---

    async def connect(self) -> Self:
        """Open the connection, which is a session on the server; nothing to do where it is open.

        Raises:
            TransportError: The server cannot be reached (a ``ConnectionError``).
        """
        await self._connect_async()
        return self

    async def disconnect(self) -> None:
        """End the session and close the connection; what the provider runs goes on."""
        await self._disconnect_async()

    async def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, timeout_s: LimitArg = UNSET, **options: Any
    ) -> StepResult[ObsT]:
        """Begin a new episode; the arguments are those of :meth:`HTTPEnvClient.reset`."""
        return await self._reset_async(seed=seed, episode_id=episode_id, timeout_s=timeout_s, **options)

    async def step(self, action: ActT, timeout_s: LimitArg = UNSET) -> StepResult[ObsT]:
        """Act once.

        Raises:
            EpisodeLost: The episode is gone or in doubt; ``reset`` begins another.
        """
        return await self._step_async(action, timeout_s=timeout_s)

    async def state(self) -> StateT:
        """Where the episode stands."""
        return await self._state_async()

    async def new_session(self) -> Self:
        """A connected client of another session on the same server, closed with this one.

        Raises:
            CapacityError: The server has no room for it (a ``ConnectionError``).
        """
        session = self._create_session_client()
        self._children.append(session)
        try:
            await session._connect_async()
        except BaseException:
            self._children.remove(session)
            raise
        return session

    async def close(self) -> None:
        """Close the sessions made by :meth:`new_session`, this one, and stop what the provider runs."""
        await self._close_async()

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """This client for plain code, the same wrapper each time."""
        if self._sync is None:
            self._sync = SyncEnvClient(self)
        return self._sync

    @property
    def base_url(self) -> str | None:
        """Where the server is; ``None`` while the provider has not started it."""
        return None if self._address is None else self._address.text

    @property
    def _base_url(self) -> str | None:
        """Trainers read it by this name."""
        return self.base_url

    async def schema(self) -> dict[str, Any]:
        """The JSON Schemas of action, observation and state."""
        from openenv.core.generic_client import GenericHTTPEnvClient

        if self._address is None:
            await self.connect()

        def ask() -> dict[str, Any]:
            assert self.base_url is not None
            with GenericHTTPEnvClient(self.base_url, self._connect_timeout, self._headers) as client:
                return client.schema()

        return await asyncio.to_thread(ask)

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- what SyncEnvClient drives ---

    async def _connect_async(self) -> None:
        if self._alive():
            return
        self._drop()
        await self._connect()

    async def _disconnect_async(self) -> None:
        socket = self._socket if self._alive() else None
        self._drop(abort=False)
        self._doubt = ""
        if socket is not None:
            try:
                await socket.send(frames.encode("close", None, socket.subprotocol))
                await socket.close()
            except (ConnectionClosed, OSError):
                return  # it was gone

    async def _reset_async(
        self, *, seed: int | None = None, episode_id: str | None = None, timeout_s: LimitArg = UNSET, **options: Any
    ) -> StepResult[ObsT]:
        body = protocol.reset_body(self._seed_of(seed), episode_id, options)
        if not self._alive():
            self._drop()
            await self._connect()
        self._doubt = ""
        return self._parse_result(await self._call("reset", body, timeout_s))

    async def _step_async(self, action: ActT, *, timeout_s: LimitArg = UNSET) -> StepResult[ObsT]:
        return self._parse_result(await self._within_episode("step", self._step_payload(action), timeout_s))

    async def _state_async(self) -> StateT:
        return self._parse_state(await self._within_episode("state", None, UNSET))

    async def _close_async(self) -> None:
        children, self._children = self._children, []
        provider, self._provider = self._provider, None
        try:
            await asyncio.gather(*(child._close_async() for child in children), return_exceptions=True)
            await self._disconnect_async()
        finally:
            if provider is not None:
                try:
                    await asyncio.shield(asyncio.to_thread(provider.stop_container))
                except BaseException:
                    self._provider = provider  # the next close tries again
                    raise

    def _create_session_client(self) -> Self:
        child = object.__new__(type(self))
        child.__setstate__(self.__getstate__())
        child._probe_on_connect = True
        return child

    # --- the socket ---

    _probe_on_connect = False

    def _alive(self) -> bool:
        return (
            self._socket is not None
            and self._loop is asyncio.get_running_loop()
            and self._socket.close_code is None
            and not self._doubt
        )

    async def _connect(self) -> None:
        if self._address is None:
            self._address = protocol.BaseURL(await asyncio.to_thread(self._start_provider))
        url = frames.url_of(self._address)
        options = frames.connect_options(self._address, self._headers, self._max_bytes, self._ping)
        try:
            socket = await connect(url, open_timeout=self._connect_timeout, **options)
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            if (death := self._death()) is not None:
                raise death from error
            raise frames.connect_error(error, self._address.shown, self._connect_timeout) from error
        self._socket, self._loop, self._doubt = socket, asyncio.get_running_loop(), ""
        if self._probe_on_connect:
            # A full server accepts the socket and refuses in a frame: ask something that changes nothing.
            try:
                await self._call("state", None, self._connect_timeout)
            except CapacityError:
                raise
            except ServerError as error:
                if getattr(error, "fatal", False):
                    raise

    def _start_provider(self) -> str:
        try:
            url: str = self._provider.start_container()
        except TypeError as error:
            raise ConfigurationError(
                f"{type(self._provider).__name__} cannot start by itself: {error}",
                remedy="Use from_docker_image(image, provider).",
            ) from error
        self._provider.wait_for_ready(url)
        return url

    async def _within_episode(self, kind: str, data: dict[str, Any] | None, limit: LimitArg) -> dict[str, Any]:
        if self._doubt:
            raise EpisodeLost(self._doubt, remedy="Call reset() to begin a new episode.", url=self._shown)
        if self._socket is None:
            await self._connect()  # no episode has begun: some environments act without a reset
        elif self._loop is not asyncio.get_running_loop():
            gone = frames.lost(kind, self._shown, "it belongs to another event loop")
            self._fail(gone.message)
            raise gone
        return await self._call(kind, data, limit)

    async def _call(self, kind: str, data: dict[str, Any] | None, limit: LimitArg) -> dict[str, Any]:
        if self._busy:
            raise ConcurrentUse(
                f"{kind}() while another call of this client is under way",
                remedy="Await it first, or use new_session().",
            )
        allowed = self._message_timeout if limit is UNSET else seconds(limit, "timeout_s")
        deadline = Deadline(allowed)
        socket = self._socket
        self._busy = True
        try:
            frame = frames.encode(kind, data, socket.subprotocol)
            async with asyncio.timeout(allowed):
                with suppress(ConnectionClosed):  # a refusal may have come first: recv has it, or raises the same
                    await socket.send(frame)
                answer = await socket.recv()
            return frames.decode(kind, answer, self._shown)
        except OpenEnvError as error:  # first: ours are OSErrors and TimeoutErrors too
            if getattr(error, "fatal", False):
                self._fail(error.message)
            raise
        except TimeoutError:
            self._fail(f"nobody knows how the last {kind} ended: it took too long")
            if (death := self._death()) is not None:
                raise death from None
            name = "message_timeout_s" if limit is UNSET else "timeout_s"
            raise frames.late(kind, self._shown, deadline, name, "message_timeout_s of the client") from None
        except (ConnectionClosed, OSError) as error:
            gone = frames.lost(kind, self._shown, error)
            self._fail(gone.message)
            if (death := self._death()) is not None:
                raise death from error
            raise gone from error
        except BaseException as error:
            self._fail(f"nobody knows how the last {kind} ended: it was interrupted ({type(error).__name__})")
            raise
        finally:
            self._busy = False

    def _fail(self, why: str) -> None:
        self._doubt = why
        self._drop()

    def _drop(self, *, abort: bool = True) -> None:
        """Let go of the socket; with ``abort`` at once, without a word to the server."""
        socket, self._socket = self._socket, None
        if socket is not None and abort:
            loop = self._loop
            if loop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(socket.transport.abort)

    def _death(self) -> OpenEnvError | None:
        failure = getattr(self._provider, "failure", None)
        return failure() if failure is not None else None

    @property
    def _shown(self) -> str:
        return "(not started)" if self._address is None else self._address.shown

    def __getstate__(self) -> dict[str, Any]:
        """Configuration travels; the connection and the ownership of a container do not."""
        runtime = {"_socket", "_loop", "_busy", "_doubt", "_children", "_sync", "_probe_on_connect"}
        return {**{k: v for k, v in self.__dict__.items() if k not in runtime}, "_provider": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        kind = "websocket" if self._socket is not None else "not connected"
        return f"<{type(self).__name__} {self._shown} {kind}>"
