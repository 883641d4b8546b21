"""A person as expert: asked on a page on this machine, or in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, final

from ... import web
from ...envs.gymnasium import Maker, Seen
from ...envs.pictures import Pictures
from ...errors import UserError, check_name
from ...nested import take
from .. import Expert
from .controls import Action, Controls, image, table
from .desk import GRACE, Desk, Drop, Fact, Keep, Setup, Shown
from .doors import Page, Terminal, encoded, fits

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

    host = Person(door, actions, observations, browser=browser, port=port, grace=grace)
    card = {"name": "person", "algorithm": "a person", "kind": "action"}
    return Expert("person", ask=ask, card=card, batch=1, workers=1, person=host)


@final
class Person:
    """What a run needs of a person: `open` before the first question, `close` after the last."""

    def __init__(
        self,
        door: str,
        actions: Sequence[str] | None,
        observations: Sequence[str] | None,
        *,
        browser: bool = True,
        port: int = 0,
        grace: float = GRACE,
    ):
        self._door, self._actions, self._observations = door, actions, observations
        self._browser, self._port, self._grace = browser, port, grace
        self.desk: Desk | None = None
        self._at: Page | Terminal | None = None
        self._pictures: Pictures | None = None

    def open(self, make: Maker, observation_space: Space, action_space: Space) -> None:
        """Opens the page or the terminal, for the environment that `make` makes."""
        controls = Controls(action_space, make.name, self._actions)
        self._space, self._env = observation_space, make.name
        self.desk = Desk(controls.read, grace=self._grace)
        setup: Setup = {"env": make.name, "controls": controls.plain}
        if self._in_terminal(controls):
            self._at = Terminal(self.desk, setup)
            return
        self._pictures = Pictures(make)
        setup["rate"], setup["why"] = self._pictures.rate, self._pictures.why
        self._at = Page(self.desk, setup, port=self._port, browser=self._browser)

    def _in_terminal(self, controls: Controls) -> bool:
        if self._door != "auto":
            return self._door == "terminal"
        # A program may have no input at all.
        terminal = sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]
        return fits(controls.plain) and not web.has_display() and terminal

    def ask(self, seen: Seen, keep: Keep, drop: Drop, *, known: bool) -> dict[int, Action]:
        """See `Desk.ask`."""
        assert self.desk is not None
        shows = [self._show(seen, i, still=False) for i in range(len(seen.infos))]
        return self.desk.ask(shows, keep, drop, known=known)

    def drive(self, seen: Seen, keep: Keep) -> dict[int, Action]:
        """See `Desk.drive`."""
        assert self.desk is not None
        action = self.desk.drive(self._show(seen, 0, still=True), keep)
        return {} if action is None else {0: action}

    def takes_over(self, seen: Seen) -> bool:
        """See `Desk.watch`."""
        assert self.desk is not None
        return self.desk.watch(self._show(seen, 0, still=True))

    def tell(self, stage: str, **facts: Fact) -> None:
        """What the run does now."""
        if self.desk is not None:
            self.desk.tell(stage, **facts)

    def _show(self, seen: Seen, i: int, *, still: bool) -> Callable[[], Shown]:
        """A function that draws state i."""
        state, scene = take(seen.batch, i), seen.infos[i]["scene"]

        def show() -> Shown:
            pictures = []
            if self._pictures is not None:
                before = 0 if still else int(min(FRAMES, max(2, CLIP * self._pictures.rate)))
                pictures = self._pictures.draw(scene, state, before=before)
            if not pictures and (own := image(state)) is not None:
                pictures = [own]
            rows = table(state, self._space, self._env, self._observations)
            return {"frames": [encoded(each) for each in pictures], "table": rows, "step": scene.steps}

        return show

    def close(self, stage: str = "The run has ended.") -> None:
        """Says how it ended, and closes the page."""
        if self.desk is not None:
            self.desk.close(stage)
            limit = time.monotonic() + 1.0
            while self.desk.viewers > 0 and time.monotonic() < limit:
                time.sleep(0.02)  # until the pages have it
            if self._at is not None:
                self._at.close()
            self.desk = None
        if self._pictures is not None:
            self._pictures.close()
