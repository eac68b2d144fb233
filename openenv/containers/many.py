"""Many containers of one image at once, as fast as the engine can make them and no faster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from openenv.containers.docker import LocalDockerProvider
from openenv.core.errors import ConfigurationError, ContainerError
from openenv.core.logs import logger

log = logger("containers")


class Started(NamedTuple):
    """What came of starting many.

    Attributes:
        ready: Providers whose servers are ready; whoever has them stops them.
        failed: Why the others are not.
    """

    ready: list[LocalDockerProvider]
    failed: list[ContainerError]


def start_many(
    image: str,
    count: int,
    *,
    at_once: int = 4,
    all_or_nothing: bool = True,
    make: Callable[[], LocalDockerProvider] = LocalDockerProvider,
    timeout_s: float | None = 120.0,
    **options: Any,
) -> Started:
    """Start ``count`` containers of ``image`` and wait until their servers are ready.

    Args:
        image: Name of the image.
        count: How many.
        at_once: How many are on their way at the same time; more make each only slower.
        all_or_nothing: Where one fails, stop the others and raise; else go on and tell in ``failed``.
        make: Makes a provider.
        timeout_s: Seconds that one server may take to get ready.
        **options: Arguments of ``start_container``.

    Raises:
        ContainerError: One failed, and ``all_or_nothing`` is set, or all of them failed. Nothing is left behind.
        ConfigurationError: ``count`` or ``at_once`` is not a positive number.
    """
    for name, value in (("count", count), ("at_once", at_once)):
        if value < 1:
            raise ConfigurationError(f"{name} must be a whole number from 1; got {value!r}")
    ready: list[LocalDockerProvider] = []
    failed: list[ContainerError] = []

    def start() -> None:
        if failed and all_or_nothing:
            return
        provider = make()
        try:
            started(provider, image, timeout_s, options)
        except ContainerError as error:
            failed.append(error)
            log.warning("%d of %d containers of %s failed: %s", len(failed), count, image, error.message)
        else:
            ready.append(provider)
            log.info("%d of %d containers of %s are ready", len(ready), count, image)

    try:
        with ThreadPoolExecutor(min(at_once, count), thread_name_prefix="openenv-start") as threads:
            for future in [threads.submit(start) for _ in range(count)]:
                future.result()
    except BaseException:
        _stop(ready)
        raise
    if failed and (all_or_nothing or not ready):
        _stop(ready)
        error = failed[0]
        error.add_note(f"{len(failed)} of {count} containers failed; none was kept")
        raise error
    return Started(ready, failed)


def started(provider: LocalDockerProvider, image: str, timeout_s: float | None, options: dict[str, Any]) -> None:
    """Start a container and wait until its server is ready; where that fails nothing is left."""
    try:
        provider.wait_for_ready(provider.start_container(image, **options), timeout_s)
    except BaseException as error:
        try:
            provider.stop_container()
        except ContainerError as trouble:
            error.add_note(f"cleaning up failed as well: {trouble}")
        raise


def _stop(providers: list[LocalDockerProvider]) -> None:
    for provider in providers:
        try:
            provider.stop_container()
        except ContainerError as error:
            log.warning("%r could not be stopped: %s", provider, error)
