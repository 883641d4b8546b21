"""A page on this machine: a small HTTP server on the loopback interface, which asks for a token.

Other programs and other people's pages can reach a port of this machine too. So a request counts only with
the token of the server, which is in the address that is printed and then in a cookie; with the server's own
name in Host (a foreign name that resolves to this machine is refused); and from no other page (Origin).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import http.cookies
import http.server
import json
import logging
import os
import secrets
import socketserver
import sys
import threading
import webbrowser
from collections.abc import Callable, Generator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from .errors import UserError

if TYPE_CHECKING:
    from socket import socket
    from types import TracebackType

    from .disk import Json

HOST = "127.0.0.1"
MOST_BODY = 1 << 20
"""Bytes of a request's body."""
RETRY = 1000
"""Milliseconds after which a browser asks again for events that have ended."""
IDLE = 30.0
"""Seconds after which a connection that says nothing is closed."""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load: only what this server, or the page itself, has."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_log = logging.getLogger(__name__)


@final
@dataclasses.dataclass(frozen=True)
class Request:
    """What a handler is given: the query, and the JSON of the body (None where there is none)."""

    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    json: Json = None


@final
@dataclasses.dataclass(frozen=True)
class Reply:
    """Bytes with their type; more headers where they are needed."""

    body: bytes
    type: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


Handler = Callable[[Request], Any]
"""Its answer: text is a page of HTML, a generator's values are events (each as JSON; None only keeps the
connection open), a `Reply` is sent as it is, everything else is JSON. A `UserError` has the status 400.
"""


@final
class Server:
    """A server on the loopback interface, from when it is made until it is closed.

    routes: from "GET /" or "POST /answer" to a `Handler`. Handlers run in threads of their own, several at a
    time. port: 0 takes one that is free.

    >>> import urllib.request
    >>> with Server({"GET /sum": lambda request: {"sum": 1 + int(request.query["n"])}}) as server:
    ...     urllib.request.urlopen(server.address("/sum", n=2)).read()
    b'{"sum": 3}'
    """

    def __init__(self, routes: Mapping[str, Handler], *, port: int = 0):
        self.routes = dict(routes)
        self.token = secrets.token_urlsafe(24)
        self.closing = threading.Event()
        try:
            self._http = _Http((HOST, port), _Connection)
        except (OSError, OverflowError) as error:
            raise UserError(f"port: {port} cannot be had ({error}); give another, or none.") from None
        self._http.owner = self
        self.port = int(self._http.server_address[1])
        self.hosts = (f"{HOST}:{self.port}", f"localhost:{self.port}")
        self.cookie = f"understudy-{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.1,), name="web", daemon=True).start()

    def address(self, path: str = "/", **query: str | int) -> str:
        """The address of a page, with the token."""
        return f"http://{HOST}:{self.port}{path}?{urlencode({**query, 'token': self.token})}"

    @property
    def url(self) -> str:
        """The address of the first page."""
        return self.address()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Takes no more requests; events that are being sent end."""
        if not self.closing.is_set():
            self.closing.set()
            self._http.shutdown()
            self._http.server_close()


def has_display() -> bool:
    """Whether a browser that is opened here would be seen."""
    if os.environ.get("BROWSER"):
        return True
    return sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))  # without one, a text browser would be started
    )


def show(url: str, *, browser: bool = True) -> bool:
    """Opens a page in the browser, where there is one; whether it was opened."""
    with contextlib.suppress(webbrowser.Error, OSError):
        return browser and has_display() and webbrowser.open(url)
    return False


@final
class _Http(socketserver.ThreadingTCPServer):  # an HTTPServer asks a name server for this machine's name
    allow_reuse_address = daemon_threads = True
    block_on_close = False
    owner: Server

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: tuple[str, int]) -> None:
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):  # a tab that was closed
            _log.exception("a connection failed")


@final
class _Connection(http.server.BaseHTTPRequestHandler):
    server: _Http  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "understudy", ""
    timeout = IDLE

    def log_message(self, format: str, *args: str | int) -> None:
        _log.debug(format, *args)

    def do_GET(self) -> None:
        owner, method, parts = self.server.owner, self.command, urlsplit(self.path)
        body, wrong = self._body(method)
        refused = self._refused(owner) or wrong
        if refused:
            return self._fail(*refused)
        query = dict(parse_qsl(parts.query))
        given = query.pop("token", None)
        if given is not None and _same(given, owner.token):
            if method == "GET" and self._navigates():
                return self._enter(owner, parts.path, query)
        elif not _same(self._cookie(owner), owner.token):
            return self._fail(HTTPStatus.FORBIDDEN, "open the address that was printed: it holds the token.")
        path = unquote(parts.path)
        handler = owner.routes.get(f"{method} {path}")
        if handler is None:
            known = any(route.split(" ", 1)[1] == path for route in owner.routes)
            status = HTTPStatus.METHOD_NOT_ALLOWED if known else HTTPStatus.NOT_FOUND
            return self._fail(status, f"{method} {path} is not answered here.")
        try:
            answer = handler(Request(query, body))
            reply = answer if isinstance(answer, Generator) else _reply(answer)
        except UserError as error:
            return self._fail(HTTPStatus.BAD_REQUEST, str(error))
        except Exception as error:
            _log.exception("%s %s", method, path)
            return self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        return self._events(owner, reply) if isinstance(reply, Generator) else self._send(reply)

    do_POST = do_GET

    def _refused(self, owner: Server) -> tuple[HTTPStatus, str] | None:
        """Requests under another name of this machine, and those that another page makes."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in owner.hosts:
            return HTTPStatus.FORBIDDEN, f"Host: {host!r} is not {owner.hosts[0]}."
        if origin is not None and origin not in [f"http://{one}" for one in owner.hosts]:
            return HTTPStatus.FORBIDDEN, f"Origin: {origin!r} is not this page."
        return None

    def _body(self, method: str) -> tuple[Json, tuple[HTTPStatus, str] | None]:
        """The JSON of the body; what is left unread ends the connection."""
        length, kind = self.headers.get("Content-Length", "0"), self.headers.get_content_type()
        if not length.isdecimal() or int(length) > MOST_BODY or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            return None, (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MOST_BODY:,} bytes.")
        data = self.rfile.read(int(length))
        if method == "GET" or not data:
            return None, None
        if kind != "application/json":  # others can be posted by a form on a foreign page
            return None, (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json.")
        try:
            return json.loads(data), None
        except (ValueError, RecursionError):
            return None, (HTTPStatus.BAD_REQUEST, "the body is not JSON.")

    def _cookie(self, owner: Server) -> str:
        with contextlib.suppress(http.cookies.CookieError):
            found = http.cookies.SimpleCookie(self.headers.get("Cookie", "")).get(owner.cookie)
            return "" if found is None else found.value
        return ""

    def _navigates(self) -> bool:
        """Whether a browser goes to a page, in contrast to a script that reads."""
        said = self.headers.get("Sec-Fetch-Mode")
        return said == "navigate" if said else "text/html" in self.headers.get("Accept", "")

    def _enter(self, owner: Server, path: str, query: Mapping[str, str]) -> None:
        """The token moves from the address, which stays in a history, into a cookie."""
        place = path + (f"?{urlencode(query)}" if query else "")
        place = "/" + place.lstrip("/\\")  # never to another host
        cookie = f"{owner.cookie}={owner.token}; Path=/; HttpOnly; SameSite=Lax"
        self._send(Reply(b"", "text/plain", HTTPStatus.SEE_OTHER, {"Location": place, "Set-Cookie": cookie}))

    def _fail(self, status: HTTPStatus, why: str) -> None:
        self._send(dataclasses.replace(_reply({"error": why}), status=status))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self._headers({"Content-Type": reply.type, "Content-Length": str(len(reply.body)), **reply.headers})
        self.wfile.write(reply.body)

    def _events(self, owner: Server, values: Generator[Json]) -> None:
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self._headers({"Content-Type": "text/event-stream; charset=utf-8", "Connection": "close"})
        with contextlib.suppress(ConnectionError, TimeoutError), contextlib.closing(values):
            self.wfile.write(f"retry: {RETRY}\n\n".encode())
            for value in values:
                text = ":\n\n" if value is None else f"data: {json.dumps(value)}\n\n"
                self.wfile.write(text.encode())
                self.wfile.flush()
                if owner.closing.is_set():
                    return

    def _headers(self, own: Mapping[str, str]) -> None:
        for name, value in {**HEADERS, **own}.items():
            self.send_header(name, value)
        self.end_headers()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def _reply(answer: Reply | Json) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(answer.encode(), "text/html; charset=utf-8")
    return Reply(json.dumps(answer).encode(), "application/json")
