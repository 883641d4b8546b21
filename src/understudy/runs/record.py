"""What has come of a run: policy, ledger and account; read from a folder without the environment."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

from ..errors import UserError, check_name, damaged
from ..policies import TrainedPolicy
from ..regret import Certificate, Ledger
from ..samples import SampleLog
from ..samples.records import verified
from ..student import BY_EXPERT, TIMES
from .evaluate import Evaluation, judged
from .folder import write_run
from .reading import read_config, read_experts, read_ledger, read_summary
from .statement import Statement

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from ..disk import Json
    from ..policies import Policy, Student

T = TypeVar("T")
NUMBERS = ("round", "steps", "labels", "loss", "average_loss", "return_mean", "regret", "bound")
"""Columns of the ledger that a plot draws."""
UNFINISHED = Certificate(math.nan, math.nan, {}, "estimate", reason="the run is not finished.")


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Record:
    """What has come of a run: what `imitate` returns and `load` reads from a run's folder.

    Attributes:
      policy: the policy that is kept: callable, with `predict`, `save` and `load`.
      ledger: one row per round, the same bytes for the same seed.
      certificate: regret and bound after the last judged round (proved for linear policies, else an
        estimate).
      evaluation, expert_evaluation: returns of the last evaluation, that of `policy`, and of the expert. Both
        are on the same episodes, those of every other run of the environment; none of them has chosen
        anything.
      log: its samples, see `samples`; None where they were not kept.
      seconds: collect, solve, comparator, evaluate and total.
      kept_round: the round after which `policy` was learnt; the last one, but for ``keep_best=True``.
      experts: of several experts, a row a round and expert: its labels so far, the loss on its states and the
        agreement with it (`understudy.runs.BY_EXPERT`); empty of one alone.
      expert_calls: calls of the expert that gave no label: to measure it, to find out its kind, or to see
        whether it is deterministic.
      statement: what the run says of its goal (`until`); None where it has none, or is not finished.
    """

    policy: TrainedPolicy
    ledger: Ledger
    certificate: Certificate
    settings: dict[str, Any]
    evaluation: Evaluation | None
    expert_evaluation: Evaluation | None
    log: SampleLog | None
    seconds: dict[str, float]
    folder: Path | None = None
    expert_calls: int = 0
    kept_round: int = 0
    experts: Ledger = dataclasses.field(default_factory=lambda: Ledger(dict.fromkeys(BY_EXPERT, ())))
    statement: Statement | None = None

    def samples(self, column: str) -> np.ndarray:
        """One column of all samples: inputs, targets, executed, rewards, flags, slots or weights."""
        if self.log is None:
            raise UserError("samples: this run was loaded without its samples.")
        return self.log.column(column)

    @property
    def demos(self) -> int:
        """How many of the samples, the first ones, are recorded demonstrations."""
        demos: Mapping[str, int] = self.settings["resolved"].get("demos") or {}
        return int(demos.get("samples", 0))

    @property
    def card_return(self) -> float:
        """The return that the expert's card states for the environment; nan where it states none."""
        stated = self.settings["resolved"].get("card_return")
        return math.nan if stated is None else float(stated)

    def summary(self) -> dict[str, Any]:
        """The outcome in numbers, as `understudy train --json` prints it; None for what was not measured."""
        last = {name: self.ledger[name][-1] for name in ("round", "steps", "labels", "average_loss")}
        each = {"experts": last_of_experts(self.experts)} if self.experts.rounds else {}
        mine, theirs = self.evaluation, self.expert_evaluation
        numbers = {
            **judged(mine, theirs),
            "expert_return_mean": theirs.mean if theirs else self.card_return,
            "average_loss": float(last["average_loss"]),
            "regret": self.certificate.regret,
            **{f"seconds_{name}": self.seconds[name] for name in ("collect", "solve", "evaluate", "total")},
        }
        return each | {
            "env": self.settings["env"],
            "learner": self.settings["name"],
            "seed": self.settings["seed"],
            "rounds": int(last["round"]),
            "kept_round": self.kept_round,
            "steps": int(last["steps"]),
            "labels": int(last["labels"]),
            "expert_evaluation_calls": self.expert_calls,
            **finite(numbers),
            "run": None if self.folder is None else str(self.folder),
            **({} if self.statement is None else finite(self.statement.numbers())),
        }

    def outcome(self) -> dict[str, Json]:
        """What `summary.json` of a run's folder holds: the summary and what it was made from."""
        return {
            "summary": self.summary(),
            "certificate": self.certificate.described(),
            "seconds": self.seconds,
            "evaluation": self.evaluation and self.evaluation.listed(),
            "expert_evaluation": self.expert_evaluation and self.expert_evaluation.listed(),
            "statement": self.statement and self.statement.plain(),
        }

    def plot(self, against: str = "labels") -> Figure:
        """Loss, return and regret of the rounds as a figure of matplotlib, which a notebook shows and
        ``savefig("run.png")`` writes.

        Args:
          against: labels, steps or round.

        >>> import understudy
        >>> how = {"policy": "linear", "rounds": 3, "steps_per_round": 40, "episodes": 2}
        >>> figure = understudy.imitate("CartPole-v1", **how).plot()
        >>> [axes.get_title() for axes in figure.axes]
        ['loss', 'return', 'regret']
        """
        from ..sinks.notebook import draw

        check_name("against", against, ("labels", "steps", "round"))
        columns = {name: self.ledger[name].tolist() for name in NUMBERS}
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return draw(f"{self.settings['name']} on {self.settings['env']}", rows, against)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes config, ledger, policy and summary to a new folder, from which `Run.load` and the commands
        read.
        """
        return write_run(Path(path), self.settings, self.ledger, self.policy, self.outcome(), self.experts)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Student | Policy | None = None) -> Record:
        """A run from its folder, after every file was compared with its checksum. One that is not finished
        is as it was after its last round, without evaluations and certificate. policy: a student of one's
        own, which no file keeps; without it one cannot act.
        """
        folder = Path(path)
        config = read_config(folder)
        record = verified(folder)
        if not record.round:
            raise UserError(f"run: {str(path)!r} has no round yet.")
        ledger = read_ledger(folder, record.grown.get("ledger.csv", (None,))[0])
        outcome: Mapping[str, Any] = {}
        if not record.finished:
            seconds = dict.fromkeys((*TIMES, "total"), math.nan)
            outcome = {"certificate": UNFINISHED.described(), "seconds": seconds}
        elif (read := read_summary(folder)) is not None:
            outcome = read
        with damaged(f"run: {folder / 'summary.json'}"):
            certificate = Certificate.read(outcome["certificate"])
            mine, theirs = (
                Evaluation.read(outcome.get(name)) for name in ("evaluation", "expert_evaluation")
            )
            seconds, said = outcome["seconds"], outcome.get("statement")
            statement = None if said is None else Statement.read(said)
            summary = outcome.get("summary", {})
            calls = int(summary.get("expert_evaluation_calls", 0))
            number = summary.get("kept_round", ledger.rounds)
        trained = TrainedPolicy.load(folder, policy=policy)
        return cls(
            policy=trained,
            ledger=ledger,
            certificate=certificate,
            settings=config["settings"],
            evaluation=mine,
            expert_evaluation=theirs,
            log=SampleLog.read(folder, record, trained),
            seconds=seconds,
            folder=folder,
            expert_calls=calls,
            kept_round=number,
            statement=statement,
            experts=read_experts(folder, record.grown.get("experts.csv", (None,))[0]),
        )

    @property
    def said(self) -> str:
        """The statement, for a line about the run."""
        return "" if self.statement is None else f": {self.statement.text}"

    def __repr__(self) -> str:
        shown = f", return {self.evaluation.mean:.1f}" if self.evaluation else ""
        shown = f"{self.ledger.rounds} rounds{shown}{self.said}"
        return f"Record({self.settings['env']}, {self.settings['name']}, {shown})"

    def __str__(self) -> str:
        told = self.summary()
        counts = f"{told['rounds']} rounds, {told['labels']:,} labels, seed {told['seed']}"
        lines = [f"{told['learner']} on {told['env']}: {counts}"]
        if self.evaluation:
            ends = [f"{told[name]:.5g}" for name in ("return_low", "return_high") if told[name] is not None]
            within = f", 95 % interval {ends[0]} to {ends[1]}" if len({*ends}) == 2 else ""
            episodes = f"{told['episodes']:.0f} episodes"
            lines.append(f"  return       {told['return_mean']:.5g} ({episodes}{within})")
        if self.statement is not None:
            lines.append(f"  statement    {self.statement.text}")
        if (theirs := told["expert_return_mean"]) is not None:
            card = "" if self.expert_evaluation else " (by its card)"
            lines.append(f"  the expert's {theirs:.5g}{card}")
        lines.append(f"  average loss {told['average_loss']:.5g}")
        if told["regret"] is not None:
            sort = "" if self.certificate.kind == "certificate" else " (an estimate)"
            lines.append(f"  regret       {told['regret']:.5g}{sort}")
        origin = f"round {self.kept_round} of {told['rounds']}"
        lines.append(f"  policy       that of {origin}, {self.policy.policy.name}")
        lines.append(
            f"  kept in      {'no folder: save(path) makes one' if self.folder is None else self.folder}"
        )
        return "\n".join(lines)


def last_of_experts(account: Ledger) -> dict[str, dict[str, Json]]:
    """Of several experts by name: their labels, and loss and agreement where they were asked last."""
    latest: dict[str, dict[str, Json]] = {}
    names = ("expert", "labels", "loss", "agreement")
    for expert, labels, *measured in zip(*(account[name].tolist() for name in names), strict=True):
        about = latest.setdefault(expert, {"labels": 0, "loss": None, "agreement": None})
        known = {name: one for name, one in zip(names[2:], measured, strict=True) if math.isfinite(one)}
        about |= {"labels": labels, **known}
    return latest


def unmeasured(settings: Mapping[str, Any]) -> str:
    """Why the expert of a run with these settings was not played, in a few words."""
    if settings.get("expert") == "person":
        return "it is a person"
    if settings.get("resolved", {}).get("expert") == "none":
        return "there is none, but demonstrations"
    if settings.get("expert_episodes") == 0 or settings.get("episodes") == 0:
        return "nobody asked for it"
    return "it is slow (--expert-episodes 20 would)"


def finite(numbers: Mapping[str, T]) -> dict[str, T | None]:
    """The same with None for numbers that are not finite, as JSON has them."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in numbers.items()}
