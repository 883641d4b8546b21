"""The report: one HTML file about runs and studies that opens from disk without a network, and the same page
from a server on this machine while runs go on.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import functools
import gzip
import hashlib
import html
import importlib.resources
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

from .. import __version__, disk, web
from ..disk import Json
from ..errors import UserError
from ..runs import NAMES
from . import sources
from .account import account, overview
from .details import inspect
from .sources import Source

SCRIPTS = ("base.js", "charts.js", "overview.js", "compare.js", "run.js", "moments.js", "page.js")
LOOKED_INTO = 12
"""Most runs whose samples are looked at."""
LAST = ("average_loss", "regret", "regret_low", "regret_high", "bound")
"""Columns of the ledger of which the table of runs has the last number."""
PACKED = 3 << 20
"""Most bytes, packed, of the table of all rounds that a page carries."""
Mark: TypeAlias = tuple[tuple[str, int] | bool, ...]
"""Files of a folder with the times of their last changes, and whether a process writes there."""


class File(NamedTuple):
    """A file that a page offers: its type, a line about it, and its bytes."""

    type: str
    what: str
    data: bytes


def write_report(
    *paths: str | os.PathLike[str],
    out: str | os.PathLike[str] = "report.html",
    moments: int = 12,
    seconds: float = 60.0,
    progress: Callable[..., None] | None = None,
) -> Path:
    """Writes one HTML file about the runs and studies in `paths`, and returns its path.

    The file needs no network and no other file. A run that is damaged, failed or not finished is on the page
    with what is known of it.

    Args:
      paths: folders of runs or studies, or folders that hold such.
      out: the file to write.
      moments: how many moments of largest disagreement are shown, in all; of several runs at least two each.
      seconds: time for drawing the clips of moments; 0 draws none.
      progress: called with the work done, the whole of it and a word for what is under way.

    >>> import tempfile
    >>> from understudy import imitate
    >>> run = imitate("CartPole-v1", policy="linear", rounds=3, steps_per_round=40, episodes=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_report(run.save(f"{folder}/run"), out=f"{folder}/report.html", seconds=0)
    ...     file.read_text().startswith("<!doctype html>")
    True
    """
    if not paths:
        raise UserError("report: name at least one folder of a run or a study.")
    if moments < 0 or not 0 <= seconds < float("inf"):
        raise UserError(f"report: moments {moments!r} and seconds {seconds!r} must be numbers ≥ 0.")
    target = Path(out)
    if target.is_dir():
        raise UserError(f"out: {str(out)!r} is a folder; name a file, such as report.html.")
    disk.check_ending("out", target, ".html", ".htm")
    with disk.reporting(target):  # before the work, which may take a minute
        target.parent.mkdir(parents=True, exist_ok=True)
    folders = sources.find_folders(paths)
    read = [run for path in folders for run in sources.read_folder(path, check=True)]
    page = account(read)
    looked_into = chosen(page["runs"])
    share = share_of(moments, len(looked_into))
    for number, run in enumerate(looked_into):

        def show(done: int, before: int = number * share, name: str = run["name"]) -> None:
            if progress is not None:
                progress(before + done, len(looked_into) * share, name)

        show(0)
        run |= inspect(Path(run["folder"]), moments=share, seconds=seconds / len(looked_into), progress=show)
        show(share)
    files = tables(read)
    page |= describe_page(files)
    with disk.reporting(target):
        disk.write_file(target, document(page, files))
    return target


def chosen(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs whose samples are looked at, the first of each group first; the others get a sentence."""
    able = [run for run in runs if not run["study"] and run["rounds"] and run["state"] != "unreadable"]
    groups = [run["group"] for run in able]
    order = sorted(range(len(able)), key=lambda place: groups[:place].count(groups[place]))
    for place in order[LOOKED_INTO:]:
        able[place]["missing"] = f"samples are looked at for {LOOKED_INTO} runs of a page, not here."
    return [able[place] for place in order[:LOOKED_INTO]]


def share_of(moments: int, runs: int) -> int:
    """How many of a page's moments each of so many runs shows: at least two, where that many are asked for.

    >>> share_of(12, 1), share_of(12, 5), share_of(12, 12), share_of(1, 3)
    (12, 3, 2, 1)
    """
    return max(min(2, moments), -(-moments // max(runs, 1)))


def tables(read: Sequence[Source]) -> dict[str, File]:
    """Files that the page offers, by name."""
    runs: dict[str, Sequence[Json]] = {
        "run": [run.name for run in read],
        **{name: [getattr(run, name) for run in read] for name in ("env", "learner")},
        "seed": [run.settings.get("seed") for run in read],
        **{name: [getattr(run, name) for run in read] for name in ("state", "rounds")},
        **{name: [run.last(name) for run in read] for name in ("steps", "labels")},
        "return_mean": [run.score for run in read],
        "expert_return": [run.expert for run in read],
        **{name: [run.last(name) for run in read] for name in LAST},
        "certificate": [run.certificate.get("kind", "") for run in read],
        "seconds": [run.total for run in read],
        "settings": [disk.to_json(run.settings, sort=True) for run in read],
        "error": [run.trouble for run in read],
    }
    files = {"runs.csv": File("text/csv", "one row per run", _encode(disk.to_csv(runs)))}
    played = [run for run in read if run.rounds]
    if played:
        about = ("run", "env", "learner", "seed")
        rounds = {
            name: [runs[name][i] for i, run in enumerate(read) for _ in range(run.rounds)] for name in about
        }
        rounds |= {name: [value for run in played for value in run.columns[name].tolist()] for name in NAMES}
        files["rounds.csv"] = File("text/csv", "one row per run and round", _encode(disk.to_csv(rounds)))
    specs = [{"run": run.name, "settings": run.settings, "versions": run.versions} for run in read]
    text = _encode(disk.to_json(specs, indent=1, sort=True))
    files["specs.json"] = File("application/json", "settings and versions of every run", text)
    return files


def describe_page(files: dict[str, File], *, live: bool = False) -> dict[str, Json]:
    """What the page says about itself and its files; files that are too large are taken out of `files`."""
    note = ""
    if "rounds.csv" in files and len(_packed(files["rounds.csv"].data)) > PACKED:
        size = len(files.pop("rounds.csv").data) / 1e6
        note = f"The table of all rounds, {size:.0f} MB, is too large here; results.csv of a study has it."
    offered = [{"name": k, "type": v.type, "what": v.what, "size": len(v.data)} for k, v in files.items()]
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return {"files": offered, "files_note": note, "made": now, "version": __version__, "live": live}


def _encode(text: str) -> bytes:
    """The text, in which a name of a folder that is no text, as Linux allows, has question marks."""
    return text.encode(errors="replace")


@functools.lru_cache(maxsize=4)
def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


def asset(name: str) -> str:
    """The text of a file that a page has inside."""
    return importlib.resources.files(str(__package__)).joinpath("assets", name).read_text(encoding="utf-8")


def embedded(value: Json) -> str:
    """Plain data as JSON that stands inside a <script>, where no text in it can end that element.

    >>> embedded({"name": "</script><b>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = disk.to_json(value)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def document(page: dict[str, Any], files: dict[str, File]) -> str:
    """The whole page. Only its own scripts may run, by their hashes, and nothing is loaded from anywhere."""
    plots, script = asset("uPlot.iife.min.js"), "\n".join(map(asset, SCRIPTS))
    reach = "'self'" if page["live"] else "'none'"
    policy = (
        f"default-src 'none'; script-src {_hash(plots)} {_hash(script)}; style-src 'unsafe-inline'; "
        f"img-src data:; connect-src {reach}; base-uri 'none'; form-action 'none'"
    )
    said = "".join(
        f'<p class="sentence">{html.escape(verdict["text"])}</p>'
        f'<p class="sentence-note">{html.escape(verdict["note"])}</p>'
        for verdict in page["verdicts"]
    )
    packed = {name: base64.b64encode(_packed(file.data)).decode() for name, file in files.items()}
    parts = {
        "policy": html.escape(policy),
        "title": html.escape("understudy: " + (", ".join(page["envs"][:3]) or "report")),
        "style": asset("uPlot.min.css") + asset("page.css"),
        "verdict": said,
        "data": embedded(page),
        "plots": plots,
        "script": script,
        "files": embedded(packed),
    }
    text = re.sub(r"\{\{(\w+)\}\}", lambda matched: parts[matched[1]], asset("page.html"))
    return _encode(text).decode()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


# ------------------------------------------------------------------------------------- while runs go on


@final
class Live:
    """The runs at and below `paths`, as they are when the page asks.

    A folder is read again where its mark has changed: the names and times of its rounds, or of a study's
    runs. What the samples of a finished run say, with its `moments`, is found once, by a thread of its own.
    """

    def __init__(self, paths: Sequence[Path], *, moments: int = 12, seconds: float = 60.0):
        self._paths, self._moments, self._seconds = list(paths), moments, seconds
        self._read: dict[Path, tuple[Mark, list[Source]]] = {}
        self._details: dict[Path, tuple[Mark, dict[str, Json]]] = {}
        self._ended: list[tuple[Path, Mark]] = []
        self._lock, self._wanted, self._closing = threading.Lock(), threading.Event(), threading.Event()
        sources.find_folders(self._paths, "watch")  # a folder without runs is refused at once
        self._thread = threading.Thread(target=self._inspect, name="moments", daemon=True)
        self._thread.start()

    def routes(self) -> Mapping[str, web.Handler]:
        """What `web.Server` serves: the page, and its data where they are newer than a mark."""
        return {"GET /": lambda request: document(self.data(), {}), "GET /data": self._data}

    def _data(self, request: web.Request) -> web.Reply:
        mark = request.query.get("mark")
        page = {"mark": mark} if self.mark() == mark else self.data()
        return web.Reply(disk.to_json(page).encode(), "application/json")

    def mark(self) -> str:
        """A text that changes when anything on the page does."""
        with self._lock:
            known = {str(path): len(details) for path, (_, details) in self._details.items()}
        return str(hash((tuple((path, mark_of(path)) for path in self._folders()), tuple(known.items()))))

    def _folders(self) -> list[Path]:
        try:
            return sources.find_folders(self._paths)
        except ValueError:  # a folder that has gone
            return []

    def data(self) -> dict[str, Any]:
        """The account of all runs as they are now."""
        mark = self.mark()
        read: list[Source] = []
        with self._lock:
            for path in self._folders():
                now = mark_of(path)
                if path not in self._read or self._read[path][0] != now:
                    self._read[path] = now, sources.read_folder(path, check=False)
                read += self._read[path][1]
            page = account(read) | {"overview": overview(read)}
            self._ended = []
            for run in chosen(page["runs"]):
                path = Path(run["folder"])
                now, known = self._read[path][0], self._details.get(path)
                if run["state"] == "finished":
                    self._ended.append((path, now))
                if known is not None and known[0] == now:
                    run |= known[1]
                else:
                    run["missing"] = "This is looked at when the run is finished."
        self._wanted.set()
        return page | describe_page({}, live=True) | {"mark": mark}

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
                details = inspect(path, moments=share, seconds=self._seconds / len(ended))
                with self._lock:
                    self._details[path] = mark, details

    def close(self) -> None:
        """Ends the thread."""
        self._closing.set()
        self._wanted.set()


def mark_of(path: Path) -> Mark:
    """What changes with every round, every run of a study, and when a process begins or stops to write."""
    study = (path / "study.json").is_file()
    files = [path / "study.json"] if study else [path / "config.json", path / "summary.json"]
    for name in ("runs/*.json", "runs/*.partial/rounds/*.json") if study else ("rounds/*.json",):
        files += sorted(path.glob(name))
    times: list[tuple[str, int]] = []
    for file in files:
        with contextlib.suppress(OSError):  # it has been replaced in the meantime
            times.append((file.name, file.stat().st_mtime_ns))
    return (*times, disk.is_locked(path))
