"""`understudy expert train`: an environment in; an expert's weights and card out."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from ..errors import UserError
from ..progress import Bar, show_bar
from ..report import tables
from ..spec import mapping
from .options import Flag, Folder, Json, Name, Number, Options, Whole

if TYPE_CHECKING:
    from ..experts import training


class ExpertTrain(Options):
    """Train an expert with SBX (extra `train`): the best network, its card and curve, ready for --expert."""

    env: Name = None
    """A Gymnasium id with vector observations, such as Hopper-v5."""
    algo: Name = None
    """sac, td3, ppo or dqn (default: sac for continuous actions, ppo for choices)."""
    steps: Whole = None
    """Environment steps (default: the recipe's; 250,000 for sac on Hopper)."""
    out: Folder = None
    """The .safetensors file to write; its card goes beside it (default: experts/ALGO-ENV.safetensors)."""
    seed: int = 0
    """Seed of everything."""
    episodes: int = 5
    """Episodes of every evaluation; the best network is played for 20 more at the end."""
    evaluate_every: Whole = None
    """Evaluate after so many steps (default: 10,000, or a tenth of a shorter run)."""
    target: Number = None
    """Stop as soon as an evaluation's mean return is this high."""
    settings: Name = None
    """Changes to the recipe, as JSON: '{"batch_size": 256, "gamma": 0.98}'."""
    env_kwargs: Name = None
    """Keywords for the environment, as JSON: '{"max_episode_steps": 200}'."""
    resume: Flag = False
    """Go on from the checkpoint that Ctrl-C, or a kill, has left beside the file."""
    json: Json = False


ENDED = {"steps": "all steps made", "target": "target reached", "stopped": "stopped; --resume goes on"}


def train(options: ExpertTrain) -> int:
    """Trains, prints what the expert is worth, and gives 130 where it was stopped by Ctrl-C."""
    from ..experts import training
    from ..intervals import of_moments

    training.require_sbx()
    if options.env is None:
        raise UserError("env: there is none; say --env Hopper-v5, for example.")
    with _progress(f"{options.algo or 'expert'} on {options.env}") as progress:
        how = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
        for name in ("settings", "env_kwargs"):
            how[name] = None if how[name] is None else mapping(name, how[name])
        del how["env"], how["json"]
        result = training.train(options.env, **how, progress=progress)
    card = result.expert.card
    (measured,) = card["returns"].values()  # by the environment's name, not by what was typed for it
    best = max(result.curve, key=lambda one: one.mean)
    rows = [
        ("return", tables.within(*of_moments(measured["mean"], measured["std"], measured["episodes"])[:3])),
        ("  over", f"{measured['episodes']} episodes, the least {measured['lowest']:.1f}"),
        ("best look", f"{best.mean:.1f} after {best.steps:,} steps, {best.seconds / 60:.1f} minutes"),
        ("ended", ENDED[result.ended]),
        ("written to", f"{result.path} and {result.path.with_suffix('.json').name}"),
        ("use it", f"understudy train {options.env} --expert {result.path}"),
    ]
    tables.show(tables.facts(f"{card['algorithm']} on {options.env}", rows))
    numbers = {"return_mean": measured["mean"], "return_std": measured["std"], "steps": best.steps}
    about = {"env": options.env, "algo": card["algorithm"].lower(), "seed": options.seed, **numbers}
    tables.json_line({**about, "ended": result.ended, "expert": str(result.path)})
    return 130 if result.ended == "stopped" else 0


def latest(curve: list[training.Evaluated]) -> str:
    """The latest look and the best in a few words.

    >>> from understudy.experts import training
    >>> latest([training.Evaluated(1000, 2.0, 12.5, 1.0), training.Evaluated(2000, 4.0, 9.0, 1.0)])
    'return 9.0, best 12.5 at step 1,000'
    """
    if not curve:
        return "not evaluated yet"
    best = max(curve, key=lambda one: one.mean)
    return f"return {curve[-1].mean:.1f}, best {best.mean:.1f} at step {best.steps:,}"


@contextlib.contextmanager
def _progress(title: str) -> Generator[Callable[[int, int, list[training.Evaluated]], None]]:
    """A bar with the latest return on a terminal, a line per evaluation elsewhere, on the error stream."""
    seen = {"looks": 0}
    with show_bar(Bar(title, 0, "steps")) as bar:

        def show(done: int, total: int, curve: list[training.Evaluated]) -> None:
            bar.total = total
            bar.update(done, latest(curve))
            if not bar.moves and len(curve) > seen["looks"]:
                seen["looks"], last = len(curve), curve[-1]
                where = f"step {last.steps:,} of {total:,}"
                bar.say(f"{title}: {where}  {latest(curve)}  {last.seconds:.0f} s")

        yield show
