"""What a page says about runs, as plain data: groups of runs with intervals and curves, a verdict for each
environment, and each run by itself.

Returns are compared on the same episodes only. Episodes differ in luck by more than policies do; on common
ones the luck is in both returns and not in their difference.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from .. import intervals
from ..acceptance import compare
from ..intervals import LEVEL, Interval
from ..progress import format_duration
from ..runs import Evaluation, paired, unmeasured
from ..spec import FIELDS
from .sources import UNKNOWN, Labels, Source, labels, read_result
from .style import DASHDOT, DASHED, DOTTED, LOOKS, OTHERS, SOLID, Look, look
from .tables import many, returned

if TYPE_CHECKING:
    from ..disk import Json
    from ..studies import Entry, Result

Curve: TypeAlias = dict[str, list[float] | int]
AXES = ("labels", "steps", "rounds", "seconds")
CURVES = {"return": "return_mean", "loss": "loss", "average loss": "average_loss"}
POINTS, SPARK = 160, 24
"""Most points of a curve, and of a small one in a table."""
DETAILED = 60
"""Most runs that are shown by themselves: of each group the best, the median and the worst come first."""
SPELLED = {"eta": "η", "alpha": "α"}
DASHES: dict[str | tuple[int, tuple[float, ...]], list[int]] = {
    SOLID: [],
    DASHED: [6, 3],
    DOTTED: [2, 3],
    DASHDOT: [8, 3, 2, 3],
}
"""A page's spelling of the line styles of figures."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", *OTHERS)
SHOWN = (
    *("round", "steps", "labels", "loss", "average_loss", "regret", "regret_low", "regret_high", "bound"),
    *("return_mean", "by_expert", "asked", "solver_grad_norm", "solver_iterations"),
)
"""Columns of a run that a page draws."""
WORLD = ("env", "env_kwargs", "episode_limit")
"""Settings that runs whose returns are compared agree in."""
BRACKETS = "In brackets are Student's 95 % intervals"
ELSEWHERE = "its loss is on the expert's states, so it is not ranked by it"
NOTHING = Interval(math.nan)


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """Runs that differ in their seed alone, and what they came to. Intervals are over runs, one a seed, or
    over the episodes of one run.

    labels: what sets it apart. over: "episodes" or "runs". episodes: the fewest of a run. not_finite: whether
    a return was not. least: the least return. expert_measured: whether the expert's return is of episodes
    that were played, and not from its card. difference: of the returns and the expert's, in pairs; share: the
    ratio of their means. why: why the expert was not measured. by_expert: whether losses are on the expert's
    states. counted: runs that count; measured: those of them with a return.
    """

    labels: Labels
    sources: list[Source]
    name: str
    returned: Interval
    over: str
    episodes: int
    not_finite: bool
    least: float
    expert: Interval
    expert_measured: bool
    difference: Interval
    share: Interval
    why: str
    by_expert: bool
    average_loss: Interval
    loss: Interval
    regret: Interval
    labels_count: float
    steps: float
    seconds: float
    counted: int
    measured: int
    certified: bool

    @property
    def env(self) -> str:
        return str(self.labels["env"])

    def plain(self) -> dict[str, Any]:
        """What a page reads of it."""
        spelt = {"returned": "return", "labels_count": "labels_count"}
        names = [field.name for field in dataclasses.fields(self) if field.name != "sources"]
        states = Counter(run.state for run in self.sources)
        about = {"runs": len(self.sources), "states": dict(states), "curves": curves(self.sources)}
        return {spelt.get(name, name.replace("_", " ")): getattr(self, name) for name in names} | about


def account(sources: Sequence[Source]) -> dict[str, Any]:
    """The whole account of these runs, without what needs their samples."""
    groups = group_runs(sources)
    chosen = detailed(groups)
    troubles = [run for run in sources if run.state in ("failed", "unreadable")][:200]
    return {
        "verdicts": verdicts(groups),
        "groups": [
            group.plain() | {"colour": drawn.colour, "dashes": DASHES[drawn.dashes], "short": drawn.label}
            for group, drawn in zip(groups, looks(groups), strict=True)
        ],
        "envs": list(dict.fromkeys(group.env for group in groups)),
        "counts": dict(Counter(run.state for run in sources)),
        "going": sum(run.going for run in sources if run.state == "unfinished"),
        "runs": [describe_run(run, place) for run, place in chosen],
        "left_out": len(sources) - len(chosen),
        "troubles": [{"name": run.name, "state": run.state, "trouble": run.trouble} for run in troubles],
    }


# ------------------------------------------------------------------------------------------------ groups


def group_runs(sources: Sequence[Source]) -> list[Group]:
    """Runs that differ in their seed alone, together, in the order of `rank`."""
    return sorted(_gather(zip(labels(sources), sources, strict=True)), key=rank)


def _gather(runs: Iterable[tuple[Labels, Source]]) -> list[Group]:
    """Runs of equal labels, together."""
    gathered: dict[str, tuple[Labels, list[Source]]] = {}
    for mine, run in runs:
        key = json.dumps(mine, sort_keys=True, default=str)
        gathered.setdefault(key, (mine, []))[1].append(run)
    return [summarise(mine, sources) for mine, sources in gathered.values()]


def group_by_loss(entries: Sequence[Entry], results: Sequence[Result]) -> list[Group]:
    """The settings of a study: least average loss first, behind them those whose loss is on the expert's
    states, and in the end those of which a run has failed.
    """
    runs = [
        read_result(entry.id, Path(), result, settings=entry.settings)
        for entry, result in zip(entries, results, strict=True)
    ]
    settings = ({name: v for name, v in entry.labels.items() if name != "seed"} for entry in entries)

    def order(group: Group) -> tuple[bool, bool, bool, float]:
        loss = group.average_loss.middle
        return any(run.trouble for run in group.sources), group.by_expert, math.isnan(loss), loss

    return sorted(_gather(zip(settings, runs, strict=True)), key=order)


def rank(group: Group) -> tuple[bool | str | float, ...]:
    """Where a group stands: by its return, else by its loss, on the expert's states behind all others."""
    score, loss = group.returned.middle, group.average_loss.middle
    # Of those that return the same, the one that asked less: their losses may be of two kinds.
    known = (-score, group.labels_count) if math.isfinite(score) else (math.inf, 0.0)
    loss = loss if math.isfinite(loss) else math.inf
    return group.env == UNKNOWN, group.env, *known, group.by_expert, loss


def name_group(mine: Labels) -> str:
    """A group's name: its learner and what else sets it apart.

    >>> name_group({"env": "E", "learner": "ftrl", "eta": 0.1})
    'FTRL (η = 0.1)'
    """
    more = [f"{SPELLED.get(k, k)} = {_short(v)}" for k, v in mine.items() if k not in ("env", "learner")]
    return look(str(mine["learner"])).label + (f" ({', '.join(more)})" if more else "")


def short_names(groups: Sequence[Group]) -> list[str]:
    """Words that set each group apart from the others of its environment: up to three, or its name."""
    found: list[str] = []
    for group in groups:
        others = [other.labels for other in groups if other.env == group.env]
        names = ["learner", "budget", *(name for name in FIELDS if any(name in each for each in others))]
        there = {name for each in others for name in each} - {"env"}
        names = [name for name in dict.fromkeys(names) if name in there]
        sets = itertools.chain.from_iterable(itertools.combinations(names, size) for size in (1, 2, 3))
        few = next((one for one in itertools.islice(sets, 500) if _sets_apart(one, others)), None)
        words = [_word(name, group.labels[name]) for name in few or () if name in group.labels]
        if few is not None and not words:
            words = (
                [_absent(name) for name in few] if group.labels.keys() - {"env", "learner"} else ["default"]
            )
        found.append(group.name if few is None else ", ".join(words))
    return found


def _sets_apart(names: Sequence[str], labels: Sequence[Labels]) -> bool:
    return len({json.dumps([one.get(name) for name in names], default=str) for one in labels}) == len(labels)


def _word(name: str, value: Json) -> str:
    """A setting in a word or two.

    >>> _word("learner", "ftl"), _word("budget", 400), _word("keep_best", False), _word("eta", 0.1)
    ('FTL', 'budget 400', 'no keep best', 'η 0.1')
    """
    said = SPELLED.get(name, name.replace("_", " "))
    if name == "learner":
        return look(str(value)).label
    return f"{'' if value else 'no '}{said}" if isinstance(value, bool) else f"{said} {_short(value)}"


def _absent(name: str) -> str:
    """What is said of a setting that a group has not, where others have it.

    >>> _absent("budget"), _absent("eta")
    ('no budget', 'default η')
    """
    return "no budget" if name == "budget" else f"default {SPELLED.get(name, name.replace('_', ' '))}"


def overview(sources: Sequence[Source]) -> list[dict[str, Json]]:
    """A line for every run: those that go on first, then those that have stopped without an end."""
    order = ["running", "waiting", "stopped", "failed", "unreadable", "finished"]
    lines: list[dict[str, Json]] = []
    for run in sources:
        returns, losses = (np.asarray(run.columns.get(name, ()), float) for name in ("return_mean", "loss"))
        drawn = next((each for each in (returns, losses) if np.isfinite(each).sum() > 1), returns)
        drawn = drawn[np.isfinite(drawn)]
        state = run.state
        if state == "unfinished":
            state = "running" if run.going and run.rounds else "waiting" if run.going else "stopped"
        lines.append(
            _facts(run)
            | {
                "labels": run.last("labels"),
                "state": state,
                "spark": shorten_numbers(drawn[thin(len(drawn), SPARK)]) if len(drawn) else [],
                "drawn": "return" if drawn is not losses and np.isfinite(returns).sum() > 1 else "loss",
            }
        )
    return sorted(lines, key=lambda line: order.index(str(line["state"])))


def _facts(run: Source) -> dict[str, Json]:
    """What is said of a run wherever it is."""
    facts = {name: getattr(run, name) for name in ("name", "env", "score", "rounds", "planned", "state")}
    learner, seed = look(run.learner).label, run.settings.get("seed")
    return facts | {"folder": str(run.folder), "learner": learner, "seed": seed}


def _short(value: Json) -> str:
    text = f"{value:g}" if isinstance(value, float) else value
    text = text if isinstance(text, str) else json.dumps(text)
    return text if len(text) <= 40 else text[:39] + "…"


def summarise(mine: Labels, runs: list[Source]) -> Group:
    """What runs of these labels came to."""
    good = distinct(runs)
    measured = [run for run in good if math.isfinite(run.score)]
    # A mean over some of the episodes only, where others returned no finite number, would be no mean return.
    own = [run.evaluation for run in measured if run.evaluation is not None]
    alone = len(good) == len(own) == 1
    difference, share = against_expert(measured, alone=alone)

    def over_runs(column: str) -> Interval:
        last = np.asarray([run.last(column) for run in good], float)
        return intervals.mean(last[np.isfinite(last)])

    return Group(
        labels=mine,
        sources=runs,
        name=name_group(mine),
        returned=intervals.mean(own[0].returns if alone else [run.score for run in measured]),
        over="episodes" if alone else "runs",
        episodes=min((len(each.returns) for each in own), default=0),
        not_finite=any(not np.isfinite(run.evaluation.returns).all() for run in good if run.evaluation),
        least=min((float(each.returns.min()) for each in own), default=math.nan),
        expert=_expert_return(measured),
        expert_measured=any(run.expert_evaluation or run.study is not None for run in measured),
        difference=difference,
        share=share,
        why=next((unmeasured({**run.settings, "resolved": run.resolved}) for run in measured), ""),
        by_expert=bool(good) and all(run.by_expert for run in good),
        **{name: over_runs(name) for name in ("average_loss", "loss", "regret")},
        labels_count=over_runs("labels").middle,
        steps=over_runs("steps").middle,
        seconds=float(np.mean([run.total for run in good])) if good else math.nan,
        counted=len(good),
        measured=len(measured),
        certified=bool(good) and all(run.certified for run in good),
    )


def _expert_return(runs: Sequence[Source]) -> Interval:
    """The expert's return: over its episodes, where all runs have the same ones, else a mean alone."""
    returns = [run.expert_evaluation.returns for run in runs if run.expert_evaluation is not None]
    if len(returns) == len(runs) > 0 and all(np.array_equal(each, returns[0]) for each in returns):
        return intervals.mean(returns[0])
    known = [run.expert for run in runs if math.isfinite(run.expert)]
    return Interval(float(np.mean(known)) if known else math.nan, count=0)


# --------------------------------------------------------------------------- comparisons on common episodes


def against_expert(runs: Sequence[Source], *, alone: bool) -> tuple[Interval, Interval]:
    """The mean paired difference of these runs' returns and their expert's, and the ratio of the means: of
    one run `alone` over common episodes, else over runs. A ratio means something where both are above zero.
    """
    pairs = _pairs((run.evaluation, run.expert_evaluation) for run in runs)
    if not pairs or len(pairs) < len(runs) or not all(len(mine) for mine, _ in pairs):
        return NOTHING, NOTHING
    gap = intervals.difference(*pairs[0]) if alone else intervals.mean([np.mean(a - b) for a, b in pairs])
    if not all(np.mean(mine) >= 0 and np.mean(theirs) > 0 for mine, theirs in pairs):
        return gap, NOTHING
    if alone:
        return gap, intervals.ratio(*pairs[0])
    return gap, intervals.mean([np.mean(mine) / np.mean(theirs) for mine, theirs in pairs])


def _pairs(
    played: Iterable[tuple[Evaluation | None, Evaluation | None]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The returns of common episodes, where both sides have played some."""
    return [paired(mine, theirs) for mine, theirs in played if mine is not None and theirs is not None]


def between(mine: Sequence[Source], theirs: Sequence[Source], level: float = LEVEL) -> tuple[Interval, str]:
    """The mean paired difference of the returns of two groups of runs, and what it is over: "20 episodes" of
    two single runs, or the seeds that both groups have. The interval is nan where nothing can be compared,
    and the words say why.
    """
    mine, theirs = ([run for run in distinct(runs) if math.isfinite(run.score)] for runs in (mine, theirs))
    settings = [[run.settings.get(name) for name in WORLD] for run in (*mine, *theirs)]
    if any(each != settings[0] for each in settings):
        return NOTHING, "in another environment"
    if len(mine) == len(theirs) == 1:
        runs = [(mine[0], theirs[0])]
    else:
        seeds = {run.settings.get("seed"): run for run in theirs}
        runs = [(run, seeds[seed]) for run in mine if (seed := run.settings.get("seed")) in seeds]
        if len(runs) < 2:
            return NOTHING, "fewer than two seeds in common"
    pairs = _pairs((run.evaluation, other.evaluation) for run, other in runs)
    count = min((len(each) for each, _ in pairs), default=0)
    if len(pairs) < len(runs) or not count:
        return NOTHING, "on other episodes"
    if len(runs) == 1:
        return intervals.difference(*pairs[0], level), f"{count} episodes"
    gaps = [np.mean(each - other) for each, other in pairs]
    return intervals.mean(gaps, level), f"{len(gaps)} seeds, {count} episodes each"


def distinct(runs: Sequence[Source]) -> list[Source]:
    """The runs that count: of those with the same seed and the same losses one, the longest."""
    counted: list[Source] = []
    usable = [run for run in runs if run.state in ("finished", "unfinished") and run.rounds]
    for run in sorted(usable, key=lambda run: -run.rounds):
        if not any(_repeats(run, other) for other in counted):
            counted.append(run)
    return [run for run in usable if any(run is other for other in counted)]


def _repeats(run: Source, other: Source) -> bool:
    if run.settings.get("seed") != other.settings.get("seed"):
        return False
    mine, theirs = (np.asarray(each.columns["loss"], float)[: run.rounds] for each in (run, other))
    return np.allclose(mine, theirs, rtol=1e-6, atol=0.0, equal_nan=True)


# ------------------------------------------------------------------------------------------------ curves


def looks(groups: Sequence[Group]) -> list[Look]:
    """A look for each group, under its short name: the learner's own where every learner has one group."""
    names, pairs = short_names(groups), [(group.env, str(group.labels["learner"])) for group in groups]
    if len(set(pairs)) == len(pairs) and {name for _, name in pairs} <= {*LOOKS, "dagger"}:
        return [look(learner)._replace(label=name) for (_, learner), name in zip(pairs, names, strict=True)]
    places = [[env for env, _ in pairs[:i]].count(env) for i, (env, _) in enumerate(pairs)]
    styles, colours = list(DASHES), len(PALETTE)
    return [
        Look(PALETTE[place % colours], styles[place // colours % len(styles)], name)
        for place, name in zip(places, names, strict=True)
    ]


def curves(runs: Sequence[Source], columns: Mapping[str, str] = CURVES) -> dict[str, dict[str, Curve]]:
    """Columns by name along every axis, of runs that have not failed and are half as far as the longest."""
    good = distinct(runs)
    most = max((run.rounds for run in good), default=0)
    good = [run for run in good if 2 * run.rounds >= most]
    drawn: dict[str, dict[str, Curve]] = {name: {} for name in columns}
    for name, column in columns.items():
        for axis in AXES:
            timed = [run for run in good if axis != "seconds" or run.seconds is not None]
            band = curve([places(run, axis) for run in timed], [run.columns[column] for run in timed])
            if band is not None:
                drawn[name][axis] = band
    return drawn


def places(run: Source, axis: str) -> np.ndarray:
    """A run's rounds along an axis."""
    if axis == "seconds":
        assert run.seconds is not None
        return np.cumsum(sum(run.seconds.values()))
    return run.columns[{"rounds": "round"}.get(axis, axis)]


def curve(xs: Sequence[ArrayLike], ys: Sequence[ArrayLike]) -> Curve | None:
    """The mean of several curves and the band between their 5 % and 95 % quantiles, at most at `POINTS`.

    Where the curves have the same places, those are taken, else places where all of them are, between which
    each curve is a straight line. Numbers that are not finite are left out. None where nothing is left.

    >>> curve([[1, 2], [1, 2]], [[0.0, 1.0], [2.0, 3.0]])["middle"]
    [1.0, 2.0]
    """
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for x, y in zip((np.asarray(x, float) for x in xs), (np.asarray(y, float) for y in ys), strict=True):
        size = min(len(x), len(y))
        there = np.isfinite(x[:size]) & np.isfinite(y[:size])
        if there.any():
            pairs.append((x[:size][there], y[:size][there]))
    if not pairs:
        return None
    shared = pairs[0][0]
    if any(not np.array_equal(x, shared) for x, _ in pairs[1:]):
        low, high = max(x[0] for x, _ in pairs), min(x[-1] for x, _ in pairs)
        every = np.unique(np.concatenate([x for x, _ in pairs]))
        shared = every[(every >= low) & (every <= high)]
        if not len(shared):  # they have no place in common, so the first stands alone
            shared, pairs = pairs[0][0], pairs[:1]
    shared = shared[thin(len(shared))]
    rows = np.stack([np.interp(shared, x, y) for x, y in pairs])
    band: dict[str, list[float] | int] = {"x": shorten_numbers(shared)}
    band |= {"middle": shorten_numbers(rows.mean(axis=0)), "runs": len(rows)}
    if len(rows) > 1:
        low, high = np.quantile(rows, [0.05, 0.95], axis=0)
        band |= {"low": shorten_numbers(low), "high": shorten_numbers(high)}
    return band


def shorten_numbers(values: ArrayLike) -> list[float]:
    """Numbers for a plot, with seven digits.

    >>> shorten_numbers([1 / 3, 2])
    [0.3333333, 2.0]
    """
    return [float(f"{value:.7g}") for value in np.asarray(values, float).tolist()]


def thin(size: int, most: int = POINTS) -> np.ndarray:
    """Numbers of at most `most` rows of `size`, evenly spread, the first and the last among them.

    >>> thin(5, 3).tolist()
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


# ------------------------------------------------------------------------------------------- single runs


def detailed(groups: Sequence[Group]) -> list[tuple[Source, int]]:
    """The runs that are shown by themselves, with the numbers of their groups."""
    ordered: list[tuple[int, int, Source]] = []
    for place, group in enumerate(groups):
        runs = sorted(group.sources, key=lambda run: -run.score if math.isfinite(run.score) else math.inf)
        telling = dict.fromkeys([0, len(runs) // 2, len(runs) - 1, *range(len(runs))])
        ordered += [(turn, place, runs[number]) for turn, number in enumerate(telling)]
    first = sorted(ordered, key=lambda each: each[:2])[:DETAILED]
    return [(run, place) for _, place, run in sorted(first, key=lambda each: (each[1], each[2].name))]


def describe_run(run: Source, group: int) -> dict[str, Any]:
    """One run: its columns, at most at some hundred rounds, its certificate, its solves, its time."""
    rows = thin(run.rounds, 300) if run.rounds else np.zeros(0, int)
    columns = {name: shorten_numbers(run.columns[name][rows]) for name in SHOWN if name in run.columns}
    proof = {**run.certificate, "kind": "certificate" if run.certified else "estimate"}
    measured = np.flatnonzero(np.isfinite(np.asarray(run.columns.get("regret", ()), float)))[-1:]
    for column in ("regret_low", "regret_high", "bound", "norm"):  # of one round: that of the last regret
        last = run.columns[column][measured[0]] if len(measured) else math.nan
        proof.setdefault(column.removeprefix("regret_"), float(last))
    losses = np.asarray(run.columns.get("loss", ()), float)
    return {
        **_facts(run),
        "group": group,
        "going": run.going,
        "trouble": run.trouble,
        "study": run.study is not None and run.folder == run.study,
        "expert": run.expert,
        "experts": {name: dict(about) for name, about in run.experts.items()},
        "columns": columns,
        "rises": int((np.diff(losses[np.isfinite(losses)]) > 0).sum()),
        "certificate": {name: value for name, value in proof.items() if name != "constants"},
        "solves": dict(Counter(map(str, run.columns.get("solver_status", ()))).most_common()),
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

    def say(option: str, value: str) -> list[str]:
        """An option and its value; one that begins as options do is joined to it."""
        return [f"{option}={value}"] if value.startswith("-") else [option, value]

    for name, value in run.settings.items():
        if name == "env" or name not in FIELDS:
            continue
        option, kind = "--" + name.replace("_", "-"), str(FIELDS[name].type)
        if kind == "bool":
            words += [option] if value else []
        elif isinstance(value, bool):
            words += [option, "yes" if value else "no"]
        elif isinstance(value, (list, tuple)):
            each = [str(part) for part in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            words += [option, *(each if kind.startswith("tuple") else [",".join(each)])]
        else:
            words += say(option, json.dumps(value) if isinstance(value, dict) else str(value))
    words += say("--out", run.name if run.study is not None else str(run.folder))
    return shlex.join(words)


# ----------------------------------------------------------------------------------------------- verdicts


def verdicts(groups: Sequence[Group]) -> list[dict[str, str]]:
    """One verdict per environment: its sentence, and what the numbers in it are over."""
    envs = dict.fromkeys(group.env for group in groups)
    return [_verdict(env, [group for group in groups if group.env == env]) for env in envs]


def _verdict(env: str, groups: Sequence[Group]) -> dict[str, str]:
    best = groups[0]
    runs = [run for group in groups for run in group.sources]
    counted = best.counted
    failed = [run for run in runs if run.state in ("failed", "unreadable")]
    trouble = f"{many(len(failed), 'run')} of {len(runs)} failed or cannot be read." if failed else ""
    if not counted:
        text = "Every run failed" if len(failed) == len(runs) else "No round is finished yet"
        text = f"{text} on {env}." if env != UNKNOWN else "Nothing of this can be read."
        return {
            "env": env,
            "text": text,
            "note": f"{trouble} The first: {failed[0].trouble}" if failed else "",
        }
    by = "highest mean return" if math.isfinite(best.returned.middle) else "least average loss"
    who = best.name if len(groups) == 1 else f"{best.name}, with the {by} of {len(groups)} settings,"
    text = f"{who} {_reached(best)}, with {many(best.labels_count, 'label')}"
    if math.isfinite(best.seconds):
        text += f" in {format_duration(best.seconds)}" + (" a run" if counted > 1 else "")
    unfinished = [run for run in runs if run.state == "unfinished"]
    if len(runs) == 1 and unfinished:
        of = f" of {runs[0].planned}" if runs[0].planned else ""
        text = f"Round {runs[0].rounds}{of} is done. So far {text}"
    notes = [_goals(best), _over(best)]
    same = sum(bool(run.rounds) and run.state in ("finished", "unfinished") for run in best.sources)
    if same > counted:
        notes.append(f"Runs of the same seed with the same losses count once: {same} runs are {counted}.")
    if len(groups) > 1:
        notes.append(_rivals(best, groups[1:]))
    if len(runs) > 1 and unfinished:
        are = "is" if len(unfinished) == 1 else "are"
        stopped = sum(not run.going for run in unfinished)
        more = f", {stopped} of them stopped" if stopped else ""
        notes.append(f"{many(len(unfinished), 'run')} of {len(runs)} {are} not finished{more}.")
    return {"env": env, "text": text + ".", "note": " ".join(filter(None, [*notes, trouble]))}


def _goals(best: Group) -> str:
    """What the runs say of the goal that they were trained to reach."""
    said = [run.summary for run in distinct(best.sources) if run.summary.get("reached") is not None]
    if len(said) == 1:
        text = str(said[0]["statement"])
        return f"{text[0].upper()}{text[1:]}."
    reached = sum(bool(summary["reached"]) for summary in said)
    return f"{reached} of {len(said)} runs reached their goal, each with its own proof." if said else ""


def _reached(best: Group) -> str:
    score, share, env = best.returned, best.share, best.env
    if not math.isfinite(score.middle):
        why = "its returns are not finite" if best.not_finite else "was not evaluated"
        return f"has an average loss of {best.average_loss.middle:.3g} on {env} and {why}"
    if math.isfinite(share.middle):
        spell = functools.partial(percent, beside=share[:3])
        return f"reaches {spell(share.middle)} of the expert's return on {env}{span(share, spell)}"
    spell = functools.partial(returned, beside=(*score[:3], best.expert.middle))
    return f"returns {spell(score.middle)} on {env}{span(score, spell)}"


def span(interval: Interval, spell: Callable[[float], str], said: str = "95 % interval ") -> str:
    """An interval in brackets; nothing where there is none, and words where nothing varied."""
    _, low, high, _ = interval
    if low == high:
        return " each time"
    return f" ({said}{spell(low)} to {spell(high)})" if math.isfinite(low + high) else ""


def _over(best: Group) -> str:
    """The returns behind the sentence, the expert's beside them, and what all of them are over."""
    score, expert, gap = best.returned, best.expert, best.difference
    if not math.isfinite(score.middle):
        return ""
    spell = functools.partial(returned, beside=(*score[:3], *expert[:3]))
    text = f"Mean return {spell(score.middle)}{span(score, spell)}"
    if math.isfinite(gap.middle):
        text += f", the expert's {spell(expert.middle)}{span(expert, spell, '')}"
        text += f"; the mean difference on the same episodes is {spell(gap.middle)}{span(gap, spell, '')}. "
    elif math.isfinite(expert.middle):
        where = "on other episodes" if best.expert_measured else "by its card, on other episodes"
        text += f"; the expert's {spell(expert.middle)} is {where}, and not compared. "
    else:
        text += "; the expert's was not measured" + (f": {best.why}. " if best.why else ". ")
    return text + _counted(best, spell)


def _counted(best: Group, spell: Callable[[float], str]) -> str:
    """How many episodes and runs, and the least return, which a mean and its interval may hide."""
    played = many(best.episodes, "episode")
    least = f"; the least return is {spell(best.least)}" if math.isfinite(best.least) else ""
    varied = any(each.low < each.high for each in (best.returned, best.expert, best.difference))
    if best.over == "episodes":
        over = f"{BRACKETS} over {played}" if varied else f"These are {played}"
        text = over if best.episodes > 1 else "One episode, so no interval"
    elif best.measured == 1:
        text = "One run, so no interval"
    else:
        text = f"{BRACKETS if varied else 'These are means'} over {best.measured} runs"
        text += f" of {played} each" if best.episodes else ""
        text += ", the expert's over the episodes" if math.isfinite(best.expert.low) else ""
    return f"{text}{least}."


def _rivals(best: Group, others: Sequence[Group]) -> str:
    """Whether the best returns more than the others on the same episodes, as far as the intervals show."""
    if not math.isfinite(best.returned.middle):
        behind = [group.name for group in others if group.by_expert]
        return "" if best.by_expert or not behind else f"{_list_names(behind)}: {ELSEWHERE}."
    known = [group for group in others if math.isfinite(group.returned.middle)]
    if not known:
        return "No other has a return to compare with."
    # The best was found by these returns, so that the intervals hold for all pairs at once.
    pairs = len(known) * (len(known) + 1) // 2
    gaps = [(group.name, *between(best.sources, group.sources, 1 - (1 - LEVEL) / pairs)) for group in known]
    by_name = {group.name: group for group in known}
    more = [each for each in gaps if each[1].low > 0]
    same = [each for each in gaps if each[1].low == 0 == each[1].high]
    near = [each for each in gaps if each[1].low <= 0 and each not in same]
    said = "95 % interval " if pairs == 1 else f"95 % interval for all {pairs} pairs at once "
    notes = (
        [f"It returns the same as {_list_names([name for name, *_ in same])} in every episode."]
        if same
        else []
    )
    for words, rivals in (("It returns more than", more), ("It is not clearly above", near)):
        if rivals:
            name, gap, over = min(rivals, key=lambda each: each[1].low)
            spell = functools.partial(returned, beside=gap[:3])
            least = "" if len(rivals) == 1 else f"; the least clear, {name}"
            shown = f"by {spell(gap.middle)}{span(gap, spell, said)} over {over}"
            if not math.isfinite(gap.low):
                shown = f"by {spell(gap.middle)} over {over}, without an interval"
            notes.append(f"{words} {_list_names([name for name, *_ in rivals])}{least}: {shown}.")
            if near is rivals and (more_of := _undecided(best, by_name[name])):
                notes.append(more_of)
    apart = [(name, why) for name, gap, why in gaps if math.isnan(gap.middle)]
    for why in dict.fromkeys(why for _, why in apart):
        notes.append(f"Not compared with {_list_names([name for name, w in apart if w == why])}: {why}.")
    return " ".join(notes)


def _undecided(best: Group, other: Group) -> str:
    """How many more episodes would say which of two single runs is better."""
    played = [distinct(group.sources)[0].evaluation for group in (best, other) if group.measured == 1]
    pairs = _pairs([(played[0], played[1])]) if len(played) == 2 else []
    found = compare(*pairs[0]) if pairs else None
    if found is None or found.answer != "not yet" or not math.isfinite(found.needed):
        return ""
    return f"About {found.needed:,.0f} common episodes would decide (understudy evaluate)."


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def percent(share: float, *, beside: Iterable[float] = ()) -> str:
    """A share in per cent, with a decimal where it or one that stands `beside` it has one.

    >>> percent(0.9912), percent(1.0), percent(0.9, beside=[0.873])
    ('99.1 %', '100 %', '90.0 %')
    """
    finite = [value for value in (share, *beside) if math.isfinite(value)]
    whole = all(f"{100 * value:.1f}".endswith(".0") for value in finite)
    return f"{100 * share:.{0 if whole else 1}f} %"
