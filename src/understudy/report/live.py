"""The report while runs go on: the same page from a server on this machine, read anew when folders change."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from .. import disk, web
from . import sources
from .account import account
from .details import inspect
from .page import chosen, document, dressed, share_of
from .sources import Source

Mark = tuple[Any, ...]


@final
class Live:
    """The runs at and below `paths`, as they are when the page asks.

    A folder is read again where its mark has changed: the names and times of its rounds, or of a study's
    runs. What the samples of a finished run say, with its `moments`, is found once, by a thread of its own.
    """

    def __init__(self, paths: Sequence[Path], *, moments: int = 12, seconds: float = 60.0):
        self._paths, self._moments, self._seconds = list(paths), moments, seconds
        self._read: dict[Path, tuple[Mark, list[Source]]] = {}
        self._details: dict[Path, tuple[Mark, dict[str, Any]]] = {}
        self._ended: list[tuple[Path, Mark]] = []
        self._lock, self._wanted, self._closing = threading.Lock(), threading.Event(), threading.Event()
        sources.found(self._paths)  # a folder without runs is refused at once
        self._thread = threading.Thread(target=self._inspect, name="moments", daemon=True)
        self._thread.start()

    def routes(self) -> Mapping[str, web.Handler]:
        """What `web.Server` serves: the page, and its data where they are newer than a mark."""
        return {"GET /": lambda request: document(self.data(), {}), "GET /data": self._data}

    def _data(self, request: web.Request) -> web.Reply:
        found: Any = {"mark": request.query.get("mark")}
        if self.mark() != found["mark"]:
            found = self.data()
        return web.Reply(disk.to_json(found).encode(), "application/json")

    def mark(self) -> str:
        """A text that changes when anything on the page does."""
        with self._lock:
            known = {str(path): len(made) for path, (_, made) in self._details.items()}
        return str(hash((tuple((path, mark_of(path)) for path in self._folders()), tuple(known.items()))))

    def _folders(self) -> list[Path]:
        try:
            return sources.found(self._paths)
        except ValueError:  # a folder that has gone
            return []

    def data(self) -> dict[str, Any]:
        """The account of all runs as they are now."""
        mark, read = self.mark(), []
        with self._lock:
            for path in self._folders():
                now = mark_of(path)
                if path not in self._read or self._read[path][0] != now:
                    self._read[path] = now, sources.read(path, check=False)
                read += self._read[path][1]
            made = account(read)
            self._ended = []
            for run in chosen(made["runs"]):
                path = Path(run["folder"])
                now, kept = self._read[path][0], self._details.get(path)
                if run["state"] == "finished":
                    self._ended.append((path, now))
                if kept is not None and kept[0] == now:
                    run |= kept[1]
                else:
                    run["missing"] = "This is looked at when the run is finished."
        self._wanted.set()
        return made | dressed({}, live=True) | {"mark": mark}

    def _inspect(self) -> None:
        while not self._closing.is_set():
            self._wanted.wait()
            self._wanted.clear()
            with self._lock:
                ended = self._ended
            for path, mark in ended:
                if self._closing.is_set():
                    return
                if self._details.get(path, (None,))[0] == mark:
                    continue
                share = share_of(self._moments, len(ended))
                found = inspect(path, moments=share, seconds=self._seconds / len(ended))
                with self._lock:
                    self._details[path] = mark, found

    def close(self) -> None:
        """Ends the thread."""
        self._closing.set()
        self._wanted.set()


def mark_of(path: Path) -> Mark:
    """What changes when a run has one more round, or a study one more run, or round of a run under way, and
    when a process begins or stops to write there.
    """
    study = (path / "study.json").is_file()
    files = [path / "study.json"] if study else [path / "config.json", path / "summary.json"]
    found = []
    names = ("runs/*.json", "runs/*.partial/rounds/*.json") if study else ("rounds/*.json",)
    for file in (*files, *(one for name in names for one in sorted(path.glob(name)))):
        try:
            found.append((file.name, file.stat().st_mtime_ns))
        except OSError:  # it has been replaced in the meantime
            continue
    return (*found, disk.is_locked(path))
