"""The desk: questions of the run on one side, a person's answers on the other, whatever they come through.

The run's thread asks and waits; the threads of a page, or a terminal, answer. An answer names its question,
so that two tabs, or one key pressed twice, do not answer two. It is kept before anything else happens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, final

from ...errors import UserError
from .asked import Asked, Drop, Keep, Question, Show

GRACE = 2.0
"""Seconds after the last answer of a round in which it can still be taken back."""
SPEEDS = (0, 1, 2, 5, 10, 15, 20, 30, 50)
"""Steps a second of an episode that a person watches or drives; 0: one step a key."""


@final
class Desk:
    """Questions, answers, and what a person sees of them.

    read: from what was pressed to an action; a `UserError` refuses it. Modes: "wait" (the policy collects or
    learns), "label" (states after a round), "drive" (every answer is played at once), "watch" (the policy
    acts, the person may take over), "done".
    """

    def __init__(self, read: Callable[[Any], Any] = lambda value: value, *, grace: float = GRACE):
        self._read, self.grace = read, grace
        self._changed = threading.Condition()
        self.version = 0
        self.mode, self.stage, self.facts = "wait", "beginning", {}
        self.taken, self.paused, self.speed = False, True, 10
        self.viewers = 0
        """Pages that are open; without one, no step is taken by the clock."""
        self._asked = Asked()
        self._count = self.skipped = 0
        self.known = False
        self._held: Any = None
        self._until: float | None = None
        self._last = 0.0
        self._wrong: BaseException | None = None

    # -- the run's side ---------------------------------------------------------------------------------

    def ask(self, shows: Sequence[Show], keep: Keep, drop: Drop, *, known: bool = False) -> dict[int, Any]:
        """Waits until a person has answered or skipped every state, and gives the answers by number.

        `keep(i, action)` is called at each answer and `drop(i)` where one is taken back. `known`: the round
        has labels already. One that has none needs one: its last state cannot be skipped.
        """
        self._begin("label", shows, keep, drop, known)
        while True:
            with self._changed:
                self._raise()
                undrawn = next((one for one in self._asked.pending if one.shown is None), None)
                if undrawn is None:
                    if self._over():
                        return self._end()
                    self._changed.wait(None if self._until is None else self._until - time.monotonic())
                    continue
            shown = undrawn.show()  # without the lock: others may look at those before it
            with self._changed:
                undrawn.shown = shown
                self._change()

    def drive(self, show: Show, keep: Keep) -> Any:
        """The action in a state that waits for it: the key that is pressed or, at a speed, the one that was
        pressed last. None where the person gives the wheel back.
        """
        shown = show()
        with self._changed:
            question, was = self._now("drive", shown, keep), self.taken
            while question.open:
                self._raise()
                due = self._due()
                if due <= 0 and self._held is not None:
                    self._settle(question, self._held)
                elif was and not self.taken:
                    return None
                else:
                    self._changed.wait(None if self._held is None or due > 1e6 else due)
            self._last = time.monotonic()
            self._raise()
            self._count += 1
            return question.answer

    def watch(self, show: Show) -> bool:
        """Shows a state in which the policy is about to act, for as long as the speed says; whether the
        person takes over. At speed 0 it waits for a step.
        """
        if self.taken:
            return True
        shown = show()
        with self._changed:
            question = self._now("watch", shown, lambda index, action: None)
            while not self.taken and question.open:
                self._raise()
                due = self._due()
                if due <= 0:
                    break
                self._changed.wait(None if due > 1e6 else due)
            self._last = time.monotonic()
            return self.taken

    def tell(self, stage: str, **facts: Any) -> None:
        """What the run does now, and what is to be known of it: round, rounds, labels, budget, returns."""
        with self._changed:
            if facts or stage != self.stage:
                self.stage, self.facts = stage, {**self.facts, **facts}
                self._count = 0 if "labels" in facts else self._count  # they are among them now
                self.mode = "wait" if stage != "collecting" else self.mode
                self._change()

    def close(self, stage: str = "The run has ended.") -> None:
        """The end: the run does not wait for answers any more."""
        with self._changed:
            self.mode, self.stage, self._asked, self._until = "done", stage, Asked(), None
            self._change()

    def _begin(self, mode: str, shows: Sequence[Show], keep: Keep, drop: Drop, known: bool = False) -> None:
        with self._changed:
            self._asked.begin(shows, keep, drop)
            self._until, self.mode, self.known = None, mode, known
            self._change()

    def _now(self, mode: str, shown: dict[str, Any], keep: Keep) -> Question:
        """The question about the state that the environment is in, which is drawn already."""
        self._begin(mode, [lambda: shown], keep, lambda index: None)
        self._asked.questions[0].shown = shown
        return self._asked.questions[0]

    def _end(self) -> dict[int, Any]:
        found = self._asked.answers()
        self._count += len(found)
        self.skipped += len(self._asked.questions) - len(found)
        self._begin("wait", (), lambda index, action: None, lambda index: None)
        return found

    def _over(self) -> bool:
        return not self._asked.pending and (self._until is None or time.monotonic() >= self._until)

    def _due(self) -> float:
        """Seconds until the next step; very many where no step is taken by the clock."""
        if self.paused or not self.speed or not self.viewers:
            return 1e9
        return self._last + 1.0 / self.speed - time.monotonic()

    def _raise(self) -> None:
        if self._wrong is not None:
            raise self._wrong

    def _change(self) -> None:
        self.version += 1
        self._changed.notify_all()

    # -- the person's side ------------------------------------------------------------------------------

    def answer(self, number: Any, value: Any) -> bool:
        """Answers question `number`; whether it counts, which a second answer does not."""
        action = self._read(value)
        with self._changed:
            question = self._asked.current
            if question is None or question.number != number or self.mode == "watch":
                return False
            if self.mode == "drive":
                self._held = action
                if self.speed and not self.paused:
                    return True  # it is played when the step is due
            self._settle(question, action)
            return True

    def hold(self, value: Any) -> None:
        """What is played from now on, while driving at a speed."""
        action = self._read(value)
        with self._changed:
            self._held = action
            self._change()

    def skip(self, number: Any) -> bool:
        """Leaves question `number` without a label; in "watch" it lets the policy act."""
        with self._changed:
            question = self._asked.current
            if question is None or question.number != number or self.mode == "drive":
                return False
            others = [one for one in self._asked.questions if one is not question]
            if self.mode == "label" and not self.known and all(one.skipped for one in others):
                raise UserError("skip: one state of a round needs a label, and this is the last one.")
            self._asked.skip(question)
            self._handled()
            return True

    def undo(self) -> bool:
        """Takes the last answer of the round back; whether there was one."""
        with self._changed:
            if self.mode != "label" or not self._asked.handled:
                return False
            self._guarded(self._asked.undo)
            self._until = None
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

    def view(self) -> dict[str, Any]:
        """Everything that a person sees now, as plain data."""
        with self._changed:
            asked, question, now = self._asked, self._asked.current, None
            given = sum(one.answer is not None for one in asked.questions) if self.mode == "label" else 0
            if question is not None and question.shown is not None:
                now = {"number": question.number, **question.shown}
            facts = dict(self.facts)
            facts["labels"] = facts.get("labels", 0) + self._count + given
            facts["skipped"] = self.skipped + sum(one.skipped for one in asked.questions)
            return {
                "version": self.version,
                "mode": self.mode,
                "stage": self.stage,
                "question": now,
                "at": len(asked.handled) + (question is not None),
                "of": len(asked.questions),
                "undo": bool(asked.handled) and self.mode == "label",
                "grace": None if self._until is None else max(0.0, self._until - time.monotonic()),
                "taken": self.taken,
                "paused": self.paused,
                "speed": self.speed,
                "facts": facts,
            }

    def _settle(self, question: Question, action: Any) -> None:
        self._guarded(self._asked.settle, question, action)
        self._handled()

    def _handled(self) -> None:
        if not self._asked.pending:
            self._until = time.monotonic() + self.grace
        self._change()

    def _guarded(self, function: Callable[..., None], *args: Any) -> None:
        """What goes wrong with the disk ends the run, not only the request of a page."""
        try:
            function(*args)
        except BaseException as error:
            self._wrong = error
            self._change()
            raise
