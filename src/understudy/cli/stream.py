"""Reading a recorded stream of rounds from an npz file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .. import disk
from ..errors import UserError

if TYPE_CHECKING:
    import numpy as np

    Round = tuple[np.ndarray, np.ndarray]


def read_stream(path: Path) -> list[Round]:
    """The rounds [(X, Y), …] of a file with X, Y (rounds, samples, …), or X, Y (N, …) and `sizes` (rounds,).

    Nothing in the file is executed: arrays that would need unpickling are refused.
    """
    arrays = _arrays(path)
    for name in ("X", "Y"):
        if name not in arrays:
            raise UserError(f"stream: {path} holds {_listed(arrays)}; arrays named X and Y are needed.")
    X, Y = arrays["X"], arrays["Y"]
    if X.ndim == 0 or Y.ndim == 0 or len(X) != len(Y):
        raise UserError(
            f"stream: X has shape {X.shape} and Y has shape {Y.shape}; their first axes must agree."
        )
    if "sizes" in arrays:
        return _split(X, Y, arrays["sizes"])
    if X.ndim < 3:
        raise UserError(
            f"stream: X has shape {X.shape}; expected (rounds, samples, features), or (N, features) with an "
            "array 'sizes' that says how many samples each round has."
        )
    if Y.ndim < 2 or X.shape[1] != Y.shape[1]:
        raise UserError(
            f"stream: X has shape {X.shape} and Y has shape {Y.shape}; rounds and samples must agree."
        )
    return list(zip(X, Y, strict=True))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise UserError(f"stream: there is no file {str(path)!r}.")
    return disk.read_npz(path, "stream")


def _split(X: np.ndarray, Y: np.ndarray, sizes: np.ndarray) -> list[Round]:
    import numpy as np

    if sizes.ndim != 1 or sizes.size == 0 or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 1).any():
        raise UserError("stream: sizes must be whole numbers ≥ 1, one a round.")
    if int(sizes.sum()) != len(X):
        raise UserError(f"stream: sizes add up to {int(sizes.sum())}, but X has {len(X)} rows.")
    cuts = np.cumsum(sizes)[:-1]
    return list(zip(np.split(X, cuts), np.split(Y, cuts), strict=True))


def _listed(arrays: dict[str, np.ndarray]) -> str:
    return f"the arrays {', '.join(sorted(arrays))}" if arrays else "no arrays"
