"""What a server's refusals become: one named error each, which requests' users catch too, with all that was said."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import requests

from openenv.core import errors
from tests.wire.behaviours import EraServer, Faulty, SessionServer, envelope, instead
from tests.wire.clients import SAY, PlainEnv
from tests.wire.fixtures import MakeClient, Serve
from tests.wire.servers import Reply, ScriptedServer

Raised = tuple[errors.OpenEnvError, ScriptedServer]


@pytest.fixture
def refused(serve: Serve, client: MakeClient) -> Callable[..., Raised]:
    """`refused(path, reply)`: what `reply` to a call in the middle of an episode raises, and the server."""

    def call(path: str, reply: Reply, answer: Any = None, **options: Any) -> Raised:
        server = serve(Faulty(answer or SessionServer()).on(path, *([instead(reply)] * 30)))
        env: PlainEnv = client(server, **options)
        if path != "/reset":
            env.reset()
        with pytest.raises(errors.OpenEnvError) as caught:
            {"/reset": env.reset, "/step": lambda: env.step(SAY), "/state": env.state}[path]()
        return caught.value, server

    return call


EXECUTION = {"type": "KeyError", "traceback": "Traceback ...\nKeyError: 'x'"}
VALIDATION = {"errors": [{"loc": ["action", "message"], "msg": "Field required"}]}
CAPACITY = {"active_sessions": 8, "max_sessions": 8}

#: path, status, code, detail -> the error, and what else it is
TOLD: list[tuple[str, int, str, dict[str, Any], type[errors.OpenEnvError], dict[str, Any]]] = [
    ("/step", 400, "INVALID_JSON", {}, errors.InvalidRequest, {"blame": "caller", "retryable": False}),
    ("/step", 401, "UNAUTHORIZED", {}, errors.Unauthorized, {"blame": "caller", "retryable": False}),
    ("/step", 403, "HOST_REFUSED", {}, errors.Unauthorized, {"blame": "caller"}),
    ("/step", 403, "ORIGIN_REFUSED", {}, errors.Unauthorized, {"blame": "caller"}),
    ("/step", 404, "SESSION_NOT_FOUND", {}, errors.EpisodeLost, {"episode_lost": True}),
    ("/state", 404, "SESSION_NOT_FOUND", {}, errors.EpisodeLost, {"episode_lost": True}),
    ("/step", 409, "SEQ_MISMATCH", {"expected": 9}, errors.EpisodeLost, {"episode_lost": True}),
    ("/step", 409, "REPLY_GONE", {}, errors.EpisodeLost, {"episode_lost": True}),
    ("/step", 409, "RESET_REQUIRED", {}, errors.EpisodeLost, {"episode_lost": True}),
    ("/state", 409, "SESSION_BUSY", {}, errors.ServerError, {"retryable": True, "episode_lost": False}),
    ("/step", 410, "SESSION_CLOSED", {"reason": "expired"}, errors.EpisodeLost, {"episode_lost": True}),
    ("/step", 413, "BODY_TOO_LARGE", {"max_body_bytes": 9}, errors.InvalidRequest, {"blame": "caller"}),
    ("/step", 415, "UNSUPPORTED_MEDIA_TYPE", {}, errors.InvalidRequest, {"blame": "caller"}),
    ("/step", 422, "VALIDATION_ERROR", VALIDATION, errors.InvalidRequest, {"blame": "caller", **VALIDATION}),
    ("/step", 422, "SEQ_REUSED", {}, errors.EpisodeLost, {"episode_lost": True}),
    (
        "/step",
        500,
        "EXECUTION_ERROR",
        EXECUTION,
        errors.EnvironmentFailed,
        {
            "blame": "environment",
            "remote_type": "KeyError",
            "remote_traceback": EXECUTION["traceback"],
            "episode_lost": False,
        },
    ),
    ("/reset", 500, "FACTORY_ERROR", EXECUTION, errors.EnvironmentFailed, {"remote_type": "KeyError"}),
    ("/step", 500, "ENCODE_ERROR", {}, errors.EnvironmentFailed, {"blame": "environment"}),
    ("/step", 500, "INTERNAL_ERROR", {}, errors.ServerError, {}),
    (
        "/reset",
        503,
        "CAPACITY_REACHED",
        CAPACITY,
        errors.CapacityError,
        {"active": 8, "maximum": 8, "retryable": True, "episode_lost": False},
    ),
    ("/step", 503, "SHUTTING_DOWN", {}, errors.ServerError, {"episode_lost": True}),
    ("/step", 504, "STEP_TIMEOUT", {"timeout_s": 2}, errors.StepTimeout, {"episode_lost": True, "retryable": False}),
    ("/reset", 504, "RESET_TIMEOUT", {"timeout_s": 2}, errors.StepTimeout, {"episode_lost": True}),
]


@pytest.mark.parametrize(
    ("path", "status", "code", "detail", "kind", "attributes"), TOLD, ids=[f"{t[0]}-{t[2]}" for t in TOLD]
)
def test_an_error_of_our_protocol_is_one_named_error(
    refused: Callable[..., Raised],
    path: str,
    status: int,
    code: str,
    detail: dict[str, Any],
    kind: type[errors.OpenEnvError],
    attributes: dict[str, Any],
) -> None:
    error, server = refused(path, envelope(status, code, "the words of the server", **detail))
    assert type(error) is kind
    assert isinstance(error, requests.HTTPError)
    assert (error.status, error.code, error.detail) == (status, code, detail)  # type: ignore[attr-defined]
    assert error.response is not None
    assert error.response.status_code == status
    assert error.response.json()["error"]["code"] == code
    assert error.url == f"{server.url}{path}"
    assert error.request_id == "told-by-server"
    assert error.allowed_s == 15
    assert error.elapsed_s is not None
    assert 0 <= error.elapsed_s < 15
    assert {name: getattr(error, name) for name in attributes} == attributes
    assert "the words of the server" in str(error)
    assert code in str(error)


@pytest.mark.parametrize(
    ("status", "code"), [(500, "EXECUTION_ERROR"), (503, "CAPACITY_REACHED"), (504, "STEP_TIMEOUT")]
)
def test_an_answer_in_our_envelope_is_never_asked_again(refused: Callable[..., Raised], status: int, code: str) -> None:
    _, server = refused("/step", envelope(status, code))
    assert len(server.posts("/step")) == 1


def test_the_field_of_a_bad_action_is_in_the_message(refused: Callable[..., Raised]) -> None:
    error, _ = refused("/step", envelope(422, "VALIDATION_ERROR", "", **VALIDATION))
    assert "action.message" in str(error)
    assert "Field required" in str(error)


def test_what_a_timed_out_step_leaves_is_lost_until_reset(serve: Serve, client: MakeClient) -> None:
    server = serve(Faulty(SessionServer()).on("/step", instead(envelope(504, "STEP_TIMEOUT"))))
    env = client(server)
    env.reset()
    with pytest.raises(TimeoutError):
        env.step(SAY)
    with pytest.raises(errors.EpisodeLost):
        env.step(SAY)
    env.reset()
    env.step(SAY)


def test_an_environment_that_raised_goes_on(serve: Serve, client: MakeClient) -> None:
    used = envelope(500, "EXECUTION_ERROR", **EXECUTION)

    def counted(request: Any, answer: Any) -> Reply:
        ok = answer(request)
        return Reply(status=500, body=used.body, headers=ok.headers)

    env = client(serve(Faulty(SessionServer()).on("/step", counted)))
    env.reset()
    with pytest.raises(errors.EnvironmentFailed):
        env.step(SAY)
    assert env.step(SAY).observation["echoed_message"] == "hi"
    assert env.state()["step_count"] == 2


@pytest.mark.parametrize(
    ("status", "code"), [(401, "UNAUTHORIZED"), (503, "CAPACITY_REACHED"), (422, "VALIDATION_ERROR")]
)
def test_a_refusal_that_used_up_no_number_leaves_the_number(
    serve: Serve, client: MakeClient, status: int, code: str
) -> None:
    keeper = SessionServer()
    server = serve(Faulty(keeper).on("/step", instead(envelope(status, code))))
    env = client(server)
    env.reset()
    with pytest.raises(errors.ServerError):
        env.step(SAY)
    env.step(SAY)
    assert [r.header("OpenEnv-Seq") for r in server.posts("/step")] == ["2", "2"]
    assert len(keeper.ran) == 2


@pytest.mark.parametrize("name", ["step", "state"])
def test_before_the_first_reset_no_episode_has_begun(serve: Serve, client: MakeClient, name: str) -> None:
    env = client(serve(SessionServer()))
    with pytest.raises(errors.EpisodeNotBegun) as caught:
        env.step(SAY) if name == "step" else env.state()
    assert isinstance(caught.value, requests.HTTPError)
    assert "reset()" in caught.value.remedy


# --- other people's shapes ---------------------------------------------------------------------------------------

DETAIL = [{"type": "missing", "loc": ["body", "action"], "msg": "Field required", "input": {}}]
FOREIGN: list[tuple[Reply, type[errors.OpenEnvError], str]] = [
    (Reply(status=404, body={"detail": "Not Found"}), errors.ServerError, "Not Found"),
    (Reply(status=405, body={"detail": "Method Not Allowed"}), errors.ServerError, "Method Not Allowed"),
    (Reply(status=422, body={"detail": DETAIL}), errors.InvalidRequest, "body.action"),
    (Reply(status=401, body={"detail": "who are you"}), errors.Unauthorized, "who are you"),
    (
        Reply(status=500, body=b"Internal Server Error", headers=[("Content-Type", "text/plain; charset=utf-8")]),
        errors.EnvironmentFailed,
        "Internal Server Error",
    ),
    (Reply(status=418, body=b""), errors.ServerError, "418"),
    (Reply(status=500, body=[1, 2]), errors.EnvironmentFailed, "500"),
    (Reply(status=500, body={"error": "in words"}), errors.EnvironmentFailed, "in words"),
    (Reply(status=500, body={"error": {"message": "no code"}}), errors.EnvironmentFailed, "no code"),
    (
        Reply(status=502, body=b"<html><h1>502 Bad Gateway</h1></html>", headers=[("Content-Type", "text/html")]),
        errors.ServerError,
        "Bad Gateway",
    ),
    (Reply(status=503, body=b"\xff\xfe not text"), errors.ServerError, "503"),
    (Reply(status=599, body={"detail": None}), errors.ServerError, "599"),
]


@pytest.mark.parametrize(("reply", "kind", "words"), FOREIGN, ids=[f"{r.status}-{r.body!r:.24}" for r, _, _ in FOREIGN])
@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_the_shapes_of_other_servers_are_named_errors_too(
    refused: Callable[..., Raised], path: str, reply: Reply, kind: type[errors.OpenEnvError], words: str
) -> None:
    error, server = refused(path, reply, EraServer())
    assert isinstance(error, kind)
    assert isinstance(error, requests.HTTPError)
    assert error.status == reply.status
    assert error.response.status_code == reply.status
    assert error.url == server.url + path
    assert error.request_id
    assert words in str(error)
    assert len(server.posts(path)) == 1


def test_the_fields_that_another_server_refused_are_listed(refused: Callable[..., Raised]) -> None:
    error, _ = refused("/step", Reply(status=422, body={"detail": DETAIL}), EraServer())
    assert error.errors == DETAIL  # type: ignore[attr-defined]


def test_a_page_of_a_proxy_is_cut_short_in_the_message(refused: Callable[..., Raised]) -> None:
    page = b"<html>" + b"x" * 100_000 + b"</html>"
    error, _ = refused("/step", Reply(status=500, body=page, headers=[("Content-Type", "text/html")]), EraServer())
    assert len(str(error)) < 3000
    assert error.response.content == page


# --- the network -------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_a_transport_error_that_may_be_retried(client: MakeClient) -> None:
    env = client("http://127.0.0.1:1", 5)
    with pytest.raises(errors.TransportError) as caught:
        env.reset()
    error = caught.value
    assert isinstance(error, requests.ConnectionError)
    assert isinstance(error, ConnectionError)
    assert (error.retryable, error.episode_lost, error.blame) == (True, False, "network")
    assert (error.allowed_s, error.response) == (5, None)
    assert error.url is not None
    assert error.url.startswith("http://127.0.0.1:1")
    assert "127.0.0.1:1" in str(error)
    assert error.__cause__ is not None


@pytest.mark.parametrize("reply", [Reply(cut=0), Reply(cut=0, reset=True)])
def test_a_step_whose_reply_is_lost_loses_the_episode_and_says_so(refused: Callable[..., Raised], reply: Reply) -> None:
    error, _ = refused("/step", reply, EraServer())
    assert type(error) is errors.TransportError
    assert (error.retryable, error.episode_lost) == (False, True)
    assert error.request_id


def test_a_step_that_timed_out_loses_the_episode_and_says_so(refused: Callable[..., Raised]) -> None:
    error, _ = refused("/step", Reply(held=True), EraServer(), request_timeout_s=0.3)
    assert type(error) is errors.CallTimeout
    assert (error.retryable, error.episode_lost) == (False, True)


def test_a_state_that_timed_out_loses_nothing(refused: Callable[..., Raised]) -> None:
    error, _ = refused("/state", Reply(held=True), EraServer(), request_timeout_s=0.3)
    assert error.episode_lost is False


def test_a_name_that_nobody_knows_is_a_connection_error(client: MakeClient) -> None:
    with pytest.raises(requests.ConnectionError, match=r"nowhere\.invalid"):
        client("http://nowhere.invalid:8000", 10).reset()


# --- errors as values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["EXECUTION_ERROR", "STEP_TIMEOUT", "SESSION_CLOSED", "CAPACITY_REACHED"])
def test_an_error_crosses_the_border_of_a_process(refused: Callable[..., Raised], code: str) -> None:
    error, _ = refused("/step", envelope(500, code, "said so", **EXECUTION))
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    names = ("status", "code", "detail", "retryable", "episode_lost", "url", "request_id", "elapsed_s", "allowed_s")
    assert {n: getattr(twin, n) for n in names} == {n: getattr(error, n) for n in names}


EVERY_ERROR = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.OpenEnvError)]


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_every_error_answers_every_question(kind: type[errors.OpenEnvError]) -> None:
    error = kind("it happened", remedy="Do this.", url="http://x", request_id="r", elapsed_s=1.0, allowed_s=None)
    assert isinstance(error.retryable, bool)
    assert isinstance(error.episode_lost, bool)
    assert error.blame in ("caller", "network", "server", "environment", "container")
    for part in ("it happened", "Do this.", "http://x", "r", "no limit"):
        assert part in str(error)
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin)) == (kind, str(error))


@pytest.mark.parametrize(
    ("kind", "caught_as"),
    [
        (errors.ConfigurationError, [ValueError]),
        (errors.EncodeError, [ValueError, TypeError]),
        (errors.ClientClosed, [RuntimeError]),
        (errors.ConcurrentUse, [RuntimeError]),
        (errors.TransportError, [requests.ConnectionError, ConnectionError]),
        (errors.CallTimeout, [requests.Timeout, TimeoutError]),
        (errors.ConnectTimeout, [requests.ConnectTimeout, requests.Timeout, TimeoutError]),
        (errors.ProtocolError, [requests.exceptions.InvalidJSONError, ValueError]),
        (errors.NotJSON, [requests.exceptions.JSONDecodeError, ValueError]),
        (errors.ServerError, [requests.HTTPError]),
        (errors.StepTimeout, [requests.HTTPError, requests.Timeout, TimeoutError]),
        (errors.CapacityError, [requests.HTTPError, ConnectionError]),
        (errors.EpisodeLost, [requests.HTTPError]),
        (errors.ContainerError, [RuntimeError]),
        (errors.ContainerNotReady, [RuntimeError, TimeoutError]),
    ],
)
def test_errors_are_what_people_catch_already(
    kind: type[errors.OpenEnvError], caught_as: list[type[BaseException]]
) -> None:
    assert issubclass(kind, errors.OpenEnvError)
    for base in caught_as:
        assert issubclass(kind, base)
