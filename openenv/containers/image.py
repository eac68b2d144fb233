"""The image that a container is made of: is it there, can it be pulled, what does it expose."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any

from openenv.containers.engine import Engine, engine_trouble
from openenv.containers.progress import shown
from openenv.core.errors import ImageMissing


def ensure(engine: Engine, image: str, pull: str, platform: str | None) -> Mapping[str, Any]:
    """What the engine knows of ``image``, pulled first where ``pull`` says so.

    Raises:
        ImageMissing: It is not there and cannot be had.
        EngineUnavailable: The engine does not answer.
    """
    from docker.errors import APIError, ImageNotFound, NotFound

    with engine_trouble(f"looking for the image {image}", engine.address.url):
        api: Any = engine.client.api
        if pull != "always":
            try:
                found: Mapping[str, Any] = api.inspect_image(image)
                return found
            except ImageNotFound as error:
                if pull == "never":
                    raise _missing(image, 'and pull="never" forbids to pull it') from error
            except APIError as error:
                if error.status_code == 400:
                    raise _missing(image, f"and cannot be: {error.explanation}") from error
                raise
        try:
            _pull(api, image, platform)
            pulled: Mapping[str, Any] = api.inspect_image(image)
        except (NotFound, APIError) as error:
            raise _missing(image, f"and pulling it failed: {error.explanation or error}") from error
        return pulled


def _pull(api: Any, image: str, platform: str | None) -> None:
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    with shown(f"pulling {image}") as show:
        events = api.pull(repository, tag=tag or "latest", platform=platform, stream=True, decode=True)
        for event in events:
            if "error" in event:
                deque(events, maxlen=0)  # to its end, so that the connection is free again
                raise _missing(image, f"and pulling it failed: {event['error']}")
            show(event)


def exposed_port(attributes: Mapping[str, Any]) -> int | None:
    """The TCP port that the image exposes, where it is exactly one."""
    exposed = (attributes.get("Config") or {}).get("ExposedPorts") or {}
    ports = [int(port.partition("/")[0]) for port in exposed if port.partition("/")[2] in ("", "tcp")]
    return ports[0] if len(ports) == 1 else None


def _missing(image: str, why: str) -> ImageMissing:
    repository = image.partition("@")[0]
    name = re.fullmatch(r"([a-z0-9_.-]+)[-_]env(:latest)?", repository)
    build = f"`openenv build {name[1].replace('-', '_')}_env`" if name else f"`openenv build DIRECTORY -t {repository}`"
    return ImageMissing(
        f"the image {image} is not on this Docker engine, {why}",
        remedy=f"Build it with {build}, or get it with `docker pull {image}`.",
        image=image,
    )
