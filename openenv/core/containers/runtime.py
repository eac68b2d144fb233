"""Old names; their home is :mod:`openenv.containers`."""

from openenv.containers.docker import LocalDockerProvider as LocalDockerProvider
from openenv.containers.provider import ContainerProvider as ContainerProvider
