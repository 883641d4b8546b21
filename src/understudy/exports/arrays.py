"""A policy as one .npz of plain arrays, with a reader beside it that needs NumPy only."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from .. import disk
from ..errors import UserError
from ..policies import Guest, TrainedPolicy
from .graph import graph

READER = "understudy_policy.py"
"""The file of this folder that is copied beside an archive."""
FIRST = (1980, 1, 1, 0, 0, 0)
"""The date of everything in an archive: the same policy, the same bytes."""


def write(trained: TrainedPolicy, path: Path) -> Path:
    """Writes the archive, and the reader beside it, whose file it returns."""
    if isinstance(trained.policy, Guest):
        raise UserError(
            f"export: numpy holds plain operations, and the student {trained.policy.host.name!r} is computed "
            "elsewhere; onnx is accepted where it has onnx(features), as those of students.torch have."
        )
    g, archive = graph(trained), io.BytesIO()
    texts = {"graph": g.describe(), "card": trained.packed()[1]}
    arrays = g.arrays | {name: np.array(disk.to_json(text, sort=True)) for name, text in texts.items()}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:  # numpy.savez would write the time too
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy", FIRST), entry.getvalue())
    disk.write_file(path, archive.getvalue())
    reader = path.with_name(READER)
    disk.write_file(reader, Path(__file__).with_name(READER).read_bytes())
    return reader


def read(path: Path, field: str = "path") -> TrainedPolicy:
    """The policy in an archive that `write` wrote."""
    arrays = disk.read_npz(path, field)
    try:
        card = json.loads(str(arrays["card"]).encode("ascii"))  # NumPy's texts may hold what is none
    except (ValueError, KeyError, RecursionError) as error:
        raise UserError(f"{field}: {path} is no exported policy ({error}).") from None
    return TrainedPolicy.unpacked(arrays, card, f"{field}: {path}")
