"""What a run wrote, without what two plays of it may differ in, and the first difference of two runs."""

from __future__ import annotations

import csv
import fnmatch
import io
import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from golden_runs import RENAMED

NAMES: dict[str, str] = {}
"""Words in JSON, such as the kind of a solver in config.json, that the older tree writes otherwise and that
mean the same: from the word of now to the old one.
"""
NEW: tuple[str, ...] = ()
"""Settings that only one of the trees has, and whose default is what the other always does."""
NOTHING = "(nothing)"


def _text(data: bytes) -> Any:
    return data.decode(errors="replace").splitlines()


def _table(data: bytes) -> Any:
    """The rows of a CSV file, every cell as it is written: the same number has the same digits."""
    rows = csv.DictReader(io.StringIO(data.decode()))
    return [{RENAMED.get(name, name): cell for name, cell in row.items()} for row in rows]


def _json(*left_out: str) -> Callable[[bytes], Any]:
    """JSON without the keys that match one of these patterns, at any depth."""

    def read(data: bytes) -> Any:
        text = data.decode()
        try:
            return _named(json.loads(text), (*left_out, *NEW))
        except ValueError:  # several lines, of which the last is JSON: what a command printed
            return [_named(json.loads(line), left_out) for line in text.splitlines() if line.startswith("{")]

    return read


def _named(value: Any, left_out: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not any(fnmatch.fnmatchcase(k, one) for one in left_out)}
        return {RENAMED.get(k, k): _named(v, left_out) for k, v in kept.items()}
    if isinstance(value, list):
        return [_named(one, left_out) for one in value]
    return NAMES.get(value, value) if isinstance(value, str) else value


def _tensors(data: bytes) -> Any:
    """The arrays of a safetensors file by name, and its metadata."""
    from safetensors.numpy import load

    (size,) = struct.unpack_from("<Q", data)
    words = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    read = {k: _json()(v.encode()) if v.startswith("{") else v for k, v in words.items()}
    return {"metadata": read, **load(data)}


def _arrays(data: bytes) -> Any:
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _labels(data: bytes) -> Any:
    """The journal's head and its records, sorted: threads of a slow expert answer in any order."""
    head, _, body = data.partition(b"\n")
    label, shape, row, width = head.decode().split()[-5:-1]
    sizes = [
        np.dtype(kind).itemsize * math.prod(int(one) for one in form.split("x") if one != "-")
        for kind, form in ((label, shape), (row, width))
    ]
    size = 4 + 16 + sum(sizes) + 4  # the round, the state's digest, the label, the row, a checksum
    return {
        "head": head.decode(),
        "records": sorted(body[at : at + size].hex() for at in range(0, len(body), size)),
    }


def _record(data: bytes) -> Any:
    """A round's record: which files it lists, and how long they are unless they hold times."""
    found = json.loads(data)["record"]
    timed = ("times.csv", "summary.json", "config.json")
    for kind in ("whole", "grown"):
        sizes = {name: size for name, (size, _) in found[kind].items()}
        found[kind] = {name: size * (name not in timed) for name, size in sizes.items()}
    return found


def _samples(kind: str) -> Callable[[bytes], Any]:
    return lambda data: np.frombuffer(data, kind)


Reader = Callable[[bytes], Any]
SECONDS = ("seconds", "seconds_*")
RULES: list[tuple[str, Reader | None]] = [
    # Not results: locks, a log with times, and where and how far the run was played.
    ("*lock", None),
    ("*log.txt", None),
    (".steps", None),
    (".root", None),
    # Pictures are drawn by matplotlib from numbers that are compared.
    ("*.png", None),
    # Seconds of every round. That there is a row for each is compared.
    ("*times.csv", lambda data: [row["round"] for row in csv.DictReader(io.StringIO(data.decode()))]),
    # Cores and versions are the machine's.
    ("*config.json", _json("cores", "versions")),
    # The study's plan says how long it will take.
    ("*study.json", _json("versions")),
    ("*summary.json", _json(*SECONDS)),
    ("said-*.json", _json(*SECONDS)),
    # Checksums are of files with times; which files count, and their lengths, is compared.
    ("*rounds/*.json", _record),
    # Of a run of a study: its seconds, and with which others it was played.
    ("*runs/*.json", _json(*SECONDS, "shard")),
    ("*certificate.json", _json(*SECONDS)),
    ("*.safetensors", _tensors),
    ("*labels*.bin", _labels),
    # Flat columns; a picture's or a choice's bytes are compared as bytes.
    ("*samples/weights.bin", _samples("<f8")),
    ("*samples/targets.bin", _samples("<f4")),
    ("*samples/rewards.bin", _samples("<f4")),
    ("*samples/*.bin", _samples("u1")),
    ("*.npz", _arrays),
    ("*.csv", _table),
    ("*.json", _json(*SECONDS)),
    ("*", _text),
]
"""How a file is read, by the first pattern that fits its name; None: it is not compared."""


def reader(name: str) -> Reader | None:
    return next(read for pattern, read in RULES if fnmatch.fnmatchcase(name, pattern))


def read(folder: Path, but: str | None = None) -> dict[str, Any]:
    """All files of a run that are compared, by name. Runs of a study are named by their place in its plan:
    their ids are digests of settings, which may be renamed. `but`: a pattern of names that are left out.
    """
    root, found = folder / ".root", {}
    places = root.read_text().splitlines() if root.is_file() else []
    swaps = [(place.encode(), new) for place, new in zip(places, (b"(here)", b"(goldens)", b"(src)"))]
    for plan in sorted(folder.rglob("study.json")):
        for number, one in enumerate(json.loads(plan.read_text())["runs"]):
            swaps.append((one["id"].encode(), f"run-{number:03d}".encode()))
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        name, data = str(file.relative_to(folder)), file.read_bytes()
        how = reader(name)
        if how is None or (but is not None and fnmatch.fnmatchcase(name, but)):
            continue
        binary = file.suffix in (".bin", ".npz", ".safetensors")
        for old, new in swaps:
            name = name.replace(old.decode(), new.decode())
            data = data if binary else data.replace(old, new)
        try:
            found[name] = how(data)
        except (ValueError, KeyError, IndexError, struct.error) as error:
            found[name] = f"cannot be read: {error}", data
    return found


def difference(one: Any, other: Any, place: str = "") -> tuple[str, Any, Any] | None:
    """The first place at which two contents differ, and what is there in both; None: they are the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            there = f"{place}, {key}" if place else str(key)
            if found := difference(one.get(key, NOTHING), other.get(key, NOTHING), there):
                return found
        return None
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        for row in range(max(len(one), len(other))):
            mine, theirs = (each[row] if row < len(each) else NOTHING for each in (one, other))
            if found := difference(mine, theirs, f"{place}, row {row + 1}" if place else f"row {row + 1}"):
                return found
        return None
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return place, f"{one.dtype} {one.shape}", f"{other.dtype} {other.shape}"
        if one.tobytes() == other.tobytes():
            return None
        bits = f"V{one.dtype.itemsize}"  # -0.0 is not 0.0 here, and a nan is itself
        apart = np.flatnonzero(np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits))
        at = tuple(int(i) for i in np.unravel_index(apart[0], one.shape))
        where = ", ".join(map(str, at))
        return f"{place}[{where}] and {len(apart) - 1} more", one[at].item(), other[at].item()
    same = type(one) is type(other) and (one == other or (one != one and other != other))
    return None if same else (place, one, other)


def compared(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
    """Every file in which two runs differ, ledgers first, with the first place and what is there in both."""
    found = []
    for name in sorted({*old, *new}, key=lambda name: ("ledger.csv" not in name, name)):
        if name not in old or name not in new:
            found.append((name, "file", *("there" if name in one else NOTHING for one in (old, new))))
        elif differs := difference(old[name], new[name]):
            found.append((name, *differs))
    return found
