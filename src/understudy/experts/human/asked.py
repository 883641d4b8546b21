"""The questions that a person is asked now, and their answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

Show = Callable[[], dict[str, Any]]
Keep = Callable[[int, Any], None]
Drop = Callable[[int], None]


@final
@dataclasses.dataclass(eq=False)
class Question:
    """A state: `show()` draws it, once, in the run's thread, as plain data for a page."""

    number: int
    show: Show
    shown: dict[str, Any] | None = None
    answer: Any = None
    skipped: bool = False

    @property
    def open(self) -> bool:
        return self.answer is None and not self.skipped


@final
class Asked:
    """Questions in their order, each with a number that no other has. Whoever calls holds the desk's lock."""

    def __init__(self):
        self.questions: list[Question] = []
        self.handled: list[Question] = []
        self._first = 0
        self._keep: Keep = lambda index, action: None
        self._drop: Drop = lambda index: None

    def begin(self, shows: Sequence[Show], keep: Keep, drop: Drop) -> None:
        """Other questions in place of these; see `Desk.ask`."""
        self._first += len(self.questions)
        self.questions = [Question(self._first + i, show) for i, show in enumerate(shows)]
        self.handled, self._keep, self._drop = [], keep, drop

    @property
    def pending(self) -> list[Question]:
        """Those without an answer."""
        return [one for one in self.questions if one.open]

    @property
    def current(self) -> Question | None:
        """The first of them."""
        return next(iter(self.pending), None)

    def answers(self) -> dict[int, Any]:
        """What was answered, by the place of the question."""
        return {i: one.answer for i, one in enumerate(self.questions) if not one.skipped}

    def settle(self, question: Question, action: Any) -> None:
        """Keeps an answer."""
        self._keep(question.number - self._first, action)
        question.answer = action
        self.handled.append(question)

    def skip(self, question: Question) -> None:
        """Leaves a question without an answer."""
        question.skipped = True
        self.handled.append(question)

    def undo(self) -> None:
        """Opens the question again that was handled last."""
        question = self.handled.pop()
        if not question.skipped:
            self._drop(question.number - self._first)
        question.answer, question.skipped = None, False
