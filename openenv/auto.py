"""Clients and actions of the environments of the package ``envs``, by name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from openenv.core.errors import ConfigurationError
from openenv.core.http_client import HTTPEnvClient


class AutoEnv:
    """Finds the client of an environment."""

    @staticmethod
    def from_env(name: str, *, base_url: str | None = None, **options: Any) -> HTTPEnvClient[Any, Any, Any]:
        """A client of the environment ``name``: ``echo_env``, ``echo-env`` and ``echo`` are the same.

        Args:
            name: How the environment is called.
            base_url: Where its server is; without it a container of the image ``NAME-env:latest`` is started.
            **options: Of the client, or of its ``from_docker_image``.

        Raises:
            ConfigurationError: There is no such environment.
            ContainerError: The container could not be started.
        """
        package = _package(name)
        client: type[HTTPEnvClient[Any, Any, Any]] = _class(package, HTTPEnvClient)
        if base_url is not None:
            return client(base_url, **options)
        return client.from_docker_image(f"{package.rpartition('.')[2].replace('_', '-')}:latest", **options)


class AutoAction:
    """Finds the class of an environment's actions."""

    @staticmethod
    def from_env(name: str) -> type[Any]:
        """The class of the actions of the environment ``name``.

        Raises:
            ConfigurationError: There is no such environment.
        """
        client = _class(_package(name), HTTPEnvClient)
        action_type: type[Any] = client.action_type
        return action_type


def _package(name: str) -> str:
    stem = name.partition(":")[0].replace("-", "_").removesuffix("_env")
    return f"envs.{stem}_env"


def _class(package: str, base: type) -> Any:
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"there is no environment package {package}", remedy="Use the class of its client itself."
        ) from error
    found = [getattr(module, name) for name in dir(module) if not name.startswith("_")]
    clients = [kind for kind in found if inspect.isclass(kind) and issubclass(kind, base)]
    if len(clients) != 1:
        raise ConfigurationError(f"{package} has {len(clients)} clients", remedy="Use the class of its client itself.")
    return clients[0]
