"""A person as expert: asked on a page on this machine, or in a terminal."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import atexit
import base64
import dataclasses
import functools
import importlib.resources
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from ... import web
from ...envs.gymnasium import Maker, Observed
from ...envs.pictures import Pictures
from ...errors import UserError, check_name
from ...nested import take
from .. import Expert
from .controls import KEYS, Action, Choice, Controls, Plain, Row, image, table
from .desk import GRACE, SPEEDS, Desk, Drop, Fact, Keep, Setup, Shown, View

if TYPE_CHECKING:
    from .. import Infos, Nested, Space

DOORS = ("auto", "page", "terminal")
CLIP = 0.4
"""Seconds of the episode that are shown before a state: a still picture has no speed."""
FRAMES = 8
"""Most pictures of them."""


def person(
    door: str = "auto",
    *,
    actions: Sequence[str] | None = None,
    observations: Sequence[str] | None = None,
    browser: bool = True,
    port: int = 0,
    grace: float = GRACE,
) -> Expert:
    """You, or whoever sits at this machine: a run asks on a page, or in a terminal, and waits.

    door: "page", "terminal" (discrete actions), or "auto": the page, but the terminal where there is no
    display and the program runs in a terminal. actions, observations: names to show instead of the
    environment's own. browser: open the page, and do not only print its address. port: of the page; 0 is a
    free one. grace: seconds in which the last answer of a round can be taken back.

    >>> person("terminal").name
    'person'
    """
    check_name("expert: person", door, DOORS)

    def ask(observations: Nested, infos: Infos) -> NoReturn:
        raise UserError("expert: a person is asked by a run (train, imitate), not by a function.")

    host = Person(door, actions, observations, browser, port, grace)
    card = {"name": "person", "algorithm": "a person", "kind": "action"}
    return Expert("person", ask=ask, card=card, batch=1, workers=1, person=host)


@final
@dataclasses.dataclass(eq=False)
class Person:
    """What a run needs of a person: `open` before the first question, `close` after the last."""

    door: str
    actions: Sequence[str] | None
    observations: Sequence[str] | None
    browser: bool
    port: int
    grace: float
    desk: Desk | None = None
    server: web.Server | None = None
    _pictures: Pictures | None = None

    def open(self, make: Maker, observation_space: Space, action_space: Space) -> None:
        """Opens the page or the terminal, for the environment that `make` makes."""
        controls = Controls(action_space, make.name, self.actions)
        self._space, self._env = observation_space, make.name
        self.desk = Desk(controls.read, grace=self.grace)
        if self._in_terminal(controls):
            answer_in_terminal(self.desk, controls.plain)
            return
        drawn = self._pictures = Pictures(make)
        setup: Setup = {"env": make.name, "controls": controls.plain, "rate": drawn.rate, "why": drawn.why}
        self.server = serve(self.desk, setup, port=self.port, browser=self.browser)

    def _in_terminal(self, controls: Controls) -> bool:
        if self.door != "auto":
            return self.door == "terminal"
        # A program may have no input at all.
        terminal = sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]
        return fits(controls.plain) and not web.has_display() and terminal

    def ask(self, seen: Observed, keep: Keep, drop: Drop, *, known: bool) -> dict[int, Action]:
        """See `Desk.ask`."""
        assert self.desk is not None
        shows = [self._show(seen, i, still=False) for i in range(len(seen.infos))]
        return self.desk.ask(shows, keep, drop, known=known)

    def drive(self, seen: Observed, keep: Keep) -> dict[int, Action]:
        """See `Desk.drive`."""
        assert self.desk is not None
        action = self.desk.drive(self._show(seen, 0, still=True), keep)
        return {} if action is None else {0: action}

    def takes_over(self, seen: Observed) -> bool:
        """See `Desk.watch`."""
        assert self.desk is not None
        return self.desk.watch(self._show(seen, 0, still=True))

    def tell(self, stage: str, **facts: Fact) -> None:
        """What the run does now."""
        if self.desk is not None:
            self.desk.tell(stage, **facts)

    def _show(self, seen: Observed, i: int, *, still: bool) -> Callable[[], Shown]:
        """A function that draws state i."""
        state, scene = take(seen.batch, i), seen.infos[i]["scene"]

        def show() -> Shown:
            pictures = []
            if self._pictures is not None:
                before = 0 if still else int(min(FRAMES, max(2, CLIP * self._pictures.rate)))
                pictures = self._pictures.draw(scene, state, before=before)
            if not pictures and (own := image(state)) is not None:
                pictures = [own]
            rows = table(state, self._space, self._env, self.observations)
            return {"frames": [encoded(each) for each in pictures], "table": rows, "step": scene.steps}

        return show

    def close(self, stage: str = "The run has ended.") -> None:
        """Says how it ended, and closes the page."""
        if self.desk is not None:
            self.desk.close(stage)
            limit = time.monotonic() + 1.0
            while self.desk.viewers > 0 and time.monotonic() < limit:
                time.sleep(0.02)  # until the pages have it
            if self.server is not None:
                self.server.close()
            self.desk = None
        if self._pictures is not None:
            self._pictures.close()


# The doors through which a person answers a desk: a page on this machine, or a terminal.

BEAT = 10.0
"""Seconds after which a page without news is sent an empty message, which keeps the connection open."""
Post = Callable[[Mapping[str, Any]], bool | None]
"""What the body of a request does; False where it does not count."""
STREAMS = 3
"""Pages that are sent news as they come. A browser opens six connections to a server, and answers need some
of them; pages beyond that ask again every second."""
LARGE = 60_000
"""Bytes from which a picture is sent as JPEG; below, as PNG, which keeps lines sharp."""


def serve(desk: Desk, setup: Setup, *, port: int = 0, browser: bool = True) -> web.Server:
    """Serves a desk on a page, until the server is closed.

    setup: what a page needs once: the environment's name and the controls. port: 0 takes a free one.
    """
    posts: dict[str, Post] = {
        "answer": lambda body: desk.answer(body.get("question"), body.get("value")),
        "skip": lambda body: desk.skip(body.get("question")),
        "undo": lambda body: desk.undo(),
        "confirm": lambda body: desk.confirm(),
        "hold": lambda body: desk.hold(body.get("value")),
        "steer": lambda body: desk.steer(**_wheel(body)),
    }

    def answer(post: Post, request: web.Request) -> Mapping[str, Any]:
        counted = post(request.json if isinstance(request.json, dict) else {})
        return {"counted": counted is not False, **desk.view()}

    def events(request: web.Request) -> Generator[View | None]:
        if desk.viewers >= STREAMS:
            yield desk.view()
            return
        desk.look(1)
        try:
            yield from desk.views(BEAT)
        finally:
            desk.look(-1)

    page = importlib.resources.files(__name__).joinpath("page.html")
    routes: dict[str, web.Handler] = {
        "GET /": lambda request: page.read_text("utf-8"),
        "GET /setup": lambda request: {**setup, "speeds": SPEEDS},
        "GET /view": lambda request: desk.view(),
        "GET /events": events,
    }
    answers = {f"POST /{name}": functools.partial(answer, post) for name, post in posts.items()}
    server = web.Server(routes | answers, port=port)
    opened = web.show(server.url, browser=browser)
    _tell(f"{'The page is open in your browser' if opened else 'Open this page to answer'}: {server.url}")
    return server


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


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _wheel(body: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {"taken": bool, "paused": bool, "speed": int}
    return {name: body[name] for name, kind in kinds.items() if type(body.get(name)) is kind}


# In a terminal a state is a table, and an answer one key.

NAMES, WIDTH = 24, 24
"""Columns of a name, and at most of a bar."""


def answer_in_terminal(desk: Desk, controls: Plain) -> None:
    """Answers a desk from a terminal, in a thread of its own; discrete actions only.

    Keys: an action's own key, u for undo, s for skip; an interrupt (Ctrl-C) ends the run, which can be
    resumed.
    """
    if not fits(controls):
        raise UserError(
            f"expert: in a terminal an answer is one choice of {len(KEYS)} at most; use the page "
            "(person:page)."
        )
    choices = controls.get("choices", [])[0]
    desk.paused, desk.speed = False, 0

    def run() -> None:
        keys = _keys()
        try:
            for view in desk.views(BEAT):
                if view is None or view["question"] is None:
                    continue
                while desk.version == view["version"]:  # a key may change nothing
                    _press(desk, keys, choices, view, view["question"]["number"])
        except BaseException as error:  # of this thread nobody else hears, and the run would wait for ever
            desk.fail(error)

    threading.Thread(target=run, name="person", daemon=True).start()


def _press(desk: Desk, keys: Iterator[str], choices: Sequence[Choice], view: View, number: int) -> None:
    """Shows a question, and does what the next key says; where the policy acts it goes on at once."""
    if view["mode"] == "watch":
        desk.skip(number)
        return
    _tell(screen(view, choices, shutil.get_terminal_size().columns))
    key = next(keys, None)
    if key is None:
        raise UserError("expert: the terminal has no more keys to give; the run can be resumed.")
    pressed = [i for i, choice in enumerate(choices) if key in choice["keys"]]
    try:
        if pressed:
            desk.answer(number, pressed)
        elif key == "s":
            desk.skip(number)
        elif key == "u":
            desk.undo()
        else:
            _tell(f"  {key!r} is no key here.")
    except UserError as error:
        _tell(f"  {error}")


def fits(controls: Plain) -> bool:
    """Whether one key is an answer: a choice, and a key for every action."""
    return controls["kind"] == "discrete" and all(choice["keys"] for choice in controls.get("choices", [])[0])


def screen(view: View, choices: Sequence[Choice], columns: int = 80) -> str:
    """A question as text; bars are shorter, or left out, where there are few columns.

    >>> rows = [{"name": "pole angle", "value": 0.1, "low": -0.4, "high": 0.4}]
    >>> view = {"question": {"table": rows}, "at": 1, "of": 10, "facts": {"labels": 4, "budget": 50}}
    >>> print(screen(view, [{"name": "push left", "keys": ["1"]}]))
    <BLANKLINE>
    state 1 of 10, 4 of 50 labels
      pole angle                    0.1  ────────────┼──●────────
      [1] push left   [s] skip   [u] undo
    """
    facts = view["facts"]
    of = f" of {facts['budget']}" if facts.get("budget") else ""
    table = [] if view["question"] is None else view["question"].get("table", [])
    lines = ["", f"state {view['at']} of {view['of']}, {facts['labels']}{of} labels"]
    for row in table:
        line = f"  {row['name']:<{NAMES}} {float(row['value']):>8.4g}"
        lines.append(f"{line}  {_bar(row, min(WIDTH, columns - len(line) - 3))}".rstrip())
    keys = [f"[{choice['keys'][0]}] {choice['name']}" for choice in choices if choice["keys"]]
    return "\n".join([*lines, "  " + "   ".join([*keys, "[s] skip", "[u] undo"])])


def _bar(row: Row, width: int) -> str:
    """Where a value lies between its bounds; the middle is marked."""
    low, high, value = row.get("low", 0.0), row.get("high", 0.0), row["value"]
    if high <= low or width < WIDTH // 4 or isinstance(value, str):
        return ""
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    line = ["─"] * width
    line[width // 2] = "┼"
    line[min(round(share * width), width - 1)] = "●"
    return "".join(line)


def _keys() -> Iterator[str]:
    """Keys as they are pressed, or, where there is no terminal of that kind, the first of every line."""
    arrows = {"D": "ArrowLeft", "C": "ArrowRight", "A": "ArrowUp", "B": "ArrowDown"}
    if os.name != "posix" or sys.stdin is None or not sys.stdin.isatty():
        for line in sys.stdin or ():
            yield line.strip()[:1]
        return
    import termios
    import tty

    old = termios.tcgetattr(sys.stdin)
    # An interrupt ends the program while this thread waits for a key: its `finally` is not reached.
    atexit.register(termios.tcsetattr, sys.stdin, termios.TCSADRAIN, old)
    while True:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # keys that were typed ahead stay
        try:
            key = sys.stdin.read(1)
            if key == "\x1b" and sys.stdin.read(1) == "[":
                key = arrows.get(sys.stdin.read(1), "")
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, old)
        if not key:
            return
        yield key
