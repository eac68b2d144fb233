"""A container provider that starts nothing and notes what it was asked."""

from __future__ import annotations

from typing import Any

from openenv.core import ContainerProvider


class NotedProvider(ContainerProvider):
    """Answers `url`, or raises what it was given for a call: `NotedProvider(url, wait_for_ready=TimeoutError())`."""

    def __init__(self, url: str, **failures: BaseException) -> None:
        self.url = url
        self.failures = failures
        self.calls: list[tuple[str, Any]] = []

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **options: Any
    ) -> str:
        given: dict[str, Any] = {"image": image}
        if port is not None:
            given["port"] = port
        if env_vars is not None:
            given["env_vars"] = env_vars
        self._note("start_container", {**given, **options})
        return self.url

    def stop_container(self, *args: Any) -> None:
        self._note("stop_container", args)

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        self._note("wait_for_ready", base_url)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _note(self, name: str, given: Any) -> None:
        self.calls.append((name, given))
        if name in self.failures:
            raise self.failures[name]
