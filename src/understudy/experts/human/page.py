"""The page on which a person answers: the desk behind a server on this machine."""

from __future__ import annotations

import base64
import functools
import importlib.resources
import io
import sys
from collections.abc import Callable, Generator
from typing import Any, final

import numpy as np

from ... import web
from .desk import SPEEDS, Desk

BEAT = 10.0
"""Seconds after which a page without news is sent an empty message, which keeps the connection open."""
STREAMS = 3
"""Pages that are sent news as they come. A browser opens six connections to a server, and answers need some
of them; pages beyond that ask again every second."""
LARGE = 60_000
"""Bytes from which a picture is sent as JPEG; below, as PNG, which keeps lines sharp."""


@final
class Page:
    """Serves a desk until it is closed.

    setup: what a page needs once: the environment's name and the controls. port: 0 takes a free one.
    """

    def __init__(self, desk: Desk, setup: dict[str, Any], *, port: int = 0, browser: bool = True):
        self.desk, self._setup = desk, {**setup, "speeds": SPEEDS}
        posts: dict[str, Callable[[dict[str, Any]], Any]] = {
            "answer": lambda body: desk.answer(body.get("question"), body.get("value")),
            "skip": lambda body: desk.skip(body.get("question")),
            "undo": lambda body: desk.undo(),
            "confirm": lambda body: desk.confirm(),
            "hold": lambda body: desk.hold(body.get("value")),
            "steer": lambda body: desk.steer(**_wheel(body)),
        }
        self.server = web.Server(
            {
                "GET /": lambda request: _html(),
                "GET /setup": lambda request: self._setup,
                "GET /view": lambda request: desk.view(),
                "GET /events": lambda request: self._events(),
            }
            | {f"POST /{name}": functools.partial(self._post, done) for name, done in posts.items()},
            port=port,
        )
        opened = web.show(self.server.url, browser=browser)
        sentence = "The page is open in your browser" if opened else "Open this page to answer"
        print(f"{sentence}: {self.server.url}", file=sys.stderr, flush=True)

    def _post(self, done: Callable[[dict[str, Any]], Any], request: web.Request) -> dict[str, Any]:
        counted = done(request.json if isinstance(request.json, dict) else {})
        return {"counted": counted is not False, **self.desk.view()}

    def _events(self) -> Generator[Any]:
        if self.desk.viewers >= STREAMS:
            yield self.desk.view()
            return
        self.desk.look(1)
        try:
            version = -1
            while True:
                if not self.desk.wait(version, BEAT):
                    yield None
                    continue
                view = self.desk.view()
                version = view["version"]
                yield view
                if view["mode"] == "done":
                    return
        finally:
            self.desk.look(-1)

    def close(self) -> None:
        self.server.close()


def encoded(picture: np.ndarray) -> str:
    """A picture (height, width, 3) as an address that holds it.

    >>> encoded(np.zeros((2, 2, 3), np.uint8))[:22]
    'data:image/png;base64,'
    """
    from PIL import Image

    image, file = Image.fromarray(np.ascontiguousarray(picture)), io.BytesIO()
    image.save(file, "PNG", compress_level=3)
    kind = "png"
    if file.tell() > LARGE:
        file, kind = io.BytesIO(), "jpeg"
        image.save(file, "JPEG", quality=85)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def _wheel(body: dict[str, Any]) -> dict[str, Any]:
    kinds = {"taken": bool, "paused": bool, "speed": int}
    return {name: body[name] for name, kind in kinds.items() if type(body.get(name)) is kind}


@functools.cache
def _html() -> str:
    return importlib.resources.files(str(__package__)).joinpath("page.html").read_text("utf-8")
