"""`understudy evaluate`: what the policy of a run is worth."""

from __future__ import annotations

import json

from ..envs.gymnasium import maker
from ..errors import UserError
from ..options import Evaluate
from ..policies import TrainedPolicy
from ..report import tables
from ..runs import Evaluator, acting, read_config, read_summary


def run(options: Evaluate) -> int:
    """Plays the episodes and prints their returns."""
    settings = read_config(options.run)["settings"]
    if options.episodes < 1:
        raise UserError(f"episodes: {options.episodes!r} is not a whole number ≥ 1.")
    policy = TrainedPolicy.load(options.run)
    name = options.env or settings["env"]
    evaluator = Evaluator(
        maker(name, settings["env_kwargs"] if options.env is None else None), seed=options.seed
    )
    found = evaluator(acting(policy), episodes=options.episodes)
    evaluator.close()
    kept = read_summary(options.run)
    rows = [
        ("return", f"{found.mean:.1f} ± {found.std:.1f}"),
        ("lowest, highest", f"{found.returns.min():.1f}, {found.returns.max():.1f}"),
        ("mean length", float(found.lengths.mean())),
        ("run", "finished" if kept else "not finished"),
    ]
    tables.show(tables.facts(f"{settings['name']} on {name}: {options.episodes} episodes", rows))
    if options.json:
        numbers = {"return_mean": found.mean, "return_std": found.std, "returns": found.returns.tolist()}
        print(json.dumps({"env": name, "run": str(options.run), "episodes": options.episodes, **numbers}))
    return 0
