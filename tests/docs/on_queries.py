"""docs/studies/queries.md: the rows of its tables, made from docs/figures/queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docs.tables import rows
from paper.queries import SERIES

PAGE = "docs/studies/queries.md"


def needed(one: dict) -> str:
    """Labels to 90 %: the median, and the least and most of the seeds that got there."""
    scores = rows(f"{one['table']}/scores", env=one["env"], series=one["series"])
    found = []
    for _, run in scores.groupby("seed"):
        reached = run[run["score"] >= 0.9]
        found.append(reached["labels"].min() if len(reached) else np.inf)
    there, missing = [x for x in found if np.isfinite(x)], sum(np.isinf(found))
    assert np.median(found) == one["labels_to_90"] and min(found) == one["labels_to_90_least"]
    if not there:
        return "never"
    words = ["", "; one not", "; two not", "; three not", "; four not"][missing]
    most = f" to {max(there):,.0f}" if max(there) > min(there) or missing == 1 else ""
    middle = f"{np.median(found):,.0f}" if np.isfinite(np.median(found)) else "not reached"
    return f"{middle} ({min(there):,.0f}{most}{words})"


ROBOTS = {"distance": "5", "one": "1"}


def sentences() -> Iterator[str]:
    for table, kinds in (
        ("queries", ROBOTS),
        ("queries/rounds", ROBOTS),
        ("queries/classic", {"distance": ""}),
    ):
        for one in rows(f"{table}/labels", series=[*kinds]).to_dict("records"):
            networks = kinds[one["series"]]
            cells = [one["env"], f"{one['labels']:,}", *([networks] if networks else []), *shown(one, table)]
            if networks:
                cells.append(f"{one['last_score']:.3f} ({one['last_score_least']:.2f})")
            yield f"| {' | '.join(cells)} |"
    for table, left_out in (
        ("queries/rules", ()),
        ("queries/walker2d", ()),
        ("queries/rounds", ("Hopper-v5", "Ant-v5")),
    ):
        for one in rows(f"{table}/labels").to_dict("records"):
            if one["series"] in SERIES and one["env"] not in left_out:
                yield f"| {' | '.join([one['env'], SERIES[one['series']], *shown(one, table)])} |"


def shown(one: dict, table: str) -> list[str]:
    """Labels to 90 %, and the score of what is kept."""
    return [needed(one | {"table": table}), f"{one['kept_score']:.3f} ({one['kept_score_least']:.2f})"]
