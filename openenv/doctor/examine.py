"""All that can be looked at, in order."""

from __future__ import annotations

from collections.abc import Iterator

from openenv.doctor.engine import docker_engine
from openenv.doctor.finding import Finding
from openenv.doctor.machine import machine
from openenv.doctor.server import server


def examine(url: str | None = None, image: str | None = None) -> Iterator[Finding]:
    """Look at this machine, its Docker engine and, where one is named, a server.

    Args:
        url: Base URL of a server. Without an ``image``, the engine is then left out.
        image: An image to start a container of.
    """
    yield from machine()
    if url is None or image is not None:
        yield from docker_engine(image)
    if url is not None:
        yield from server(url)
