"""What `map_runs` returns: labels and results as columns, one row per run, or per run and round."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy import disk
from understudy.errors import UserError, check_name, unknown


class Table:
    """Columns by name: `labels` (n,) say which run, `results` (n, …) what came of it; `info` how it was
    done.

    >>> table = Table({"eta": np.array([0.1, 1.0])}, {"loss": np.array([[3.0, 2.0], [5.0, 9.0]])})
    >>> table.where(eta=1.0)["loss"].tolist(), len(table)
    ([[5.0, 9.0]], 2)
    """

    def __init__(
        self, labels: Mapping[str, Any], results: Mapping[str, Any], info: Mapping[str, Any] | None = None
    ):
        self.labels = {name: _column(column) for name, column in labels.items()}
        self.results = {name: np.asarray(column) for name, column in results.items()}
        self.info = dict(info or {})

    @classmethod
    def of(
        cls,
        runs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]],
        progress: Callable[[int, Any], None] | None = None,
    ) -> Table:
        """The table of runs that come one by one, as labels and results; `progress` as for `map_runs`."""
        labels, results = [], []
        for label, result in runs:
            labels.append(label)
            results.append(result)
            if progress is not None:
                progress(len(labels), label)
        return cls(disk.to_columns(labels), disk.to_columns(results))

    def __len__(self) -> int:
        return len(next(iter((self.labels or self.results).values())))

    def __getitem__(self, name: str) -> np.ndarray:
        for columns in (self.labels, self.results):
            if name in columns:
                return columns[name]
        raise unknown("column", name, [*self.labels, *self.results])

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}{list(column.shape[1:]) or ''}" for name, column in self.results.items())
        return f"Table({len(self)} runs; {', '.join(self.labels)}; {shapes})"

    def take(self, rows: Any) -> Table:
        """The rows with these numbers, or where a mask is true."""
        labels, results = ({k: v[rows] for k, v in one.items()} for one in (self.labels, self.results))
        return Table(labels, results, self.info)

    def where(self, **labels: Any) -> Table:
        """The rows whose labels have these values; at least one must."""
        mask = np.ones(len(self), bool)
        for name, value in labels.items():
            check_name("label", name, self.labels)
            mask &= self.labels[name] == value
        if not mask.any():
            wanted = ", ".join(f"{name}={value!r}" for name, value in labels.items())
            raise UserError(f"where: no run has {wanted}.")
        return self.take(mask)

    def with_results(self, **columns: Any) -> Table:
        """The same runs with columns added or replaced."""
        return Table(self.labels, self.results | columns, self.info)

    def long(self) -> dict[str, np.ndarray]:
        """Tidy columns: results that are vectors give one row per element, numbered by the column `round`."""
        shapes = {column.shape[1:] for column in self.results.values()}
        lengths = {length for length, *_ in filter(None, shapes)}
        if len(lengths) > 1 or any(len(shape) > 1 for shape in shapes):
            raise UserError("long: results must be numbers or vectors of one length.")
        if not lengths:
            return {**self.labels, **self.results}
        if "round" in self.labels or "round" in self.results:
            raise UserError("long: 'round' numbers the elements of vectors; give that column another name.")
        length = lengths.pop()
        columns = {name: np.repeat(column, length) for name, column in self.labels.items()}
        columns["round"] = np.tile(np.arange(1, length + 1), len(self))
        for name, column in self.results.items():
            columns[name] = column.reshape(-1) if column.ndim == 2 else np.repeat(column, length)
        return columns


def _column(values: Any) -> np.ndarray:
    """Labels as an array. NumPy would make words of numbers that stand beside words."""
    made = np.asarray(values)
    mixed = made is not values and made.dtype.kind == "U" and not all(isinstance(one, str) for one in values)
    return np.asarray(values, object) if mixed else made


def write_csv(path: str | os.PathLike[str], columns: Mapping[str, Any], *, digits: int = 10) -> None:
    """Columns of equal length as CSV, floats with `digits` digits that matter, in one rename."""
    plain = {name: np.asarray(column).tolist() for name, column in columns.items()}
    data = disk.to_csv(
        plain, lambda one: f"{one:.{digits}g}" if isinstance(one, float) else str(one)
    ).encode()
    if Path(path).suffix == ".gz":
        packed = io.BytesIO()
        # No name and no time inside: they would change the bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
            file.write(data)
        data = packed.getvalue()
    disk.write_file(path, data)
