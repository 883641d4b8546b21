"""The committed tables of the studies, and numbers written as the documentation writes them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
NAMES = {
    "ftl": "FTL",
    "ftrl": "FTRL",
    "alt_ftrl": "Alt-FTRL",
    "adaftrl": "AdaFTRL",
    "ogd": "OGD",
    "adagrad": "AdaGrad",
}
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"


@functools.cache
def table(name: str) -> pd.DataFrame:
    """docs/figures/NAME.csv, or its gzipped form."""
    path = FIGURES / f"{name}.csv"
    return pd.read_csv(path if path.exists() else path.with_suffix(".csv.gz"))


def rows(name: str, **where: Any) -> pd.DataFrame:
    """The rows of a table in which every named column has the value, or one of a list of values."""
    found = table(name)
    # One cut for all columns: a cut copies the table, and the pages ask a thousand times.
    meant = np.ones(len(found), bool)
    for column, value in where.items():
        meant &= found[column].isin(value if isinstance(value, list) else [value]).to_numpy()
    found = found[meant]
    assert len(found), f"{name}: no row has {where}"
    return found


def cell(name: str, column: str, **where: Any) -> float:
    """The one value of a column in the one row that is meant."""
    found = rows(name, **where)[column]
    assert len(found) == 1, f"{name}: {len(found)} rows have {where}"
    return float(found.iloc[0])


def claims(study: str, claim: str, *settings: str) -> pd.DataFrame:
    """The checks of a claim, by how it begins, in all settings that contain every given text."""
    written = (FIGURES / study / "claims.csv").exists()
    found = table(f"{study}/claims") if written else evidence(study)
    found = found[found["claim"].str.startswith(claim)]
    for text in settings:
        found = found[found["setting"].str.contains(text, regex=False)]
    assert len(found), f"{study}: no claim {claim!r} in {settings}"
    return found


@functools.cache
def evidence(study: str) -> pd.DataFrame:
    """The checks as claims.md lists them, for a study without claims.csv."""
    checks = []
    for line in (FIGURES / study / "claims.md").read_text().split("\n\n")[1].splitlines()[2:]:
        claim, setting, measured, wanted, verdict = (part.strip() for part in line.strip("| ").split(" | "))
        found = re.fullmatch(r"(.*) = (\S+)(?: \[(\S+), (\S+)\]| \(no spread\))?", measured)
        assert found, measured
        numbers = (float(one or found[2]) for one in found.groups()[1:])
        checks.append((claim, setting, found[1], *numbers, wanted, verdict))
    return pd.DataFrame(
        checks, columns=["claim", "setting", "measure", "value", "low", "high", "wanted", "verdict"]
    )


def verdicts(found: pd.DataFrame, verdict: str) -> int:
    """How many checks have a verdict."""
    return int((found["verdict"] == verdict).sum())


def span(values: Iterable[float], form: str = ".0f", join: str = " to ") -> str:
    """The least and the greatest value: "2 to 17"."""
    values = list(values)
    return f"{form_of(min(values), form)}{join}{form_of(max(values), form)}"


def form_of(value: float, form: str) -> str:
    """A number in a format, with a true minus sign and no minus before zero."""
    text = format(value, form)
    return text.lstrip("-") if not text.strip("-0.,") else text.replace("-", "−")


def interval(row: pd.DataFrame, form: str = ".2f") -> str:
    """ "0.62 [0.38, 0.82]" of one claim."""
    assert len(row) == 1, f"{len(row)} claims"
    return bounds((row[name].iloc[0] for name in ("value", "low", "high")), form)


def bounds(three: Iterable[float], form: str) -> str:
    """ "0.62 [0.38, 0.82]" of a value and the ends of its interval."""
    value, low, high = (form_of(float(one), form) for one in three)
    return f"{value} [{low}, {high}]"


def verdict_table(study: str, shown: int = 8) -> list[str]:
    """The rows of a study's claims.md that say how each claim went."""
    lines = (FIGURES / study / "claims.md").read_text().split("\n\n")[0].splitlines()[2:]
    return [line for line in lines if line][:shown] if shown else lines


def least(name: str, column: str = "regret", **where: Any) -> tuple[float, float]:
    """The least mean over seeds among the steps tried, and its step."""
    means = rows(name, **where).groupby("step", dropna=False)[column].mean()
    return float(means.min()), float(means.idxmin()) if means.notna().any() else np.nan
