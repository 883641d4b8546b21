"""The report: one HTML file about runs and studies that opens from disk without a network."""

from __future__ import annotations

import base64
import datetime
import functools
import gzip
import hashlib
import html
import importlib.resources
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import __version__, disk
from ..errors import UserError
from ..runs import NAMES
from . import sources
from .account import account
from .details import inspect
from .sources import Source

SCRIPTS = ("base.js", "charts.js", "compare.js", "run.js", "moments.js", "page.js")
LOOKED_INTO = 12
"""Most runs whose samples are looked at."""
LAST = ("average_loss", "regret", "regret_low", "regret_high", "bound")
"""Columns of the ledger of which the table of runs has the last number."""
PACKED = 3 << 20
"""Most bytes, packed, of the table of all rounds that a page carries."""


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
    folders = sources.found([Path(one) for one in paths])
    read = [one for path in folders for one in sources.read(path, check=True)]
    found = account(read)
    kept = chosen(found["runs"])
    share = share_of(moments, len(kept))
    for number, run in enumerate(kept):

        def show(done: int, before: int = number * share, name: str = run["name"]) -> None:
            if progress is not None:
                progress(before + done, len(kept) * share, name)

        show(0)
        run |= inspect(Path(run["folder"]), moments=share, seconds=seconds / len(kept), progress=show)
        show(share)
    files = tables(read)
    found |= dressed(files)
    with disk.reporting(target):
        disk.write_file(target, document(found, files))
    return target


def chosen(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs on a page whose samples are looked at; of many the first of each group first. The others get
    a sentence that says so.
    """
    able = [one for one in runs if not one["study"] and one["rounds"] and one["state"] != "unreadable"]
    groups = [one["group"] for one in able]
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


def tables(read: Sequence[Source]) -> dict[str, tuple[str, str, bytes]]:
    """Files that the page offers: from their names to type, a line about them, and bytes."""
    runs = {
        "run": [one.name for one in read],
        "env": [one.env for one in read],
        "learner": [one.learner for one in read],
        "seed": [one.settings.get("seed") for one in read],
        "state": [one.state for one in read],
        "rounds": [one.rounds for one in read],
        **{name: [one.last(name) for one in read] for name in ("steps", "labels")},
        "return_mean": [one.score for one in read],
        "expert_return": [one.expert for one in read],
        **{name: [one.last(name) for one in read] for name in LAST},
        "certificate": [one.certificate.get("kind", "") for one in read],
        "seconds": [one.total for one in read],
        "settings": [disk.to_json(one.settings, sort=True) for one in read],
        "error": [one.trouble for one in read],
    }
    made = {"runs.csv": ("text/csv", "one row per run", _encoded(disk.to_csv(runs)))}
    rounds: dict[str, list[Any]] = {name: [] for name in ("run", "env", "learner", "seed", *NAMES)}
    for one in read:
        if not one.rounds:
            continue
        about = (one.name, one.env, one.learner, one.settings.get("seed"))
        for name, value in zip(rounds, about, strict=False):
            rounds[name] += [value] * one.rounds
        for name in NAMES:
            rounds[name] += one.columns[name].tolist()
    if rounds["run"]:
        made["rounds.csv"] = ("text/csv", "one row per run and round", _encoded(disk.to_csv(rounds)))
    specs = [{"run": one.name, "settings": one.settings, "versions": one.versions} for one in read]
    text = _encoded(disk.to_json(specs, indent=1, sort=True))
    made["specs.json"] = ("application/json", "settings and versions of every run", text)
    return made


def dressed(files: dict[str, tuple[str, str, bytes]], *, live: bool = False) -> dict[str, Any]:
    """What the page says about itself and its files; files that are too large are taken out of `files`."""
    note = ""
    if "rounds.csv" in files and len(_packed(files["rounds.csv"][2])) > PACKED:
        size = len(files.pop("rounds.csv")[2]) / 1e6
        note = f"The table of all rounds, {size:.0f} MB, is too large here; results.csv of a study has it."
    listed = [{"name": k, "type": v[0], "what": v[1], "size": len(v[2])} for k, v in files.items()]
    now = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return {"files": listed, "files_note": note, "made": now, "version": __version__, "live": live}


def _encoded(text: str) -> bytes:
    """The text, in which a name of a folder that is no text, as Linux allows, has question marks."""
    return text.encode(errors="replace")


@functools.lru_cache(maxsize=4)
def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)


def asset(name: str) -> str:
    """The text of a file that a page has inside."""
    return importlib.resources.files(str(__package__)).joinpath("assets", name).read_text(encoding="utf-8")


def embedded(value: Any) -> str:
    """Plain data as JSON that stands inside a <script>, where no text in it can end that element.

    >>> embedded({"name": "</script><b>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}'
    """
    text = disk.to_json(value)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def document(found: dict[str, Any], files: dict[str, tuple[str, str, bytes]]) -> str:
    """The whole page. Only its own scripts may run, by their hashes, and nothing is loaded from anywhere."""
    plots, script = asset("uPlot.iife.min.js"), "\n".join(map(asset, SCRIPTS))
    reach = "'self'" if found["live"] else "'none'"
    policy = (
        f"default-src 'none'; script-src {_hash(plots)} {_hash(script)}; style-src 'unsafe-inline'; "
        f"img-src data:; connect-src {reach}; base-uri 'none'; form-action 'none'"
    )
    said = "".join(
        f'<p class="sentence">{html.escape(one["text"])}</p>'
        f'<p class="sentence-note">{html.escape(one["note"])}</p>'
        for one in found["verdicts"]
    )
    packed = {name: base64.b64encode(_packed(one[2])).decode() for name, one in files.items()}
    parts = {
        "policy": html.escape(policy),
        "title": html.escape("understudy: " + (", ".join(found["envs"][:3]) or "report")),
        "style": asset("uPlot.min.css") + asset("page.css"),
        "verdict": said,
        "data": embedded(found),
        "plots": plots,
        "script": script,
        "files": embedded(packed),
    }
    made = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], asset("page.html"))
    return _encoded(made).decode()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
