"""A client that speaks ASGI to an application in this process, and time that passes only when nothing else happens."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from openenv.core import codec
from openenv.server.access import Access
from openenv.server.app import create_app
from openenv.server.cold import cold_app
from openenv.server.engine import Engine
from openenv.server.http import App
from openenv.server.runner import Runner
from openenv.server.ws import Sockets

T = TypeVar("T")

#: A session id that the protocol allows.
ID = "session-of-the-tests-01"
OTHER = "session-of-the-tests-02"


class Answer:
    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.body = body
        self.media = self.headers.get("content-type", "")
        self.value: Any = None
        if body:
            self.value = codec.from_msgpack(body) if self.media == codec.MSGPACK else codec.from_json(body)

    @property
    def code(self) -> str:
        """The code of an error; empty for what is none."""
        return self.value["error"]["code"] if "error" in self.value else ""

    @property
    def detail(self) -> Any:
        return self.value["error"]["detail"]

    @property
    def seq(self) -> str | None:
        """The number that the answer says is used up."""
        return self.headers.get("openenv-seq")

    def __repr__(self) -> str:
        return f"<{self.status} {self.headers} {self.body[:300]!r}>"


class Client:
    """``async with Client(app)`` runs the application's lifespan around the block."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> Client:
        self._lifespan = asyncio.create_task(self.app({"type": "lifespan"}, self._events.get, self._said.put))
        await self._events.put({"type": "lifespan.startup"})
        assert (await self._said.get())["type"] == "lifespan.startup.complete"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._events.put({"type": "lifespan.shutdown"})
        assert (await self._said.get())["type"] == "lifespan.shutdown.complete"
        await self._lifespan

    async def call(
        self,
        method: str,
        target: str,
        value: Any = None,
        *,
        session: str | None = None,
        seq: object = None,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        chunks: list[bytes] | None = None,
        root_path: str = "",
        endless: bool = False,
        hang_up: bool = False,
    ) -> Answer:
        """One request; ``value`` travels as JSON, ``body`` and ``chunks`` as they are.

        After its chunks an ``endless`` one says that there is more, and one that shall ``hang_up`` does so.
        """
        if body is None:
            body = b"" if value is None else codec.to_json(value)
        sent = {"host": "127.0.0.1:8000", "content-length": str(len(body))}
        if body:
            sent["content-type"] = codec.JSON
        if chunks is not None:
            sent |= {"content-type": codec.JSON, "transfer-encoding": "chunked"}
            del sent["content-length"]
        if session is not None:
            sent["openenv-session"] = session
        if seq is not None:
            sent["openenv-seq"] = str(seq)
        sent |= headers or {}
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": root_path + path,
            "raw_path": (root_path + path).encode(),
            "root_path": root_path,
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode("latin-1")) for name, text in sent.items()],
            "scheme": "http",
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 1),
        }
        parts = list(chunks) if chunks is not None else [body]

        async def receive() -> dict[str, Any]:
            if not parts and hang_up:
                return {"type": "http.disconnect"}
            if not parts:
                await asyncio.get_running_loop().create_future()
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts) or endless or hang_up}

        said: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        await self.app(scope, receive, send)
        assert [message["type"] for message in said] == ["http.response.start", "http.response.body"]
        return Answer(said[0]["status"], said[0]["headers"], said[1].get("body", b""))

    async def reset(self, session: str | None = ID, seq: object = None, **more: Any) -> Answer:
        return await self.call("POST", "/reset", more.pop("value", {}), session=session, seq=seq, **more)

    async def step(self, session: str | None = ID, seq: object = None, value: Any = None, **more: Any) -> Answer:
        return await self.call(
            "POST", "/step", {"action": {"message": "hi"}} if value is None else value, session=session, seq=seq, **more
        )

    async def state(self, session: str | None = ID, **more: Any) -> Answer:
        return await self.call("GET", "/state", session=session, **more)

    async def delete(self, session: str | None = ID, **more: Any) -> Answer:
        return await self.call("DELETE", "/session", session=session, **more)


class _NoWaiting(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everything waits for something that will never happen")
            self.loop.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer when nothing else is to be done."""

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _NoWaiting()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def simulate(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class SimulatedWorker:
    def __init__(self, workers: SimulatedWorkers) -> None:
        self.kept = False
        self._workers = workers

    def run(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return self._workers.run(function, *arguments)


class SimulatedWorkers:
    """Stands for the threads: calls take the (virtual) seconds that the environment says it blocks."""

    def __init__(self) -> None:
        self._blocked = 0.0
        self.running = 0

    def block(self, seconds: float) -> None:
        """To be called in an environment: its call takes ``seconds``."""
        self._blocked += seconds

    def take(self) -> SimulatedWorker:
        return SimulatedWorker(self)

    def give_back(self, worker: SimulatedWorker) -> None:
        worker.kept = False

    def end_idle(self, longer_than_s: float = 0.0) -> None:
        pass

    def run(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self.running += 1
        loop.call_soon(self._start, future, function, arguments)
        return future

    def _start(self, future: asyncio.Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._blocked = 0.0
        try:
            result, error = function(*arguments), None
        except Exception as raised:
            result, error = None, raised
        asyncio.get_running_loop().call_later(self._blocked, self._finish, future, result, error)

    def _finish(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        self.running -= 1
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def simulated_app(
    factory: Callable[[], Any],
    workers: SimulatedWorkers,
    action: type = dict,
    *,
    max_sessions: int = 8,
    idle_s: float = 3600.0,
    default_session: bool = True,
) -> App:
    """As ``create_app``, on simulated threads and the clock of the running loop."""
    runner = Runner(factory, action, workers, tracebacks=False)  # type: ignore[arg-type]
    engine = Engine(
        runner,
        max_sessions=max_sessions,
        session_idle_s=idle_s,
        default_session=default_session,
        clock=asyncio.get_running_loop().time,
    )
    cold = cold_app(factory, "test", action, dict, dict, engine.instance)
    access = Access(None, ())
    sockets = Sockets(engine, access, 1 << 20)
    return App(engine, access, cold, sockets, name="test", max_body_bytes=1 << 20)


def on_app(work: Callable[[Client], Coroutine[Any, Any, T]], factory: Callable[[], Any], **options: Any) -> T:
    """Run ``work`` with a client of ``create_app(factory, dict, dict, ...)``, in real time."""

    async def main() -> T:
        action = options.pop("action", dict)
        async with asyncio.timeout(20), Client(create_app(factory, action, dict, **options)) as client:
            return await work(client)

    return asyncio.run(main())
