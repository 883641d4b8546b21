"""What every round cost, as columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import disk
from ..errors import UserError, unknown

if TYPE_CHECKING:
    import pandas  # pyright: ignore[reportMissingTypeStubs]

COLUMNS: dict[str, str] = {
    "round": "t, from 1",
    "samples": "samples in the round",
    "loss": "l_t(w_t), before the update, on the round's own samples",
    "cumulative_loss": "Σ_{s≤t} l_s(w_s)",
    "average_loss": "cumulative_loss / t",
    "comparator": "min_w Σ_{s≤t} l_s(w), as found; nan in rounds where it was not asked for",
    "regret": "cumulative_loss − comparator, as measured",
    "regret_low": "the true regret against the best comparator of norm ≤ `norm` is at least this, …",
    "regret_high": "… and at most this: proved, rounding included; nan where nothing is; below "
    "`regret_low` where what a part states of itself is false",
    "norm": "B, the largest norm of the comparators that interval and bound are about",
    "bound": "upper bound on that regret, certified for convex losses; inf or nan where there is none",
    "stability": "Σ_{s≤t} δ_s, the first part of the bound",
    "gradient_norm": "||∇l_t(w_t)||",
    "weight": "Λ_t = 1/η_t of the penalty (diagonal AdaGrad: the mean)",
    "residual": "||gradient of the naive FTRL objective|| left at w_{t+1}: for FTRL the accumulated residual",
    "solver_status": "how the inner solve ended",
    "solver_grad_norm": "gradient norm of (whole objective)/t at w_{t+1}",
    "solver_iterations": "iterations of the inner solve",
    "solver_evaluations": "evaluations of the inner solve",
    "comparator_status": "how the comparator's solve ended",
    "comparator_error": "proved bound on how far `comparator` is above the least; nan where there is none",
}
"""Every column of the ledger and what it means."""


class Ledger(Mapping[str, np.ndarray]):
    """Columns of equal length, one row per round: ``ledger["regret"]`` is a NumPy array.

    >>> ledger = Ledger({"round": [1, 2], "loss": [0.5, 0.25]})
    >>> float(ledger["loss"].sum()), len(ledger), ledger.rounds
    (0.75, 2, 2)
    """

    def __init__(self, columns: Mapping[str, Iterable[float | str]]):
        self._columns = {name: np.asarray(values) for name, values in columns.items()}

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    @property
    def rounds(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            raise unknown("ledger column", name, self._columns)
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        last = {
            name: values[-1] for name, values in self._columns.items() if name in ("loss", "regret", "bound")
        }
        shown = ", ".join(f"{name}={value:.6g}" for name, value in last.items())
        return f"Ledger({self.rounds} rounds; last: {shown})"

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame (pandas must be installed)."""
        return to_pandas(self._columns)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The ledger as CSV text, numbers with every digit; also written to `path`, whole and synced."""
        text = disk.to_csv({name: values.tolist() for name, values in self._columns.items()})
        if path is not None:
            disk.write_file(path, text)
        return text


def to_pandas(columns: Mapping[str, Sequence[disk.Json] | np.ndarray]) -> pandas.DataFrame:
    """Columns as a pandas DataFrame (pandas must be installed)."""
    try:
        import pandas  # pyright: ignore[reportMissingImports, reportMissingTypeStubs] # an extra
    except ImportError:
        raise UserError("to_pandas: pandas is not installed: pip install pandas.") from None
    return pandas.DataFrame(dict(columns))
