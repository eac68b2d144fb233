"""The servers of a pool: found or started, shared out, replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openenv.core.errors import ConfigurationError, ContainerError, OpenEnvError
from openenv.core.logs import logger
from openenv.pool.batches import BatchServer
from openenv.pool.clients import ClientServer
from openenv.pool.lanes import Lane, Server

log = logger("pool")


class Fleet:
    """Servers, and which lane is on which.

    Args:
        client: The class of clients.
        where: As for :class:`~openenv.pool.EnvPool`, and so are the other arguments.
    """

    def __init__(
        self,
        client: Any,
        where: str | Sequence[str] | Callable[[], Any],
        lanes: int,
        *,
        containers: int,
        sessions_per_container: int | None,
        client_options: dict[str, Any],
        container_options: dict[str, Any],
    ) -> None:
        self._client, self._client_options = client, client_options
        self._image, self._container_options = "", container_options
        self._providers: dict[Server, Any] = {}
        self._of: dict[int, Server] = {}
        self.servers: list[Server] = []
        try:
            if callable(where):
                self.servers.append(ClientServer(where(), where))
            elif isinstance(where, str) and "://" not in where:
                self._image = where
                most = sessions_per_container or -(-lanes // containers)
                own = container_options.get("env_vars") or {}
                self._container_options["env_vars"] = {"MAX_CONCURRENT_ENVS": str(max(most, 1)), **own}
                for _ in range(containers):
                    self.servers.append(self._start())
            else:
                urls = [where] if isinstance(where, str) else list(where)
                if not urls:
                    raise ConfigurationError("where is an empty list of URLs")
                self.servers.extend(self._server(url) for url in urls)
        except BaseException:
            self.close()
            raise

    @property
    def proto(self) -> Any:
        """A client whose hooks and limits stand for all."""
        return self.servers[0].proto

    def place(self, index: int) -> Lane:
        """A lane on the server that has the fewest."""
        server = min(self.servers, key=lambda one: len(one.lanes))
        self._of[index] = server
        return server.add(index)

    def server_of(self, lane: Lane) -> Server:
        return self._of[lane.index]

    def replace(self, lanes: list[Lane], chosen: list[int]) -> None:
        """Move the chosen lanes whose server is gone to another, in a new container where they were in one."""
        gone = [server for server in {self._of[index] for index in chosen} if server.doubtful and not server.alive]
        for server in gone:
            others = [one for one in self.servers if one is not server]
            if server in self._providers:
                self._stop(server)
                try:
                    others.append(self._start())
                except ContainerError as error:
                    log.warning("no container takes the place of one that is gone: %s", error.message)
            if not others:
                continue
            self.servers = others
            for lane in list(server.lanes):
                moved = self.place(lane.index)
                lanes[lane.index] = moved
            server.lanes.clear()
            server.proto.close()

    def close(self) -> None:
        """Free the sessions, and stop what was started here."""
        for server in self.servers:
            if server not in self._providers:
                server.close()
        for server in list(self._providers):
            self._stop(server)

    def _server(self, url: str) -> Server:
        proto = self._client(url, **self._client_options)
        if proto._transport != "websocket":
            told = proto.health()
            if told.get("batch") and told.get("protocol"):
                return BatchServer(proto)
        return ClientServer(proto, lambda: self._client(url, **self._client_options))

    def _start(self) -> Server:
        from openenv.containers import LocalDockerProvider

        provider = LocalDockerProvider()
        try:
            url = provider.start_container(self._image, **self._container_options)
            provider.wait_for_ready(url, provider.start_timeout_s)
            server = self._server(url)
            server.proto._session.dead = provider.failure
        except BaseException:
            provider.stop_container()
            raise
        self._providers[server] = provider
        return server

    def _stop(self, server: Server) -> None:
        provider = self._providers.pop(server)
        server.proto._exchange.close()
        server.proto._closed = True
        try:
            provider.stop_container()
        except OpenEnvError as error:
            log.warning("%r could not be stopped: %s", provider, error)
