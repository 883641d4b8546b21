"""Recorded arrays that tests compare with."""

from __future__ import annotations

import os

import numpy as np


def arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an .npz by name; the file is closed, which the garbage collector would complain about in
    some later test.
    """
    with np.load(path) as kept:
        return dict(kept)
