"""Imitate an expert in any Gymnasium environment, and keep the account."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from . import experts
from .envs.gymnasium import Slots, derive, maker
from .errors import UserError, unknown
from .interaction import (
    Book,
    Collector,
    Evaluation,
    Evaluator,
    Loop,
    Plan,
    acting,
    mixing,
    presets,
    temporary_folder,
)
from .online import make_game
from .policies import Actions, Encoded, Observations, Policy, TrainedPolicy
from .regret import Certificate, Ledger
from .store import Folder, read_config, read_ledger, read_summary, write_run

MEMORY_LIMIT = 2 << 30
"""Bytes of samples that are kept in memory; beyond, they are mapped from files."""


@final
class Run:
    """What `imitate` returns.

    Attributes:
      policy: the policy after the last round: callable, with `predict`, `save` and `load`.
      ledger: one row per round, the same bytes for the same seed.
      certificate: regret and bound after the last judged round (proved for linear policies, else an
      estimate). evaluation, expert_evaluation: returns of the last evaluation, and of the expert on the same
      seeds. samples: columns of all samples, by name (`understudy.interaction.Round` says which). seconds:
      collect, solve, judge, evaluate and total.
    """

    def __init__(
        self,
        policy: TrainedPolicy,
        ledger: Ledger,
        certificate: Certificate,
        settings: dict[str, Any],
        evaluation: Evaluation | None,
        expert_evaluation: Evaluation | None,
        book: Book | None,
        seconds: dict[str, float],
        folder: Path | None,
        keep: Any = None,
    ):
        self.policy, self.ledger, self.certificate, self.settings = policy, ledger, certificate, settings
        self.evaluation, self.expert_evaluation = evaluation, expert_evaluation
        self.seconds, self.folder = seconds, folder
        self._book, self._keep = book, keep

    def samples(self, column: str) -> np.ndarray:
        """One column of all samples: inputs, targets, executed, rewards, flags or slots."""
        if self._book is None:
            raise UserError("samples: this run was loaded without its samples.")
        return self._book.column(column)

    def summary(self) -> dict[str, Any]:
        """The outcome in numbers, as `understudy train --json` prints it; None for what was not measured."""
        last = {name: self.ledger[name][-1] for name in ("round", "interactions", "queries", "average_loss")}
        mine, theirs = self.evaluation, self.expert_evaluation
        numbers = {
            "return_mean": mine.mean if mine else math.nan,
            "return_std": mine.std if mine else math.nan,
            "expert_return_mean": theirs.mean if theirs else math.nan,
            "average_loss": float(last["average_loss"]),
            "regret": self.certificate.regret,
            **{f"seconds_{name}": self.seconds[name] for name in ("collect", "solve", "evaluate", "total")},
        }
        return {
            "env": self.settings["env"],
            "learner": self.settings["name"],
            "seed": self.settings["seed"],
            "rounds": int(last["round"]),
            "interactions": int(last["interactions"]),
            "queries": int(last["queries"]),
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "run": None if self.folder is None else str(self.folder),
        }

    def outcome(self) -> dict[str, Any]:
        """What `summary.json` of a run's folder holds: the summary and what it was made from."""
        made = self.certificate
        numbers = {"regret": made.regret, "bound": made.bound, **made.constants}
        return {
            "summary": self.summary(),
            "certificate": {"kind": made.kind}
            | {k: v if math.isfinite(v) else str(v) for k, v in numbers.items()},
            "seconds": self.seconds,
            "evaluation": _listed(self.evaluation),
            "expert_evaluation": _listed(self.expert_evaluation),
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes config, ledger, policy and summary to a new folder, from which `Run.load` and the commands read."""
        return write_run(Path(path), self.settings, self.ledger, self.policy, self.outcome())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Run:
        """A finished run from its folder."""
        folder = Path(path)
        settings, outcome = read_config(folder)["settings"], read_summary(folder)
        if outcome is None:
            raise UserError(f"run: {str(path)!r} is not finished; finish it with --resume.")
        try:
            numbers = {k: v if k == "kind" else float(v) for k, v in outcome["certificate"].items()}
            kind, regret, bound = (numbers.pop(name) for name in ("kind", "regret", "bound"))
            evaluations = [_evaluation(outcome[name]) for name in ("evaluation", "expert_evaluation")]
            seconds = outcome["seconds"]
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"run: {folder / 'summary.json'} is damaged ({error}).") from None
        policy, made = TrainedPolicy.load(folder), Certificate(regret, bound, numbers, kind)
        samples = folder / "samples"
        ledger = read_ledger(folder)
        book = Book(policy.observations, policy.actions, folder=samples) if samples.is_dir() else None
        if book is not None:
            book.rows = int(ledger["samples"].sum())
        return cls(policy, ledger, made, settings, *evaluations, book, seconds, folder)

    def __repr__(self) -> str:
        told = f", return {self.evaluation.mean:.1f}" if self.evaluation else ""
        return f"Run({self.settings['env']}, {self.settings['name']}, {self.ledger.rounds} rounds{told})"


def imitate(
    env: Any,
    *,
    expert: Any = None,
    learner: Any = "ftl",
    policy: Any = "mlp",
    loss: Any = "auto",
    solver: Any = "auto",
    rounds: int = 25,
    interactions: int = 1000,
    envs: int = 1,
    seed: int = 0,
    preset: str = "practical",
    beta: Any = 0.0,
    first_round: str | None = None,
    standardise: bool | None = None,
    squash: bool | None = None,
    noise: float | None = None,
    budget: int | None = None,
    episodes: int = 10,
    evaluate_every: int = 0,
    expert_episodes: int | None = None,
    comparator: Any = "last",
    search: int = 2000,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    encoder: Any = "auto",
    labels: str = "expert",
    env_kwargs: Mapping[str, Any] | None = None,
    expert_options: Mapping[str, Any] | None = None,
    solver_options: Mapping[str, Any] | None = None,
    memory_limit: int = MEMORY_LIMIT,
    progress: Callable[[int, dict[str, Any]], None] | None = None,
) -> Run:
    """Learns to act as the expert does, round by round, and returns the policy with its account.

    Args:
      env: a Gymnasium id, or a function that makes an environment; `envs` of them are stepped side by side.
      expert: None for the shipped one; a name, an archive, "module:function", a callable or an object with
      `predict`
        (see `understudy.experts.resolve`, which gets `expert_options`).
      learner: "ftl" (DAgger), "adaftrl", "ftrl", "alt_ftrl", "bc" (FTL on expert-driven rounds), or an
      object. policy: "mlp", "linear", "tabular", or an object such as ``understudy.MLP(widths=(64, 64))``.
      loss: "auto", "squared", "absolute", "huber", "cross-entropy" or an object. solver: "auto" (closed form
      or another exact method for linear policies; 1000 steps of Adam a round for
        networks), a name or an object; `solver_options` such as learning_rate go with a name.
      rounds, interactions: how many rounds of how many environment steps, each of them one query.
      preset: "practical" or "paper"; decides first_round, standardise, squash and noise where they are not
      given. beta: who acts: the expert with probability β: a number, "linear:ROUNDS" or "exponential:RATE".
      budget: stop when so many queries are used; the last round may be shorter. episodes: episodes of the
      last evaluation, and of those every `evaluate_every` rounds (0: only the last). expert_episodes:
      episodes to measure the expert by (default: `episodes`). comparator: rounds after which the best in
      hindsight is found: "every", "last", "none" or numbers; for networks
        by `search` steps of Adam, an estimate.
      encoder: for a linear policy on images, whose frozen features it is linear in: "auto" (the expert's),
      another
        expert's name or file, or None (the pixels themselves).
      labels: "expert" (a distribution where the expert gives one) or "mode" (its most probable action).
      out, resume: keep the run in this folder; continue an unfinished one. The end is the same, bit for bit.
      memory_limit: bytes of samples kept in memory; larger runs map them from files.

    >>> import understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=2, interactions=200, episodes=2)
    >>> run.ledger["queries"].tolist(), run.policy([0.0, 0.0, 0.1, 0.0])
    ([200, 400], np.int64(1))
    """
    began = time.perf_counter()
    name = learner if isinstance(learner, str) else getattr(learner, "name", type(learner).__name__)
    if learner == "bc":
        learner, beta = "ftl", 1.0
    for field, value, least in (
        ("rounds", rounds, 1), ("interactions", interactions, 1), ("envs", envs, 1), ("seed", seed, 0),
        ("episodes", episodes, 0), ("evaluate_every", evaluate_every, 0), ("search", search, 0),
        ("expert_episodes", expert_episodes, 0), ("budget", budget, 1), ("memory_limit", memory_limit, 0),
    ):  # fmt: skip
        whole(field, value, least)
    chosen = presets.preset(preset)
    mix = mixing(beta, first_round=chosen.first_round if first_round is None else first_round)
    sound = chosen.noise if noise is None else noise
    if isinstance(sound, bool) or not isinstance(sound, (int, float)) or not 0 <= sound < math.inf:
        raise UserError(f"noise: {noise!r} is not a finite number ≥ 0.")
    make = maker(env, env_kwargs)
    slots = Slots(make, min(envs, interactions), seed)
    teacher = experts.resolve(
        expert,
        env_id=make.name if make.by_id else None,
        observation_space=slots.observation_space,
        action_space=slots.action_space,
        **_expert_options(expert, env_kwargs, expert_options),
    )
    actions = Actions.of(slots.action_space)
    architecture = presets.make_policy(policy, slots.observation_space, actions, chosen, squash)
    seen = Observations.of(slots.observation_space, tabular=architecture.name == "tabular")
    seen = _encoded(seen, architecture, teacher, encoder)
    teacher = _labelling(teacher, labels)
    divergence = presets.make_loss(loss, actions)
    if teacher.kind == "distribution" and not divergence.categorical and loss != "auto":
        raise UserError(
            f"loss: {loss!r} does not fit an expert that gives distributions; cross-entropy does."
        )
    made, automatic = presets.make_learner(learner, architecture, chosen)
    inner, options = presets.make_solver(solver, architecture, made, dict(solver_options or {}), chosen)
    key = jax.random.key(derive(seed, "params"))
    with jax.enable_x64(architecture.linear):
        params = architecture.init(key, seen.width, actions.outputs)
        game = make_game(architecture, divergence, made, inner, params, **options)
    total = rounds * interactions if budget is None else min(budget, rounds * interactions)
    sizes = tuple(min(interactions, total - first) for first in range(0, total, interactions))
    plan = Plan(
        sizes=sizes,
        mixing=mix,
        judged=_judged(comparator, len(sizes)),
        evaluated=_evaluated(evaluate_every, len(sizes)) if episodes else frozenset(),
        episodes=episodes,
        standardise=chosen.standardise if standardise is None else bool(standardise),
        search=search,
        seed=seed,
    )
    settings = {
        "env": make.name, "env_kwargs": presets.describe(dict(env_kwargs or {})), "expert": teacher.name,
        "expert_options": {k: str(v) for k, v in (expert_options or {}).items()}, "name": name,
        "learner": presets.describe(game.learner), "automatic": automatic is not None,
        "policy": architecture.config(), "loss": presets.describe(divergence), "solver": presets.describe(game.solver),
        "rounds": rounds, "interactions": interactions, "envs": len(slots), "seed": seed, "preset": preset,
        "beta": str(mix), "first_round": "expert" if mix.expert_first else "agent", "noise": float(sound),
        "standardise": plan.standardise, "budget": budget, "episodes": episodes, "evaluate_every": evaluate_every,
        "expert_episodes": expert_episodes, "comparator": sorted(plan.judged), "search": search,
        "memory_limit": memory_limit, "labels": labels, "encoder": getattr(getattr(seen, "encoder", None), "name", None),
    }  # fmt: skip
    if resume and out is None:
        raise UserError("resume: there is no folder to resume from; give out.")
    folder = None if out is None else Folder(out, settings, resume=resume)
    try:
        if folder is not None and folder.finished:
            return Run.load(folder.path)
        where, keep = (folder.samples, None) if folder is not None else (None, None)
        book = Book(seen, actions, folder=where)
        if where is None and total * book.width() > memory_limit:
            where, keep = temporary_folder()
            book = Book(seen, actions, folder=where)
        collector = Collector(slots, teacher, seen, actions, seed=seed, noise=float(sound))
        evaluator = Evaluator(make, seed=seed)
        loop = Loop(plan, game, params, collector, evaluator, book, automatic)
        _play(loop, folder, progress)
        evaluation, theirs = _final(loop, teacher, episodes if expert_episodes is None else expert_episodes)
        seconds = {
            part: sum(one[part] for one in loop.times) for part in ("collect", "solve", "judge", "evaluate")
        }
        seconds["evaluate"] += theirs[1]
        seconds["total"] = time.perf_counter() - began
        run = Run(
            loop.policy(), loop.ledger, loop.certificate(), settings, evaluation, theirs[0], book, seconds,
            None if folder is None else folder.path, keep,
        )  # fmt: skip
        if folder is not None:
            folder.finish(run.outcome())
        return run
    finally:
        slots.close()
        if folder is not None:
            folder.close()


def _play(loop: Loop, folder: Folder | None, progress: Callable[[int, dict[str, Any]], None] | None) -> None:
    if folder is not None:
        folder.begin(loop) if folder.fresh else folder.restore(loop)
    while not loop.finished:
        row = loop.advance()
        if folder is not None:
            folder.commit(loop)
        if progress is not None:
            progress(loop.round, row)


def _final(
    loop: Loop, teacher: Any, episodes: int
) -> tuple[Evaluation | None, tuple[Evaluation | None, float]]:
    """The last evaluation (made again where a resumed run had it already) and the expert's on the same seeds."""
    last, mine = len(loop.plan.sizes), loop.evaluation
    if mine is None and loop.plan.episodes:
        mine = loop.evaluator(acting(loop.policy()), episodes=loop.plan.episodes, number=last)
    began = time.perf_counter()
    theirs = loop.evaluator(acting(teacher), episodes=episodes, number=last) if episodes else None
    loop.evaluator.close()
    return mine, (theirs, time.perf_counter() - began)


def _expert_options(expert: Any, env_kwargs: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Planners plan in the environment itself, so a shipped expert is told how it is made."""
    options = dict(given or {})
    shipped = expert is None or (isinstance(expert, str) and expert in experts.names())
    return {"env_kwargs": dict(env_kwargs), **options} if shipped and env_kwargs else options


def _encoded(seen: Observations, policy: Policy, teacher: Any, encoder: Any) -> Any:
    """For a linear policy on images: what a frozen network, the expert's own by default, makes of them."""
    image = len(seen.leaves) == 1 and seen.leaves[0].kind == "byte" and len(seen.leaves[0].shape) == 3
    own = getattr(teacher.network, "cnn", None) is not None
    if encoder is None or (encoder == "auto" and not (policy.name == "linear" and image and own)):
        return seen
    from .experts.encoders import encoder as of

    if not image or policy.name != "linear":
        raise UserError(
            f"encoder: {encoder!r} is for a linear policy on images; this policy is {policy.name}."
        )
    return Encoded(seen, of(teacher if encoder == "auto" else experts.resolve(encoder)))


def _labelling(teacher: Any, labels: str) -> Any:
    if labels not in ("expert", "mode"):
        raise unknown("labels", labels, ("expert", "mode"))
    from .experts.encoders import mode

    return mode(teacher) if labels == "mode" else teacher


def _judged(comparator: Any, rounds: int) -> frozenset[int]:
    named = {"every": range(1, rounds + 1), "last": (rounds,), "none": ()}
    if isinstance(comparator, str) and comparator in named:
        return frozenset(named[comparator])
    chosen = () if isinstance(comparator, str) else comparator
    if chosen and all(isinstance(t, (int, np.integer)) and 1 <= t <= rounds for t in chosen):
        return frozenset(int(t) for t in chosen)
    raise UserError(
        f"comparator: {comparator!r} is not 'every', 'last', 'none' or a list of rounds 1 … {rounds}."
    )


def _evaluated(every: int, rounds: int) -> frozenset[int]:
    return frozenset({rounds} | (set(range(every, rounds + 1, every)) if every else set()))


def whole(field: str, value: Any, least: int) -> None:
    """Refuses what is not a whole number ≥ `least`; None stands for not given."""
    if value is None and field in ("budget", "expert_episodes"):
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UserError(f"{field}: {value!r} is not a whole number ≥ {least}.")


def _listed(evaluation: Evaluation | None) -> Any:
    return evaluation and {"returns": evaluation.returns.tolist(), "lengths": evaluation.lengths.tolist()}


def _evaluation(listed: Any) -> Evaluation | None:
    return listed and Evaluation(np.asarray(listed["returns"]), np.asarray(listed["lengths"]))
