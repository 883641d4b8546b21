"""The worst day: every scene, one after another, and a table of what was lost.

    python tests/torture/run.py                 all of it, half an hour
    python tests/torture/run.py --scale 0.1     a tenth of the cases
    python tests/torture/run.py kills.train     one scene
    python tests/torture/run.py limits.day --scale 10     24 hours of a round each second

Each scene has a process of its own, so that none hangs or harms the others. The exit code is 1 where anything
was lost, and where a scene did nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SCENES = {
    "kills.train": 80,
    "kills.labels": 60,
    "kills.study": 40,
    "kills.report": 20,
    "kills.twice": 10,
    "damage.flips": 6000,
    "damage.cuts": 600,
    "damage.labels": 1000,
    "faults.full": 200,
    "faults.slow": 1,
    "faults.experts": 10,
    "faults.environments": 10,
    "faults.workers": 3,
    "fuzz.lines": 1500,
    "fuzz.specs": 1500,
    "fuzz.folders": 150,
    "fuzz.archives": 600,
    "limits.rounds": 10_000,
    "limits.day": 8640,
    "limits.runs": 1000,
    "limits.numbers": 180,
}
"""Scenes and how many cases each has."""


def play(name: str, cases: int, seed: int) -> dict:
    """One scene, in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="understudy-torture-"))
    kept = folder / "outcome.json"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            room, function = name.split(".")
            work = folder / "work"
            work.mkdir()
            scene = getattr(__import__(f"torture.{room}", fromlist=[function]), function)
            found = scene(work, cases, random.Random(f"{name} {seed}"))
            lost = [*found.lost, *["nothing happened"] * found.idle]
            kept.write_text(json.dumps({"cases": found.cases, "lost": lost, "told": found.told}))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    began = time.monotonic()
    os.waitpid(child, 0)
    ended = {"cases": 0, "lost": ["the scene itself failed"], "told": ""}
    found = json.loads(kept.read_text()) if kept.is_file() else ended
    shutil.rmtree(folder, ignore_errors=True)
    return found | {"seconds": time.monotonic() - began}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenes", nargs="*", help="scenes, such as kills.train (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the cases")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from understudy.machine import use_cache

    use_cache()
    # Imported once, here; processes that are forked have it. Nothing is compiled before they are.
    import understudy.runs.imitate
    import understudy.studies  # noqa: F401

    wanted = {name: SCENES[name] for name in options.scenes} if options.scenes else SCENES
    print(f"{'scene':<20} {'cases':>7} {'lost':>5} {'seconds':>8}  notes", flush=True)
    lost = total = 0
    for name, cases in wanted.items():
        found = play(name, max(1, round(cases * options.scale)), options.seed)
        lost, total = lost + len(found["lost"]), total + found["cases"]
        numbers = f"{found['cases']:>7,} {len(found['lost']):>5} {found['seconds']:>8.0f}"
        print(f"{name:<20} {numbers}  {found['told']}", flush=True)
        for line in found["lost"][:10]:
            print(f"    {line}", flush=True)
    print(f"{'all':<20} {total:>7,} {lost:>5}", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
