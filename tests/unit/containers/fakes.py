"""A Docker engine that remembers what it was told, and fails where a test says so. Stands in for a ``DockerClient``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import docker.errors
from requests import Response


def api_error(status: int, explanation: str) -> docker.errors.APIError:
    response = Response()
    response.status_code = status
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    return kind(explanation, response=response, explanation=explanation)


class FakeDocker:
    """``fail["create"]`` and so on: called with the number of the call; what it returns is raised."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.made: list[dict[str, Any]] = []
        self.alive: dict[str, dict[str, Any]] = {}
        self.exposed: dict[str, Any] = {}
        self.fail: dict[str, Callable[[int], BaseException | None]] = {}
        self.state: dict[str, Any] = {"Status": "running", "Running": True}
        self.ports: list[dict[str, str]] | None = [{"HostIp": "127.0.0.1", "HostPort": "4711"}]
        self.containers = SimpleNamespace(create=self._create)
        self.api = SimpleNamespace(
            base_url="http://127.0.0.1:2375",
            cert=None,
            verify=True,
            inspect_image=self._inspect_image,
            pull=self._pull,
            inspect_container=self._inspect,
            containers=self._list,
            start=self._start,
            stop=self._stop,
            remove_container=self._remove,
            logs=lambda *_, **__: b"one\ntwo\n",
            events=lambda **_: docker_events(),
        )
        self._ids = itertools.count(1)

    def _told(self, what: str, argument: str) -> None:
        self.calls.append(f"{what} {argument}")
        count = sum(call.startswith(f"{what} ") for call in self.calls)
        error = self.fail.get(what, lambda n: None)(count)
        if error is not None:
            raise error

    def _create(self, **arguments: Any) -> Any:
        self._told("create", arguments["name"])
        self.made.append(arguments)
        made = f"id{next(self._ids)}"
        self.alive[made] = arguments
        return SimpleNamespace(id=made)

    def _inspect_image(self, image: str) -> dict[str, Any]:
        self._told("image", image)
        return {"Config": {"ExposedPorts": self.exposed}}

    def _pull(self, image: str, tag: str, **_: Any) -> list[dict[str, Any]]:
        self._told("pull", f"{image}:{tag}")
        return []

    def _inspect(self, container_id: str) -> dict[str, Any]:
        self._told("inspect", container_id)
        (port,) = self.alive[container_id]["ports"]
        return {"State": self.state, "NetworkSettings": {"Ports": {port: self.ports}}}

    def _list(self, **_: Any) -> list[dict[str, Any]]:
        self._told("list", "")
        return [{"Id": made} for made in self.alive]

    def _start(self, container_id: str) -> None:
        self._told("start", container_id)

    def _stop(self, container_id: str, timeout: int) -> None:
        self._told("stop", container_id)

    def _remove(self, container_id: str, *, v: bool, force: bool) -> None:
        self._told("remove", container_id)
        assert v
        assert force
        if self.alive.pop(container_id, None) is None:
            raise api_error(404, "No such container")


class docker_events:
    def __iter__(self) -> Any:
        return iter(())

    def close(self) -> None:
        pass
