"""What starts the server of an environment and ends it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from openenv.core.errors import ContainerError


class ContainerProvider(ABC):
    """Runs one server at a time. A client that was given a provider owns it, and stops it in ``close``.

    To bring servers from elsewhere, implement the three abstract methods.
    """

    @abstractmethod
    def start_container(
        self, image: str, port: int | None = None, env_vars: Mapping[str, str] | None = None, **options: Any
    ) -> str:
        """Start a server and return its base URL. It need not be ready yet.

        Args:
            image: What to start.
            port: Port on this machine; by default one that is free.
            env_vars: Environment variables of the server, passed as they are.
            **options: What else the provider takes.

        Raises:
            ContainerError: It could not be started; nothing is left behind.
        """

    @abstractmethod
    def stop_container(self) -> None:
        """End what was started. Does nothing where nothing runs."""

    @abstractmethod
    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Return when ``GET <base_url>/health`` answers 200.

        Raises:
            ContainerNotReady: It did not within ``timeout_s`` seconds; also a ``TimeoutError``.
            ContainerError: The server has ended.
        """

    def failure(self) -> ContainerError | None:
        """Why the server is dead, if it is and this provider can tell; asked when a connection fails."""
        return None

    def logs(self, tail: int = 100) -> str:
        """The last lines that the server printed, at most ``tail``; empty where this provider cannot tell."""
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_container()
