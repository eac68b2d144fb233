"""docs/protocol.md, "Access"."""

from __future__ import annotations

from typing import Any

import pytest

from openenv.server import body as bodies
from openenv.server.access import Access, media_of
from tests.unit.server.asgi import ID, Client, on_app
from tests.unit.server.envs import Counting, Say


def on(work: Any, **options: Any) -> Any:
    return on_app(work, Counting, action=Say, **options)


def refused(host: str, origin: str | None = None, **options: Any) -> str | None:
    headers = {b"host": host.encode()} | ({} if origin is None else {b"origin": origin.encode()})
    answer = Access(options.pop("token", None), options.pop("allowed", ())).refuse(headers, needs_token=False)
    return None if answer is None else answer[1]


# --- Host -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8000",
        "10.1.2.3",
        "[::1]:8000",
        "[fe80::1%25eth0]",
        "localhost",
        "LOCALHOST:80",
        "echo:8000",
        "echo_env",
        "a.localhost:1",
        "printer.local",
        "host.docker.internal:8000",
        "echo.default.svc",
        "echo.default.svc.cluster.local",
        "unit.test.",
        "",
    ],
)
def test_local_names_and_addresses_are_answered(host: str) -> None:
    assert refused(host) is None


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "evil.example.com:8000",
        "127.0.0.1.example.com",
        "localhost.example.com",
        "local.com",
        "1.2.3.4.5",
    ],
)
def test_names_of_the_web_are_refused(host: str) -> None:
    access = Access(None, ())
    headers = {b"host": host.encode()}
    for _ in range(2):
        answer = access.refuse(headers)
        assert answer is not None
        assert answer[:2] == (403, "HOST_REFUSED")


@pytest.mark.parametrize("allowed", [["env.example.com"], [" ENV.example.com. "], ["*"], ["x.org", "env.example.com"]])
def test_allowed_hosts_are_answered(allowed: list[str]) -> None:
    assert refused("env.example.com:443", allowed=allowed) is None


def test_with_a_token_every_host_is_answered() -> None:
    assert refused("env.example.com", token="sesame") is None


def test_allowed_hosts_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_ALLOWED_HOSTS", "a.example.com, b.example.com")

    async def work(client: Client) -> None:
        for host, status in (("b.example.com", 200), ("c.example.com", 403)):
            assert (await client.reset(headers={"host": host})).status == status

    on(work)


# --- Origin -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("localhost:80", "http://localhost"),
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("box.local", "https://box.local"),
        ("Box.Local", "https://box.local:443"),
    ],
)
def test_a_page_of_this_server_may_call_it(host: str, origin: str) -> None:
    assert refused(host, origin) is None


@pytest.mark.parametrize(
    "origin", ["https://evil.example.com", "http://localhost:3000", "http://127.0.0.1:8000", "null", "", "http://["]
)
@pytest.mark.parametrize("token", [None, "sesame"])
def test_a_page_of_another_origin_is_refused(origin: str, token: str | None) -> None:
    assert refused("localhost:8000", origin, token=token) == "ORIGIN_REFUSED"


@pytest.mark.parametrize("path", ["/health", "/reset", "/schema", "/nowhere", "/session"])
def test_a_strange_page_reaches_no_route(path: str) -> None:
    async def work(client: Client) -> None:
        answer = await client.call("POST", path, {}, headers={"origin": "https://evil.example.com"})
        assert (answer.status, answer.code) == (403, "ORIGIN_REFUSED")
        assert (await client.call("GET", "/health")).value["sessions"]["active"] == 0

    on(work)


# --- token ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/reset", "/step", "/state", "/schema", "/metadata", "/session", "/nowhere"])
@pytest.mark.parametrize("said", [None, "Bearer wrong", "sesame", "Basic sesame", "Bearer sesame ", "Bearer s\xe9same"])
def test_every_route_wants_the_token(path: str, said: str | None) -> None:
    async def work(client: Client) -> None:
        headers = {} if said is None else {"authorization": said}
        answer = await client.call("POST", path, {}, headers=headers)
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED")

    on(work, token="sesame")


def test_health_needs_no_token() -> None:
    async def work(client: Client) -> None:
        assert (await client.call("GET", "/health")).status == 200
        assert (await client.reset(headers={"authorization": "Bearer sesame"})).status == 200

    on(work, token="sesame")


# --- bodies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_of_another_type_is_refused(said: str) -> None:
    async def work(client: Client) -> None:
        answer = await client.step(None, body=b'{"message": "hi"}', headers={"content-type": said})
        assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert (await client.call("GET", "/health")).value["sessions"]["active"] == 0

    on(work)


@pytest.mark.parametrize("said", ["application/json", "Application/JSON; charset=UTF-8", "application/msgpack"])
def test_the_types_of_the_protocol_are_known(said: str) -> None:
    assert media_of(said.encode()) in ("application/json", "application/msgpack")


def test_an_empty_body_may_be_of_any_type() -> None:
    async def work(client: Client) -> None:
        assert (await client.reset(value=None, headers={"content-type": "text/plain"})).status == 200

    on(work)


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"a": 1} x', b"[1,"])
def test_a_body_that_cannot_be_read_is_400(body: bytes) -> None:
    async def work(client: Client) -> None:
        answer = await client.reset(body=body)
        assert (answer.status, answer.code) == (400, "INVALID_JSON")
        answer = await client.reset(body=b"\xc1", headers={"content-type": "application/msgpack"})
        assert (answer.status, answer.code) == (400, "INVALID_JSON")

    on(work)


def test_a_body_over_the_limit_is_413() -> None:
    async def work(client: Client) -> None:
        for sent in ({"body": b" " * 101}, {"chunks": [b" " * 50, b" " * 51]}, {"chunks": [b" " * 101]}):
            answer = await client.reset(seq=1, **sent)  # type: ignore[arg-type]
            assert (answer.status, answer.code) == (413, "BODY_TOO_LARGE")
            assert (answer.detail, answer.seq) == ({"max_body_bytes": 100}, None)

    on(work, max_body_bytes=100)


def test_a_body_in_pieces_is_put_together() -> None:
    async def work(client: Client) -> None:
        answer = await client.call("POST", "/reset", session=ID, chunks=[b'{"lev', b"", b'el": 4', b"}"])
        assert answer.value["metadata"]["level"] == 4

    on(work)


@pytest.mark.parametrize("chunks", [[], [b"{"], [b"{", b" "]])
def test_a_body_that_does_not_end_is_408(monkeypatch: pytest.MonkeyPatch, chunks: list[bytes]) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.05)

    async def work(client: Client) -> None:
        answer = await client.call("POST", "/reset", chunks=chunks, session=ID, endless=True)
        assert (answer.status, answer.code, answer.headers["connection"]) == (408, "BODY_TIMEOUT", "close")

    on(work)


def test_a_client_that_hangs_up_in_its_body_runs_nothing() -> None:
    async def work(client: Client) -> None:
        answer = await client.call("POST", "/reset", chunks=[b"{}"], session=ID, hang_up=True)
        assert answer.status == 400
        assert (await client.state(ID)).status == 404

    on(work)
