"""The same questions in a terminal: a state as a table, one key for an answer."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, final

from ...errors import UserError
from .controls import PLAIN
from .desk import Desk

NAMES, WIDTH = 24, 24
"""Columns of a name, and at most of a bar."""


@final
class Terminal:
    """Answers a desk from a terminal, in a thread of its own; discrete actions only.

    Keys: an action's own key, u for undo, s for skip; an interrupt (Ctrl-C) ends the run, which can be
    resumed.
    """

    def __init__(self, desk: Desk, setup: dict[str, Any], *, keys: Any = None, out: Any = None):
        if not fits(setup["controls"]):
            raise UserError(
                f"expert: in a terminal an answer is one choice of {len(PLAIN)} at most; use the page "
                "(person:page)."
            )
        self.desk, self._setup, self._out = desk, setup, out or sys.stderr
        self._choices = setup["controls"]["choices"][0]
        self._keys, self._closed = keys or _keys, False
        desk.paused, desk.speed = False, 0
        threading.Thread(target=self._run, name="person", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer()
        except BaseException as error:  # of this thread nobody else hears, and the run would wait for ever
            self.desk.fail(error)

    def _answer(self) -> None:
        keys, version = iter(self._keys()), -1
        while not self._closed:
            if not self.desk.wait(version, 1.0):
                continue
            view = self.desk.view()
            version, question = view["version"], view["question"]
            if view["mode"] == "done":
                return
            if question is None:
                continue
            if view["mode"] == "watch":
                self.desk.skip(question["number"])
                continue
            self._print(screen(view, self._choices, shutil.get_terminal_size().columns))
            key = next(keys, None)
            if key is None:
                raise UserError("expert: the terminal has no more keys to give; the run can be resumed.")
            self._press(key, question["number"])
            version = -1  # a key may have changed nothing

    def _press(self, key: str, number: int) -> None:
        """What a key does."""
        found = [i for i, one in enumerate(self._choices) if key in one["keys"]]
        try:
            if found:
                self.desk.answer(number, found)
            elif key == "s":
                self.desk.skip(number)
            elif key == "u":
                self.desk.undo()
            else:
                self._print(f"  {key!r} is no key here.")
        except UserError as error:
            self._print(f"  {error}")

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def close(self) -> None:
        self._closed = True


def fits(controls: dict[str, Any]) -> bool:
    """Whether one key is an answer: a choice, and a key for every action."""
    return controls["kind"] == "discrete" and all(one["keys"] for one in controls["choices"][0])


def screen(view: dict[str, Any], choices: list[dict[str, Any]], columns: int = 80) -> str:
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
    lines = ["", f"state {view['at']} of {view['of']}, {facts['labels']}{of} labels"]
    for row in view["question"].get("table", []):
        line = f"  {row['name']:<{NAMES}} {float(row['value']):>8.4g}"
        lines.append(f"{line}  {_bar(row, min(WIDTH, columns - len(line) - 3))}".rstrip())
    keys = [f"[{one['keys'][0]}] {one['name']}" for one in choices if one["keys"]]
    return "\n".join([*lines, "  " + "   ".join([*keys, "[s] skip", "[u] undo"])])


def _bar(row: dict[str, Any], width: int) -> str:
    """Where a value lies between its bounds; the middle is marked."""
    if "low" not in row or row["high"] <= row["low"] or width < WIDTH // 4 or isinstance(row["value"], str):
        return ""
    share = min(max((row["value"] - row["low"]) / (row["high"] - row["low"]), 0.0), 1.0)
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
