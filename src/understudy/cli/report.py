"""`understudy report`: one HTML file about runs and studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ..progress import stages
from .options import Json, Options


class Report(Options):
    """Write one self-contained HTML file about runs and studies: verdict, curves, regret, moments, spec."""

    paths: Positional[Annotated[tuple[Path, ...], arg(metavar="FOLDER…")]]
    """Folders of runs or studies, or folders that hold such."""
    out: Annotated[Path, arg(aliases=("-o",))] = Path("report.html")
    """The file to write."""
    moments: int = 12
    """How many moments of largest disagreement to show; of several runs at least two each."""
    seconds: float = 60.0
    """Time for drawing their clips; 0 draws none."""
    json: Json = False


def run(options: Report) -> int:
    """Writes the page and prints where it is."""
    from ..report import tables
    from ..report.page import write_report

    how = {name: getattr(options, name) for name in ("out", "moments", "seconds")}
    with stages("moments") as update:
        file = write_report(
            *options.paths, **how, progress=lambda done, total, name: update(name, done, total)
        )
    size = file.stat().st_size
    print(f"{file}: {size / 1e6:.1f} MB; open it in a browser.")
    tables.json_line({"file": str(file), "bytes": size})
    return 0
