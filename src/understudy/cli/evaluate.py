"""`understudy evaluate`: what the policy of a run is worth."""

from __future__ import annotations

from pathlib import Path

from tyro.conf import Positional

from ..progress import counted
from ..report import tables
from .options import Json, Name, Options, Whole


class Evaluate(Options):
    """Play episodes with the policy of a run, in fresh seeded environments."""

    run: Positional[Path]
    """The folder of a run."""
    env: Name = None
    """Another environment than the run's: an id, or module:function that makes one."""
    env_kwargs: Name = None
    """More keywords for the environment, as JSON: '{"max_episode_steps": 200}'."""
    episodes: int = 20
    """Episodes."""
    episode_limit: Whole = None
    """Most steps of an episode, for an environment that has no limit of its own (default: in the run's own
    environment that of the run)."""
    seed: Whole = None
    """Seed of the episodes (default: the episodes by which every run of an environment is judged)."""
    json: Json = False


def run(options: Evaluate) -> int:
    """Plays the episodes and prints their returns."""
    from ..runs import maker_of, read_config, read_policy, read_summary
    from ..runs.evaluate import evaluate

    settings = read_config(options.run)["settings"]
    policy = read_policy(options.run)
    make = maker_of(settings, options.env, options.env_kwargs)
    title = f"{settings['name']} on {make.name}"
    limit = options.episode_limit
    if limit is None and options.env is None:
        limit = settings.get("episode_limit")
    with counted(title, options.episodes, "episodes") as update:
        how = {"episodes": options.episodes, "seed": options.seed, "limit": limit}
        found = evaluate(policy, make, **how, progress=update)
    kept = read_summary(options.run)
    low, high = float(found.returns.min()), float(found.returns.max())
    rows = [
        ("return", tables.returned(found.mean, found.std)),
        ("lowest, highest", ", ".join(tables.returned(one, beside=(low, high)) for one in (low, high))),
        ("mean length", float(found.lengths.mean())),
        ("run", "finished" if kept else "not finished"),
    ]
    tables.show(tables.facts(f"{title}: {options.episodes} episodes", rows))
    numbers = {"return_mean": found.mean, "return_std": found.std, "returns": found.returns.tolist()}
    tables.json_line({"env": make.name, "run": str(options.run), "episodes": options.episodes, **numbers})
    return 0
