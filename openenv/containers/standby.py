"""Containers that stand by: started, ready and paused, handed out in milliseconds.

Nothing runs in between: a paused container uses memory and no CPU. A start happens on a thread that ends with it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from openenv.containers.docker import LocalDockerProvider
from openenv.containers.many import started
from openenv.core.errors import ConfigurationError, ContainerError, ContainerNotReady
from openenv.core.logs import logger

log = logger("containers")

_Client = TypeVar("_Client")


class StandbyPool:
    """Keeps ``size`` containers of one image standing by. Safe to use from several threads.

    ::

        with StandbyPool("echo-env:latest", size=4) as standby:
            with standby.take(EchoEnv) as env:      # owns its container, as from_docker_image does
                env.reset()

    Args:
        image: Name of the image.
        size: How many stand by; each one that is taken is replaced in the background.
        provider: Makes a provider.
        at_once: How many are started at the same time.
        start_timeout_s: Seconds that a server may take to get ready.
        **options: Arguments of ``start_container``.

    Raises:
        ConfigurationError: ``size`` or ``at_once`` is not a positive number.
    """

    def __init__(
        self,
        image: str,
        size: int = 2,
        *,
        provider: Callable[[], LocalDockerProvider] = LocalDockerProvider,
        at_once: int = 2,
        start_timeout_s: float | None = 60.0,
        **options: Any,
    ) -> None:
        self._closed = True
        for name, value in (("size", size), ("at_once", at_once)):
            if value < 1:
                raise ConfigurationError(f"{name} must be a whole number from 1; got {value!r}")
        self.image, self.size = image, size
        self._make, self._at_once, self._limit, self._options = provider, at_once, start_timeout_s, options
        self._standing: deque[LocalDockerProvider] = deque()
        self._starting = 0
        self._trouble: ContainerError | None = None
        self._changed = threading.Condition()
        self._pid = os.getpid()
        self._closed = False
        self._refill()

    @property
    def standing(self) -> int:
        """How many could be handed out now."""
        return len(self._standing)

    def wait_until_full(self, timeout_s: float | None = 120.0) -> None:
        """Return when ``size`` containers stand by.

        Raises:
            ContainerNotReady: They do not within ``timeout_s`` seconds.
            ContainerError: One could not be started.
        """
        self._usable()
        with self._changed:
            self._changed.wait_for(lambda: self.standing >= self.size or self._trouble is not None, timeout_s)
            if self.standing < self.size:
                raise self._none(timeout_s)

    @overload
    def take(self, *, timeout_s: float | None = ...) -> LocalDockerProvider: ...
    @overload
    def take(
        self, client: Callable[..., _Client], *, timeout_s: float | None = ..., **client_options: Any
    ) -> _Client: ...
    def take(self, client: Any = None, *, timeout_s: float | None = 60.0, **client_options: Any) -> Any:
        """A container that is ready, to be stopped by whoever takes it.

        Args:
            client: A class of clients; by default the provider itself is given, with its address as ``url``.
            timeout_s: Seconds to wait where none stands by.
            **client_options: Arguments of the client's constructor.

        Raises:
            ContainerNotReady: None was ready within ``timeout_s`` seconds.
            ContainerError: None can be started; with the cause.
        """
        self._usable()
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            provider = self._next(end, timeout_s)
            try:
                provider.resume()
                if (dead := provider.failure()) is not None:
                    raise dead
            except ContainerError as error:
                log.warning("a container that stood by is of no use: %s", error.message)
                _drop(provider)
            else:
                if client is None:
                    return provider
                try:
                    return client(provider.url, provider=provider, **client_options)
                except BaseException:
                    _drop(provider)
                    raise

    def close(self) -> None:
        """Remove all that stand by, and those that are still being started. Those handed out are not touched."""
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        with self._changed:
            self._closed = True
            standing = list(self._standing)
            self._standing.clear()
        for provider in standing:
            _drop(provider)
        with self._changed:
            self._changed.wait_for(lambda: self._starting == 0)

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
        return f"<StandbyPool of {self.image}: {self.standing} of {self.size} stand by>"

    # --- within ---

    def _usable(self) -> None:
        if self._pid != os.getpid():
            raise ContainerError("this pool belongs to the process that made it", remedy="Make one in each process.")
        if self._closed:
            raise ContainerError("this pool is closed", remedy="Make a new one.")

    def _next(self, end: float | None, timeout_s: float | None) -> LocalDockerProvider:
        with self._changed:
            if not self._standing:
                self._trouble = None  # what failed for somebody else is tried again
                self._refill()
            left = None if end is None else max(0.0, end - time.monotonic())
            self._changed.wait_for(lambda: self._standing or self._trouble is not None or self._closed, left)
            if not self._standing:
                raise self._none(timeout_s)
            provider = self._standing.popleft()
            self._refill()
            return provider

    def _none(self, timeout_s: float | None) -> ContainerError:
        if self._trouble is not None:
            return self._trouble
        if self._closed:
            return ContainerError("this pool is closed")
        return ContainerNotReady(
            f"no container of {self.image} stands by after {timeout_s:g} s; {self._starting} are being started",
            remedy="Wait longer with timeout_s=..., or make the pool larger.",
        )

    def _refill(self) -> None:
        with self._changed:
            while (
                not self._closed
                and self._starting < self._at_once
                and len(self._standing) + self._starting < self.size
                and self._trouble is None
            ):
                self._starting += 1
                threading.Thread(target=self._start, name="openenv-standby", daemon=True).start()

    def _start(self) -> None:
        provider, trouble = None, None
        try:
            provider = self._make()
            started(provider, self.image, self._limit, self._options)
            provider.pause()
        except ContainerError as error:
            trouble = error
            if provider is not None:
                _drop(provider)
        except Exception as error:  # noqa: BLE001 - whoever takes next gets it
            trouble = ContainerError(f"a container of {self.image} cannot be started: {error}")
            trouble.__cause__ = error
            if provider is not None:
                _drop(provider)
        unwanted = None
        with self._changed:
            self._starting -= 1
            self._trouble = trouble
            if trouble is None and provider is not None:
                if self._closed:
                    unwanted = provider
                    self._starting += 1  # close() waits for its end, too
                else:
                    self._standing.append(provider)
            self._refill()
            self._changed.notify_all()
        if unwanted is not None:
            _drop(unwanted)
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()


def _drop(provider: LocalDockerProvider) -> None:
    try:
        provider.stop_container()
    except ContainerError as error:
        log.warning("%r could not be removed: %s", provider, error)
