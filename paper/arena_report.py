"""What the arena found: labels to done by rule, a profile over environments, claims, figures and tables."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from understudy import disk
from understudy.errors import damaged
from understudy.intervals import Interval, median
from understudy.report import plots

from . import claims
from .arena import WANTED, Setting, id_of
from .arena import read as finished
from .arena_rules import LEARNERS, PUBLISHED, RULES
from .arena_worlds import WORLDS

OURS, FTL, EARLY = "ours", "distance", "early"
POINTS, TESTS = "rounds.csv", "tests.csv"
SOURCES = {"published": "#D55E00", "ours": "#0072B2"}
__all__ = ["facts", "judged", "read", "write"]

Run = dict[str, Any]


def read(*folders: Path) -> list[Run]:
    """The runs of these folders, of --keep or of --out; of a run that is in several the first counts."""
    found: dict[str, Run] = {}
    for folder in folders:
        for run in published(folder) if (folder / POINTS).is_file() else finished(folder):
            found.setdefault(id_of(run), run)
    return [found[name] for name in sorted(found)]


def published(folder: Path) -> list[Run]:
    """The runs that `write` made its tables of, with their numbers as those have them. A run that failed
    before its first round is not there.
    """
    found: dict[Setting, Run] = {}
    with damaged(f"tables: {folder}"):
        for row in _table(folder / POINTS):
            setting = _setting(row)
            wanted = [str(q) for q in (WANTED if setting.protocol == "done" else WANTED[-1:])]
            made = found.setdefault(
                setting,
                {
                    **setting._asdict(),
                    "budget": WORLDS[setting.part].budget,
                    "labels_to": dict.fromkeys(wanted),
                    "seconds_to": dict.fromkeys(wanted),
                    "rounds": [],
                    "tests": [],
                },
            )
            seconds, score = (_number(row[name]) for name in ("seconds", "score"))
            made["rounds"].append({"labels": int(row["labels"]), "seconds": seconds, "score": score})
        for row in _table(folder / TESTS):
            made, labels, wanted = found[_setting(row)], int(row["labels"]), row["wanted"]
            numbers = {name: _number(row[name]) for name in MEASURED}
            said = {"candidate": int(row["candidate"]), "labels": labels, "wanted": float(wanted)}
            said |= {"state": row["state"], "episodes": int(row["episodes"])}
            made["tests"].append(said | numbers)
            if row["state"] == "accepted":
                seconds = next(one["seconds"] for one in made["rounds"] if one["labels"] == labels)
                made["labels_to"][wanted], made["seconds_to"][wanted] = labels, seconds
    return list(found.values())


def _table(place: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(place.read_text().splitlines()))


def _setting(row: Mapping[str, str]) -> Setting:
    named: dict[str, Any] = {name: row[name] for name in Setting._fields}
    named["seed"] = int(row["seed"])
    return Setting(**named)


def _number(text: str) -> float | None:
    return float(text) if math.isfinite(float(text)) else None


class Curve(NamedTuple):
    """The runs of a rule in a group: labels (n,) and seconds (n,) to done, infinite where it was not; had
    (n,): the fewest labels that a run can need, one more than it may ask for where it is not done.
    """

    group: str
    rule: str
    wanted: str
    seeds: tuple[int, ...]
    labels: np.ndarray
    seconds: np.ndarray
    had: np.ndarray

    @property
    def middle(self) -> Interval:
        """The median of the labels, between order statistics."""
        return median(self.labels)


def group_of(run: Run) -> str:
    """What the runs that are compared share.

    >>> group_of({"part": "hopper", "expert": "noisy", "student": "network", "protocol": "done"})
    'hopper, noisy expert'
    """
    usual = {"expert": "clean", "student": "network", "protocol": "done"}
    words = {"expert": "expert", "student": "student", "protocol": "protocol"}
    more = [f"{run[field]} {words[field]}" for field, value in usual.items() if run[field] != value]
    return ", ".join([run["part"], *more])


def curves(runs: Sequence[Run]) -> list[Curve]:
    """Every rule in every group, for each of the scores wanted, in the order of the arena."""
    kept: dict[tuple[str, str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda one: one["seed"]):
        for wanted in run["labels_to"]:
            kept.setdefault((group_of(run), run["rule"], wanted), []).append(run)
    order = [name for name in RULES if any(rule == name for _, rule, _ in kept)]
    found = []
    for group in dict.fromkeys(group for group, _, _ in sorted(kept)):
        for rule in order:
            for wanted in sorted({q for g, r, q in kept if (g, r) == (group, rule)}):
                mine = kept[group, rule, wanted]
                labels, seconds = (
                    np.array([math.inf if (x := run[name][wanted]) is None else float(x) for run in mine])
                    for name in ("labels_to", "seconds_to")
                )
                spent = np.array([run["budget"] + 1.0 for run in mine])
                seeds = tuple(run["seed"] for run in mine)
                had = np.where(np.isfinite(labels), labels, spent)
                found.append(Curve(group, rule, wanted, seeds, labels, seconds, had))
    return found


def judged(runs: Sequence[Run]) -> list[claims.Claim]:
    """How the default compares with every published rule, and FTL with the regularised learners."""
    every = curves(runs)
    by = {(one.group, one.rule, one.wanted): one for one in every}
    found = []
    pairs = [(OURS, rule, f"ours needs fewer labels than {RULES[rule].title}") for rule in PUBLISHED]
    pairs += [(rule, FTL, f"{RULES[rule].title}, needs fewer labels than FTL") for rule in LEARNERS[1:]]
    pairs += [(EARLY, FTL, "few demonstrations need fewer labels than those of a warm start")]
    for mine, other, claim in pairs:
        for group, wanted in dict.fromkeys((one.group, one.wanted) for one in every):
            both = by.get((group, mine, wanted)), by.get((group, other, wanted))
            if both[0] is not None and both[1] is not None:
                found.append(fewer(claim, both[0], both[1]))
    return found


def fewer(claim: str, one: Curve, other: Curve) -> claims.Claim:
    """Judges that `one` needs fewer labels than the `other`, by the median of the ratios seed by seed."""
    pairs = [(one.seeds.index(seed), other.seeds.index(seed)) for seed in one.seeds if seed in other.seeds]
    here, there = (np.array(side, int) for side in zip(*pairs, strict=True)) if pairs else ([], [])
    mine, least = (np.maximum(part[here], 1.0) for part in (one.labels, one.had))
    theirs, most = (np.maximum(part[there], 1.0) for part in (other.labels, other.had))
    value, _, high, _ = median(mine / most)
    low = median(least / theirs).low
    measure = f"median of {one.rule}/{other.rule}" + (", at most" if (most < theirs).any() else "")
    setting = f"{one.group}, {one.wanted}"
    return claims.judge(claim, setting, measure, (value, low, high), below=1.0)


def below(runs: Sequence[Run]) -> tuple[int, int]:
    """Of how many accepted policies the score in the episodes after their tests was below the wanted one,
    and how many there were.
    """
    tests = (test for run in runs for test in run["tests"] if "after" in test)
    scores = [test for test in tests if test["state"] == "accepted"]
    return sum(test["after"] < test["wanted"] for test in scores), len(scores)


def facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """How many runs there are, and per group the rules in the order of their labels to 0.95."""
    wrong, accepted = below(runs)
    failed = [run["error"] for run in runs if run.get("error")]
    first = f"{len(failed)}, the first: {failed[0]}" if failed else "0"
    found = [
        ("runs", f"{len(runs):,}"),
        ("runs that failed", first),
        ("accepted, and below in 20 more episodes", f"{accepted}, {wrong}"),
    ]
    every = [one for one in curves(runs) if one.wanted == "0.95"]
    for group in dict.fromkeys(one.group for one in every):
        mine = sorted((one for one in every if one.group == group), key=lambda one: one.middle.middle)
        texts = [f"{one.rule} {_labels(one.middle.middle)}" for one in mine]
        found.append((f"{group}: labels to 0.95", ", ".join(texts)))
    return found


def _labels(number: float) -> str:
    return f"{number:,.0f}" if math.isfinite(number) else "not reached"


def rows(every: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    """One row per group, rule and wanted score."""
    for one in every:
        value, low, high, _ = one.middle
        yield {
            "group": one.group,
            "rule": one.rule,
            "wanted": one.wanted,
            "seeds": len(one.seeds),
            "done": int(np.isfinite(one.labels).sum()),
            "labels": value,
            "labels_low": low,
            "labels_high": high,
            "seconds": median(one.seconds).middle,
        }


def points(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """One row per run and round: labels, seconds, and the score in a look of few episodes."""
    names = ("part", "expert", "student", "protocol", "rule", "seed")
    for run in runs:
        for row in run["rounds"]:
            yield {name: run[name] for name in names} | row


def tests(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """One row per run, candidate and wanted score: what the test said, and the score in the episodes after
    it, which is NaN where nothing was accepted.
    """
    names = ("part", "expert", "student", "protocol", "rule", "seed")
    for run in runs:
        for row in run["tests"]:
            numbers = {name: math.nan if row.get(name) is None else row[name] for name in MEASURED}
            yield {name: run[name] for name in names} | {name: row[name] for name in SAID} | numbers


SAID, MEASURED = ("candidate", "labels", "wanted", "state", "episodes"), ("score", "low", "high", "after")


def summary(every: Sequence[Curve]) -> str:
    """Two tables in Markdown, of the groups in which rules compete and of the others: rules by rows, groups
    by columns, median labels to 0.95 with their interval.
    """
    return "\n".join(_matrix(half) for half in halves(every) if half)


def _matrix(every: Sequence[Curve]) -> str:
    wanted = [one for one in every if one.wanted == "0.95"]
    groups = list(dict.fromkeys(one.group for one in wanted))
    rules = [name for name in RULES if any(one.rule == name for one in wanted)]
    by = {(one.rule, one.group): one for one in wanted}
    lines = ["| labels to 0.95 | " + " | ".join(groups) + " |", "|---|" + "---|" * len(groups)]
    for rule in rules:
        cells = [_cell(by.get((rule, group))) for group in groups]
        lines.append(f"| {RULES[rule].title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(one: Curve | None) -> str:
    if one is None:
        return "–"
    value, low, high, _ = one.middle
    done = f"{int(np.isfinite(one.labels).sum())} of {len(one.seeds)}"
    if not math.isfinite(value):
        return f"> {one.had.max() - 1:,.0f} ({done})"
    bounded = low > -math.inf
    ends = f" [{_labels(low)}, {_labels(high) if math.isfinite(high) else '∞'}]" if bounded else ""
    return f"{_labels(value)}{ends} ({done})"


def halves(every: Sequence[Curve]) -> tuple[list[Curve], list[Curve]]:
    """The groups in which rules compete, and those in which learners alone do."""
    rules = {one.group for one in every if one.rule not in LEARNERS}
    return [one for one in every if one.group in rules], [one for one in every if one.group not in rules]


def draw(every: Sequence[Curve]) -> Any:
    """Labels to done: a panel per group, those with many rules first, a row per rule; every seed is a dot,
    the bar is the median with its interval. What did not get there stands at the right edge; a rule without
    runs in a group says so.
    """
    played: dict[str, set[str]] = {}
    for one in every:
        played.setdefault(one.group, set()).add(one.rule)
    groups = sorted(played, key=lambda group: -len(played[group]))
    wide = min(3, len(groups))
    grid = [groups[first : first + wide] for first in range(0, len(groups), wide)]
    here = {RULES[one.rule].source == "ours" for one in every}
    sources = {name: colour for name, colour in SOURCES.items() if (name == "ours") in here}
    shape = range(len(grid)), range(wide)
    size = 4.4, 1.0 + 0.3 * max(map(len, played.values()))
    with plots.panels(*shape, size=size, xlabel="labels to done", below=4) as (made, panels):
        for axes, row, column in panels:
            if column >= len(grid[row]):
                axes.set_axis_off()
                continue
            group = grid[row][column]
            here = set[str]().union(*(played[group] for group in grid[row]))  # as the others of its row
            rules = [name for name in RULES if name in here][::-1]
            mine = [one for one in every if one.group == group]
            edge = 1.08 * max(one.had.max() for one in mine)
            for one in mine:
                _row(axes, one, rules.index(one.rule), edge)
            for at, rule in enumerate(rules):
                if all(one.rule != rule for one in mine):
                    axes.text(0.02 * edge, at, "not played", va="center", color="#999999", fontsize=7)
            axes.axvline(edge, color="#999999", linewidth=0.8, linestyle=":")
            axes.text(edge, len(rules) - 0.4, "not done", ha="center", color="#777777", fontsize=7)
            for source, colour in sources.items():
                for score, face in (("0.9", "none"), ("0.95", colour)):
                    axes.scatter([], [], s=24, facecolors=face, edgecolors=colour, label=f"{source}, {score}")
            names = [RULES[rule].title for rule in rules] if column == 0 else [""] * len(rules)
            axes.set_yticks(range(len(rules)), names)
            axes.set(title=group, xlim=(0, 1.05 * edge), ylim=(-0.6, len(rules)))
            axes.grid(axis="y", visible=False)
    return made


def _row(axes: Any, one: Curve, at: int, edge: float) -> None:
    """The dots of a rule: filled for 0.95, hollow for 0.9, which are drawn a little higher."""
    colour = SOURCES["ours" if RULES[one.rule].source == "ours" else "published"]
    strict = one.wanted == "0.95"
    height = at + (-0.14 if strict else 0.16)
    x = np.where(np.isfinite(one.labels), one.labels, edge)
    face = colour if strict else "none"
    axes.scatter(
        x, np.full(len(x), height), s=16, facecolors=face, edgecolors=colour, alpha=0.7, linewidths=1
    )
    value, low, high, _ = one.middle
    if math.isfinite(value):
        axes.plot([value, value], [height - 0.13, height + 0.13], color=colour, linewidth=2.4)
        if low > -math.inf:
            axes.plot([low, min(high, edge)], [height, height], color=colour, linewidth=1.2)


def profile(every: Sequence[Curve]) -> Any:
    """The share of all runs that are done with at most so many times the labels of the best rule of their
    group, by its median. Only groups count that have as many rules as any other. Ours and the published rules
    with the most under their curves have names, the others are grey.
    """
    ruled = {
        group: len({one.rule for one in every if one.group == group})
        for group in {one.group for one in every}
    }
    every = [one for one in every if ruled[one.group] == max(ruled.values())]
    wanted = sorted({one.wanted for one in every})
    best: dict[tuple[str, str], float] = {}
    for one in every:
        key = one.group, one.wanted
        best[key] = min(best.get(key, math.inf), max(one.middle.middle, 1.0))
    factors = np.geomspace(0.5, 16.0, 400)
    shares: dict[tuple[str, str], np.ndarray] = {}
    for rule, score in dict.fromkeys((one.rule, one.wanted) for one in every):
        ratios = [
            one.labels / best[one.group, score]
            for one in every
            if (one.rule, one.wanted) == (rule, score) and math.isfinite(best[one.group, score])
        ]
        if ratios:
            shares[rule, score] = (np.concatenate(ratios) <= factors[:, None]).mean(axis=1)
    under = {
        rule: sum(float(y.mean()) for (name, _), y in shares.items() if name == rule) for rule, _ in shares
    }
    named = sorted((rule for rule in under if rule in PUBLISHED), key=lambda rule: -under[rule])[
        : len(COLOURS)
    ]
    drawn = dict(zip(named, COLOURS, strict=False)) | {OURS: SOURCES["ours"], EARLY: SOURCES["ours"]}
    with plots.panels(
        [0], wanted, size=(5.4, 4.0), xlabel="labels / those of the best rule", ylabel="share done", below=4
    ) as (made, panels):
        for axes, _, score in panels:
            mine = [rule for rule, one in shares if one == score]
            for rule in sorted(mine, key=lambda rule: (rule in drawn, rule == OURS)):
                label = RULES[rule].title if rule in drawn else "another rule"
                (line,) = axes.plot(
                    factors, shares[rule, score], label=label, color=drawn.get(rule, "#CCCCCC")
                )
                line.set_linewidth(3.0 if rule == OURS else 1.8 if rule in drawn else 1.0)
                line.set_linestyle((0, (3, 1.5)) if rule == EARLY else "-")
            axes.set(title=f"score {score}", xscale="log", ylim=(0, 1.02))
            axes.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
            axes.minorticks_off()
    return made


COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#000000")
"""Of the published rules that a profile names."""


def write(folder: Path, runs: Sequence[Run], found: list[claims.Claim]) -> list[str]:
    """Figures, tables and claims; the names of the files."""
    every = curves(runs)
    tables: dict[str, Any] = {
        "labels.csv": disk.to_columns(rows(every)),
        POINTS: disk.to_columns(points(runs)),
        TESTS: disk.to_columns(tests(runs)),
        "summary.md": summary(every),
    }
    rules, learners = halves(every)
    figures = {"labels": draw(rules), "profile": profile(rules)} if rules else {}
    figures |= {"learners": draw(learners)} if learners else {}
    return claims.write(folder, figures, tables, found, digits={POINTS: 5, TESTS: 5})
