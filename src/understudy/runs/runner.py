"""The runner: n ≥ 1 runs of one environment, a round of all of them at a time.

A round is: collect, ask the expert, learn, find the best in hindsight, evaluate, keep. `imitate` is one run
with a folder, a shard of a study is many that are kept now and then. Their environments are stepped together,
the expert is asked about all their states at once and policies of one architecture act as one stack. On a CPU
a run beside others has the same ledger as that run alone, bit for bit. A run that fails leaves its error; the
others go on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, final

import jax

from ..envs.gymnasium import Maker
from ..errors import UserError
from ..progress import clock
from . import querying
from .device import Device, possible
from .evaluate import AGAIN, Evaluation
from .groups import OneProgram, Policies, by_program
from .host import Host
from .ledger import Clock
from .questions import Questions
from .state import RunState

if TYPE_CHECKING:
    from .folder import Folder


SHARE = 100
"""Times what the last keeping took until the next."""


@final
class Runner:
    """Runs with the same environment, expert, encoding of observations and round sizes.

    Args:
      runs: at their beginning, or restored to one round.
      make: how their environment is made; `first` is one that is there already, and is closed with the
        others.
      folders: where each run is kept, or None.
      pace: seconds between two rounds that are kept, more where keeping takes over 1 % of the time; what
        cannot be written is left then. 0: every round is kept, and must be.
      threads: threads that step the environments.
      together: solve runs of one program in one vmapped call (default: where there is a GPU). Apart, a run
        has the bits it would have alone.
      tick: called as ``tick(stage)``, and in the midst of a round also with its interactions and queries.

    Attributes:
      errors: why run i has stopped, or None.
    """

    def __init__(
        self,
        runs: Sequence[RunState],
        make: Maker,
        *,
        folders: Sequence[Folder | None] = (),
        pace: float = 0.0,
        first: Any = None,
        threads: int = 1,
        together: bool | None = None,
        tick: Callable[..., None] | None = None,
    ):
        assert len({run.plan.sizes for run in runs}) == 1, "runs of a runner have the same rounds"
        self.runs = list(runs)
        self.errors: list[UserError | None] = [None] * len(runs)
        self._folders = list(folders) or [None] * len(runs)
        self._progress = tick or (lambda stage, interactions=None, queries=None: None)
        self._expert = runs[0].parts.expert
        if self._expert.person is not None and len(runs) > 1:
            raise UserError("expert: a person answers one run at a time.")
        self.together = jax.default_backend() != "cpu" if together is None else together
        self._pace, self._due = pace, time.monotonic() + pace
        # Between two rounds that are kept a quick expert is asked again, which takes less than looking it up.
        looked = not pace or self._expert.workers is not None
        journals = [folder.journal if folder and looked else None for folder in self._folders]
        self.questions = Questions(self._expert, journals, runs[0].resolved.limits, self._asked)
        self._policies = Policies(self.runs)
        self._programs: list[OneProgram] | None = None
        first = make() if first is None else first
        if possible(first, runs[0].parts):
            self.environments: Host | Device = Device(first, runs, together=self.together)
        else:
            self.environments = Host(runs, make, first, self.questions, self._policies, threads=threads)

    def _tick(self, stage: str, *done: int) -> None:
        self._progress(stage, *done)
        if self._expert.person is not None:
            self._expert.person.tell(stage)

    def _asked(self, done: int, wanted: int, left: float) -> None:
        if wanted > 1:
            self._progress(f"asking, {done:,} of {wanted:,} labels, {clock(left)} left")

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: Any) -> None:
        self.environments.close()

    @property
    def round(self) -> int:
        return max(run.round for run in self.runs)

    @property
    def going(self) -> list[int]:
        """The runs that have neither failed nor finished."""
        return [i for i, run in enumerate(self.runs) if self.errors[i] is None and not run.finished]

    def begin(self) -> None:
        """Restores the runs whose folders hold rounds already, and makes the files of the others."""
        actions = self.runs[0].parts.actions
        for i, folder in enumerate(self._folders):
            if folder is None:
                continue
            folder.journal.expect(
                (actions.outputs,) if self._expert.kind == "distribution" else actions.shape
            )
            run, slots = self.runs[i], []
            if folder.fresh:
                folder.begin(run)
            else:
                slots = folder.restore(run)
            if "new-episode" in folder.resume:
                found = folder.journal.orphans(run.round + 1)
                # Nothing was under way in a run that has just begun.
                run.breaks += bool(found) or any(slot["episode"] >= 0 for slot in slots)
                self.environments.resume_anew(i, slots, found)
            else:
                run.measuring += self.environments.restore(i, slots)

    def advance(self) -> None:
        """Plays one round of every run that goes on."""
        going, clock = self.going, Clock()
        if not going:
            return
        t = self.runs[going[0]].round + 1
        if self._expert.person is not None:
            self._tell_person(t)
        try:
            if t == 1 and self.runs[going[0]].parts.demos is not None:
                rounds, errors = {i: self.runs[i].parts.demos for i in going}, {}
            else:
                wanted = querying.wanted(self.runs, going, self._policies.load)
                rounds, errors = self.environments.collect(wanted, self._tick)
        except UserError as error:  # of the expert that they share
            rounds, errors = {}, dict.fromkeys(going, error)
        self._failed(errors)
        if not t & (t - 1):
            self._ask_twice(going)
        searched = any(t in self.runs[i].plan.judged and self.runs[i].searches for i in going)
        self._tick("solving, then the best in hindsight" if searched else "solving")
        clock.lap("collect", len(going))  # the seconds of what is done together are split evenly
        self._failed(self._learn(rounds, clock))
        done = [(i, self.runs[i]) for i in going if self.runs[i].round == t]
        self._evaluate([i for i, run in done if run.plan.due(run.plan.evaluated, t, run.queries)], t)
        if time.monotonic() >= self._due:
            self._keep(going)

    def _keep(self, going: Sequence[int]) -> None:
        """Makes the last round of these runs count in their folders."""
        began = time.monotonic()
        for i in going:
            folder = self._folders[i]
            if folder is None or self.errors[i] is not None:
                continue
            try:
                with self._lent(i):
                    folder.commit(self.runs[i], self.environments.snapshot(i))
            except UserError:
                if not self._pace:
                    raise
                self._folders[i] = None
        now = time.monotonic()
        self._due = now + (max(self._pace, SHARE * (now - began)) if self._pace else 0.0)

    def _ask_twice(self, going: Sequence[int]) -> None:
        """Now and then, after rounds 1, 2, 4, 8, …, a quick expert that may be measured is asked about a few
        states again.
        """
        if any(self._measured(self.runs[i]) for i in going):
            owners = self.questions.twice()
            for i in going:
                self.runs[i].measuring += int((owners == i).sum())

    def _measured(self, run: RunState) -> int:
        """Episodes to measure the expert by; where there are none, it is asked for labels alone."""
        return run.plan.measures(expensive=self.questions.dear)

    def _tell_person(self, t: int) -> None:
        """How far the run is, with the labels of a round that was under way before a break."""
        run, journal = self.runs[0], self.questions.journals[0]
        labels = run.queries + sum(one.round == t for one in journal.kept.values())
        returns = [row["return_mean"] for row in run.rows if row["return_mean"] == row["return_mean"]]
        self._expert.person.tell(
            "collecting",
            round=t,
            rounds=len(run.plan.sizes),
            labels=labels,
            budget=run.plan.budget,
            returns=returns,
        )

    def _learn(self, rounds: dict[int, Any], clock: Clock) -> dict[int, UserError]:
        if self._programs is None:
            self._programs = by_program(self.runs, together=self.together)
        if self.together and len(self._programs) > 1 and not self.round:
            # Large programs: the first round compiles them side by side. Later each has its own time.
            with ThreadPoolExecutor(len(self._programs)) as pool:
                found = pool.map(lambda one: one.learn(rounds, clock), self._programs)
        else:
            found = (one.learn(rounds, clock) for one in self._programs)
        return {run: error for some in found for run, error in some.items()}

    def _failed(self, errors: Mapping[int, UserError | None]) -> None:
        for i, error in errors.items():
            self.errors[i] = self.errors[i] or error

    def _complete(self, runs: Sequence[int]) -> None:
        """Trains the committees of these runs, where they have one."""
        for i in runs:
            with self._lent(i):
                self.runs[i].complete()

    @contextlib.contextmanager
    def _lent(self, number: int) -> Iterator[None]:
        """A run of a stack has its own state inside."""
        for program in self._programs or ():
            program.lend(number)
        try:
            yield
        finally:
            for program in self._programs or ():
                program.lend(number, back=True)

    def _evaluate(self, runs: Sequence[int], t: int, *, final: bool = False) -> None:
        """Plays the episodes of number t of these runs' policies; the `final` one, after the rounds, is
        that of what is kept.

        The luckiest of many policies would be kept after one evaluation each. So a policy that would be the
        best plays on until it is behind, its mean return is known well, or it has played five times as many
        episodes; all of them count. The final evaluation, where nothing is chosen, goes on as long.
        """
        runs, clock = [i for i in runs if self.errors[i] is None], Clock()
        if not runs:
            return
        self._complete(runs)
        clock.lap("solve", len(runs))
        self._tick("evaluating")
        found = self._play(runs, t)
        for more in AGAIN:
            unsure = [i for i, result in found.items() if self.errors[i] is None and not result.precise]
            again = [i for i in unsure if self.runs[i].leads(found[i], final=final)]
            found |= {i: found[i].with_more(result) for i, result in self._play(again, more + t).items()}
        clock.lap("evaluate", len(runs))
        for i, result in found.items():
            self.runs[i].assess(result, final=final)
            for part in ("solve", "evaluate"):
                self.runs[i].times[-1][part] += clock.laps[part]

    def _play(self, runs: Sequence[int], number: int) -> dict[int, Evaluation]:
        """The episodes of this number of the runs that can play them; the others fail."""
        found = dict(zip(runs, self.environments.of_runs(runs, number) if runs else [], strict=True))
        self._failed({i: result for i, result in found.items() if isinstance(result, UserError)})
        return {i: result for i, result in found.items() if not isinstance(result, UserError)}

    def finish(self) -> None:
        """The last evaluations: of runs that were restored after their last round, and of the expert, once
        for all runs of a seed.
        """
        last = len(self.runs[0].plan.sizes)
        done = [i for i, error in enumerate(self.errors) if error is None]
        late = [i for i in done if self.runs[i].evaluation is None and self.runs[i].spec.episodes]
        for i in late:
            run, best = self.runs[i], self.runs[i].plan.keep_best
            run.settle()
            self._evaluate([i], last + 1 if best else run.round, final=True)
        self._complete(done)
        asked: dict[tuple[int, int, int], list[int]] = {}
        for i in done:
            run = self.runs[i]
            if self.errors[i] is None and (episodes := self._measured(run)):
                asked.setdefault((run.spec.seed, episodes, last + run.plan.keep_best), []).append(i)
        if asked:
            self._tick("measuring the expert")
        clock = Clock()
        found = self.environments.of_expert(list(asked))
        clock.lap("evaluate", max(1, sum(map(len, asked.values()))))
        for mine, result in zip(asked.values(), found, strict=True):
            for i in mine:
                if isinstance(result, UserError):
                    self.errors[i] = result
                    continue
                self.runs[i].expert_evaluation = result
                self.runs[i].times[-1]["evaluate"] += clock.laps["evaluate"]


def play_all(runner: Runner, progress: Callable[[int], None] | None = None) -> None:
    """Plays every round and the last evaluations; ``progress(round)`` is called after each."""
    while runner.going:
        runner.advance()
        if progress is not None:
            progress(runner.round)
    runner.finish()
