"""The desk: questions of the run on one side, a person's answers on the other, whatever they come through.

The run's thread asks and waits; the threads of a page, or a terminal, answer. An answer names its question,
so that two tabs, or one key pressed twice, do not answer two. It is kept before anything else happens.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, final

from ...errors import UserError
from .controls import Action, Plain, Row

if TYPE_CHECKING:
    from ...disk import Json

Keep = Callable[[int, Action], None]
Drop = Callable[[int], None]
Fact = float | str | list[float] | None
"""What is to be known of a run: a number, a word, or returns so far."""
GRACE = 2.0
"""Seconds after the last answer of a round in which it can still be taken back."""
SPEEDS = (0, 1, 2, 5, 10, 15, 20, 30, 50)
"""Steps a second of an episode that a person watches or drives; 0: one step a key."""
Mode = Literal["wait", "label", "drive", "watch", "done"]
HOUR = 3600.0
"""Seconds that a run waits where no clock runs; then it waits again."""


class Shown(TypedDict):
    """A state as plain data: pictures as addresses that hold them, its numbers, and its step."""

    frames: list[str]
    table: list[Row]
    step: int


class Asked(Shown):
    """The question that waits, with its number."""

    number: int


class Setup(TypedDict, total=False):
    """What a page needs once."""

    env: Required[str]
    controls: Required[Plain]
    rate: float
    why: str | None
    speeds: tuple[int, ...]


class View(TypedDict):
    """Everything that a person sees at a moment, as plain data."""

    version: int
    mode: Mode
    stage: str
    question: Asked | None
    at: int
    of: int
    undo: bool
    grace: float | None
    taken: bool
    paused: bool
    speed: int
    facts: dict[str, Json]


def _nothing(*_: Any) -> None:
    """Of what is only shown, no answer is kept."""


@final
@dataclasses.dataclass(eq=False)
class Question:
    """A state, as plain data for a page once it is drawn, and what was said of it."""

    shown: Shown | None = None
    answer: Action | None = None
    skipped: bool = False


@final
class Desk:
    """Questions, answers, and what a person sees of them.

    read: from what was pressed to an action; a `UserError` refuses it. Modes: "wait" (the policy collects or
    learns), "label" (states after a round), "drive" (every answer is played at once), "watch" (the policy
    acts, the person may take over), "done".
    """

    def __init__(self, read: Callable[[Any], Action] = lambda value: value, *, grace: float = GRACE):
        self._read, self.grace = read, grace
        self._changed = threading.Condition()
        self.version = 0
        self.stage, self.facts = "beginning", dict[str, Fact]()
        self.taken, self.paused, self.speed = False, True, 10
        self.mode: Mode = "wait"
        self.viewers = 0
        """Pages that are open; without one, no step is taken by the clock."""
        self._questions: list[Question] = []
        self._at = 0
        """How many of them are answered or skipped, which are the first ones."""
        self._numbers = self._count = self.skipped = 0
        self._held: Action | None = None
        self._last = 0.0
        self._wrong: BaseException | None = None
        self._begin("wait", [])

    # -- the run's side ---------------------------------------------------------------------------------

    def ask(
        self, shows: Sequence[Callable[[], Shown]], keep: Keep, drop: Drop, *, known: bool = False
    ) -> dict[int, Action]:
        """Waits until a person has answered or skipped every state, and gives the answers by number.

        `keep(i, action)` is called at each answer and `drop(i)` where one is taken back. `known`: the round
        has labels already. One that has none needs one: its last state cannot be skipped.
        """
        questions = [Question() for _ in shows]
        self._begin("label", questions, keep, drop, known)
        while True:
            with self._changed:
                self._raise()
                undrawn = next((i for i in range(self._at, len(shows)) if questions[i].shown is None), None)
                if undrawn is None:
                    if self._first is None and (self._until is None or time.monotonic() >= self._until):
                        return self._end()
                    self._changed.wait(None if self._until is None else self._until - time.monotonic())
                    continue
            shown = shows[undrawn]()  # once, and without the lock: others may look at those before it
            with self._changed:
                questions[undrawn].shown = shown
                self._change()

    def drive(self, show: Callable[[], Shown], keep: Keep) -> Action | None:
        """The action in a state that waits for it, at a speed the last one; None: the wheel is given back."""
        question = Question(show())
        with self._changed:
            self._begin("drive", [question], keep)
            was = self.taken
            while self._first is question:
                self._raise()
                due = HOUR if self._held is None else self._due()
                if due <= 0:
                    self._settle(question, self._held)
                elif was and not self.taken:
                    return None
                else:
                    self._changed.wait(due)
            self._last = time.monotonic()
            self._raise()
            self._count += 1
            return question.answer

    def watch(self, show: Callable[[], Shown]) -> bool:
        """Shows a state in which the policy is about to act; whether the person takes over. Speed 0 waits."""
        if self.taken:
            return True
        question = Question(show())
        with self._changed:
            self._begin("watch", [question])
            while not self.taken and self._first is question and (due := self._due()) > 0:
                self._raise()
                self._changed.wait(due)
            self._last = time.monotonic()
            return self.taken

    def tell(self, stage: str, **facts: Fact) -> None:
        """What the run does now, and what is to be known of it: round, rounds, labels, budget, returns."""
        with self._changed:
            if facts or stage != self.stage:
                self.stage, self.facts = stage, {**self.facts, **facts}
                self._count = 0 if "labels" in facts else self._count  # they are among them now
                self.mode = "wait" if stage != "collecting" else self.mode
                self._change()

    def fail(self, error: BaseException) -> None:
        """Nobody can answer any more, or no answer be kept: the run ends with this."""
        with self._changed:
            self._wrong = error
            self._change()

    def close(self, stage: str = "The run has ended.") -> None:
        """The end: the run does not wait for answers any more."""
        with self._changed:
            self.mode, self.stage, self._until = "done", stage, None
            self._questions, self._at = [], 0
            self._change()

    def _begin(
        self,
        mode: Mode,
        questions: list[Question],
        keep: Keep = _nothing,
        drop: Drop = _nothing,
        known: bool = False,
    ) -> None:
        with self._changed:
            self._numbers += len(self._questions)
            self._questions, self._at = questions, 0
            self._keep, self._drop = keep, drop
            self._until, self.mode, self.known = None, mode, known
            self._change()

    def _end(self) -> dict[int, Action]:
        answers = {i: each.answer for i, each in enumerate(self._questions) if each.answer is not None}
        self._count += len(answers)
        self.skipped += len(self._questions) - len(answers)
        self._begin("wait", [])
        return answers

    @property
    def _first(self) -> Question | None:
        """The first question that is neither answered nor skipped: the one that a person sees."""
        return self._questions[self._at] if self._at < len(self._questions) else None

    def _due(self) -> float:
        """Seconds until the next step; many where no step is taken by the clock."""
        if self.paused or not self.speed or not self.viewers:
            return HOUR
        return self._last + 1.0 / self.speed - time.monotonic()

    def _raise(self) -> None:
        if self._wrong is not None:
            raise self._wrong

    def _change(self) -> None:
        self.version += 1
        self._changed.notify_all()

    # -- the person's side ------------------------------------------------------------------------------

    def answer(self, number: int | None, value: Json) -> bool:
        """Answers question `number`; whether it counts, which a second answer does not."""
        action = self._read(value)
        with self._changed:
            question = self._current(number)
            if question is None or self.mode == "watch":
                return False
            if self.mode == "drive":
                self._held = action
                if self.speed and not self.paused:
                    self._change()  # it is played when the step is due
                    return True
            self._settle(question, action)
            return True

    def hold(self, value: Json) -> None:
        """What is played from now on, while driving at a speed."""
        action = self._read(value)
        with self._changed:
            self._held = action
            self._change()

    def skip(self, number: int | None) -> bool:
        """Leaves question `number` without a label; in "watch" it lets the policy act."""
        with self._changed:
            question = self._current(number)
            if question is None or self.mode == "drive":
                return False
            others = all(each.skipped for each in self._questions if each is not question)
            if self.mode == "label" and not self.known and others:
                raise UserError("skip: one state of a round needs a label, and this is the last one.")
            question.skipped = True
            self._done()
            return True

    def undo(self) -> bool:
        """Takes the last answer of the round back; whether there was one."""
        with self._changed:
            if self.mode != "label" or not self._at:
                return False
            self._at -= 1
            question = self._questions[self._at]
            if not question.skipped:
                self._guarded(self._drop, self._at)
            question.answer, question.skipped, self._until = None, False, None
            self._change()
            return True

    def confirm(self) -> None:
        """The last answer stands: no need to wait."""
        with self._changed:
            if self._until is not None:
                self._until = 0.0
                self._change()

    def steer(
        self, *, taken: bool | None = None, paused: bool | None = None, speed: int | None = None
    ) -> None:
        """Takes over or gives back, stops or goes on, at another speed."""
        with self._changed:
            if taken is not None:
                self.taken = taken
                self._held = self._held if taken else None
            self.paused = self.paused if paused is None else paused
            if speed is not None and speed in SPEEDS:
                self.speed = speed
            self._change()

    def look(self, more: int) -> None:
        """A page was opened or closed."""
        with self._changed:
            self.viewers += more
            self._change()

    def wait(self, version: int, seconds: float) -> bool:
        """Waits for something newer than `version`; whether there is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.version > version, seconds)

    def views(self, beat: float) -> Generator[View | None]:
        """What a person sees, whenever it has changed, to the end; None after `beat` seconds without news."""
        version, mode = -1, "wait"
        while mode != "done":
            view = self.view() if self.wait(version, beat) else None
            yield view
            if view is not None:
                version, mode = view["version"], view["mode"]

    def view(self) -> View:
        """What a person sees now."""
        with self._changed:
            question, now = self._first, None
            given = sum(each.answer is not None for each in self._questions) if self.mode == "label" else 0
            if question is not None and question.shown is not None:
                now: Asked | None = {"number": self._numbers + self._at, **question.shown}
            facts: dict[str, Any] = dict(self.facts)
            facts["labels"] = facts.get("labels", 0) + self._count + given
            facts["skipped"] = self.skipped + sum(each.skipped for each in self._questions)
            return {
                "version": self.version,
                "mode": self.mode,
                "stage": self.stage,
                "question": now,
                "at": self._at + (question is not None),
                "of": len(self._questions),
                "undo": self._at > 0 and self.mode == "label",
                "grace": None if self._until is None else max(0.0, self._until - time.monotonic()),
                "taken": self.taken,
                "paused": self.paused,
                "speed": self.speed,
                "facts": facts,
            }

    def _current(self, number: int | None) -> Question | None:
        """The first question, where it has this number; no two questions have the same."""
        return self._first if number == self._numbers + self._at else None

    def _settle(self, question: Question, action: Action | None) -> None:
        self._guarded(self._keep, self._at, action)
        question.answer = action
        self._done()

    def _done(self) -> None:
        self._at += 1
        if self._first is None:
            self._until = time.monotonic() + self.grace
        self._change()

    def _guarded(self, function: Callable[..., None], *args: Action | int | None) -> None:
        """What goes wrong with the disk ends the run, not only the request of a page."""
        try:
            function(*args)
        except BaseException as error:
            self.fail(error)
            raise
