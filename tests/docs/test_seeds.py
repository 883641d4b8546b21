"""What writes a published table refuses seeds that chose settings, and what chooses refuses the others."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from docs.on_front import against, seeds
from docs.prose import ROOT


@pytest.mark.parametrize("script", ["scores.py", "memory.py", "peers/against_imitation.py"])
def test_a_published_table_refuses_seeds_that_chose_settings(script, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--seeds", "3", "101"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and not list(tmp_path.iterdir())
    assert ended.stderr.startswith(
        "seeds: 3 chose settings and cannot report on them; a published table takes"
    )


@pytest.mark.parametrize("arguments", [["scores.py", "--tuning"], ["peers/against_imitation.py", "--tune"]])
def test_settings_are_not_chosen_on_seeds_that_report(arguments, tmp_path):
    script, flag = arguments
    command = [sys.executable, str(ROOT / "benchmarks" / script), flag, "--seeds", "3", "101"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1 and "seeds: 101 may not choose settings" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_no_seed_both_chooses_and_reports():
    assert not seeds.TUNING.intersection(seeds.REPORTING)
    assert seeds.reporting(seeds.REPORTING) == [*range(101, 111)] and seeds.tuning([0, 30, 71]) == [0, 30, 71]


def test_a_run_that_never_got_there_counts_as_more_than_any():
    reached = {
        "expert": 100.0,
        "kept": 95.0,
        "kept_expert": 100.0,
        "curve": [[10, 80.0, 1, 1], [20, 90.0, 2, 2]],
    }
    never = reached | {"curve": [[10, 80.0, 1, 1]]}
    assert against.reached(reached) == (20, 2, 2) and against.reached(never) == (math.inf,) * 3
    rows = [against.row("imitation", 101, never), against.row("default", 101, reached | {"warm": [1.0, 1.0]})]
    lines = list(against.summary(rows))
    assert "| imitation, its defaults | never, 1 seed | never, 1 seed |  | 0.95 (0.95) |" in lines
    assert not any("∞" in line for line in lines)  # one seed is no ratio
    rows = [one | {"seed": seed} for seed in range(101, 107) for one in rows]
    ratios = "∞ [∞, ∞], 6 seeds"
    assert f"| imitation, its defaults | {ratios} | {ratios} | {ratios} |" in list(against.summary(rows))
    shared = against.row("default", 102, reached | {"warm": [1.0, 1.0], "shared": True})
    assert shared["labels"] == 20 and math.isnan(shared["seconds"])
    assert against.told([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, math.nan]) == "4 (1 to 6) [1, 6], 6 seeds"
