"""What a page says about runs, as plain data: groups with intervals and curves, and each run by itself."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import intervals
from ..intervals import Interval
from ..runs import NAMES, Evaluation, unmeasured
from ..spec import FIELDS
from .compared import against_expert, distinct
from .sources import UNKNOWN, Source, labels
from .style import DASHDOT, DASHED, DOTTED, LOOKS, OTHERS, SOLID, look
from .summaries import curve, short, thinned
from .verdict import verdicts

AXES = ("rounds", "steps", "labels", "seconds")
CURVES = {"return": "return_mean", "loss": "loss", "average loss": "average_loss"}
DETAILED = 60
"""Most runs that are shown by themselves: of each group the best, the median and the worst come first."""
SPELLED = {"eta": "η", "alpha": "α"}
DASHES = {SOLID: [], DASHED: [6, 3], DOTTED: [2, 3], DASHDOT: [8, 3, 2, 3]}
"""A page's spelling of the line styles of figures."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", *OTHERS)
# Columns of a run that a page draws.
SHOWN = ("round", "steps", "labels", "loss", "average_loss", "regret", "regret_low", "regret_high")
SHOWN += ("bound", "return_mean", "by_expert", "asked", "solver_grad_norm", "solver_iterations")


def account(sources: Sequence[Source]) -> dict[str, Any]:
    """The whole account of these runs, without what needs their samples."""
    groups = grouped(sources)
    chosen = detailed(groups)
    return {
        "verdicts": verdicts(groups),
        "groups": groups_plain(groups),
        "envs": list(dict.fromkeys(one["labels"]["env"] for one in groups)),
        "counts": dict(Counter(one.state for one in sources)),
        "going": sum(one.going for one in sources if one.state == "unfinished"),
        "runs": [alone(one, place) for one, place in chosen],
        "left_out": len(sources) - len(chosen),
        "troubles": [
            {"name": one.name, "state": one.state, "trouble": one.trouble}
            for one in sources
            if one.state in ("failed", "unreadable")
        ][:200],
    }


def grouped(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Runs that differ in their seed alone, together, each with what they came to."""
    found: dict[str, dict[str, Any]] = {}
    for one, mine in zip(sources, labels(sources), strict=True):
        key = json.dumps(mine, sort_keys=True, default=str)
        found.setdefault(key, {"labels": mine, "sources": []})["sources"].append(one)
    groups = list(found.values())
    for group in groups:
        group |= {"name": name_of(group["labels"])} | came_to(group["sources"])
    # Best first, by the score, then by the labels and the loss; what nothing is known of comes last.
    return sorted(groups, key=rank)


def by_loss(entries: Sequence[Any], results: Sequence[Any]) -> list[dict[str, Any]]:
    """The settings of a study (`understudy.studies.Results` has both), each with its `labels`, its `sources`
    and what they came to: least average loss first, behind them those whose loss is on the expert's states,
    and in the end those of which a run has failed.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry, result in zip(entries, results, strict=True):
        mine = {name: value for name, value in entry.labels.items() if name != "seed"}
        run = Source(
            entry.id,
            Path(),
            "finished" if result.error is None else "failed",
            result.error or "",
            settings=entry.settings,
            columns={name: np.array([row[name] for row in result.rows]) for name in NAMES},
            evaluation=Evaluation.read(result.evaluation),
            expert_evaluation=Evaluation.read(result.expert_evaluation),
        )
        found.setdefault(repr(mine), {"labels": mine, "sources": []})["sources"].append(run)
    groups = [one | came_to(one["sources"]) for one in found.values()]

    def order(one: Mapping[str, Any]) -> tuple[bool, bool, bool, float]:
        loss = one["average loss"].middle
        failed = any(run.trouble for run in one["sources"])
        return failed, one["by expert"], math.isnan(loss), loss

    return sorted(groups, key=order)


def rank(group: Mapping[str, Any]) -> tuple[bool | str | float, ...]:
    """Where a group stands among others: by its return or, where nothing is known of that, by its loss on the
    states that its policy came to; a loss on the expert's states is behind all of these.
    """
    env, score, loss = group["labels"]["env"], group["return"].middle, group["average loss"].middle
    loss = loss if math.isfinite(loss) else math.inf
    # Of those that return the same, the one that asked less: their losses may be of two kinds.
    known = (-score, group["labels_count"]) if math.isfinite(score) else (math.inf, 0.0)
    return env == UNKNOWN, env, *known, group["by expert"], loss


def name_of(mine: Mapping[str, Any]) -> str:
    """A group's name: its learner and what else sets it apart.

    >>> name_of({"env": "E", "learner": "ftrl", "eta": 0.1})
    'FTRL (η = 0.1)'
    """
    more = [f"{SPELLED.get(k, k)} = {_short(v)}" for k, v in mine.items() if k not in ("env", "learner")]
    return look(mine["learner"]).label + (f" ({', '.join(more)})" if more else "")


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else value
    text = text if isinstance(text, str) else json.dumps(text)
    return text if len(text) <= 40 else text[:39] + "…"


def came_to(runs: Sequence[Source]) -> dict[str, Any]:
    """Return, loss, labels and seconds of a group, with 95 % intervals: over runs, one a seed, or over the
    episodes of one run.
    """
    good = distinct(runs)
    measured = [one for one in good if math.isfinite(one.score)]
    # A mean over some of the episodes only, where others returned no finite number, would be no mean return.
    own = [one.evaluation for one in measured if one.evaluation is not None]
    theirs = [one.expert_evaluation for one in measured if one.expert_evaluation is not None]
    alone = len(good) == len(own) == 1
    returned = intervals.mean(own[0].returns if alone else [one.score for one in measured])
    gap, share = against_expert(measured, alone=alone)
    return {
        "return": returned,
        "over": "episodes" if alone else "runs",
        "episodes": min((len(one.returns) for one in own), default=0),
        "not finite": any(not np.isfinite(one.evaluation.returns).all() for one in good if one.evaluation),
        "least": min((float(one.returns.min()) for one in own), default=math.nan),
        "expert": _expert(measured, theirs),
        "expert measured": any(one.expert_evaluation or one.study is not None for one in measured),
        "difference": gap,
        "share": share,
        "why": next((unmeasured({**one.settings, "resolved": one.resolved}) for one in measured), ""),
        "by expert": bool(good) and all(one.by_expert for one in good),
        **{name: _over_runs(good, name.replace(" ", "_")) for name in ("average loss", "loss", "regret")},
        "labels_count": _over_runs(good, "labels").middle,
        "steps": _over_runs(good, "steps").middle,
        "seconds": float(np.mean([one.total for one in good])) if good else math.nan,
        "counted": len(good),
        "measured": len(measured),
        "certified": bool(good) and all(one.certified for one in good),
    }


def _over_runs(runs: Sequence[Source], column: str) -> Interval:
    found = np.asarray([one.last(column) for one in runs], float)
    return intervals.mean(found[np.isfinite(found)])


def _expert(runs: Sequence[Source], found: Sequence[Evaluation]) -> Interval:
    """The expert's return: over its episodes, where all runs have the same ones, else a mean alone."""
    if len(found) == len(runs) > 0 and all(np.array_equal(one.returns, found[0].returns) for one in found):
        return intervals.mean(found[0].returns)
    known = [one.expert for one in runs if math.isfinite(one.expert)]
    return Interval(float(np.mean(known)) if known else math.nan, count=0)


def groups_plain(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Groups as the page reads them, with their colours and curves."""
    made = []
    for group, (colour, dashes) in zip(groups, _looks(groups), strict=True):
        kept, runs = dict(group), group["sources"]
        del kept["sources"]
        states = dict(Counter(one.state for one in runs))
        kept |= {"colour": colour, "dashes": dashes, "runs": len(runs), "states": states}
        made.append(kept | {"curves": curves(runs)})
    return made


def _looks(groups: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[int]]]:
    """A colour and dashes for each group: the learner's own where every learner has one group."""
    pairs = [(one["labels"]["env"], one["labels"]["learner"]) for one in groups]
    if len(set(pairs)) == len(pairs) and {name for _, name in pairs} <= {*LOOKS, "dagger"}:
        drawn = [look(name) for _, name in pairs]
        return [(one.colour, DASHES[one.dashes]) for one in drawn]
    places = [[env for env, _ in pairs[:i]].count(env) for i, (env, _) in enumerate(pairs)]
    styles, colours = list(DASHES.values()), len(PALETTE)
    return [(PALETTE[place % colours], styles[place // colours % len(styles)]) for place in places]


def curves(runs: Sequence[Source]) -> dict[str, dict[str, Any]]:
    """Return and loss along every axis, of runs that have not failed and are half as far as the longest."""
    good = distinct(runs)
    most = max((one.rounds for one in good), default=0)
    good = [one for one in good if 2 * one.rounds >= most]
    made: dict[str, dict[str, Any]] = {}
    for name, column in CURVES.items():
        made[name] = {}
        for axis in AXES:
            drawn = [one for one in good if axis != "seconds" or one.seconds is not None]
            found = curve([places(one, axis) for one in drawn], [one.columns[column] for one in drawn])
            if found is not None:
                made[name][axis] = found
    return made


def places(run: Source, axis: str) -> np.ndarray:
    """A run's rounds along an axis."""
    if axis == "seconds":
        assert run.seconds is not None
        return np.cumsum(sum(run.seconds.values()))
    return run.columns[{"rounds": "round"}.get(axis, axis)]


def detailed(groups: Sequence[Mapping[str, Any]]) -> list[tuple[Source, int]]:
    """The runs that are shown by themselves, with the numbers of their groups."""
    ordered: list[tuple[int, int, Source]] = []
    for place, group in enumerate(groups):
        runs = sorted(group["sources"], key=lambda one: -one.score if math.isfinite(one.score) else math.inf)
        telling = dict.fromkeys([0, len(runs) // 2, len(runs) - 1, *range(len(runs))])
        ordered += [(rank, place, runs[number]) for rank, number in enumerate(telling)]
    kept = sorted(ordered, key=lambda one: one[:2])[:DETAILED]
    return [(one, place) for _, place, one in sorted(kept, key=lambda one: (one[1], one[2].name))]


def alone(run: Source, group: int) -> dict[str, Any]:
    """One run: its columns, at most at some hundred rounds, its certificate, its solves, its time."""
    rows = thinned(run.rounds, 300) if run.rounds else np.zeros(0, int)
    columns = {name: short(run.columns[name][rows]) for name in SHOWN if name in run.columns}
    solves = Counter(map(str, run.columns.get("solver_status", ())))
    made = dict(run.certificate) | {"kind": "certificate" if run.certified else "estimate"}
    judged = np.flatnonzero(np.isfinite(np.asarray(run.columns.get("regret", ()), float)))[-1:]
    for column in ("regret_low", "regret_high", "bound", "norm"):  # of one round: that of the last regret
        found = run.columns[column][judged[0]] if len(judged) else math.nan
        made.setdefault(column.removeprefix("regret_"), float(found))
    losses = np.asarray(run.columns.get("loss", ()), float)
    return {
        "name": run.name,
        "folder": str(run.folder),
        "group": group,
        "env": run.env,
        "learner": look(run.learner).label,
        "seed": run.settings.get("seed"),
        "state": run.state,
        "trouble": run.trouble,
        "rounds": run.rounds,
        "planned": run.planned,
        "study": run.study is not None,
        "score": run.score,
        "expert": run.expert,
        "columns": columns,
        "rises": int((np.diff(losses[np.isfinite(losses)]) > 0).sum()),
        "certificate": {name: value for name, value in made.items() if name != "constants"},
        "solves": dict(solves.most_common()),
        "iterations": int(np.sum(run.columns.get("solver_iterations", 0))),
        "spent": dict(run.spent),
        "command": command(run) if run.settings else "",
        "own": list(run.own),
        "settings": dict(run.settings),
        "resolved": dict(run.resolved),
        "versions": dict(run.versions),
    }


def command(run: Source) -> str:
    """What to type for the same run again, where its environment and parts have names (`Source.own`).

    >>> from pathlib import Path
    >>> settings = {"env": "Hopper-v5", "learner": "ftl", "keep_best": False, "seed": 3}
    >>> command(Source("h", Path("h"), "finished", settings=settings))
    'understudy train Hopper-v5 --learner ftl --keep-best no --seed 3 --out h'
    """
    words = ["understudy", "train", run.env]
    for name, value in run.settings.items():
        if name == "env" or name not in FIELDS:
            continue
        option, kind = "--" + name.replace("_", "-"), str(FIELDS[name].type)
        if kind == "bool":
            words += [option] if value else []
        elif isinstance(value, bool):
            words += [option, "yes" if value else "no"]
        elif isinstance(value, (list, tuple)):
            each = map(str, value)
            words += [option, *(each if kind.startswith("tuple") else [",".join(each)])]
        else:
            words += _said(option, json.dumps(value) if isinstance(value, dict) else str(value))
    words += _said("--out", run.name if run.study is not None else str(run.folder))
    return shlex.join(words)


def _said(option: str, value: str) -> list[str]:
    """An option and its value; one that begins as options do is joined to it."""
    return [f"{option}={value}"] if value.startswith("-") else [option, value]
