"""A folder of results that exists whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError


def refuse_taken(path: Path | None) -> None:
    """Refuses an `--out` that holds something, before any work is done for it."""
    if path is None:
        return
    if path.exists() and not path.is_dir():
        raise UserError(f"out: {str(path)!r} is a file; name a folder that does not exist yet.")
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"out: the folder {str(path)!r} is not empty; name one that does not exist yet.")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A draft beside `path` that takes its name when the block ends well, and vanishes otherwise."""
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
