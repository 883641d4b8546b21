"""`understudy train`: an environment and an expert in; a policy, its ledger and its account out."""

from __future__ import annotations

import json
from typing import Any

from .. import imitate
from ..errors import UserError
from ..learners import LEARNERS
from ..options import Train
from ..policies import MLP
from ..report import live, tables
from ..solvers import SOLVERS


def run(options: Train) -> int:
    """Trains, prints the outcome and, where asked, keeps the run in a folder."""
    if options.resume and options.out is None:
        raise UserError("resume: there is no folder to resume from; add --out.")
    total = options.rounds
    with live.rounds(f"{options.learner} on {options.env}", total) as progress:
        result = imitate(
            options.env,
            expert=options.expert,
            expert_options=options.asking.given(),
            learner=learner(options),
            policy=_policy(options),
            encoder=options.encoder,
            labels=options.labels,
            loss=options.loss,
            solver=_solver(options),
            solver_options=options.solving.given(),
            preset=options.preset,
            rounds=options.rounds,
            interactions=options.interactions,
            envs=options.envs,
            budget=options.budget,
            beta=options.beta,
            first_round=options.first_round,
            noise=options.noise,
            standardise=_yes("standardise", options.standardise),
            squash=_yes("squash", options.squash),
            env_kwargs=_keywords(options.env_kwargs),
            episodes=options.episodes,
            evaluate_every=options.evaluate_every,
            expert_episodes=options.expert_episodes,
            comparator=options.comparator,
            seed=options.seed,
            out=options.out,
            resume=options.resume,
            progress=progress,
        )
    tables.show(outcome(result))
    if options.json:
        print(json.dumps(result.summary(), allow_nan=False))
    return 0


def learner(options: Train) -> Any:
    """The learner's name, or an object where options for it were given or it is the user's own."""
    given = options.learning.given()
    if ":" not in options.learner and not given:
        return options.learner
    if options.learner == "bc":
        raise UserError("learner: 'bc' takes no options; it is FTL on expert-driven rounds.")
    return LEARNERS.make(options.learner, given)


def outcome(result: Any) -> Any:
    """The outcome of a run as a table."""
    summary, made = result.summary(), result.certificate
    theirs = summary["expert_return_mean"]
    rows: list[tuple[str, Any]] = [("queries", f"{summary['queries']:,}")]
    if summary["return_mean"] is not None:
        rows.append(("return", f"{summary['return_mean']:.1f} ± {summary['return_std']:.1f}"))
    if theirs is not None:
        rows.append(("expert's return", f"{theirs:.1f}"))
    rows.append(("average loss", summary["average_loss"]))
    if summary["regret"] is not None:
        rows.append(("regret" if made.kind == "certificate" else "regret (estimate)", made.regret))
        if made.kind == "certificate":
            rows.append(tables.bound(made))
    parts = ("collect", "solve", "judge", "evaluate")
    rows.append(("seconds", "  ".join(f"{part} {result.seconds[part]:.1f}" for part in parts)))
    if result.folder is not None:
        rows.append(("kept in", str(result.folder)))
    return tables.facts(f"{summary['learner']} on {summary['env']}: {summary['rounds']} rounds", rows)


def _policy(options: Train) -> Any:
    if not options.widths:
        return options.policy
    if options.policy not in ("auto", "mlp"):
        raise UserError(f"widths: the policy {options.policy!r} has none; mlp has.")
    return MLP(widths=options.widths)


def _solver(options: Train) -> str:
    if options.solver != "auto":
        SOLVERS.maker(options.solver)  # a name that does not exist is told before anything is made
    return options.solver


def _yes(field: str, text: str | None) -> bool | None:
    if text is None or text in ("yes", "no"):
        return None if text is None else text == "yes"
    raise UserError(f"{field}: {text!r} is not accepted; say yes or no.")


def _keywords(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(
            f"env-kwargs: {text!r} is not a JSON object such as '{{\"max_episode_steps\": 200}}'."
        )
    return found
