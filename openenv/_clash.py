"""Says clearly what would otherwise be a strange error: two packages in one place.

The import package ``openenv`` is also what the distributions ``openenv`` and ``openenv-core`` install. pip writes both
over each other without a word, and uninstalling the one takes files of the other along. ``envs`` is a name that
people give to folders of their own.

This module is asked at every import, so it looks at one or two files and imports nothing heavy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))
_SITE = os.path.dirname(_HERE)
_ENVS = os.path.join(_SITE, "envs")
# In every release of the other distributions that brings an ``openenv``; this one must never have such a file.
_FOREIGN = os.path.join(_HERE, "core", "env_server", "__init__.py")
_FOREIGN_DISTRIBUTIONS = ("openenv", "openenv-core")
_REINSTALL = "`pip install --force-reinstall --no-deps openenv-client` (or its wheel or checkout)"


def check() -> None:
    """Refuse to run on a package that another distribution has written into.

    Raises:
        ImportError: Both are installed in the same place, or the other one is found first, or it took files along when
            it was uninstalled.
    """
    if os.path.exists(_FOREIGN):
        others = _foreign_distributions()
        *most, last = (f"`{name}`" for name in ("openenv-client", *others))
        raise ImportError(
            f"{', '.join(most)} and {last} are installed in the same place, {_SITE}. "
            "Each brings a package named `openenv`, and their files are now mixed. "
            f"To keep this one: `pip uninstall -y {' '.join(others)}`, then {_REINSTALL}. "
            "To have both, give each a virtual environment of its own.",
            name="openenv",
            path=_HERE,
        )
    package = getattr(sys.modules.get("openenv"), "__file__", None)
    if package is None:
        raise ImportError(
            f"Files of `openenv-client` are missing in {_HERE}: another distribution with a package named `openenv` "
            f"was uninstalled and took them along. Bring them back: {_REINSTALL}.",
            name="openenv",
            path=_HERE,
        )
    if os.path.dirname(package) != _HERE:
        raise ImportError(
            f"The package `openenv` that is found first, {package}, is not that of `openenv-client` ({_HERE}). "
            "Uninstall it, take it off the Python path, or use a virtual environment.",
            name="openenv",
            path=package,
        )


def _foreign_distributions() -> list[str]:
    here = {name.partition("-")[0].replace("_", "-") for name in os.listdir(_SITE) if name.endswith(".dist-info")}
    return [name for name in _FOREIGN_DISTRIBUTIONS if name in here] or ["openenv"]


def shadow(module: str) -> str | None:
    """Tell whether one of our environments is hidden by a folder ``envs`` of somebody else.

    Args:
        module: A module name such as ``envs.echo_env.client``; any other name is never hidden.

    Returns:
        The sentence to tell people, or ``None`` where nothing is hidden.
    """
    package, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    if package != "envs" or not name or not os.path.isdir(os.path.join(_ENVS, name)):
        return None
    found = find_spec("envs")
    places = list(found.submodule_search_locations or ()) if found else []
    if any(os.path.isdir(os.path.join(place, name)) for place in places):
        return None
    where = places[0] if places else "elsewhere"
    return (
        f"The folder {where} hides the package `envs` of openenv-client ({_ENVS}), so `envs.{name}` is not found. "
        "Rename that folder, or take the directory it stands in off the Python path "
        "(it is there as the script's or the current directory, or by PYTHONPATH)."
    )


class _Explainer:
    """Asked last, when nobody found a module: says why one of our environments is not there."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("envs.") and fullname.count(".") == 1:
            reason = shadow(fullname)
            if reason is not None:
                raise ModuleNotFoundError(f"No module named {fullname!r}. {reason}", name=fullname)
        return None


def explain_shadowed_envs() -> None:
    """Let ``from envs.echo_env import EchoEnv`` tell that a folder of the same name hides the package."""
    if _Explainer not in sys.meta_path:
        sys.meta_path.append(_Explainer)
