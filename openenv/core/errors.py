"""Everything that can go wrong, sorted by who must react.

::

    OpenEnvError
    ├─ ConfigurationError            caller       ValueError
    │  └─ EncodeError                caller       also TypeError: a value that cannot travel; .path
    ├─ ClientClosed                  caller       RuntimeError
    ├─ ConcurrentUse                 caller       RuntimeError
    ├─ TransportError                network      requests.ConnectionError, ConnectionError
    ├─ CallTimeout                   network      requests.Timeout, TimeoutError; .limit names what fired
    │  └─ ConnectTimeout             network      requests.ConnectTimeout
    ├─ ProtocolError                 versions     requests' InvalidJSONError, ValueError
    │  ├─ NotJSON                    versions     requests' JSONDecodeError
    │  └─ DecodeError                versions     .path, .expected
    ├─ ServerError                   environment  requests.HTTPError; .status, .code, .detail
    │  ├─ InvalidRequest             caller       422 and other refusals of what was sent; .errors
    │  ├─ Unauthorized               caller       401, 403
    │  ├─ EnvironmentFailed          environment  .remote_type, .remote_traceback
    │  ├─ StepTimeout                environment  requests.Timeout, TimeoutError
    │  └─ CapacityError              capacity     ConnectionError; .active, .maximum
    ├─ ToolFailed                    environment  RuntimeError; .tool, .error_type
    ├─ EpisodeError                  episode      requests.HTTPError
    │  ├─ EpisodeLost
    │  ├─ EpisodeNotBegun
    │  └─ EpisodeOver
    └─ ContainerError                container    RuntimeError
       ├─ EngineUnavailable
       ├─ ImageMissing
       ├─ ContainerStartFailed       .exit_code, .oom_killed, .logs
       ├─ ContainerDied              .exit_code, .oom_killed, .logs
       └─ ContainerNotReady          also TimeoutError

A trainer decides from attributes alone: ``retryable`` (the same call may work if made again), ``episode_lost`` (only
a new episode can), neither (stop and look), and ``blame``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import requests.exceptions as rex

from openenv import _clash

_clash.check()  # here as well: `openenv/__init__.py` is the first file that another distribution replaces


class OpenEnvError(Exception):
    """The root of all errors of this package.

    Attributes:
        blame: Who must react: ``caller``, ``network``, ``server``, ``environment``, ``container``.
        retryable: The same call may work if it is made again.
        episode_lost: The episode is gone or in doubt; go on with ``reset``.
        remedy: What to do about it, in words.
        url: What was called, where something was.
        request_id: The id of the call in the client's and the server's logs.
        elapsed_s: Seconds that the call had taken.
        allowed_s: Seconds that it was allowed; ``None`` is no limit.
        response: The ``requests.Response`` where there was one.
    """

    blame: ClassVar[str] = "caller"
    retryable: bool = False
    episode_lost: bool = False

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        url: str | None = None,
        request_id: str | None = None,
        elapsed_s: float | None = None,
        allowed_s: float | None = None,
        response: Any = None,
        **attributes: Any,
    ) -> None:
        self.message = message
        self.remedy = remedy
        self.url = url
        self.request_id = request_id
        self.elapsed_s = elapsed_s
        self.allowed_s = allowed_s
        for name, value in attributes.items():
            setattr(self, name, value)
        # Not cooperative: requests' and json's errors want arguments of their own.
        Exception.__init__(self, message)
        self.response = response
        self.request = getattr(response, "request", None)

    def __str__(self) -> str:
        text = self.message
        if self.remedy:
            text = f"{text.rstrip('.')}. {self.remedy}"
        about = [self.url or "", f"request {self.request_id}" if self.request_id else ""]
        if self.elapsed_s is not None:
            allowed = "no limit" if self.allowed_s is None else f"{self.allowed_s:g} s allowed"
            about.append(f"after {self.elapsed_s:.3g} s, {allowed}")
        context = ", ".join(part for part in about if part)
        return f"{text} [{context}]" if context else text

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders in trainers; the response (a live object) stays behind.
        state = {k: v for k, v in self.__dict__.items() if k not in ("response", "request")}
        return _rebuild, (type(self), self.message, state)


def _rebuild(kind: type[OpenEnvError], message: str, state: dict[str, Any]) -> OpenEnvError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class ConfigurationError(OpenEnvError, ValueError):
    """The caller gave something that cannot work."""


class EncodeError(ConfigurationError, TypeError):
    """A value that cannot travel to this server; ``path`` says which."""

    path: str = "$"


class ClientClosed(OpenEnvError, RuntimeError):
    """The client was closed, before the call or in the middle of it."""


class ConcurrentUse(OpenEnvError, RuntimeError):
    """Two threads used one client at once."""


class TransportError(OpenEnvError, rex.ConnectionError, ConnectionError):
    """The server could not be reached, or the connection broke."""

    blame = "network"
    retryable = True


class CallTimeout(OpenEnvError, rex.Timeout, TimeoutError):
    """A limit of the caller passed; ``limit`` names it."""

    blame = "network"
    limit: str = ""


class ConnectTimeout(CallTimeout, rex.ConnectTimeout):
    """The server did not accept a connection in time; nothing was sent."""

    retryable = True


class ProtocolError(OpenEnvError, rex.InvalidJSONError, ValueError):
    """What came back is not what this protocol says."""

    blame = "server"


class NotJSON(ProtocolError, rex.JSONDecodeError):
    """The body is not JSON."""

    msg: str = "not JSON"
    doc: str = ""
    pos: int = 0
    lineno: int = 1
    colno: int = 1


class DecodeError(ProtocolError):
    """A field of the reply has the wrong shape; ``path`` says which."""

    path: str = "$"
    expected: str = ""


class ServerError(OpenEnvError, rex.HTTPError):
    """The server answered that it could not do it.

    Attributes:
        status: HTTP status, or 0 for an answer over a WebSocket.
        code: The server's code, such as ``EXECUTION_ERROR``; empty where it gave none.
        detail: What else it said.
    """

    blame = "server"
    status: int = 0
    code: str = ""
    detail: Any = None


class InvalidRequest(ServerError):
    """The server refused what was sent; ``errors`` lists ``{"loc": [...], "msg": ...}``."""

    blame = "caller"
    errors: list[dict[str, Any]]


class Unauthorized(ServerError):
    """The server wants a token, or refuses this host or origin."""

    blame = "caller"


class EnvironmentFailed(ServerError):
    """The environment itself raised; ``remote_type`` and ``remote_traceback`` say what, where the server tells."""

    blame = "environment"
    remote_type: str = ""
    remote_traceback: str = ""


class StepTimeout(ServerError, rex.Timeout, TimeoutError):
    """The environment took longer than the limit of the call; its late result is thrown away."""

    blame = "environment"
    episode_lost = True


class CapacityError(ServerError, ConnectionError):
    """The server holds as many environments as it may."""

    retryable = True
    active: int | None = None
    maximum: int | None = None


class ToolFailed(OpenEnvError, RuntimeError):
    """A tool of a tool environment failed; the episode goes on.

    Attributes:
        tool: Its name.
        error_type: ``tool_not_found``, ``invalid_args``, ``execution_error``, ``transport_error``, ``timeout``.
        result: The whole :class:`~openenv.core.types.StepResult`.
    """

    blame = "environment"
    tool: str = ""
    error_type: str = ""
    result: Any = None


class EpisodeError(OpenEnvError, rex.HTTPError):
    """The call does not fit the state of the episode."""

    status: int = 0
    code: str = ""


class EpisodeLost(EpisodeError):
    """The episode is gone, or nobody knows how its last call ended. ``reset`` begins a new one."""

    blame = "server"
    episode_lost = True


class EpisodeNotBegun(EpisodeError):
    """``step`` or ``state`` before the first ``reset``."""


class EpisodeOver(EpisodeError):
    """``step`` after the episode ended."""


class ContainerError(OpenEnvError, RuntimeError):
    """Something about a container, its image or its engine."""

    blame = "container"
    exit_code: int | None = None
    oom_killed: bool = False
    logs: str = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n--- last log lines ---\n{self.logs.rstrip()}" if self.logs else text


class EngineUnavailable(ContainerError):
    """No Docker engine answers."""


class ImageMissing(ContainerError):
    """The engine does not have the image and cannot get it."""


class ContainerStartFailed(ContainerError):
    """The container could not be made or started, or ended before it was ready."""


class ContainerDied(ContainerError):
    """The container ended in the middle of an episode."""

    episode_lost = True


class ContainerNotReady(ContainerError, TimeoutError):
    """The server in the container was not ready in time."""
