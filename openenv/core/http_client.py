"""The synchronous client of an environment: ``reset``, ``step``, ``state``, over requests."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Mapping
from typing import Any, Self

import requests

from openenv.core import protocol
from openenv.core.errors import ClientClosed, ConcurrentUse, ConfigurationError, OpenEnvError, ProtocolError
from openenv.core.exchange import Exchange
from openenv.core.hooks import Hooks
from openenv.core.http_session import HTTPSession, Stateless
from openenv.core.seeds import Seeds
from openenv.core.timing import UNSET, Limit, LimitArg, Timeouts, seconds
from openenv.core.types import ActT, ObsT, StateT, StepResult


class HTTPEnvClient(Seeds, Hooks[ActT, ObsT, StateT]):
    """A client of one environment server, for plain synchronous code.

    Subclasses give the three hooks ``_step_payload``, ``_parse_result`` and ``_parse_state``, or take them from
    :class:`~openenv.core.hooks.TypedHooks`. Constructing sends nothing. A client belongs to one thread at a time.

    Args:
        base_url: Where the server is, such as ``http://localhost:8000``; a path prefix is kept.
        request_timeout_s: Limit in seconds for each whole call; ``None`` is no limit.
        default_headers: Sent with every request; the mapping is kept by reference.
        provider: The :class:`~openenv.containers.ContainerProvider` that runs the server; ``close`` stops it.
        timeouts: Limits of single kinds of calls, where they differ from ``request_timeout_s``.
        transport: ``"auto"`` carries the calls over HTTP where the server keeps episodes there, else over a WebSocket;
            ``"http"`` and ``"websocket"`` force one. A ``ws://`` or ``wss://`` URL is a WebSocket.
        auth: A bearer token as text, or whatever requests takes as ``auth``.
        session: A ``requests.Session`` of the caller's, which stays the caller's to close.
        max_reply_bytes: A longer answer is an error (default 256 MiB).

    Raises:
        ConfigurationError: An argument cannot work.
    """

    _base: str
    _timeout: Limit
    _http: requests.Session
    _headers: Mapping[str, str]
    _provider: Any

    def __init__(
        self,
        base_url: str,
        request_timeout_s: float | str | None = 15.0,
        default_headers: Mapping[str, str] | None = None,
        provider: Any = None,
        *,
        timeouts: Timeouts | None = None,
        transport: str = "auto",
        auth: Any = None,
        session: requests.Session | None = None,
        max_reply_bytes: int = 256 << 20,
    ) -> None:
        self._base_url = protocol.BaseURL(base_url)
        self._timeout = seconds(request_timeout_s, "request_timeout_s")
        self._headers = default_headers if default_headers is not None else {}
        self._provider = provider
        self._timeouts = timeouts or Timeouts()
        if transport not in ("auto", "http", "websocket"):
            raise ConfigurationError(f'transport must be "auto", "http" or "websocket"; got {transport!r}')
        self._transport = "websocket" if self._base_url.scheme in ("ws", "wss") else transport
        self._auth, self._own_session, self._max_reply_bytes = auth, session, max_reply_bytes
        self._open()

    def _open(self) -> None:
        """Everything that is neither configuration nor travels in a pickle."""
        self._base = self._base_url.text
        self._exchange = Exchange(self._base_url, self._headers, self._auth, self._own_session, self._max_reply_bytes)
        self._http = self._exchange.session
        self._http.headers.setdefault("Accept", protocol.ACCEPT)
        if self._http.headers["Accept"] == "*/*":
            self._http.headers["Accept"] = protocol.ACCEPT
        if self._base_url.loopback and self._own_session is None:
            self._http.headers["Accept-Encoding"] = "identity"  # the link is faster than any compressor
        self._session: Any = HTTPSession(self._exchange, self._timeouts, self._timeout, _dead(self._provider))
        if self._transport == "websocket":
            self._to_websocket()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    # --- constructors that bring a server along ---

    @classmethod
    def from_docker_image(
        cls, image: str, provider: Any = None, *, client_options: Mapping[str, Any] | None = None, **options: Any
    ) -> Self:
        """Start a container of ``image`` and return a client that owns it: ``close`` removes the container.

        Args:
            image: Name of the image, such as ``echo-env:latest``.
            provider: What starts it; a :class:`~openenv.containers.LocalDockerProvider` by default.
            client_options: Arguments of the constructor of the client.
            **options: Arguments of the provider's ``start_container``, such as ``env_vars`` or ``memory``.

        Raises:
            ContainerError: It could not be started or did not get ready; nothing is left behind. A container that
                ended says its exit code and its last log lines.
        """
        if provider is None:
            from openenv.containers import LocalDockerProvider

            provider = LocalDockerProvider()
        return cls._started(provider, image, client_options, options)

    @classmethod
    def from_dockerfile(
        cls,
        directory: str | os.PathLike[str],
        *,
        tag: str | None = None,
        base_image: str | None = None,
        provider: Any = None,
        client_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Build the image of a Dockerfile, start a container of it and return a client that owns the container.

        The engine's cache makes building what has not changed a matter of a second; the image stays.

        Args:
            directory: A folder with a ``Dockerfile``, or with ``server/Dockerfile``.
            tag: Name of the image; by default the folder's, with ``:latest``.
            base_image: Instead of the Dockerfile's own, where it has ``ARG BASE_IMAGE`` (``OPENENV_BASE_IMAGE``).
            provider: As for :meth:`from_docker_image`, and so are the other arguments.
            client_options: Likewise.
            **options: Likewise.

        Raises:
            ContainerError: The build failed, with the last lines of its output; or as :meth:`from_docker_image`.
        """
        from openenv.containers.build import build_directory

        image = build_directory(directory, tag, base_image or os.environ.get("OPENENV_BASE_IMAGE"))
        return cls.from_docker_image(image, provider, client_options=client_options, **options)

    @classmethod
    def from_process(
        cls, app: str | None = None, *, client_options: Mapping[str, Any] | None = None, **options: Any
    ) -> Self:
        """Start the environment's server as a child process, where no Docker engine is, and own it likewise.

        Args:
            app: The server's ASGI application as ``module:name``; by default that of the environment's package.
            client_options: Arguments of the constructor of the client.
            **options: Arguments of :meth:`LocalProcessProvider.start_container`, such as ``env_vars``.

        Raises:
            ContainerError: The process ended or did not get ready; nothing is left behind.
        """
        from openenv.containers import LocalProcessProvider

        app = app or f"{cls.__module__.rpartition('.')[0]}.server.app:app"
        return cls._started(LocalProcessProvider(), app, client_options, options)

    @classmethod
    def attach(cls, container: str, *, client_options: Mapping[str, Any] | None = None) -> Self:
        """A client of a container that runs already; closing it frees its session and leaves the container alone.

        Args:
            container: Its name or id, or one of its labels as ``name=value``.
            client_options: Arguments of the constructor of the client.

        Raises:
            ContainerError: There is no such container, more than one has the label, or it does not run.
        """
        from openenv.containers import LocalDockerProvider

        provider = LocalDockerProvider.attach(container)
        return cls(provider.url, provider=provider, **(client_options or {}))

    @classmethod
    def _started(
        cls, provider: Any, image: str, client_options: Mapping[str, Any] | None, options: dict[str, Any]
    ) -> Self:
        try:
            url = provider.start_container(image, **options)
            patience = getattr(provider, "start_timeout_s", None)
            provider.wait_for_ready(url) if patience is None else provider.wait_for_ready(url, patience)
            return cls(url, provider=provider, **(client_options or {}))
        except BaseException as error:
            try:
                provider.stop_container()
            except Exception as trouble:  # noqa: BLE001 - the cause must not be hidden by it
                error.add_note(f"cleaning up failed as well: {type(trouble).__name__}: {trouble}")
            raise

    # --- the environment ---

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, timeout_s: LimitArg = UNSET, **options: Any
    ) -> StepResult[ObsT]:
        """Begin a new episode.

        Args:
            seed: Sent as it is; the same seed gives the same episode where the environment can.
            episode_id: The id that the episode shall have.
            timeout_s: Limit in seconds for this call; ``None`` is no limit.
            **options: Whatever else this environment's reset takes, sent as it is.

        Raises:
            OpenEnvError: See :mod:`openenv.core.errors`.
        """
        body = protocol.reset_body(self._seed_of(seed), episode_id, options)
        return self._parse_result(self._call("reset", body, self._limit("reset", timeout_s)))

    def step(self, action: ActT, timeout_s: LimitArg = UNSET) -> StepResult[ObsT]:
        """Act once. The environment runs the action exactly once, or the error says that nobody knows.

        Args:
            action: What :meth:`_step_payload` takes.
            timeout_s: Limit in seconds for this call, also told to the server; ``None`` is no limit.

        Raises:
            EpisodeLost: The episode is gone or in doubt; ``reset`` begins another.
            OpenEnvError: See :mod:`openenv.core.errors`.
        """
        limit = UNSET if timeout_s is UNSET else seconds(timeout_s, "timeout_s")
        return self._parse_result(self._call("step", self._step_payload(action), limit))

    def state(self, *, timeout_s: LimitArg = UNSET) -> StateT:
        """Where the episode stands."""
        return self._parse_state(self._call("state", self._limit("state", timeout_s)))

    # --- the server ---

    def health(self) -> dict[str, Any]:
        """What the server says of itself at ``/health``."""
        return self._call("get", "/health", self._limit("state", UNSET))

    def schema(self) -> dict[str, Any]:
        """The JSON Schemas of action, observation and state."""
        return self._call("get", "/schema", self._limit("state", UNSET))

    def metadata(self) -> dict[str, Any]:
        """Name, version and description of the environment."""
        return self._call("get", "/metadata", self._limit("state", UNSET))

    @property
    def base_url(self) -> str:
        """Where the server is, without a trailing slash."""
        return self._base

    def logs(self, tail: int = 100) -> str:
        """The last lines that the server printed, where this client's provider can tell; else empty."""
        return self._provider.logs(tail) if hasattr(self._provider, "logs") else ""

    # --- as the other clients have it ---

    def sync(self) -> Self:
        """This client: it is synchronous."""
        return self

    def connect(self) -> Self:
        """This client: it connects when it is used."""
        self._usable()
        return self

    def disconnect(self) -> None:
        """Free the session on the server; the client can begin another with ``reset``, and what it owns goes on."""
        self._call("close", self._limit("close", UNSET))

    @property
    def container(self) -> Any:
        """The container that this client owns or is attached to: ``id``, ``name``, ``image``, ``ports``, ``status``,
        ``stats()``, ``logs()``; ``None`` where its server is in none. See :class:`openenv.containers.Container`.
        """
        return getattr(self._provider, "container", None)

    # --- the end ---

    def close(self) -> None:
        """Free the session on the server, and stop the server if this client owns it. May be called again.

        A call that is in flight in another thread is cut, and raises :class:`ClientClosed` there.

        Raises:
            Exception: What the provider's ``stop_container`` raises.
        """
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        self._closed = True
        self._exchange.line.abort()
        if self._lock.acquire(timeout=2.0):
            self._lock.release()
        self._exchange.line.cut = False
        try:
            # A server that is about to be stopped gets little time to say goodbye.
            self._session.close(self._limit("close", UNSET) if self._provider is None else 1.0)
        finally:
            self._exchange.close()
            if self._provider is not None:
                self._provider.stop_container()

    def __enter__(self) -> Self:
        self._usable()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or sys.is_finalizing():
            return
        if self._pid == os.getpid() and (self._provider is not None or self._session.holds):
            warnings.warn(
                f"{self!r} was never closed; use `with`, or close()", ResourceWarning, stacklevel=2, source=self
            )
            self._session.timeouts = Timeouts(connect=1.0, close=1.0)
            try:
                self.close()
            except Exception as error:  # noqa: BLE001 - nobody could catch it here
                warnings.warn(f"{self!r} could not be closed: {error}", ResourceWarning, stacklevel=2, source=self)
        else:
            self._exchange.close()

    # --- within ---

    def _call(self, name: str, *args: Any) -> dict[str, Any]:
        """One call of one thread."""
        self._usable()
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUse(
                f"{name}() while another thread is using this client",
                remedy="Make one client per thread: they may share a server.",
                url=self._base,
            )
        try:
            try:
                payload: dict[str, Any] = getattr(self._session, name)(*args)
            except Stateless:
                # Nothing is lost: what the server did for this call it has thrown away already.
                self._to_websocket()
                payload = getattr(self._session, name)(*args)
            return payload
        except OpenEnvError:
            if self._closed:
                raise ClientClosed(f"the client was closed during {name}()", url=self._base) from None
            raise
        finally:
            self._lock.release()

    def _to_websocket(self) -> None:
        if self._transport == "http":
            raise ProtocolError(
                f"{self._base} forgets the episode between two HTTP calls",
                remedy='Leave transport="auto", so that the calls are carried over a WebSocket.',
                url=self._base,
            )
        from openenv.core.ws_session import WSSession

        self._session = WSSession(self._exchange, self._timeouts, self._timeout, _dead(self._provider))

    def _usable(self) -> None:
        if self._pid != os.getpid():
            self._after_fork()
        if self._closed:
            raise ClientClosed("this client is closed", remedy="Make a new one.", url=self._base)

    def _after_fork(self) -> None:
        """In a child process: fresh connections and a session of its own; the parent keeps what it owns."""
        self._pid = os.getpid()
        self._provider = None
        self._lock = threading.Lock()
        self._exchange.renew()
        self._http = self._exchange.session
        begun = self._session.begun
        self._session.dead = _dead(None)
        self._session.renew()
        if begun:
            self._session.doubt = "the episode belongs to the process that this one was forked from"

    def _limit(self, name: str, given: LimitArg) -> Limit:
        limit: Limit = self._session.limit(name, given if given is UNSET else seconds(given, "timeout_s"))
        return limit

    def __getstate__(self) -> dict[str, Any]:
        """Configuration travels; the session, the connections and the ownership of a container do not."""
        runtime = {"_exchange", "_http", "_session", "_lock", "_pid", "_closed", "_base"}
        return {**{k: v for k, v in self.__dict__.items() if k not in runtime}, "_provider": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        about = {"unknown": "not yet called", "sessions": "http", "plain": "http, no sessions"}
        kind = "closed" if self._closed else about.get(self._session.kind, self._session.kind)
        return f"<{type(self).__name__} {self._base_url.shown} {kind}>"


def _dead(provider: Any) -> protocol.Dead:
    """What tells why the server of ``provider`` is dead. Not a method: a client that is forgotten goes at once."""
    failure: protocol.Dead | None = getattr(provider, "failure", None)
    return failure if failure is not None else lambda: None
