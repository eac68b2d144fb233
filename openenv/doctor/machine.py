"""This interpreter and this machine, whatever engine or server is used."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from requests.utils import should_bypass_proxies

from openenv._version import __version__
from openenv.core.logs import masked_url
from openenv.doctor.finding import Finding, ok, problem, warning

_OLDEST = (3, 11)
#: What each of the distributions that a client needs must be at least; see ``install_requires``.
_NEEDED = ("requests", "docker", "dataclasses-json", "websockets", "msgspec")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
#: Free bytes below which little works, and below which an image may not fit.
FULL, SCARCE = 256 << 20, 2 << 30
#: Sockets of a pool, its servers and the interpreter; below this many descriptors a big pool ends in EMFILE.
_FEW_FILES = 1024


def machine() -> Iterator[Finding]:
    """Look at the interpreter, the packages, the proxies, the open files and the room for temporary files."""
    yield python(sys.version_info[:3])
    yield packages()
    yield proxies(os.environ)
    yield open_files()
    yield room("temporary files", tempfile.gettempdir(), shutil.disk_usage(tempfile.gettempdir()).free)


def python(found: tuple[int, ...]) -> Finding:
    """Whether the interpreter is new enough."""
    text = ".".join(map(str, found))
    if found < _OLDEST:
        return problem("python", f"Python {text}", "Use Python 3.11 or newer.")
    return ok("python", f"Python {text}")


def packages() -> Finding:
    """Whether all that a client needs is installed."""
    found, missing = [f"openenv-client {__version__}"], []
    for name in _NEEDED:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return problem("packages", f"not installed: {', '.join(missing)}", f"`pip install {' '.join(missing)}`")
    return ok("packages", ", ".join(found))


def proxies(environ: Mapping[str, str]) -> Finding:
    """Whether a proxy is configured, and whether other tools would ask it for this machine itself."""
    named = {name.upper(): value for name, value in environ.items() if name.upper() in _PROXIES and value}
    if not named:
        return ok("proxy", "none is configured")
    told = ", ".join(f"{name}={masked_url(value)}" for name, value in sorted(named.items()))
    past = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if all(should_bypass_proxies(f"http://{host}", past) for host in ("localhost", "127.0.0.1")):
        return ok("proxy", f"{told}; not for this machine itself")
    return warning(
        "proxy",
        f"{told}; NO_PROXY does not exempt this machine. Clients of this package never ask a proxy for the loopback, "
        "but curl, browsers and other clients do, and a remote server is asked through the proxy",
        "export NO_PROXY=localhost,127.0.0.1,::1",
    )


def open_files() -> Finding:
    """How many files and sockets this process may open."""
    try:
        import resource
    except ImportError:
        return ok("open files", "not limited here")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _FEW_FILES:
        return ok("open files", f"up to {soft}")
    return warning("open files", f"only {soft} at once; many environments need more", f"`ulimit -n {max(hard, 4096)}`")


def room(what: str, where: str, free: int) -> Finding:
    """Whether there is room on a disk.

    Args:
        what: For what.
        where: A path on it.
        free: Free bytes.
    """
    told = f"{free / 1e9:.1f} GB free for {what} at {where}"
    if free < FULL:
        return problem("disk", told, f"Make room at {where}; `docker system df` shows what an engine holds.")
    if free < SCARCE:
        return warning("disk", f"{told}; an image may not fit", f"Make room at {where}; see `docker system df`.")
    return ok("disk", told)
