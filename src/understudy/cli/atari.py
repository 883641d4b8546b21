"""`understudy paper atari`: Pong and Breakout from pixels, the figures and the claims."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..disk import refuse_taken
from ..errors import UserError, unknown
from ..report import tables
from .options import Flag, Folder, Name
from .paper import report


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAtari:
    """Pong and Breakout from pixels: linear on the expert's features, and NatureCNN end to end."""

    scale: str = "small"
    """small (one seed; end to end Pong alone, FTL and AdaFTRL, 300 steps a round) or full."""
    game: Name = None
    """pong or breakout; both by default."""
    policy: Name = None
    """linear or nature_cnn; both by default."""
    threads: int = 0
    """Threads that step the games; 0: as many as there are cores."""
    keep: Folder = None
    """Keep every part's numbers in this folder, GAME-POLICY.json, as soon as it is done."""
    parts: Folder = None
    """Run nothing, and report on the parts kept in this folder."""
    out: Folder = None
    """Write figures, every number and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


def run(options: PaperAtari) -> int:
    """Runs the parts asked for, or reads those that were run before, and reports on them."""
    from ..paper import atari_report

    refuse_taken(options.out)
    if options.parts is not None:
        parts = atari_report.read(options.parts)
    else:
        parts = _parts(options)
    found = atari_report.judged(parts)
    tables.show(_summary(parts))
    rows = [("parts", "; ".join(f"{part['game']}, {part['policy']}" for part in parts))]
    return report(options, found, lambda folder: atari_report.write(folder, parts, found), rows)


def _parts(options: PaperAtari) -> list[dict[str, Any]]:
    import numpy as np

    from ..paper import atari

    for field, value, known in (
        ("scale", options.scale, atari.SCALES),
        ("game", options.game, atari.GAMES),
        ("policy", options.policy, atari.POLICIES),
    ):
        if value is not None and value not in known:
            raise unknown(field, value, known)
    scale = dataclasses.replace(atari.SCALES[options.scale], threads=options.threads)
    began, parts = time.perf_counter(), []
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    for policy in atari.POLICIES if options.policy is None else (options.policy,):
        games = atari.GAMES if policy == "linear" else scale.network_games
        for game in games if options.game is None else (options.game,):

            def say(text: str) -> None:
                print(f"[{time.perf_counter() - began:5.0f} s] {text}", file=sys.stderr)

            def keep(part: dict[str, Any]) -> None:
                params = part.pop("params", {})
                if options.keep is not None:
                    file = options.keep / f"{part['game']}-{part['policy']}.json"
                    file.write_text(json.dumps(part))
                    if params:
                        np.savez(file.with_suffix(".npz"), **params)

            parts.append(atari.part(game, policy, scale, say, keep))
            keep(parts[-1])
    if not parts:
        raise UserError("paper atari: nothing was asked for.")
    return parts


def _summary(parts: list[dict[str, Any]]) -> Table:
    from ..paper import atari_report

    table = Table(title="Atari", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    headings = ("game", "policy", "learner", "loss", "agreement", "return", "share", "games")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in headings[:3] else "right")
    for row in atari_report.summary(parts):
        played = "return" in row
        table.add_row(
            row["game"],
            row["policy"],
            row["learner"],
            f"{row['average_loss']:.4f}",
            f"{row['agreement_mean']:.3f} (≥ {row['agreement_least']:.3f})",
            f"{row['return']:.1f} [{row['return_low']:.1f}, {row['return_high']:.1f}]" if played else "",
            f"{row['share_of_expert']:.2f}" if "share_of_expert" in row else "",
            f"{row['games']}, round {row['evaluated_after_round']}" if played else "",
        )
    return table
