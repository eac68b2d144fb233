"""Old name of :mod:`openenv.core.http_client`."""

from openenv.core.http_client import HTTPEnvClient as HTTPEnvClient
