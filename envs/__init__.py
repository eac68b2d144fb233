"""Environments that come with openenv-client; a folder ``envs`` without ``__init__.py`` of your own may add to them."""

from __future__ import annotations

from pkgutil import extend_path

try:
    from openenv._clash import check
except ModuleNotFoundError as error:
    raise ImportError(
        "The package `openenv` that is found first is not that of `openenv-client`. "
        "Uninstall it, take it off the Python path, or use a virtual environment."
    ) from error

check()
__path__ = extend_path(__path__, __name__)
