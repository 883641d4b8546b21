"""Folders of studies made of invented numbers: they cost nothing, and hold what a test wants them to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy import disk
from understudy.runs import NAMES

WORDS = ("solver_status", "comparator_status")


def played(returns: np.ndarray) -> dict[str, Any]:
    """An evaluation on the first of the episodes that all runs play, as it is kept."""
    count = len(returns)
    return {"returns": returns.tolist(), "lengths": [100] * count, "seeds": list(range(count))}


def study(
    path: Path,
    *,
    learners: Sequence[str] = ("ftl", "adaftrl"),
    seeds: int = 3,
    rounds: int = 6,
    env: str = "Invented-v0",
    settings: Mapping[str, Any] | None = None,
    returns: float = 80.0,
    expert: float = 100.0,
    errors: Mapping[int, str] | None = None,
    missing: Sequence[int] = (),
) -> Path:
    """A study with the runs of these learners and seeds; run number n fails with ``errors[n]``, and those in
    `missing` have not been played.
    """
    listed = []
    for n, (learner, seed) in enumerate((one, seed) for one in learners for seed in range(seeds)):
        own = {"env": env, "learner": learner, "seed": seed, "rounds": rounds, **(settings or {})}
        name = f"{n:016x}"
        listed.append({"id": name, "settings": own})
        if n in missing:
            continue
        t = np.arange(1, rounds + 1)
        rng = np.random.default_rng([n, rounds])
        columns: dict[str, list[Any]] = {
            name: [""] * rounds if name in WORDS else [math.nan] * rounds for name in NAMES
        }
        luck = np.random.default_rng(7).normal(size=10)  # of the episodes that all runs play
        loss = 1.0 / t + 0.05 * rng.random(rounds)
        score = returns + learners.index(learner) * 5 + rng.normal(size=rounds)
        columns |= {
            "round": t.tolist(),
            "samples": [10] * rounds,
            "steps": (10 * t).tolist(),
            "labels": (5 * t).tolist(),
            "asked": [0.5] * rounds,
            "by_expert": [1.0] + [0.0] * (rounds - 1),
            "loss": loss.tolist(),
            "average_loss": (np.cumsum(loss) / t).tolist(),
            "return_mean": [score[i] if i % 2 == 1 else math.nan for i in range(rounds)],
            "regret": np.sqrt(t).tolist(),
            "regret_low": (np.sqrt(t) - 0.01).tolist(),
            "regret_high": (np.sqrt(t) + 0.01).tolist(),
            "bound": (2 * np.sqrt(t)).tolist(),
            "norm": [10.0] * rounds,
            "solver_status": ["converged"] * rounds,
            "solver_iterations": [3] * rounds,
            "solver_grad_norm": [1e-9] * rounds,
        }
        record = {
            "settings": own,
            "columns": columns,
            "summary": {"expert_return": expert, "certificate": "certificate", "regret": math.sqrt(rounds)},
            "error": (errors or {}).get(n),
            "evaluation": played(score[-1] + luck),
            "expert_evaluation": played(expert + luck),
            "seconds": {"collect": 1.0, "solve": 2.0, "comparator": 0.5, "evaluate": 0.5, "total": 4.0},
            "shard": {},
        }
        disk.write_file(path / "runs" / f"{name}.json", disk.to_json(record, lossless=True))
    kept = {"format": 2, "versions": {"numpy": "2.0"}, "study": {}, "runs": listed}
    disk.write_file(path / "study.json", disk.to_json(kept))
    return path
