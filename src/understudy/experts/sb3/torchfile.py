"""Tensors out of a file that torch.save wrote, without torch and without running what the file says.

Such a file is a zip: `…/data.pkl`, a pickle that names tensors, and `…/data/0`, `…/data/1`, … with their raw
bytes. The pickle is read as records, nothing is run; accepted are torch._utils._rebuild_tensor_v2 (and its
_rebuild_parameter), the storage types below, OrderedDict and plain containers. All others are refused. Zip
files are not trusted: a damaged one is one sentence, and no member unpacks without end.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import reprlib
import zipfile
import zlib
from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import IO

import numpy as np

from ...errors import UserError
from . import pickles
from .pickles import Call, Global, Persistent, Record, is_name, refused

LARGEST = 1 << 30
"""Bytes of one member, of all storages, and of all tensors: a network of 250 million numbers."""
RATIO = 200  # JSON of numbers shrinks tenfold and weights hardly at all; a bomb shrinks a thousandfold
SMALL = 1 << 20  # below this nothing is a bomb
STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}


def state_dict(data: bytes, what: str) -> dict[str, np.ndarray]:
    """The named tensors of a saved state dict, as arrays; entries that are no tensors are left out."""
    with opened(io.BytesIO(data), what) as archive:
        tree, storage = _tree(archive, what, _accepted)
        return _tensors(tree, storage, what)


def checkpoint(path: Path, what: str, wanted: Collection[str]) -> dict[str, dict[str, np.ndarray]]:
    """The state dicts of a saved dict whose names are among those `wanted`, each as named arrays."""
    with opened(path, what) as archive:
        tree, storage = _tree(archive, what, _accepted)
        entries = [(key, value) for key, value in _entries(tree, what) if isinstance(key, str)]
        return {key: _tensors(value, storage, what) for key, value in entries if key in wanted}


def scan(data: bytes, what: str) -> None:
    """Refuses a torch file, or a bare pickle, that would start a program; for files that are not needed."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        pickles.read(data, what)
        return
    with opened(io.BytesIO(data), what) as archive:
        _tree(archive, what, None)


def _tree(
    archive: zipfile.ZipFile, what: str, accepted: Callable[[Global], bool] | None
) -> tuple[Record, Callable[[str], bytes]]:
    """The records of the pickle, and what gives the bytes of a storage, which is unpacked once."""
    pickled = [name for name in archive.namelist() if name.split("/")[-1] == "data.pkl"]
    if len(pickled) != 1:
        raise UserError(f"{what}: is not a file of torch.save (version 1.6 or later).")
    root = pickled[0].removesuffix("data.pkl")
    if f"{root}byteorder" in archive.namelist() and member(archive, f"{root}byteorder", what) != b"little":
        raise UserError(f"{what}: was written on a big-endian machine, which is not supported.")
    left = LARGEST

    @functools.cache
    def storage(key: str) -> bytes:
        nonlocal left
        data = member(archive, f"{root}data/{key}", what)
        left -= len(data)
        if left < 0:
            raise UserError(f"{what}: its tensors have more than {LARGEST:,} bytes.")
        return data

    return pickles.read(member(archive, pickled[0], what), what, accepted), storage


def _tensors(tree: Record, storage: Callable[[str], bytes], what: str) -> dict[str, np.ndarray]:
    # What is not plain data must be a tensor.
    plain = (bool, int, float, str, bytes, list, tuple, dict, type(None))
    tensors: dict[str, np.ndarray] = {}
    size = 0
    for key, value in _entries(tree, what):
        if isinstance(key, str) and not isinstance(value, plain):
            tensors[key] = _tensor(value, storage, what)
            size += tensors[key].nbytes
            if size > LARGEST:  # many tensors may be made of one storage
                raise UserError(f"{what}: its tensors have more than {LARGEST:,} bytes.")
    return tensors


def _entries(tree: Record, what: str) -> list[tuple[Record, Record]]:
    if isinstance(tree, dict):
        return list(tree.items())
    if isinstance(tree, Call) and is_name(tree.function, "collections.OrderedDict"):
        return [item for item in tree.items if isinstance(item, tuple) and len(item) == 2]
    raise refused(what, tree)


def _accepted(name: Global) -> bool:
    if name.module in ("torch", "torch.storage"):
        return name.name in STORAGES or name.name in ("BFloat16Storage", "UntypedStorage", "device", "Size")
    return is_name(
        name, "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"
    )


def _tensor(record: Record, storage: Callable[[str], bytes], what: str) -> np.ndarray:
    if isinstance(record, Call) and is_name(record.function, "torch._utils._rebuild_parameter"):
        record = record.arguments[0]
    if not isinstance(record, Call) or not is_name(record.function, "torch._utils._rebuild_tensor_v2"):
        raise refused(what, record)
    place, offset, shape, strides = record.arguments[:4]
    if not isinstance(place, Persistent) or not isinstance(place.key, tuple) or len(place.key) != 5:
        raise refused(what, place)
    _, kind, key, _, count = place.key
    if not isinstance(kind, Global) or kind.module != "torch" or kind.name not in STORAGES:
        raise refused(what, kind)
    if not isinstance(key, str):
        raise refused(what, key)
    numbers = (offset, count, *shape, *strides)
    whole = all(type(n) is int and n >= 0 for n in numbers)
    if not isinstance(count, int) or not whole or len(shape) != len(strides) or len(shape) > 8:
        raise UserError(f"{what}: holds a tensor of shape {reprlib.repr(shape)}, which is none.")
    data = storage(key)
    flat = np.frombuffer(data, STORAGES[kind.name], count=len(data) // np.dtype(STORAGES[kind.name]).itemsize)
    reach = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and reach >= min(len(flat), count):
        raise UserError(f"{what}: holds a tensor {tuple(shape)} larger than its {len(flat)} numbers.")
    if math.prod(shape) > len(flat):  # strides of zero would make a small file a huge tensor
        raise UserError(f"{what}: holds a tensor of shape {tuple(shape)} made of only {len(flat)} numbers.")
    steps = [stride * flat.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps, writeable=False).copy()


@contextlib.contextmanager
def opened(source: Path | IO[bytes], what: str) -> Generator[zipfile.ZipFile]:
    """A zip opened for reading; a damaged one raises `UserError`."""
    try:
        with zipfile.ZipFile(source) as archive:
            for info in archive.infolist():
                packed = max(info.compress_size, 1)
                if info.file_size > LARGEST or (info.file_size > SMALL and info.file_size > RATIO * packed):
                    raise UserError(
                        f"{what}: its member {info.filename!r} would unpack from {info.compress_size} to "
                        f"{info.file_size} bytes, which no archive of weights does."
                    )
            yield archive
    except UserError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{what}: is damaged or no zip archive ({' '.join(str(error).split())}).") from None
    except OSError as error:
        raise UserError(f"{what}: cannot be read ({error.strerror or error}).") from None


def member(archive: zipfile.ZipFile, name: str, what: str) -> bytes:
    """The bytes of one member; never more than its directory entry promised."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise UserError(f"{what}: has no member {name!r}.") from None
    with archive.open(info) as file:
        data = file.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise UserError(f"{what}: its member {name!r} is truncated.")
    return data
