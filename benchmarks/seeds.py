"""Which seeds may choose settings and which may be published.

A setting that was chosen on a seed looks better on it than on others. So seeds that chose anything, or that
anyone looked at before choosing, are for tuning from then on; what writes a published table takes others.
"""

from __future__ import annotations

from collections.abc import Iterable

TUNING = frozenset({*range(31), *range(71, 76)})
"""Seeds that have chosen settings, or were looked at while settings were chosen."""
REPORTING = range(101, 111)
"""Seeds that have chosen nothing: those of the published tables."""


def reporting(seeds: Iterable[int]) -> list[int]:
    """These seeds, for a table that is to be published; ends the script where one of them has chosen."""
    found = list(seeds)
    if spent := sorted(TUNING.intersection(found)):
        raise SystemExit(
            f"seeds: {', '.join(map(str, spent))} chose settings and cannot report on them; a published "
            f"table takes others, such as {REPORTING[0]} to {REPORTING[-1]} (benchmarks/seeds.py)."
        )
    return found


def tuning(seeds: Iterable[int]) -> list[int]:
    """These seeds, for choosing a setting; ends the script where one of them is kept for tables."""
    found = list(seeds)
    if other := sorted(set(found) - TUNING):
        raise SystemExit(
            f"seeds: {', '.join(map(str, other))} may not choose settings; those of TUNING in "
            "benchmarks/seeds.py may."
        )
    return found
