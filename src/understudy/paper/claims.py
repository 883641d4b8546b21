"""Claims as checks: a number with its interval over seeds, and a verdict that may be "cannot be told"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..mapping import Table
from ..report.style import look

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
SLACK = 1.05
""""Matches" means: at most five per cent above."""
RESAMPLES = 4000


class Claim(NamedTuple):
    """One claim in one setting: what was measured, its 95 % interval over seeds (nan: one seed has none), and
    what was wanted.
    """

    claim: str
    setting: str
    measure: str
    value: float
    low: float
    high: float
    wanted: str
    verdict: str

    @property
    def evidence(self) -> str:
        """The measured value with its interval, as text.

        >>> judge("a beats b", "", "a/b", ratio([1.0], [2.0]), below=1.0).evidence
        'a/b = 0.5 (one seed: no interval)'
        """
        alone = np.isnan(self.low) and not np.isnan(self.value)
        interval = "(one seed: no interval)" if alone else f"[{short(self.low)}, {short(self.high)}]"
        return f"{self.measure} = {short(self.value)} {interval}"


def short(number: float) -> str:
    """Three digits that matter.

    >>> short(1234.5), short(0.012345), short(1.0)
    ('1.23e+03', '0.0123', '1')
    """
    return f"{number:.3g}"


def ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """mean(above)/mean(below) over paired seeds (n,), with the 95 % interval of a bootstrap over seeds.

    A run that left the finite numbers makes its mean infinite (below zero, where one is −∞), and is not
    resampled away.

    >>> ratio(np.array([2.0, 2.0]), np.array([1.0, 1.0]))
    (2.0, 2.0, 2.0)
    """
    above, below = np.asarray(above, float), np.asarray(below, float)
    finite = np.isfinite(above).all(), np.isfinite(below).all()
    if not all(finite):
        beyond = float("-inf" if (above == -np.inf).any() else "inf")
        value = float("nan") if not any(finite) else beyond if finite[1] else 0.0
        return value, value, value
    low, high = _spread(len(above), lambda drawn: above[drawn].mean(axis=1) / below[drawn].mean(axis=1))
    return float(above.mean() / below.mean()), low, high


def medians(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """median(above)/median(below) over seeds, (n,) and (m,), with the 95 % interval of a bootstrap over them.

    A median stands as long as more than half of its seeds are finite; two infinite ones are not compared.

    >>> medians(np.array([2.0, 2.0, np.inf]), np.array([1.0, 1.0, 1.0]))
    (2.0, 2.0, inf)
    """
    count = min(len(above), len(below))
    above, below = np.asarray(above, float)[:count], np.asarray(below, float)[:count]

    def found(drawn: np.ndarray) -> np.ndarray:
        return np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1)

    return float(np.median(above) / np.median(below)), *_spread(count, found, method="nearest")


def _spread(
    count: int, statistic: Callable[[np.ndarray], np.ndarray], method: Any = "linear"
) -> tuple[float, float]:
    """The 95 % interval of a statistic over resamples of `count` seeds, or games; nan where there is one."""
    if count < 2:
        return float("nan"), float("nan")
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    low, high = np.quantile(statistic(drawn), [0.025, 0.975], method=method)
    return float(low), float(high)


def judge(
    claim: str,
    setting: str,
    measure: str,
    found: tuple[float, float, float],
    *,
    below: float = np.nan,
    above: float = np.nan,
) -> Claim:
    """Holds where the whole interval is on the wanted side, does not hold where none of it is; else, and
    where there is no interval, it cannot be told.

    >>> judge("a beats b", "", "a/b", (0.5, 0.4, 0.6), below=1.0).verdict
    'holds'
    >>> judge("a beats b", "", "a/b", (0.9, 0.7, 1.2), below=1.0).verdict
    'cannot be told'
    """
    value, low, high = found
    if np.isnan(above):
        wanted, yes, no = f"< {short(below)}", high < below, low >= below
    else:
        wanted, yes, no = f"> {short(above)}", low > above, high <= above
    verdict = HOLDS if yes else FAILS if no else OPEN
    return Claim(claim, setting, measure, value, low, high, wanted, verdict)


def compare(
    claim: str,
    setting: str,
    runs: Table,
    column: str,
    pair: tuple[str, str],
    *,
    at: int = -1,
    measure: str | None = None,
    **wanted: float,
) -> Claim:
    """Judges the ratio of two learners in one column of a table after round number `at` + 1 (-1: the last).

    `runs` differ in learner and seed only; `wanted` is below=… or above=….
    """
    one, other = (runs.where(learner=name)[column][:, at] for name in pair)
    labels = " / ".join(look(name).label for name in pair)
    return judge(claim, setting, measure or labels, ratio(one, other), **wanted)


def same(claim: str, setting: str, one: np.ndarray, other: np.ndarray) -> Claim:
    """Judges that two arrays are one to a relative difference of 1e-5."""
    away = float(np.max(np.abs(one - other) / np.maximum(np.abs(other), 1e-12)))
    return judge(claim, setting, "largest relative difference", (away, away, away), below=1e-5)


def together(claims: Sequence[Claim]) -> list[tuple[str, str, str]]:
    """Per claim: its verdict over all settings, and how they went. It holds where it holds everywhere.

    >>> made = [judge("c", s, "m", (v, v, v), below=1.0) for s, v in (("one", 0.5), ("two", 2.0))]
    >>> together(made)
    [('c', 'does not hold', 'holds in 1 of 2; not in: two')]
    """
    rows = []
    for claim in dict.fromkeys(one.claim for one in claims):
        mine = [one for one in claims if one.claim == claim]
        kinds = {kind: [one.setting for one in mine if one.verdict == kind] for kind in (HOLDS, FAILS, OPEN)}
        verdict = FAILS if kinds[FAILS] else OPEN if kinds[OPEN] else HOLDS
        rest = ((FAILS, "not in"), (OPEN, "cannot be told in"))
        parts = [f"{words}: {', '.join(kinds[kind])}" for kind, words in rest if kinds[kind]]
        rows.append((claim, verdict, "; ".join([f"holds in {len(kinds[HOLDS])} of {len(mine)}", *parts])))
    return rows


def mean(values: np.ndarray) -> tuple[float, float, float]:
    """The mean with the 95 % interval of a bootstrap over seeds, or games.

    >>> mean(np.array([2.0, 2.0]))
    (2.0, 2.0, 2.0)
    """
    return ratio(values, np.ones(len(values)))


def markdown(claims: Sequence[Claim]) -> str:
    """Two tables: the verdict of each claim, then the evidence in every setting."""
    lines = ["| claim | verdict | where |", "|---|---|---|"]
    lines += [f"| {claim} | **{verdict}** | {where} |" for claim, verdict, where in together(claims)]
    lines += [
        "",
        "| claim | setting | measured, with 95 % interval over seeds | wanted | verdict |",
        "|---|---|---|---|---|",
    ]
    for one in claims:
        lines.append(f"| {one.claim} | {one.setting} | {one.evidence} | {one.wanted} | {one.verdict} |")
    return "\n".join(lines) + "\n"
