"""Files. Every file is written whole or not at all, and is on the disk when the call returns.

Data are CSV with every digit, JSON and safetensors; nothing here reads or writes a pickle. What is wrong with
a file is one sentence that begins with the field the caller names.
"""

from __future__ import annotations

import contextlib
import contextvars
import csv
import io
import json
import math
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, final

from .errors import UserError
from .machine import total_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike

T = TypeVar("T")
File = str | os.PathLike[str]
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Plain data."""
LARGE = 2**24
"""Bytes of an array beyond which `open_npz` reads its rows when they are asked for."""
_waits = contextvars.ContextVar("waits", default=True)


def check_ending(field: str, path: Path, *endings: str) -> Path:
    """The path, refused where its name does not end as a file of its kind does: what is written there would
    replace a file of another kind.

    >>> check_ending("out", Path("run.onnx"), ".onnx").name
    'run.onnx'
    """
    if path.suffix.lower() not in endings:
        accepted = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise UserError(f"{field}: {str(path)!r} must end in {accepted}.")
    return path


def write_file(path: File, data: bytes | str) -> None:
    """Writes `data` to a draft beside `path`, syncs it, renames it to `path` and syncs the folder.

    After a kill or on a full disk `path` is the old file or the new one. Folders on the way are made.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(target.name + ".tmp")
    with open(draft, "wb") as file:
        _put(file, data)
    os.replace(draft, target)
    _sync_folder(target.parent)


def append_file(path: File, data: bytes | str) -> int:
    """Adds `data` at the end of a file, syncs it, and returns the file's new length in bytes."""
    with open(path, "ab") as file:
        _put(file, data)
        return file.tell()


def _put(file: IO[bytes], data: bytes | str) -> None:
    # A path may have bytes that are no UTF-8. They are written as escapes, which JSON reads back.
    file.write(data.encode(errors="backslashreplace") if isinstance(data, str) else data)
    file.flush()
    if _waits.get():
        os.fsync(file.fileno())


@contextlib.contextmanager
def unsynced() -> Iterator[None]:
    """Writes of the block do not wait for the disk. A kill loses nothing of them; a power cut may, so they
    are for what has checksums and can be made again.
    """
    before = _waits.set(False)
    try:
        yield
    finally:
        _waits.reset(before)


def _sync_folder(folder: Path) -> None:
    if not _waits.get():
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # some systems cannot open a folder; the rename is atomic there all the same
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_npz(path: File, arrays: Mapping[str, ArrayLike]) -> None:
    """Writes named arrays as an npz archive."""
    import numpy as np

    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    write_file(path, packed.getvalue())


# Folders.


@contextlib.contextmanager
def reporting(folder: File) -> Iterator[None]:
    """Turns an OSError of the block into a `UserError` that names the folder."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        told = f"cannot write {str(folder)!r} ({why}); what was written before is kept"
        raise UserError(f"out: {told}.") from error


class Locked(UserError):
    """Another process is writing to the folder: nothing is wrong with what is in it."""


def lock(folder: File) -> IO[str]:
    """Locks a folder for this process until the returned file is closed, where the system has locks."""
    with reporting(folder):
        file = open(Path(folder) / "lock", "w")  # noqa: SIM115
    # Twice: `is_locked` of another process may hold it for a moment.
    if not _held(file) and (time.sleep(0.05) or not _held(file)):
        file.close()
        raise Locked(f"out: another process is writing to {str(folder)!r}.")
    return file


def is_locked(folder: File) -> bool:
    """Whether a process, this one too, writes to a folder; False where the system has no locks."""
    try:
        with open(Path(folder) / "lock") as file:
            return not _held(file, shared=True)
    except OSError:
        return False


def _held(file: IO[str], *, shared: bool = False) -> bool:
    """Whether this process has the lock now, or the system has none."""
    try:
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError:
        return False
    return True


def refuse_taken(path: Path | None) -> None:
    """Refuses a folder for results that holds something, before any work is done for it."""
    if path is None:
        return
    if path.exists() and not path.is_dir():
        raise UserError(f"out: {str(path)!r} is a file; name a folder that does not exist yet.")
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"out: the folder {str(path)!r} is not empty; name one that does not exist yet.")
    above = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise UserError(f"out: {str(path)!r} cannot be made: {str(above)!r} cannot be written to.")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A draft folder that is renamed to `path` when the block ends well and removed otherwise."""
    refuse_taken(path)
    target = path.absolute()
    draft = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        draft.mkdir(parents=True)
        yield draft
        os.replace(draft, target)
    except OSError as error:
        raise UserError(f"out: cannot write {str(path)!r} ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


# CSV.


def to_columns(rows: Iterable[Mapping[str, T]]) -> dict[str, list[T]]:
    """Rows with the same names as columns; none where there is no row.

    >>> to_columns([{"round": 1, "loss": 0.5}, {"round": 2, "loss": 0.25}])
    {'round': [1, 2], 'loss': [0.5, 0.25]}
    """
    rows = list(rows)
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def to_csv(columns: Mapping[str, Iterable[T]], spell: Callable[[T], str] = str) -> str:
    """Columns of equal length as CSV, a header first. `str` spells a float with every digit.

    >>> to_csv({"round": [1, 2], "loss": [0.1, math.inf]})
    'round,loss\\n1,0.1\\n2,inf\\n'
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    cells = ([spell(one) for one in column] for column in columns.values())
    writer.writerows(zip(*cells, strict=True))
    return stream.getvalue()


def csv_line(values: Iterable[float | str | np.generic]) -> str:
    """One line of CSV.

    >>> csv_line([1, 0.1, "a,b"])
    '1,0.1,"a,b"\\n'
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(values)
    return stream.getvalue()


def read_csv(path: File, field: str, size: int | None = None) -> list[dict[str, str]]:
    """The rows of a CSV file, or of its first `size` bytes, by column, as text."""
    try:
        with open(path, "rb") as stream:
            text = stream.read(-1 if size is None else size).decode()
        return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {path} is damaged ({error}).") from None


# JSON.


def to_json(value: Any, *, lossless: bool = False, indent: int | None = None, sort: bool = False) -> str:
    """Plain data, NumPy's included, as JSON, which has no nan and no infinity.

    They are null, for other programs; with `lossless` they are "#nan", "#inf" and "#-inf", which `from_json`
    reads back.

    >>> to_json({"bound": math.inf}), to_json({"bound": math.inf}, lossless=True)
    ('{"bound": null}', '{"bound": "#inf"}')
    """
    plain = to_plain(value, lossless=lossless)
    # Indented text is for people and files; a line may go to a terminal that knows ASCII only.
    return json.dumps(plain, indent=indent, sort_keys=sort, allow_nan=False, ensure_ascii=indent is None)


def from_json(text: str) -> Any:
    """What `to_json(…, lossless=True)` wrote.

    >>> from_json('["#nan", "#-inf", "#1"]')
    [nan, -inf, '#1']
    """
    return _numbers(json.loads(text))


def to_plain(value: Any, *, lossless: bool = False) -> Any:
    """`value` as dicts, lists, texts and numbers that JSON can express.

    >>> to_plain({"bound": math.inf, "regret": (1.0,)})
    {'bound': None, 'regret': [1.0]}
    """
    if isinstance(value, Mapping):
        return {name: to_plain(one, lossless=lossless) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(one, lossless=lossless) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"#{float(value)}" if lossless else None
    listed = getattr(value, "tolist", None)
    return value if listed is None else to_plain(listed(), lossless=lossless)


def _numbers(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return float(value[1:]) if value in ("#nan", "#inf", "#-inf") else value


def read_json(path: File, field: str) -> Any:
    """The content of a JSON file."""
    try:
        return from_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{field}: cannot read {path} ({error.strerror or error}).") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{field}: {path} is damaged: it is not JSON ({error}).") from None


# Arrays.


class Unreadable(UserError):
    """An archive turns out to be damaged while its rows are read."""


def read_npz(path: File, field: str) -> dict[str, np.ndarray]:
    """The arrays of an archive that ``numpy.savez`` wrote."""
    return cast("dict[str, np.ndarray]", _arrays(path, field, math.inf))


def open_npz(path: File, field: str) -> dict[str, np.ndarray | Stored]:
    """`read_npz`, but arrays of more than `LARGE` bytes are read when their rows are asked for."""
    return _arrays(path, field, LARGE)


def _arrays(path: File, field: str, most: float) -> dict[str, np.ndarray | Stored]:
    import numpy as np

    try:
        if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle, and advise to trust it
            raise ValueError("it is no zip file")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        if (size := sum(info.file_size for info in members)) > (total_memory() or math.inf) / 2:
            raise ValueError(f"its {size:,} bytes are more than half of this machine's memory")
        with np.load(path, allow_pickle=False) as file:
            names = [info.filename.removesuffix(".npy") for info in members if info.file_size > most]
            large = [Stored(path, name, field) for name in names]
            late = {one.name: one for one in large if one.in_rows}
            arrays = {name: late[name] if name in late else file[name] for name in file.files}
        if odd := [name for name, one in arrays.items() if not isinstance(one, (np.ndarray, Stored))]:
            raise ValueError(f"{odd[0]!r} is no array")
        return arrays
    except Exception as error:  # what a damaged or hostile archive makes of NumPy is the archive's fault
        raise _unreadable(path, field, error) from None


def _unreadable(path: File, field: str, error: Exception) -> Unreadable:
    return Unreadable(f"{field}: {path} is no .npz archive of plain arrays ({error}).")


@final
class Stored:
    """Rows (n, …) in an archive, which are read when they are asked for: quickly in their order, and slowly
    in another.
    """

    def __init__(self, path: File, name: str, field: str):
        from numpy.lib import format as layout

        self.name, self._about = name, (path, field)
        with zipfile.ZipFile(path) as archive:  # an open member keeps the file open
            self._file = archive.open(f"{name}.npy")
        first = layout.read_magic(self._file) == (1, 0)
        header = layout.read_array_header_1_0 if first else layout.read_array_header_2_0
        self.shape, self._by_column, self.dtype = header(self._file)
        self._begin, self._each = self._file.tell(), self.dtype.itemsize * math.prod(self.shape[1:])

    @property
    def in_rows(self) -> bool:
        """Whether there are rows of plain numbers, one after another."""
        return bool(self.shape) and not self._by_column and not self.dtype.hasobject

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        import numpy as np

        try:
            first, last, _ = rows.indices(len(self))
            self._file.seek(self._begin + first * self._each)
            data = self._file.read((last - first) * self._each)
            return np.frombuffer(data, self.dtype).reshape(last - first, *self.shape[1:])
        except Exception as error:
            raise _unreadable(*self._about, error) from None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


def write_tensors(
    path: File, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Named arrays as a safetensors file; the same arrays give the same bytes."""
    import numpy as np
    from safetensors.numpy import save

    # Not by save_file: it makes files that only their owner can read, whatever the umask.
    # ascontiguousarray makes one number an array of one, so the shape is put back.
    whole = {name: np.ascontiguousarray(one).reshape(np.shape(one)) for name, one in arrays.items()}
    write_file(path, save(whole, None if metadata is None else dict(metadata)))


def read_tensors(path: File, field: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a safetensors file and its metadata."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise UserError(f"{field}: there is no file {path}.")
    try:
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{field}: {path} is damaged or no safetensors file ({error}).") from None
