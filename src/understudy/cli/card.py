"""`understudy card`: a model card beside a run's policy, or a folder that a hub takes as it is."""

from __future__ import annotations

from pathlib import Path

from tyro.conf import Positional

from .options import Folder, Json, Options


class Card(Options):
    """Write a model card: task, expert, labels, score with its interval, settings, licence."""

    run: Positional[Path]
    """The folder of a finished run."""
    out: Folder = None
    """A new folder for card, config and weights; else the card is README.md in the run's folder."""
    license: str = ""
    """Under which the policy may be used, such as mit or apache-2.0."""
    title: str = ""
    """The card's heading (by default learner and environment)."""
    json: Json = False


def run(options: Card) -> int:
    """Writes the card and prints where it is."""
    from ..report import tables
    from ..report.card import write_card

    file = write_card(options.run, options.out, license=options.license, title=options.title)
    said = f"{file}: the card of {options.run}"
    print(said if options.out is None else f"{said}, with the policy's config and weights beside it.")
    tables.json_line({"file": str(file), "folder": str(file.parent)})
    return 0
