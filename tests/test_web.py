"""The server on the loopback interface: who gets an answer, and in which form."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
import urllib.request
from urllib.parse import quote

import pytest

from understudy.errors import UserError
from understudy.web import MOST_BODY, POLICY, Reply, Server, has_display, show


def fails(request):
    if request.query.get("how") == "user":
        raise UserError("n: 'x' is not a number.")
    raise RuntimeError("broken")


def events(request):
    yield None
    yield from ({"n": n} for n in range(3))


ROUTES = {
    "GET /": lambda request: "<!doctype html><title>é</title>",
    "GET /values": lambda request: {"query": dict(request.query)},
    "GET /frame": lambda request: Reply(b"7", "image/png"),
    "POST /answer": lambda request: [request.json],
    "GET /fails": fails,
    "GET /events": events,
}


@pytest.fixture(scope="module")
def server():
    with Server(ROUTES) as made:
        yield made


def ask(server, path="/values", method="GET", body=None, *, cookie=True, **headers):
    """Status, headers and body. `cookie`: whether the token is sent."""
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    if cookie:
        sent["Cookie"] = f"other=1; {server.cookie}={server.token}"
    link.putrequest(method, path, skip_host="Host" in headers)
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    if data:
        sent.setdefault("Content-Type", "application/json")
        sent.setdefault("Content-Length", str(len(data)))
    for name, value in sent.items():
        link.putheader(name, value)
    link.endheaders(data or None)
    answer = link.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    link.close()
    return found


def test_the_token_is_needed_and_nothing_near_it_will_do(server):
    assert ask(server)[0] == 200
    near = server.token[:-1] + ("A" if server.token[-1] != "A" else "B")
    for path, headers in (
        ("/values", {}),
        ("/values?token=", {}),
        (f"/values?token={near}", {}),
        ("/values?token=%ff%00", {}),
        ("/values", {"Cookie": f"{server.cookie}={near}"}),
        ("/values", {"Cookie": f"understudy={server.token}"}),
        ("/values", {"Cookie": "a" * 2000 + ';=";'}),
        ("/", {"Sec_Fetch_Mode": "navigate"}),
    ):
        status, _, body = ask(server, path, cookie=False, **headers)
        assert status == 403 and server.token.encode() not in body
    assert ask(server, "/answer", "POST", 1, cookie=False)[0] == 403
    with Server(ROUTES) as other:
        assert other.token != server.token and len(server.token) >= 32


def test_a_browser_gets_a_cookie_and_an_address_without_the_token(server):
    status, headers, body = ask(
        server, f"/values?n=1&token={server.token}", cookie=False, Sec_Fetch_Mode="navigate"
    )
    assert status == 303 and headers["Location"] == "/values?n=1" and not body
    assert headers["Set-Cookie"].startswith(f"{server.cookie}={server.token};")
    assert "HttpOnly" in headers["Set-Cookie"] and "SameSite" in headers["Set-Cookie"]
    away = ask(server, f"//evil.example/?token={server.token}", cookie=False, Sec_Fetch_Mode="navigate")
    assert away[1]["Location"].startswith("/") and not away[1]["Location"].startswith("//")
    # A script may keep the token in the address.
    read = urllib.request.urlopen(server.address("/values", n=2)).read()
    assert json.loads(read) == {"query": {"n": "2"}}


def test_foreign_names_and_foreign_pages_are_refused_though_they_hold_the_token(server):
    own = (f"127.0.0.1:{server.port}", f"localhost:{server.port}")
    for host in own:
        assert ask(server, Host=host)[0] == 200
        assert ask(server, Origin=f"http://{host}")[0] == 200
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        "127.0.0.1",
        f"127.0.0.1:{server.port + 1}",
        "",
    ):
        assert ask(server, Host=host)[0] == 403
    for origin in (
        "null",
        "",
        f"https://{own[0]}",
        f"http://localhost:{server.port}.evil.example",
        "http://evil",
    ):
        assert ask(server, Origin=origin)[0] == 403
        assert ask(server, "/answer", "POST", 1, Origin=origin)[0] == 403


def test_what_a_handler_gives_is_sent_as_what_it_is(server):
    status, headers, body = ask(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8") and "é" in body.decode()
    assert headers["Content-Security-Policy"] == POLICY and "default-src 'none'" in POLICY
    assert headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in headers
    assert ask(server, "/frame?x=1")[2] == b"7"
    assert ask(server, "/answer", "POST", {"a": [1, None]})[2] == b'[{"a": [1, null]}]'
    lines = ask(server, "/events")[2].decode().split("\n\n")
    assert lines == ["retry: 1000", ":", 'data: {"n": 0}', 'data: {"n": 1}', 'data: {"n": 2}', ""]


def test_requests_that_do_not_fit_are_refused_in_a_sentence(server, caplog):
    for path, method, status in (("/nothing", "GET", 404), ("/frames", "GET", 404), ("/answer", "GET", 405)):
        assert ask(server, path, method)[0] == status
    assert ask(server, "/", "DELETE")[0] == 501
    assert ask(server, "/answer", "POST", b"{")[0] == 400
    assert ask(server, "/answer", "POST", b"[" * 100_000)[0] == 400
    assert ask(server, "/answer", "POST", b"a=1", Content_Type="text/plain")[0] == 415
    assert ask(server, "/answer", "POST", Content_Length=str(MOST_BODY + 1))[0] == 413
    assert ask(server, "/answer", "POST", Content_Length="-1")[0] == 413
    assert json.loads(ask(server, "/fails?how=user")[2]) == {"error": "n: 'x' is not a number."}
    assert ask(server, "/fails")[0] == 500 and "broken" in caplog.text
    assert ask(server)[0] == 200


def test_1500_hostile_requests_reach_no_handler(caplog):
    """Raw bytes, so that what no client library would send is sent too: each request has at least one thing
    wrong, and the handler that all of them aim at is called only by the honest requests in between.
    """
    rng, called = random.Random(0), []
    with Server({"GET /": called.append, "POST /": called.append}) as server:
        token, (host, other) = server.token, server.hosts
        tokens = [
            "",
            token[:-1],
            token + "A",
            token.swapcase(),
            token[::-1],
            "é" * 32,
            "A" * 5000,
            "%00",
            token + "%20",
        ]
        hosts = [
            "",
            "evil.example",
            f"evil.example:{server.port}",
            "127.0.0.1",
            f"127.0.0.1:{server.port + 1}",
        ]
        hosts += [f"{host}.evil.example", f"[::1]:{server.port}", f"{host}@evil.example", host + "\u00e9"]
        origins = [
            "null",
            "http://evil.example",
            f"https://{host}",
            f"http://{host}.evil.example",
            f"http://{other}/",
        ]
        sizes = [str(MOST_BODY + 1), "-1", "1e3", "9" * 400, "0x10", "+5", "٣"]
        honest = (
            f"GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {server.cookie}={token}\r\nConnection: close\r\n\r\n"
        )

        def request(wrong: str) -> bytes:
            method = rng.choice(("GET", "POST"))
            key = rng.choice(tokens) if wrong == "token" else token
            place = rng.choice(("query", "cookie"))
            path = f"/?token={quote(key)}" if place == "query" else "/"
            lines = [f"Host: {rng.choice(hosts) if wrong == 'host' else host}"]
            lines += [f"Cookie: {server.cookie}={key}"] if place == "cookie" else []
            lines += [f"Origin: {rng.choice(origins)}"] if wrong == "origin" else []
            lines += [f"Content-Length: {rng.choice(sizes)}"] if wrong == "size" else []
            lines += ["Transfer-Encoding: chunked"] if wrong == "chunked" else []
            if wrong == "form":
                method = "POST"
                lines += ["Content-Type: application/x-www-form-urlencoded", "Content-Length: 3"]
            if wrong == "path":
                path = rng.choice(("/..", "/./", "/%2e%2e/", "/\\evil.example", "/%00"))
            rng.shuffle(lines)
            head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "Connection: close", "", ""])
            if wrong == "bytes":
                return bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200))) + b"\r\n\r\n"
            if wrong == "cut":
                return head.encode()[: rng.randrange(1, head.index("\r\n"))]
            return head.encode() + (b"a=1" if wrong == "form" else b"")

        def sent(data: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as link:
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    return b"".join(iter(lambda: link.recv(65536), b""))
            return b""

        kinds = ("token", "host", "origin", "size", "chunked", "form", "path", "bytes", "cut")
        for number in range(1500):
            answer = sent(request(kinds[number % len(kinds)]))
            assert not called and token.encode() not in answer and b" 200 " not in answer[:20]
            if number % 100 == 99:
                assert b" 200 " in sent(honest.encode())[:20]
                assert called.pop() is not None
    assert "Traceback" not in caplog.text


def test_slow_connections_do_not_hold_up_others(server):
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\n")
        assert ask(server)[0] == 200


def test_closing_frees_the_port_and_ends_events():
    still = threading.Event()

    def endless(request):
        while not still.wait(0.01):
            yield None

    made = Server({"GET /events": endless})
    stream = urllib.request.urlopen(made.address("/events"), timeout=10)
    assert stream.read(16) == b"retry: 1000\n\n:\n\n"
    with pytest.raises(UserError, match=f"port: {made.port} cannot be had"):
        Server({}, port=made.port)
    made.close()
    made.close()
    assert set(stream.read().split(b"\n\n")) <= {b":", b""}  # it ends
    Server({}, port=made.port).close()


def test_a_browser_is_opened_only_where_it_would_be_seen(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert not has_display() and not show("http://here/") and not opened
    monkeypatch.setenv("DISPLAY", ":0")
    assert show("http://here/") and not show("http://here/", browser=False) and opened == ["http://here/"]
