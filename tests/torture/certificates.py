"""A long search for a regret above its certified bound: `make torture-certificates`.

It plays what `understudy check certificate` plays, in turn with parts that a user might make: losses,
learners, schedules, solvers and policies, honest and false ones.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from own_parts import OwnSearch, own_kinds
from understudy.checks import CheckError
from understudy.checks.certificates import Finding, kinds, run_searches


def tell(finding: Finding) -> None:
    print(f"{finding.kind}: seed {finding.seed}, worst {finding.worst:+.1e}", file=sys.stderr, flush=True)


def main() -> int:
    """0 when no claim is false, else 1."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--restarts", type=int, help="searches of each kind, instead of minutes")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kind")
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    listed = itertools.chain.from_iterable(itertools.zip_longest(kinds(), own_kinds()))
    searches = [OwnSearch(kind) for kind in listed if kind is not None]
    try:
        print(run_searches("certificates", searches, progress=tell, **vars(asked)))
    except CheckError as error:
        print(error.report)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
