"""Which candidate is the best of its setting: the rule of every tuning, whatever played the runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Labels = Mapping[str, Any]
Means = dict[tuple[Any, ...], float]
"""The mean score over seeds of each candidate, by its values along the tuned axes."""


class Choice(NamedTuple):
    """What a setting got.

    setting: labels that were not tuned. values: the tuned ones. score: what it was chosen by, mean over
    seeds. edge: axes whose value is the first or last of the grid ("low" or "high"): a better one may lie
    beyond. tried: how many candidates there were.
    """

    setting: dict[str, Any]
    values: dict[str, Any]
    score: float
    edge: dict[str, str]
    tried: int

    @property
    def labels(self) -> dict[str, Any]:
        """What the chosen runs have in common."""
        return self.setting | self.values


def setting_of(labels: Labels, over: Sequence[str]) -> dict[str, Any]:
    """A run's labels without what is tuned and without its seed.

    >>> setting_of({"learner": "ogd", "step": 0.1, "seed": 3}, ("step",))
    {'learner': 'ogd'}
    """
    return {name: value for name, value in labels.items() if name not in over and name != "seed"}


def values_of(labels: Labels, over: Sequence[str]) -> tuple[Any, ...]:
    """A run's place along the tuned axes."""
    return tuple(labels[name] for name in over)


def means(runs: Iterable[tuple[Labels, float]], over: Sequence[str]) -> dict[str, Means]:
    """Mean scores by setting (as text) and candidate; a score that is not finite counts as infinitely bad.

    >>> means([({"learner": "ogd", "step": 1.0, "seed": s}, 2.0 + s) for s in (0, 1)], ("step",))
    {"{'learner': 'ogd'}": {(1.0,): 2.5}}
    """
    found: dict[str, dict[tuple[Any, ...], list[float]]] = {}
    for labels, score in runs:
        mine = found.setdefault(repr(setting_of(labels, over)), {})
        mine.setdefault(values_of(labels, over), []).append(score if math.isfinite(score) else math.inf)
    return {key: {values: _mean(each) for values, each in mine.items()} for key, mine in found.items()}


def _mean(scores: Sequence[float]) -> float:
    try:
        return math.fsum(scores) / len(scores)
    except OverflowError:  # finite, but their sum is not
        return math.inf


def ranked(candidates: Means) -> list[tuple[Any, ...]]:
    """Candidates, best first; of equal ones the smaller step comes first.

    >>> ranked({(10.0,): 1.0, (0.1,): 1.0, (1.0,): 0.5})
    [(1.0,), (0.1,), (10.0,)]
    """

    def order(values: tuple[Any, ...]) -> Any:
        numbers = [one if isinstance(one, (int, float)) else 0.0 for one in values]
        return (candidates[values], numbers, str(values))

    return sorted(candidates, key=order)


def choose(
    runs: Sequence[tuple[Labels, float]],
    over: Sequence[str],
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    tried: Mapping[str, int] | None = None,
) -> list[Choice]:
    """The best candidate of every setting, in the order in which the settings first appear.

    `grid` says what values an axis has (default: those that the setting was tried with), and `tried` how many
    candidates a setting had, by its text, where some of them are not among the runs.

    >>> runs = [({"learner": "ogd", "step": step}, abs(step - 9.0)) for step in (0.1, 1.0, 10.0)]
    >>> [(one.values, one.edge) for one in choose(runs, ("step",))]
    [({'step': 10.0}, {'step': 'high'})]
    """
    settings = {repr(found): found for found in (setting_of(labels, over) for labels, _ in runs)}
    found = []
    for key, candidates in means(runs, over).items():
        best = ranked(candidates)[0]
        count = len(candidates) if tried is None else tried.get(key, 1)
        edge = {}
        for place, (name, value) in enumerate(zip(over, best, strict=True)):
            axis = {values[place] for values in candidates} if grid is None else set(grid[name])
            numbers = sorted(one for one in axis if type(one) in (int, float))  # not of truth values
            if value in numbers and len(numbers) > 1 and count > 1:
                where = {0: "low", len(numbers) - 1: "high"}.get(numbers.index(value))
                edge |= {name: where} if where else {}
        values = dict(zip(over, best, strict=True))
        found.append(Choice(settings[key], values, candidates[best], edge, count))
    return found
