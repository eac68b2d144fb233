"""The Docker engine: is it found, may it be used, is it new enough, and does a container of it answer."""

from __future__ import annotations

import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from openenv.containers.docker import LocalDockerProvider
from openenv.containers.engine import Engine, engine_trouble
from openenv.core.errors import ContainerError, EngineUnavailable, ImageMissing
from openenv.core.logs import masked_url
from openenv.doctor.finding import Finding, ok, problem, skipped, warning
from openenv.doctor.machine import room

#: Docker 20.10; what this package is tested with from there on.
_OLDEST_API = (1, 41)
#: Seconds by which two clocks may differ.
SKEW_S = 5.0
_TRIAL_S = 30.0
#: Tried where no image is named, if it is there.
USUAL_IMAGE = "echo-env:latest"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def docker_engine(image: str | None = None) -> Iterator[Finding]:
    """Look for the engine, and start one container on it for a moment.

    Args:
        image: The image to try; by default that of the echo environment where it has been built.
    """
    try:
        engine = Engine.find()
    except EngineUnavailable as error:
        yield problem("engine", error.message, error.remedy)
        return
    address = engine.address
    try:
        yield ok("engine", f"answers at {masked_url(address.url)} ({address.source})")
        with engine_trouble("telling its version and its state", address.url):
            before = time.time()
            told, about = engine.client.version(), engine.client.info()
            asked_at = (before + time.time()) / 2
        yield engine_version(told)
        yield clock("engine's clock", about.get("SystemTime") or "", asked_at)
        yield from _disk(about, local=address.url.startswith("unix:"))
        yield from shortcomings(about)
        yield from _image(engine, image, about)
    except ContainerError as error:
        yield problem("engine", error.message, error.remedy)
    finally:
        engine.rest()


def engine_version(told: Mapping[str, Any]) -> Finding:
    """Whether the engine is new enough.

    Args:
        told: What the engine says of its version.
    """
    name = (told.get("Platform") or {}).get("Name") or next(
        (part["Name"] for part in told.get("Components") or [] if "odman" in part.get("Name", "")), "Docker"
    )
    text = f"{name} {told.get('Version', '?')}, API {told.get('ApiVersion', '?')}"
    numbers = tuple(int(part) for part in re.findall(r"\d+", str(told.get("ApiVersion", ""))))
    if numbers and numbers < _OLDEST_API:
        return warning(
            "engine's version",
            f"{text}; older than what is tested here",
            "Update to Docker 20.10 or newer.",
        )
    return ok("engine's version", text)


def clock(check: str, told: str, asked_at: float) -> Finding:
    """Whether another clock agrees with this machine's.

    Args:
        check: Whose clock.
        told: Its time, ISO 8601.
        asked_at: This machine's time then, in seconds since the epoch.
    """
    # Engines give nanoseconds, which fromisoformat does not take.
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*(Z|[+-]\d\d:\d\d)$", told)
    if match is None:
        return skipped(check, f"its time cannot be read: {told!r}")
    skew = datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")).timestamp() - asked_at
    if abs(skew) > SKEW_S:
        return warning(
            check,
            f"differs by {skew:+.0f} s from this machine's; ages of containers, times in logs and TLS may be wrong",
            "Set both by NTP; after a laptop has slept, restart Docker Desktop.",
        )
    return ok(check, f"agrees within {max(abs(skew), 0.001):.3f} s")


def _disk(about: Mapping[str, Any], *, local: bool) -> Iterator[Finding]:
    where = str(about.get("DockerRootDir") or "")
    if not where:
        return
    if not local or not Path(where).exists():
        yield skipped("disk", f"{where} of the engine cannot be seen from here", "`docker system df` asks the engine.")
        return
    yield room("images and containers", where, shutil.disk_usage(where).free)


def shortcomings(about: Mapping[str, Any]) -> Iterator[Finding]:
    """What the engine says that it cannot do, as far as it matters here.

    Args:
        about: The engine's state.
    """
    cannot = [
        name
        for key, name in (("MemoryLimit", "memory="), ("CpuCfsQuota", "cpus="), ("PidsLimit", "pids_limit="))
        if about.get(key) is False
    ]
    if cannot:
        yield warning(
            "limits",
            f"this engine cannot hold a container to {', '.join(cannot)}",
            "Enable those cgroup controllers for it; a rootless engine needs them delegated by systemd.",
        )
    else:
        yield ok("limits", f"memory, CPU and processes can be limited (cgroup v{about.get('CgroupVersion', '1')})")
    free = about.get("MemTotal")
    if isinstance(free, int) and 0 < free < 1 << 30:
        yield warning("memory", f"the engine has {free / 1e9:.1f} GB in all", "Give its virtual machine more.")


def _image(engine: Engine, image: str | None, about: Mapping[str, Any]) -> Iterator[Finding]:
    from docker.errors import ImageNotFound

    wanted = image or USUAL_IMAGE
    with engine_trouble(f"looking for {wanted}", engine.address.url):
        try:
            found = engine.client.images.get(wanted).attrs
        except ImageNotFound:
            if image is None:
                remedy = "`openenv build echo_env` makes it; --image NAME tries another."
                yield skipped("ports", f"no {wanted} here to try with", remedy)
                return
            found = {}
    if found:
        yield architecture(wanted, str(found.get("Architecture") or ""), str(about.get("Architecture") or ""))
    yield from _trial(engine, wanted)


def architecture(image: str, of_image: str, of_engine: str) -> Finding:
    """Whether an image is made for the engine's processor."""
    if not of_image or not of_engine or _MACHINES.get(of_image, of_image) == _MACHINES.get(of_engine, of_engine):
        return ok("architecture", f"{image} is for {of_image or 'any processor'}, as the engine")
    return warning(
        "architecture",
        f"{image} is for {of_image}, the engine is {of_engine}: it runs emulated, many times slower, or not at all",
        f"Build it here (`openenv build`), or pull it with platform='linux/{platform.machine()}'.",
    )


def _trial(engine: Engine, image: str) -> Iterator[Finding]:
    """Start one, as a client would, and ask it for ``/health``."""
    provider = LocalDockerProvider(engine.client, stop_timeout_s=1)
    began = time.monotonic()
    try:
        url = provider.start_container(image)
        provider.wait_for_ready(url, _TRIAL_S)
        yield ok("ports", f"a container of {image} answered at {url} after {time.monotonic() - began:.1f} s")
    except ImageMissing as error:
        yield problem("image", error.message, error.remedy)
    except ContainerError as error:
        yield problem("ports", str(error), error.remedy)
    finally:
        provider.stop_container()
