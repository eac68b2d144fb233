"""Building the image of an environment: one of this package, also from an installed wheel, or one in a directory."""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from openenv._clash import shadow
from openenv.containers.engine import Engine, engine_trouble
from openenv.containers.progress import shown
from openenv.core.errors import ConfigurationError, ContainerError

_TAIL = 30
#: Where a directory may have its Dockerfile.
_DOCKERFILES = ("Dockerfile", "server/Dockerfile")


def build_environment(name: str, tag: str | None, base_image: str | None, say: Callable[[str], None]) -> str:
    """Build the image of ``envs.<name>`` from the packages as they are installed here.

    Args:
        name: Such as ``echo_env``.
        tag: Name of the image; ``echo-env:latest`` for ``echo_env`` by default.
        base_image: Instead of the Dockerfile's own.
        say: Called with each line that the engine prints.

    Returns:
        The tag.

    Raises:
        ConfigurationError: There is no such environment, or it has no Dockerfile.
        ContainerError: The build failed; with the last lines of its output.
    """
    folder = environment_folder(name)
    if folder is None:
        raise ConfigurationError(
            f"there is no environment {name!r} in the package envs{_shadowed(name)}",
            remedy="Say a name such as echo_env, or a directory that has a Dockerfile, with -t TAG.",
        )
    dockerfile = f"envs/{name}/server/Dockerfile"
    file = folder / "server" / "Dockerfile"
    if not file.is_file():
        raise ConfigurationError(f"the environment {name} has no {file}")
    tag = tag or f"{name.replace('_', '-')}:latest"
    with tempfile.TemporaryFile() as context:
        _pack(context, {"openenv": _package_folder("openenv"), f"envs/{name}": folder})
        context.seek(0)
        where = {"fileobj": context, "custom_context": True, "dockerfile": dockerfile}
        _build(where, tag, _arguments(file, base_image), say)
    return tag


def build_directory(
    directory: str | os.PathLike[str],
    tag: str | None,
    base_image: str | None,
    say: Callable[[str], None] = lambda line: None,
) -> str:
    """Build the image of the Dockerfile in ``directory``, or in its ``server``; ``.dockerignore`` is heeded.

    Where the directory is ``envs/NAME`` beside a package ``openenv``, as in a checkout, the context is what holds both.

    Args:
        directory: The context.
        tag: Name of the image; the folder's name by default.
        base_image: Instead of the Dockerfile's own, where it has ``ARG BASE_IMAGE``.
        say: Called with each line that the engine prints.

    Returns:
        The tag.

    Raises:
        ConfigurationError: There is no Dockerfile.
        ContainerError: The build failed; with the last lines of its output.
    """
    directory = Path(directory).expanduser().resolve()
    tag = tag or f"{_name_for(directory)}:latest"
    file = next((directory / name for name in _DOCKERFILES if (directory / name).is_file()), None)
    if file is None:
        raise ConfigurationError(f"there is neither {directory / _DOCKERFILES[0]} nor {directory / _DOCKERFILES[1]}")
    checkout = directory.parent.parent
    context = checkout if directory.parent.name == "envs" and (checkout / "openenv").is_dir() else directory
    where = {"path": str(context), "dockerfile": file.relative_to(context).as_posix()}
    _build(where, tag, _arguments(file, base_image), say)
    return tag


def _name_for(directory: Path) -> str:
    """``/home/me/My_Env`` → ``my-env``: what the engine takes as the name of an image."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.name.lower()).strip("-")
    if not name:
        raise ConfigurationError(f"{directory} gives no name for an image", remedy="Say one with tag= (-t TAG).")
    return name


def environment_folder(name: str) -> Path | None:
    """The folder of the package ``envs.<name>``; ``None`` where there is none."""
    if not name.isidentifier() or shadow(f"envs.{name}") or find_spec("envs") is None:
        return None
    found = find_spec(f"envs.{name}")
    return Path(found.origin).parent if found is not None and found.origin else None


def _shadowed(name: str) -> str:
    reason = shadow(f"envs.{name}")
    return f". {reason}" if reason else ""


def _package_folder(package: str) -> Path:
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _pack(context: IO[bytes], folders: dict[str, Path]) -> None:
    """A build context that holds ``folders``, the same to the byte each time, so that the engine's cache holds."""
    with tarfile.open(fileobj=context, mode="w") as archive:
        for place, folder in folders.items():
            for path in _sources(folder):
                _add(archive, path, f"{place}/{path.relative_to(folder).as_posix()}")
        _add(archive, _package_folder("envs") / "__init__.py", "envs/__init__.py")


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = path.stat().st_size, 0o644
    with path.open("rb") as file:
        archive.addfile(info, file)


def _arguments(dockerfile: Path, base_image: str | None) -> dict[str, str]:
    # The engine complains of an argument that the Dockerfile does not know.
    known = base_image is not None and "ARG BASE_IMAGE" in dockerfile.read_text("utf-8", errors="replace")
    return {"BASE_IMAGE": base_image} if known and base_image is not None else {}


def _build(where: dict[str, Any], tag: str, arguments: dict[str, str], say: Callable[[str], None]) -> None:
    engine = Engine.find()
    try:
        with engine_trouble(f"building {tag}", engine.address.url), shown(f"building {tag}") as show:
            api: Any = engine.client.api
            events = api.build(**where, tag=tag, buildargs=arguments, rm=True, forcerm=True, decode=True)
            _follow(events, tag, say, show)
    finally:
        engine.rest()


def _follow(
    events: Iterator[dict[str, Any]], tag: str, say: Callable[[str], None], show: Callable[[dict[str, Any]], None]
) -> None:
    last: deque[str] = deque(maxlen=_TAIL)
    step = ""
    for event in events:
        show(event)
        if "error" in event:
            deque(events, maxlen=0)  # to its end, so that the connection is free again
            raise ContainerError(
                f"building {tag} failed{f' in {step}' if step else ''}: {str(event['error']).strip()}",
                remedy="The Dockerfile's own base image can be replaced with --base-image (base_image=)."
                if step.startswith("Step 1/") or not step
                else "",
                logs="\n".join(last),
            )
        for line in str(event.get("stream", "")).splitlines():
            if line.strip():
                step = line.strip() if line.startswith("Step ") else step
                last.append(line)
                say(line)
