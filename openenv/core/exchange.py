"""One HTTP exchange over requests: bytes out, a whole reply in, within a limit that is a total.

A plain call (no auth object, cookies, hooks, proxies or adapters of the caller's) takes a connection from the pool of
the mounted adapter, sends head and body in one write and reads the reply itself. Everything else goes through
``Session.send``; on sessions that we make the mounted adapter is :class:`TotalAdapter`, so that the limit is total
there too.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar
from requests.structures import CaseInsensitiveDict
from urllib3.exceptions import HTTPError

from openenv.core.adapter import Limits, TotalAdapter, ordinary, pool_of
from openenv.core.errors import OpenEnvError, ProtocolError
from openenv.core.protocol import BaseURL
from openenv.core.timing import Deadline
from openenv.core.trouble import translate
from openenv.core.wire import CHUNK, Line, Unusual, read_plain, render_head, too_large

_MAX_REDIRECTS = 10
#: Seconds for which it is remembered whether there is a netrc file: looking costs as much as all other checks.
_NETRC_S = 1.0
_PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_SCHEMES = frozenset({"http://", "https://"})
_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# Whoever replaced these (a mocking library, a tracer) wants to see the calls.
_SESSION_SEND, _ADAPTER_SEND = requests.Session.send, HTTPAdapter.send


class Reply:
    """A whole reply. ``headers`` is read without regard to case; ``response`` is made when asked for."""

    __slots__ = ("_response", "body", "headers", "status", "url")

    def __init__(
        self, status: int, headers: Mapping[str, str], body: bytes | bytearray, url: str, response: Any = None
    ) -> None:
        self.status, self.headers, self.body, self.url, self._response = status, headers, body, url, response

    @property
    def response(self) -> requests.Response:
        """The reply as requests gives it."""
        if self._response is None:
            self._response = made = requests.Response()
            made.status_code, made.url, made._content = self.status, self.url, bytes(self.body)
            made.headers = CaseInsensitiveDict(self.headers)
            made.reason = http.client.responses.get(self.status, "")
        response: requests.Response = self._response
        return response


class Exchange:
    """Sends requests of one client and gives whole replies.

    Args:
        base: Where the server is.
        headers: The caller's headers, kept by reference and sent with every request.
        auth: Anything that requests takes as ``auth``, or a bearer token as text.
        session: The caller's own session; one of ours is made otherwise.
        max_reply_bytes: A longer reply is an error.
    """

    def __init__(
        self,
        base: BaseURL,
        headers: Mapping[str, str],
        auth: Any,
        session: requests.Session | None,
        max_reply_bytes: int,
    ) -> None:
        self.base, self.headers, self.max_reply_bytes = base, headers, max_reply_bytes
        self._prefix = f"{urlsplit(base.http).scheme}://"
        self.token = auth if isinstance(auth, str) else None
        self.auth = None if isinstance(auth, str) else auth
        self.line = Line()
        self.owned = session is None
        self.session = session if session is not None else self._new_session()
        self._pool: Any = None
        self._netrc = (0.0, False)
        self._adapter: Any = None
        self._heads: dict[tuple[str, str], tuple[Any, bytes, requests.PreparedRequest]] = {}

    def _new_session(self) -> requests.Session:
        session = requests.Session()
        adapter = TotalAdapter(self.line)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session

    def send(
        self,
        method: str,
        path: str,
        extra: Mapping[str, str],
        body: bytes | None,
        deadline: Deadline,
        connect_limit: float | None,
    ) -> Reply:
        """One exchange. Redirects with 307 and 308 are followed; others come back as they are.

        Raises:
            TransportError: ``sent`` tells whether the server may have got the request.
            CallTimeout: Likewise.
            ProtocolError: What came back is not HTTP, or is too large.
        """
        url = self.base.http + path
        limits = Limits(deadline, connect_limit, self.line)
        try:
            session = self.session
            adapter = self._plain_adapter(session, url)
            if adapter is not None:
                reply = self._send_plain(adapter, method, url, extra, body, limits)
            else:
                reply = self._send_ordinary(method, url, extra, body, limits)
            return self._follow(reply, method, extra, body, limits) if 300 <= reply.status < 400 else reply
        except (OSError, HTTPError, http.client.HTTPException, UnicodeError) as error:
            if isinstance(error, OpenEnvError):
                raise
            raise translate(error, self.base.shown, deadline, limits.sent, limits.connect) from error

    # --- the plain way ---

    def _plain_adapter(self, session: requests.Session, url: str) -> Any:
        """The adapter whose pool a plain call may use by itself; ``None`` where requests has something to do."""
        if (
            type(session) is not requests.Session
            or requests.Session.send is not _SESSION_SEND
            or "send" in session.__dict__
            or self.auth is not None
            or session.auth is not None
            or session.cookies
            or session.params
            or session.proxies
            or session.verify is not True
            or session.cert is not None
            or session.hooks.get("response")
        ):
            return None
        adapter: Any = self._mounted(session, url)
        kind = type(adapter)
        if kind is not TotalAdapter and (
            kind is not HTTPAdapter or HTTPAdapter.send is not _ADAPTER_SEND or adapter.max_retries.total
        ):
            return None
        if "send" in adapter.__dict__:
            return None
        if session.trust_env:
            environ = os.environ
            if not self.base.loopback and any(name in environ for name in _PROXY_VARIABLES):
                return None
            if self.base.http.startswith("https:") and any(name in environ for name in _CA_VARIABLES):
                return None
            if self.token is None and self._has_netrc(environ):
                return None
        return adapter

    def _mounted(self, session: requests.Session, url: str) -> Any:
        """What ``get_adapter`` says, which looks at every prefix each time."""
        adapters = session.adapters
        return adapters[self._prefix] if adapters.keys() == _SCHEMES else session.get_adapter(url)

    def _has_netrc(self, environ: Any) -> bool:
        until, found = self._netrc
        if (now := time.monotonic()) >= until:
            found = "NETRC" in environ or _any_netrc()
            self._netrc = now + _NETRC_S, found
        return found

    def _send_plain(
        self, adapter: HTTPAdapter, method: str, url: str, extra: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> Reply:
        head, prepared = self._head(method, url)
        lines = "".join([f"{name}: {value}\r\n" for name, value in extra.items()])
        if body is not None:
            lines += f"Content-Length: {len(body)}\r\n"
        data = b"".join((head, lines.encode("latin-1"), b"\r\n", body or b""))
        pool = self._pool
        if pool is None or self._adapter is not adapter or pool.pool is None:
            pool = pool_of(adapter, prepared, True, None, None)
            self._pool, self._adapter = pool, adapter
        sock = limits.talk(pool, data)
        try:
            parsed, content, keep = read_plain(sock, limits.deadline, self.max_reply_bytes)
        except Unusual as unusual:
            response = ordinary(adapter, prepared, unusual.ahead, sock, limits)
            extract_cookies_to_jar(self.session.cookies, prepared, response.raw)  # type: ignore[no-untyped-call]
            return self._whole(response, limits)
        except BaseException:
            limits.done(False)
            raise
        limits.done(keep)
        return Reply(200, parsed, content, url)

    def _head(self, method: str, url: str) -> tuple[bytes, requests.PreparedRequest]:
        """The head of a request as requests renders it, made again only when the headers have changed."""
        session = self.session
        # Its values are the pairs; requests' own items() makes them anew one by one.
        store = getattr(session.headers, "_store", session.headers)
        now = (tuple(store.values() if store is not session.headers else store.items()), tuple(self.headers.items()))
        known = self._heads.get((method, url))
        if known is None or known[0] != now:
            headers = self._merged({})
            prepared = session.prepare_request(requests.Request(method, url, headers=headers, auth=_given(headers)))
            prepared.headers.pop("Content-Length", None)
            target = prepared.path_url
            known = (now, render_head(method, target, prepared.url or url, prepared.headers), prepared)
            self._heads[method, url] = known
        return known[1], known[2]

    def _merged(self, extra: Mapping[str, str]) -> dict[str, str]:
        headers = {**self.headers, **extra}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    # --- the ordinary way ---

    def _send_ordinary(
        self,
        method: str,
        url: str,
        extra: Mapping[str, str],
        body: bytes | None,
        limits: Limits,
        *,
        foreign: bool = False,
    ) -> Reply:
        session = self.session
        headers: dict[str, Any] = {**extra, "Authorization": None} if foreign else self._merged(extra)
        auth = (None if foreign else self.auth) or _given(headers)
        prepared = session.prepare_request(requests.Request(method, url, headers=headers, data=body, auth=auth))
        settings = session.merge_environment_settings(prepared.url or url, {}, True, None, None)
        if self.base.loopback:
            settings["proxies"] = {}
        timeout: Any = limits
        if not isinstance(session.get_adapter(prepared.url or url), TotalAdapter):
            timeout = (limits.deadline.sooner(limits.connect), limits.deadline.left())
            limits.sent = True  # unless the error says that no connection was made
        response = session.send(prepared, timeout=timeout, allow_redirects=False, **settings)
        return self._whole(response, limits)

    def _whole(self, response: requests.Response, limits: Limits) -> Reply:
        """The body of ``response``, read within the deadline and the size."""
        body = bytearray()
        try:
            if getattr(response, "_content", False) is not False:  # a hook or an adapter of the caller's has read it
                body += response.content
            else:
                for chunk in response.iter_content(CHUNK if limits.deadline.limit is None else 1 << 14):
                    body += chunk
                    if len(body) > self.max_reply_bytes:
                        raise too_large(None, self.max_reply_bytes)
                    if limits.deadline.passed():
                        raise TimeoutError("the limit of the call passed")
            if missing := getattr(getattr(response, "openenv_parsed", None), "length", None):
                raise ConnectionResetError(f"the connection broke {missing} bytes before the end of the answer")
            reusable = response.status_code < 500
        except (ValueError, OverflowError) as error:  # of http.client and urllib3, for chunks of impossible sizes
            reusable = False
            raise error if isinstance(error, OpenEnvError) else http.client.HTTPException(str(error)) from error
        except BaseException:
            reusable = False
            raise
        finally:
            done = getattr(response, "openenv_done", None)
            if done is not None:
                done(reusable)
            if not reusable or done is None:
                response.close()
        response._content = bytes(body)
        response._content_consumed = True  # type: ignore[attr-defined]
        return Reply(response.status_code, response.headers, body, response.url, response)

    def _follow(self, reply: Reply, method: str, extra: Mapping[str, str], body: bytes | None, limits: Limits) -> Reply:
        for _ in range(_MAX_REDIRECTS):
            location = reply.headers.get("location")
            same_method = reply.status in (307, 308) or (method == "GET" and reply.status in (301, 302, 303))
            if not location or not same_method:
                return reply
            url = urljoin(reply.url, location)
            # Another host gets neither the caller's headers nor the credentials.
            foreign = self.session.should_strip_auth(self.base.text, url)  # type: ignore[no-untyped-call]
            reply = self._send_ordinary(method, url, extra, body, limits, foreign=foreign)
            if not 300 <= reply.status < 400:
                return reply
        raise ProtocolError(f"{self.base.shown} redirected more than {_MAX_REDIRECTS} times", url=self.base.shown)

    def close(self) -> None:
        """Close our own session; the caller's stays open."""
        self._pool = None
        if self.owned:
            self.session.close()

    def renew(self) -> None:
        """Fresh connections, for a process that was forked: no socket is shared with the parent."""
        self._pool = None
        if self.owned:
            self.line = Line()
            old, self.session = self.session, self._new_session()
            for name in ("headers", "cookies", "auth", "verify", "cert", "proxies", "params", "hooks", "trust_env"):
                setattr(self.session, name, getattr(old, name))
        else:
            for adapter in {id(a): a for a in self.session.adapters.values()}.values():
                if isinstance(adapter, HTTPAdapter):
                    adapter.__setstate__(adapter.__getstate__())  # type: ignore[attr-defined]


def _given(headers: Mapping[str, str]) -> Any:
    """An auth that keeps the caller's own header where there is one, else a netrc entry would replace it."""
    return _keep_header if any(name.lower() == "authorization" for name in headers) else None


def _keep_header(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _any_netrc() -> bool:
    return any(os.path.exists(os.path.expanduser(name)) for name in ("~/.netrc", "~/_netrc"))
