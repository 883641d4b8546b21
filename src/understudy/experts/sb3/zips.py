"""Zip files that are not trusted: a damaged one is one sentence, and no member unpacks without end."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from ...errors import UserError

LARGEST = 1 << 30  # bytes of one member; a network of 250 million numbers
RATIO = 200  # JSON of numbers shrinks tenfold and weights hardly at all; a bomb shrinks a thousandfold
SMALL = 1 << 20  # below this nothing is a bomb


@contextlib.contextmanager
def opened(source: Any, what: str) -> Iterator[zipfile.ZipFile]:
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
