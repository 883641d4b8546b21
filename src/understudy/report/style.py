"""How every figure of the project looks: one palette, one colour and line style per learner, everywhere."""

from __future__ import annotations

import zlib
from contextlib import AbstractContextManager
from typing import NamedTuple

import matplotlib

INK, FAINT = "#222222", "#d9d9d9"

RC: dict[str, bool | float | str] = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "figure.dpi": 100.0,
    "savefig.dpi": 160.0,
    "figure.facecolor": "white",
    "svg.hashsalt": "understudy",
    "svg.fonttype": "none",
}


class Look(NamedTuple):
    """How a named curve is drawn: a colour safe for colour-blind readers, and a line style for print."""

    colour: str
    dashes: str | tuple[int, tuple[float, ...]]
    label: str


SOLID, DASHED, DOTTED, DASHDOT = "-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2))

# Okabe and Ito's palette. Alt-FTRL equals FTRL when solved exactly, so it must be seen on top of it: dashed.
LOOKS: dict[str, Look] = {
    "ftl": Look("#0072B2", SOLID, "FTL"),
    "ftrl": Look("#D55E00", SOLID, "FTRL"),
    "alt_ftrl": Look("#E69F00", DASHED, "Alt-FTRL"),
    "adaftrl": Look("#009E73", SOLID, "AdaFTRL"),
    "alt_adaftrl": Look("#66C2A5", DASHED, "AdaFTRL, mean centre"),
    "ogd": Look("#CC79A7", DASHDOT, "OGD"),
    "adagrad": Look("#56B4E9", DASHDOT, "AdaGrad"),
    "adagrad_norm": Look("#3A6EA5", DOTTED, "AdaGrad (norm)"),
    "adaftrl_untuned": Look("#1B4D3E", DASHED, "AdaFTRL, α = 1"),
    "ftl_fixed": Look("#6A51A3", DASHED, "FTL, first step 1"),
    "bc": Look("#7F7F7F", DASHED, "BC"),
    "expert": Look("#000000", DOTTED, "expert"),
}
ALIASES = {"alt-ftrl": "alt_ftrl", "dagger": "ftl"}
OTHERS = ("#332288", "#882255", "#117733", "#AA4499", "#999933")


def look(name: str) -> Look:
    """The look of a learner by its name. An unknown name gets a colour that depends on the name alone.

    >>> look("ftl").label, look("my_module:mine") == look("my_module:mine")
    ('FTL', True)
    """
    known = LOOKS.get(ALIASES.get(name, name))
    return known or Look(OTHERS[zlib.crc32(name.encode()) % len(OTHERS)], SOLID, name)


def style() -> AbstractContextManager[None]:
    """Figures drawn inside this block have the project's style; matplotlib's settings come back after it."""
    return matplotlib.rc_context(RC)  # type: ignore[arg-type]
