"""A run: a student in an environment with an expert and, perhaps, a folder; a round at a time.

A round can be read top to bottom in `Run.step`: collect, choose, ask, learn, evaluate, keep.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from ..errors import UserError
from ..parts import make_parts
from ..policies import Guest, TrainedPolicy
from ..programs import alone
from ..progress import COLLECTING, EVALUATING, EXPERT, KEEPING, SEARCHING, SOLVING, summarise_row
from ..regret import Certificate, Ledger
from ..samples import storage
from ..spec import Environment, RunSpec
from ..student import TIMES, Clock, Understudy
from ..together import Together, call_alone
from .collect import Collector, HostCollector
from .device import DeviceCollector, possible
from .evaluate import Arena, Evaluation, Judge, Stage
from .folder import Folder
from .labelling import labelling
from .players import evaluate
from .record import Record
from .resuming import merge_settings, parse_resume, settings_at_start
from .world import World

if TYPE_CHECKING:
    from pathlib import Path

    from ..spec import Setting
    from ..student import Row
    from .collect import Slot
    from .proof import Proof

Progress = Callable[..., None]
"""Called as ``progress(stage)``, and in the midst of a round also with its steps and labels."""


def _silent(stage: str, steps: int = 0, labels: int = 0) -> None:
    """The progress that nobody sees."""


@final
class Run:
    """A student that learns in an environment, round by round: iterate over it for the rows of its ledger.

    Args:
      env, settings: as of `understudy.imitate`, or a whole `understudy.RunSpec`.
      out: the folder that keeps the run.
      resume: go on with the run in `out`, see `understudy.imitate`.
      progress: called as ``progress(stage)``, in the midst of a round also with its steps and labels.
      world: where the run happens, shared with other runs; it is closed by whoever made it.
      together: where it meets the other runs that are played in one program with it.
      pace: for a study, which keeps the outcome itself: least seconds between two rounds that are kept; a
        round that cannot be written is skipped. 0: every round and the outcome are kept, or the run fails.
      threads: threads that step the environments.
      keep: whether samples are kept that nobody needs for learning.

    Attributes:
      student: what learns (`understudy.Understudy`).
      spec: all settings.
      finished: whether all rounds are over.

    >>> import understudy
    >>> with understudy.Run("CartPole-v1", policy="linear", rounds=2, steps_per_round=40, episodes=2) as run:
    ...     for row in run:
    ...         print(row["round"], row["labels"])
    1 40
    2 80
    """

    def __init__(
        self,
        env: Environment | RunSpec | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool | str = False,
        progress: Progress | None = None,
        world: World | None = None,
        together: Together | None = None,
        pace: float = 0.0,
        threads: int = 1,
        keep: bool = True,
        **settings: Setting,
    ):
        self.began = time.perf_counter()
        ways = parse_resume(resume) if resume else frozenset[str]()
        self.spec = spec_of(env, settings, out, ways)
        self.progress: Progress = progress or _silent
        self.times: list[dict[str, float]] = []
        self._opened = contextlib.ExitStack()
        try:
            self.world = World(self.spec) if world is None else world
            if world is None:
                self._opened.callback(self.world.close)
            parts = make_parts(self.world.spaces, self.spec, settings_at_start(out) if ways else None)
            self.folder: Folder | None = None
            if out is not None:
                slow = parts.expert.workers is not None
                self.folder = Folder(out, parts.settings, resume=ways, slow=slow, pace=pace)
                self._opened.callback(self.folder.close)
            within, journal = (None, None) if self.folder is None else (self.folder.path, self.folder.journal)
            play, call = (alone, call_alone) if together is None else (together.play_round, together.call)
            student = Understudy.of(parts, storage(parts, within, keep=keep), play=play)
            asking, expert = parts.resolved, parts.expert
            self.labelling = labelling(
                expert, journal, plan=asking.plan, progress=self._tell_asking, **asking.limits
            )
            self.student, self.calls_before = student, expert.probed
            self.collector: Collector
            arena: Arena
            if self.world.pure is not None and possible(parts, expert):
                self.collector = arena = DeviceCollector(self.world, student, expert, call)
            else:
                slots = self._opened.enter_context(self.world.lend(student.timetable.num_envs, threads))
                if expert.person is not None:
                    expert.person.open(self.world.make, slots.observation_space, slots.action_space)
                    self._opened.callback(expert.person.close)
                self.collector = HostCollector(slots, student, self.labelling)
                arena = Stage(self.world, student, self.spec.episode_limit, self._opened, light=slots.many)
            proof = None if self.student.timetable.goal is None else self._proof(arena)
            self.judge = Judge(self.student, arena, self._tick, proof)
            self._record: Record | None = None
            if self.folder is not None and self.folder.finished:
                given = parts.resolved.policy if isinstance(parts.resolved.policy, Guest) else None
                self._record, student.ended = Record.load(self.folder.path, policy=given), True
            elif self.folder is not None:
                self._go_on(self.folder)
        except BaseException:
            self._opened.close()
            raise

    def _proof(self, arena: Arena) -> Proof:
        """The tests of a run that has a goal."""
        from .proof import Proof

        def stage() -> Stage:
            if isinstance(arena, Stage):
                return arena
            return Stage(self.world, self.student, self.spec.episode_limit, self._opened)

        return Proof(self.student, arena, self.labelling, stage, self.world.make.name)

    def _go_on(self, folder: Folder) -> None:
        """Restores the run where its folder holds rounds already, and makes the files of a new one."""
        student = self.student
        folder.journal.expect(student.parts.label_shape)
        slots: list[Slot] = []
        if folder.fresh:
            folder.begin(student)
        else:
            slots = folder.restore(self)
            self.began -= sum(sum(laps.values()) for laps in self.times)
        if "new-episode" in folder.resume:
            orphans = folder.journal.orphans(student.round + 1)
            # Nothing was under way in a run that has just begun.
            student.breaks += bool(orphans) or any(int(slot["episode"]) >= 0 for slot in slots)
            self.collector.resume_anew(slots, orphans)
        elif slots:
            self.calls_before += self.collector.restore(slots)

    @property
    def finished(self) -> bool:
        return self._record is not None or self.student.finished

    def __iter__(self) -> Iterator[Row]:
        while not self.finished:
            yield self.step()

    def step(self) -> Row:
        """One round; its row of the ledger."""
        if self._record is not None:
            raise UserError("run: it is finished; resume it with more rounds or a larger budget to go on.")
        student, clock, number = self.student, Clock(), self.student.round + 1
        watch = self._tick if self._watched else None
        self._tell_person(number)
        with naming_round(number):
            if number == 1 and student.parts.demos is not None:
                row = student.learn_round(student.parts.demos, clock=clock)
            else:
                self._tick(COLLECTING, 0, 0)
                path = self.collector.collect(student.plan, watch)
                question = student.choose(path)
                self.labelling.answer(path, question.weights)  # enters the labels in the question's path
                clock("collect")
                self._tick(SEARCHING if student.searches(number) else SOLVING)
                row = student.learn(question, clock=clock)
        self._tick(EVALUATING)
        self.judge.after(row, clock)
        if student.ended:  # the judge's test has accepted a policy
            student.compare_last()
            clock("comparator")
        self.times.append(clock.laps)
        if self.folder is not None:
            self.folder.keep(self)
        return row

    def finish(self) -> Record:
        """Evaluates the policy that is kept, and the expert; returns the record of the run."""
        if self._record is not None:
            return self._record
        clock = Clock()
        self._tick(KEEPING)
        self.judge.finish(clock)
        if episodes := self.student.timetable.measures(expensive=self.labelling.expensive):
            self._tick(EXPERT)
            self.judge.measure_expert(episodes, clock)
        if self.times:
            for part, seconds in clock.laps.items():
                self.times[-1][part] += seconds
        record = self.record
        if self.folder is not None and not self.folder.pace:  # else a study keeps what has come of it
            self.folder.finish(record.outcome(), record.policy)
        self._record = record
        return record

    # --------------------------------------------------------------------------- what came of it

    @property
    def record(self) -> Record:
        """What has come of the run so far, apart from environment and expert."""
        if self._record is not None:
            return self._record
        seconds = {part: sum(laps[part] for laps in self.times) for part in TIMES}
        seconds["total"] = time.perf_counter() - self.began
        theirs, calls = self.judge.expert_evaluation, self.calls
        return Record(
            kept_round=self.judge.kept_round,
            policy=self.judge.policy,
            ledger=self.student.ledger,
            experts=self.student.experts,
            certificate=self.student.certificate,
            settings=self.student.parts.settings,
            evaluation=self.judge.evaluation,
            expert_evaluation=theirs,
            log=self.student.samples,
            seconds=seconds,
            folder=None if self.folder is None else self.folder.path,
            expert_calls=calls + (0 if theirs is None else int(theirs.lengths.sum())),
            statement=None if self.judge.proof is None else self.judge.proof.statement(self.judge.kept_round),
        )

    @property
    def policy(self) -> TrainedPolicy:
        """The policy that is kept as of now."""
        return self.record.policy

    @property
    def ledger(self) -> Ledger:
        """One row a round."""
        return self.student.ledger if self._record is None else self._record.ledger

    @property
    def certificate(self) -> Certificate:
        """Measured regret and its bound, as of now."""
        return self.record.certificate

    @property
    def calls(self) -> int:
        """Calls of the expert that gave no label, without those of its final evaluation."""
        tested = 0 if self.judge.proof is None else self.judge.proof.calls
        return self.calls_before + self.labelling.calls + self.judge.calls + tested

    def evaluate(self, episodes: int = 20, **how: Any) -> Evaluation:
        """Returns of the policy as of now, see `understudy.evaluate`."""
        how = {"limit": self.spec.episode_limit} | how
        return evaluate(self.policy, self.world.make, episodes=episodes, **how)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes config, ledger, policy and summary to a new folder."""
        return self.record.save(path)

    # --------------------------------------------------------------------------------- telling

    def _tick(self, stage: str, *done: int) -> None:
        self.progress(stage, *done)
        if self.labelling.expert.person is not None:
            self.labelling.expert.person.tell(stage)

    def _tell_asking(self, done: int, wanted: int) -> None:
        if wanted > 1:
            self.progress(f"asking, {done:,} of {wanted:,} labels", None, done)

    @property
    def _watched(self) -> bool:
        """Whether anybody looks while a round is collected."""
        return self.progress is not _silent or self.labelling.expert.person is not None

    def _tell_person(self, number: int) -> None:
        """How far the run is, with the labels of a round that was under way before a break."""
        person, student = self.labelling.expert.person, self.student
        if person is None:
            return
        journal = self.labelling.journal
        here = 0 if journal is None else sum(entry.round == number for entry in journal.kept.values())
        means = [float(row["return_mean"]) for row in student.rows]
        returns = [mean for mean in means if mean == mean]
        person.tell(
            COLLECTING,
            round=number,
            rounds=len(self.student.timetable.sizes),
            labels=student.labels + here,
            budget=self.student.timetable.budget,
            returns=returns,
            best=None if self.judge.best is None else self.judge.best.mean,
        )

    def close(self) -> None:
        """Closes environments and files; what was kept can be resumed."""
        self._opened.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: BaseException | type[BaseException] | TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        done = f"{self.ledger.rounds} of {len(self.student.timetable.sizes)} rounds"
        said = "" if self._record is None else self._record.said
        return f"Run({self.student.parts.settings['env']}, {self.spec.name}, {done}{said})"

    def __str__(self) -> str:
        if self._record is not None:
            return str(self._record)
        student, place = self.student, "nothing" if self.folder is None else self.folder.path
        done = f"{student.round} of {len(student.timetable.sizes)} rounds, {student.labels:,} labels"
        row = summarise_row(student.rows[-1]) if student.rows else ["iterate over it to play it"]
        lines = [
            f"{self.spec.name} on {student.parts.settings['env']}: {done}",
            f"  last round  {', '.join(row)}",
        ]
        return "\n".join([*lines, f"  kept in     {place}"])


def spec_of(
    env: Environment | RunSpec | None,
    settings: dict[str, Setting],
    out: str | os.PathLike[str] | None,
    ways: frozenset[str],
) -> RunSpec:
    """The settings of a run as they are given, over those of the run that is resumed."""
    if ways and out is None:
        raise UserError("resume: there is no folder to resume from; give out.")
    if isinstance(env, RunSpec):
        return env.replace(**settings) if settings else env
    given = settings if env is None else {"env": env, **settings}
    return RunSpec.of(merge_settings(out, given) if ways and out is not None else given)


@contextlib.contextmanager
def naming_round(number: int) -> Generator[None]:
    """An error of a round says in which it was."""
    try:
        yield
    except UserError as error:
        if str(error).startswith("round "):
            raise
        raise UserError(f"round {number}: {error}") from error.__cause__
