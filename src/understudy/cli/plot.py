"""`understudy plot`: one figure from runs and studies, for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .options import Json, Options


class Plot(Options):
    """Draw one figure from runs and studies: a curve for each setting, its seeds' mean with a band."""

    paths: Positional[Annotated[tuple[Path, ...], arg(metavar="FOLDER…")]]
    """Folders of runs or studies, or folders that hold such."""
    x: str = "labels"
    """labels, steps, rounds or seconds."""
    y: str = "return"
    """return, loss, average-loss or regret."""
    out: Annotated[Path, arg(aliases=("-o",))] = Path("figure.pdf")
    """The file to write: .pdf, .png or .svg."""
    json: Json = False


def run(options: Plot) -> int:
    """Writes the figure and prints where it is."""
    from ..report import tables
    from ..report.figures import write_plot

    file = write_plot(*options.paths, x=options.x, y=options.y, out=options.out)
    print(f"{file}: {options.y} against {options.x}")
    tables.json_line({"file": str(file), "bytes": file.stat().st_size})
    return 0
