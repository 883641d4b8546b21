"""Rounds that count, each with the checksums of every file of the run at that moment.

    rounds/000012.json         every file with its length and CRC-32, and a checksum of itself; its rename is
                               the moment at which round 12 counts
    rounds/000012.safetensors  everything needed to go on from there
    next/                      files that take the place of their namesakes once a record lists them

The last two rounds are kept, so that damage to the last one costs one round. A CRC-32 finds every flipped
byte and every cut; of arbitrary damage it misses one in four thousand million.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import final

from .. import disk
from ..errors import UserError

Sum = tuple[int, int]
"""Length in bytes, and CRC-32."""
RECORDS_KEPT = 2
_WRITTEN = re.compile(r'\{"crc": "([0-9a-f]{8})", "record": (.*)\}\n', re.DOTALL)


@final
class Sums(dict[str, Sum]):
    """The checksums of files under a folder that grow, by name, kept as they grow."""

    def __init__(self, folder: Path | None):
        super().__init__()
        self.folder = folder

    def append(self, name: str, data: bytes | str) -> None:
        """Adds to a file; it is on the disk when this returns."""
        assert self.folder is not None
        data = data.encode() if isinstance(data, str) else data
        with disk.reporting(self.folder):
            disk.append_file(self.folder / name, data)
        size, crc = self.get(name, (0, 0))
        self[name] = size + len(data), zlib.crc32(data, crc)

    def back(self, sums: dict[str, Sum]) -> None:
        """The files as they were at `sums`: what was appended since is cut off."""
        assert self.folder is not None
        for name, (size, _) in sums.items():
            os.truncate(self.folder / name, size)
        self.clear()
        self.update(sums)


def sum_of(file: Path, size: int | None = None) -> Sum | None:
    """The checksum of a file, or of its first `size` bytes; None where it is missing or shorter."""
    if not file.is_file() or (size is not None and file.stat().st_size < size):
        return None
    crc, left = 0, file.stat().st_size if size is None else size
    whole = left
    with open(file, "rb") as stream:
        while left and (data := stream.read(min(left, 1 << 20))):
            crc, left = zlib.crc32(data, crc), left - len(data)
    return (whole, crc) if left == 0 else None


@final
@dataclasses.dataclass(frozen=True)
class Record:
    """What a round's record lists: files that were written whole, and files that grow, with how much of them
    belongs to the round.
    """

    round: int
    whole: dict[str, Sum]
    grown: dict[str, Sum]

    @property
    def finished(self) -> bool:
        return "summary.json" in self.whole

    @property
    def checkpoint(self) -> str:
        return f"{name_of(self.round)}.safetensors"

    def write(self, folder: Path) -> None:
        """Makes the round count."""
        text = disk.to_json(dataclasses.asdict(self))
        disk.write_file(
            folder / f"{name_of(self.round)}.json",
            f'{{"crc": "{zlib.crc32(text.encode()):08x}", "record": {text}}}\n',
        )

    def damage(self, folder: Path, but: Iterable[str] = ()) -> str | None:
        """The first file that is not what it was, in words; `but` are not looked at."""
        for name, kept in (self.whole | self.grown).items():
            if name in but:
                continue
            file, grows = folder / name, name in self.grown
            if not file.is_file():
                return f"{file} is missing"
            found = sum_of(file, kept[0] if grows else None)
            if found is None or found[0] != kept[0]:
                return f"{file} is damaged: it has {file.stat().st_size} bytes and had {kept[0]}"
            if found != kept:
                return f"{file} is damaged: its bytes are not those that were written"
        return None

    def settle(self, folder: Path) -> None:
        """Moves files of next/ to their places where the record lists them."""
        for name, kept in self.whole.items():
            if sum_of(folder / "next" / name) == kept:
                # Another process may be doing the same.
                with contextlib.suppress(FileNotFoundError):
                    os.replace(folder / "next" / name, folder / name)


def name_of(number: int) -> str:
    return f"rounds/{number:06d}"


def read(file: Path) -> Record:
    """A record; one that is damaged is refused."""
    try:
        found = _WRITTEN.fullmatch(file.read_bytes().decode())
        if found is None or f"{zlib.crc32(found[2].encode()):08x}" != found[1]:
            raise ValueError("its bytes are not those that were written")
        plain = disk.from_json(found[2])
        files = ({name: tuple(one) for name, one in plain[kind].items()} for kind in ("whole", "grown"))
        return Record(plain["round"], *files)  # type: ignore[arg-type]
    except OSError as error:
        raise UserError(f"run: cannot read {file} ({error.strerror or error}).") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"run: {file} is damaged: {error}.") from None


def numbers(folder: Path) -> list[int]:
    """The rounds that have a record, the last one first."""
    names = [one.name for one in (folder / "rounds").glob("*.json")]
    return sorted((int(name[:-5]) for name in names if re.fullmatch(r"\d{6,}\.json", name)), reverse=True)


def forget(folder: Path, last: int) -> None:
    """Removes the records before the last two, and all that come after `last`."""
    for file in (folder / "rounds").glob("*"):
        number = file.name.split(".")[0]
        if not number.isdigit() or not last - RECORDS_KEPT < int(number) <= last:
            file.unlink(missing_ok=True)


def verified(path: Path, names: Collection[str] = ()) -> Record:
    """The last round of a run in a folder, after its files (those of these names) were compared."""
    wrong = f"{str(path)!r} has no round yet"
    for _ in range(3):  # a process that writes to it may be between two rounds
        kept = numbers(path)
        if not kept:
            break
        record = read(path / f"{name_of(kept[0])}.json")
        record.settle(path)
        others = {*record.whole, *record.grown}.difference(names) if names else ()
        wrong = record.damage(path, but=others)
        if wrong is None:
            return record
    raise UserError(f"run: {wrong}.")
