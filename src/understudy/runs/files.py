"""Writing files so that a kill, or a full disk, leaves the old or the new one and never half."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UserError


def atomic(path: Path, data: bytes) -> None:
    """Writes `data` beside `path`, makes sure it is on the disk, and gives it the name in one step."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def append(path: Path, text: str) -> int:
    """Adds `text` at the end, on the disk when this returns; gives the new length in bytes."""
    with open(path, "ab") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # some systems cannot open a folder; the rename is atomic there all the same
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def telling(folder: Path) -> Iterator[None]:
    """A disk that refuses is told in one sentence; what was there stays."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"out: cannot write {str(folder)!r} ({error.strerror or error}); what was written before is kept."
        ) from error


def lock(path: Path) -> Any:
    """One process a folder; the lock dies with its process."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return None
    with telling(path):
        file = open(path / "lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise UserError(f"out: another process is writing to {str(path)!r}.") from None
    return file


def cores() -> int:
    """How many cores this process may use: sums over many samples depend on it in their last bits."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions() -> dict[str, Any]:
    """The versions of what computes."""
    found = {}
    for name in ("jax", "jaxlib", "numpy", "gymnasium", "mujoco"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
