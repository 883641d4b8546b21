"""A policy as one .npz of plain arrays, with a reader beside it that needs NumPy only."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError
from ..policies import TrainedPolicy
from .graph import graph

READER = "understudy_policy.py"
"""The file of this folder that is copied beside an archive."""
FIRST = (1980, 1, 1, 0, 0, 0)
"""The date of everything in an archive: the same policy, the same bytes."""


def write(trained: TrainedPolicy, path: Path) -> Path:
    """Writes the archive, and the reader beside it, whose file it gives."""
    made = graph(trained)
    card = trained.packed()[1]
    texts = {"graph": made.described(), "card": card}
    arrays = made.arrays | {name: np.array(disk.to_json(one, sort=True)) for name, one in texts.items()}
    disk.write_file(path, _archive(arrays))
    reader = path.with_name(READER)
    disk.write_file(reader, Path(__file__).with_name(READER).read_bytes())
    return reader


def read(path: Path, field: str = "path") -> TrainedPolicy:
    """The policy in an archive that `write` wrote."""
    arrays = disk.read_npz(path, field)
    try:
        card: Any = json.loads(str(arrays["card"]).encode("ascii"))  # NumPy's texts may hold what is none
    except (ValueError, KeyError, RecursionError) as error:
        raise UserError(f"{field}: {path} is no exported policy ({error}).") from None
    return TrainedPolicy.unpacked(arrays, card, f"{field}: {path}")


def _archive(arrays: dict[str, np.ndarray]) -> bytes:
    """What numpy.savez writes, without the time at which it was written."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            inner = io.BytesIO()
            np.lib.format.write_array(inner, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", FIRST), inner.getvalue())
    return stream.getvalue()
