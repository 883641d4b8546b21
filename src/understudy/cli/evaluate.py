"""`understudy evaluate`: what the policies of runs are worth, on the same episodes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tyro.conf import Positional, arg

from ..errors import UserError
from ..progress import count_up
from ..report import tables
from .options import Json, Name, Options, Whole

if TYPE_CHECKING:
    from ..disk import Json as Plain
    from ..runs import Evaluation

TOLD = ("env", "run", "episodes", "return_mean", "return_std", "return_low", "return_high", "returns")


class Evaluate(Options):
    """Play episodes with the policies of runs, in fresh seeded environments."""

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN…")]]
    """The folder of a run, or of a study, all of whose kept runs are meant; of several, all play the same
    episodes, and are compared on them: whether the first is better than each of the others (yes, no, or not
    yet, with the episodes that would decide)."""
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
    policy: Name = None
    """The student of your own (module:function) that the run was begun with, which no file keeps."""


def run(options: Evaluate) -> int:
    """Plays the episodes and prints their returns, and of several runs how they compare with the first."""
    from .. import intervals
    from ..acceptance import compare
    from ..runs import paired
    from ..studies import run_folders

    if not options.runs:
        raise UserError("run: name the folder of a run, or of several.")
    played = [_play_run(options, folder) for path in options.runs for folder in run_folders(path)]
    told = [{name: run.told[name] for name in TOLD if name in run.told} for run in played]
    if len(played) == 1:
        tables.json_line(told[0])
        return 0
    rows: list[tuple[str, str]] = []
    first, env = played[0].evaluation, told[0]["env"]
    for run, about in zip(played[1:], told[1:], strict=True):
        if about["env"] != env:
            raise UserError(f"run: {about['run']!r} is of {about['env']}, the first of {env}.")
        mine, theirs = paired(run.evaluation, first)
        gap = intervals.difference(mine, theirs)
        about |= dict(zip(("difference", "difference_low", "difference_high"), gap[:3], strict=True))
        found = compare(theirs, mine, limits=played[0].limits)
        needed = found.needed if math.isfinite(found.needed) else None
        about |= {"first_is_better": found.answer, "episodes_needed": needed}
        rows.append((str(about["run"]), tables.within(*gap[:3])))
        rows.append(("  is the first better?", str(found)))
    title = f"difference from {told[0]['run']}, over {tables.many(options.episodes, 'common episode')}"
    tables.show(tables.facts(title, rows))
    tables.json_line({"runs": told})
    return 0


class Played(NamedTuple):
    """What one run returned, and the same as plain data."""

    evaluation: Evaluation
    told: dict[str, Plain]
    limits: tuple[float, float] | None


def _play_run(options: Evaluate, folder: Path) -> Played:
    """Plays the episodes with the policy of a run, and prints what it returned."""
    from .. import intervals
    from ..runs import Evaluation, judged, maker_of, paired, read_config, read_policy, read_summary
    from ..runs.players import evaluate
    from ..runs.proof import known_limits

    settings = read_config(folder)["settings"]
    policy = read_policy(folder, options.policy)
    make = maker_of(settings, options.env, options.env_kwargs)
    title = f"{settings['name']} on {make.name}"
    limit = options.episode_limit
    if limit is None and options.env is None:
        limit = settings.get("episode_limit")
    with count_up(title, options.episodes, "episodes") as update:
        evaluation = evaluate(
            policy, make, episodes=options.episodes, seed=options.seed, limit=limit, progress=update
        )
    summary = read_summary(folder)
    low, high = float(evaluation.returns.min()), float(evaluation.returns.max())
    rows = [
        ("return", tables.within(*intervals.mean(evaluation.returns)[:3])),
        ("lowest, highest", ", ".join(tables.returned(end, beside=(low, high)) for end in (low, high))),
        ("mean length", float(evaluation.lengths.mean())),
        ("run", "finished" if summary else "not finished"),
    ]
    own = (options.env, options.env_kwargs, limit) == (None, None, settings.get("episode_limit"))
    theirs = Evaluation.read((summary or {}).get("expert_evaluation")) if own else None
    if theirs is not None and len(common := paired(evaluation, theirs)[0]):
        gap = tables.within(*intervals.difference(*paired(evaluation, theirs))[:3])
        rows.insert(1, ("difference from the expert's", f"{gap}, {tables.many(len(common), 'pair')}"))
    tables.show(tables.facts(f"{title}: {tables.many(options.episodes, 'episode')}", rows))
    numbers = judged(evaluation, theirs) | {"episodes": options.episodes}
    told = {"env": make.name, "run": str(folder), **numbers, "returns": evaluation.returns.tolist()}
    same = (options.env, options.env_kwargs) == (None, None)
    limits = known_limits({**settings, "episode_limit": limit}, make.name) if same else None
    return Played(evaluation, told, limits)
