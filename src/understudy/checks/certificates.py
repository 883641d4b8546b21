"""A search for streams on which a certificate is false.

A restart draws a population of small streams with the numbers of a learner and moves them by a pattern search
towards a regret beyond a claim of the library. The regret is counted here, against comparators whose loss is
counted here too: each of them exists, so the regret can come out too small and never too large, and what
exceeds a claim by it exceeds the claim. While it searches the comparator is the library's own; the end of
each restart is judged against one that SciPy finds (`truth.py`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false
# JAX says little of the types of its trees.

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float64, Int

from .. import disk
from ..errors import UserError, check_int
from ..learners import LEARNERS, AnyLearner, Learner, adaftrl, adagrad, alt_ftrl, ftl, ftrl, linearised, ogd
from ..losses import LOSSES, Loss
from ..objectives import Batch, limited
from ..online import Game, around_mean, make_game
from ..policies import Linear, Policy
from ..solvers import SOLVERS, AnySolver
from ..streams import replay
from .base import CheckError, Report, Row, name_of
from .truth import into, least_by_scipy, sample_losses, total

POPULATION, PARENTS, GENERATIONS = 48, 8, 30
PLAIN = 0.01
"""A claim exceeded by this share of the losses needs no further search."""
TOLERANCE = 1e-11
"""How far beyond a claim a regret may look, relative to both and a thousandth of the losses."""
CLAIMS = {"bound": 1.0, "regret_high": 1.0, "regret_low": -1.0}
"""What the last row of the ledger claims: numbers above (1) and below (−1) the regret.

A restart aims at one of them, by its seed in turn, and is judged by all.
"""


class Candidate(NamedTuple):
    """One point of the search: T rounds of at most m samples with d features and one answer each."""

    inputs: Float64[np.ndarray, "T m d"]
    answers: Float64[np.ndarray, "T m"]
    """For cross-entropy the probability of the second label."""
    sizes: Int[np.ndarray, " T"]
    """Samples in use."""
    numbers: Float64[np.ndarray, " 3"]
    """log10 of the step, log10 of the radius, the schedule's first round."""
    learner: int
    """Which learner of the family."""

    def rounds(self, labels: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """The rounds [(X, Y), …] as `replay` takes them."""
        columns = zip(self.inputs, self.answers, self.sizes, strict=True)
        pairs = [(rows[:size], answers[:size, None]) for rows, answers, size in columns]
        return [(rows, np.hstack([1 - column, column]) if labels else column) for rows, column in pairs]


Make = Callable[[float, int, float | None], Learner]
"""A learner of a step and a first round, on a ball of a radius or on all of space."""
FAMILIES: dict[str, tuple[Make, ...]] = {
    "offline": (
        lambda step, start, r: ftl(radius=r),
        lambda step, start, r: ftrl(eta=step, start=start, radius=r),
        lambda step, start, r: ftrl(eta=step, schedule="constant", start=start, radius=r),
        lambda step, start, r: alt_ftrl(eta=step, start=start, radius=r),
        lambda step, start, r: adaftrl(alpha=step, start=start, radius=r),
    ),
    "online": (
        lambda step, start, r: ogd(eta=step, radius=r),
        lambda step, start, r: ogd(eta=step, schedule="constant", radius=r),
        lambda step, start, r: adagrad(alpha=step, radius=r),
        lambda step, start, r: linearised(ftrl(eta=step, start=start, radius=r)),
        lambda step, start, r: linearised(alt_ftrl(eta=step, start=start, radius=r)),
        lambda step, start, r: linearised(adaftrl(alpha=step, start=start, radius=r)),
    ),
    "diagonal": (lambda step, start, r: adagrad(alpha=step, diagonal=True, radius=r),),
}
"""What shares one compiled program: learners that differ by numbers."""
SHAPES = {"offline": (8, 2, 2), "online": (24, 1, 2), "diagonal": (24, 1, 2)}
"""Rounds, samples a round and features: few, so that thousands are played in a second."""
SOLVING: dict[str, tuple[str, dict[str, float]]] = {
    "auto": ("auto", {}),
    "gd": ("gd", {"max_iterations": 2, "tolerance": 0.0}),
    "adam": ("adam", {"learning_rate": 0.1, "max_iterations": 5}),
    "sls": ("sls", {"max_iterations": 3}),
    "sls on minibatches": ("sls", {"max_iterations": 3, "batch_size": 2}),
    "proximal-sgd": ("proximal-sgd", {"learning_rate": 0.1, "max_iterations": 5}),
    "interior-point stopped early": ("interior-point", {"max_iterations": 3}),
    "newton stopped early": ("newton", {"max_iterations": 1}),
}
"""Solvers by the name of their kind: exact, and stopped long before they are done."""


class Kind(NamedTuple):
    """One kind of game, compiled once: the search moves within it."""

    loss: str
    family: str
    ball: bool = False
    solver: str = "auto"
    memory: str = "all"
    parts: str = ""
    """What the parts are called that take the place of shipped ones."""

    def __str__(self) -> str:
        words = [self.loss, self.family]
        words += ["ball"] if self.ball else []
        words += [word for word in (self.solver, self.memory, self.parts) if word not in ("auto", "all", "")]
        return ", ".join(words)


def kinds() -> list[Kind]:
    """Every kind of game of shipped parts."""
    losses = ("squared", "absolute", "huber", "cross-entropy")
    listed = [Kind(loss, family, ball) for loss in losses for family in FAMILIES for ball in (False, True)]
    for loss in losses:
        listed += [Kind(loss, "offline", memory=memory) for memory in ("window:2", "reservoir:3")]
        listed += [Kind(loss, "offline", solver=solver) for solver in ("gd", "adam", "sls", "proximal-sgd")]
        listed += [Kind(loss, "offline", solver="sls on minibatches")]
    listed += [
        Kind("squared", "offline", True, memory="window:2"),
        Kind("huber", "offline", True, solver="gd"),
    ]
    listed += [Kind(loss, "offline", solver="interior-point stopped early") for loss in ("absolute", "huber")]
    return listed + [Kind(loss, "offline", True, "newton stopped early") for loss in losses[2:]]


class Finding(NamedTuple):
    """The worst that a restart found: by how much a claim was exceeded, which claim, and where."""

    kind: Kind
    worst: float
    claim: str
    seed: int
    evaluations: int
    seconds: float
    candidate: Candidate

    @property
    def false(self) -> bool:
        """Whether a claim is false: exceeded by more than rounding."""
        return not self.worst <= TOLERANCE


def certificate(
    subject: str | AnyLearner | None = None,
    *,
    minutes: float = 1.0,
    restarts: int | None = None,
    seed: int = 0,
    kind: str | None = None,
    out: Path | None = None,
    progress: Callable[[Finding], None] | None = None,
) -> Report:
    """Searches for streams whose regret is above its certified bound; raises `CheckError` where it finds one.

    Args:
      subject: a learner (an object or a registered name), on all four losses; None stands for every shipped
        learner, exact and inexact solvers, limited memories, with and without a ball.
      minutes: how long to search. Each kind of game is compiled once, which takes some seconds of it.
      restarts: instead of minutes, how many searches of each kind.
      seed: of the first restart. A restart depends on its kind and its seed alone.
      kind: only this kind of game, by the name that the report gives it.
      out: a folder for the streams on which a claim is false, as `understudy replay` reads them.
      progress: called with what each restart found.

    The regret is counted here, against comparators that NumPy and SciPy find, so it is never too large.

    >>> import understudy
    >>> report = understudy.checks.certificate(understudy.ogd(eta=0.1), restarts=1, kind="squared, online")
    >>> report.passed
    True
    """
    searches = list(map(Search, kinds())) if subject is None else _searches(subject)
    title = "certificates" if subject is None else f"certificate of {name_of(subject)}"
    return run_searches(title, searches, minutes, restarts, seed, kind, out, progress)


def run_searches(
    title: str,
    searches: Iterable[Search],
    minutes: float,
    restarts: int | None,
    seed: int,
    kind: str | None,
    out: Path | None,
    progress: Callable[[Finding], None] | None,
) -> Report:
    """`certificate` with these searches, in turn."""
    check_int("seed", seed, 0)
    if restarts is not None:
        check_int("restarts", restarts)
    elif not minutes > 0:
        raise UserError(f"minutes: {minutes!r} is not a number > 0.")
    named = {str(search.kind): search for search in searches}
    if kind is not None and kind not in named:
        raise UserError(f"kind: there is no {kind!r}; known: {'; '.join(named)}.")
    asked = [search for name, search in named.items() if kind in (None, name)]
    findings: list[list[Finding]] = [[] for _ in asked]
    began = time.monotonic()
    turns = itertools.count() if restarts is None else range(restarts)
    for turn, (search, found) in (
        (turn, pair) for turn in turns for pair in zip(asked, findings, strict=True)
    ):
        found.append(search.restart(seed + turn))
        if progress is not None:
            progress(found[-1])
        if restarts is None and time.monotonic() - began >= 60 * minutes:
            break
    report = Report(title, map(_row, asked, findings, itertools.repeat(out)))
    if any(row.passed is False for row in report.rows):
        raise CheckError(report)
    return report


def _searches(subject: str | AnyLearner) -> list[Search]:
    """The kinds of games of one learner."""
    learner = LEARNERS.resolve(subject)
    if not isinstance(learner, Learner):
        raise UserError(f"learner: {name_of(subject)!r} is not of the family that the certificate covers.")
    family = "diagonal" if learner.diagonal else "online" if learner.linear else "offline"
    asked = [kind for kind in kinds() if kind.family == family and kind.ball == (learner.radius is not None)]
    if learner.linear:
        asked = [kind for kind in asked if kind.solver == "auto" and kind.memory == "all"]
    given: Learner = learner
    searches = [Search(kind, (lambda step, start, radius: given,)) for kind in asked]
    if reason := searches[0].uncertified:
        raise UserError(f"learner: nothing is certified of {name_of(subject)!r}: {reason}")
    return searches


def _row(search: Search, findings: list[Finding], out: Path | None) -> Row:
    if not findings:
        return Row(str(search.kind), None, "not reached in the time given")
    if not any(finding.evaluations for finding in findings):
        return Row(str(search.kind), True, f"claims nothing: {search.uncertified}")
    worst = max(findings, key=lambda finding: finding.worst)
    plays, seconds = (sum(column) for column in zip(*((f.evaluations, f.seconds) for f in findings)))
    detail = f"{plays:,} plays in {seconds:.0f} s; worst {worst.worst:+.1e} of the losses, seed {worst.seed}"
    if not worst.false:
        return Row(str(search.kind), True, detail)
    where = "" if out is None else f"; {save(search, worst, out)}"
    return Row(str(search.kind), False, f"{detail}: {worst.claim} is false; {confirm(search, worst)}{where}")


def confirm(search: Search, finding: Finding) -> str:
    """What `replay` prints on the stream, in words."""
    printed = replay(
        finding.candidate.rounds(search.labels),
        policy=search.policy,
        loss=search.loss,
        learner=search.learner(finding.candidate),
        solver=search.solver,
        memory=search.kind.memory,
        comparator="last",
    ).certificate
    return f"replay prints regret {printed.regret:.6g} and bound {printed.bound:.6g}"


def save(search: Search, finding: Finding, out: Path) -> Path:
    """Writes the stream (npz, as `understudy replay` reads it) and its settings (JSON) into a folder."""
    kind, learner = search.kind, search.learner(finding.candidate)
    name, options = SOLVING[kind.solver]
    schedule = {part: float(getattr(learner.schedule, part)) for part in ("constant", "root", "adaptive")}
    settings: dict[str, disk.Json] = {
        "kind": str(kind),
        **{name: getattr(finding, name) for name in ("seed", "worst", "claim")},
        "loss": kind.loss,
        "learner": learner.name,
        "schedule": schedule | {"start": int(learner.schedule.first)},
        "around_last": bool(learner.around_last),
        "diagonal": learner.diagonal,
        "radius": None if learner.radius is None else float(learner.radius),
        "solver": {"name": name} | options,
        "memory": kind.memory,
        "own": kind.parts,
    }
    rounds = finding.candidate.rounds(search.labels)
    file = out / f"{re.sub('(, |[ :])', '-', str(kind))}-{finding.seed}.npz"
    inputs, targets = (np.concatenate([pair[i] for pair in rounds]) for i in (0, 1))
    disk.write_npz(file, {"X": inputs, "Y": targets, "sizes": np.array([len(x) for x, _ in rounds])})
    disk.write_file(file.with_suffix(".json"), json.dumps(settings, indent=2) + "\n")
    return file


class Samples(NamedTuple):
    """All samples of p streams, their weights in the sum of losses, and the largest norms of comparators."""

    rows: Float64[np.ndarray, "p n d"]
    answers: Float64[np.ndarray, "p n"]
    weights: Float64[np.ndarray, "p n"]
    radii: Float64[np.ndarray, " p"]


class Search:
    """The search within one kind of game, for the shipped learners of its family or for others."""

    def __init__(self, kind: Kind, learners: tuple[Make, ...] = ()):
        self.kind, self.shape, self.labels = kind, SHAPES[kind.family], kind.loss == "cross-entropy"
        self.learners = learners or FAMILIES[kind.family]
        self.policy: Policy = Linear()
        self.loss: Loss = LOSSES.resolve(kind.loss)
        name, options = SOLVING[kind.solver]
        self.solver: str | AnySolver = name if name == "auto" else SOLVERS.maker(name)(**options)
        self._program: Callable[[Game, Batch], dict[str, Array]] | None = None

    def learner(self, candidate: Candidate) -> Learner:
        """The learner with the candidate's numbers."""
        step, radius = (float(10.0**number) for number in candidate.numbers[:2])
        start, limit = int(candidate.numbers[2]), radius if self.kind.ball else None
        return self.learners[candidate.learner](step, start, limit)

    def game(self, candidate: Candidate) -> Game:
        """The game that `replay` would play with these settings."""
        learner = self.learner(candidate)
        if self.kind.memory != "all":
            learner = around_mean(learner)
        learner = dataclasses.replace(learner, name="")  # the name would select another program
        zero = jnp.zeros((self.shape[2], 2 if self.labels else 1))
        return make_game(self.policy, self.loss, learner, self.solver, zero)

    @property
    def uncertified(self) -> str:
        """Why games of this kind claim nothing, in one sentence; empty where they do."""
        return self.game(self._draw(np.random.default_rng(0))).uncertified

    def _draw(self, rng: np.random.Generator) -> Candidate:
        return draw(rng, self.shape, self.labels, len(self.learners))

    def restart(self, seed: int, generations: int = GENERATIONS) -> Finding:
        """One population from its first draw to its last generation; the same seed, the same finding."""
        began = time.perf_counter()
        rng = np.random.default_rng(seed)
        with jax.enable_x64(True):
            if self.uncertified:
                return Finding(self.kind, -np.inf, "", seed, 0, 0.0, self._draw(rng))
            crowd = [self._draw(rng) for _ in range(POPULATION)]
            goal = list(CLAIMS)[seed % len(CLAIMS)]
            scores, evaluations = self.scores(crowd, goal), POPULATION
            for _ in range(generations):
                if scores.max() > PLAIN:
                    break
                order = np.argsort(-scores, kind="stable")[:PARENTS]
                crowd, scores = [crowd[i] for i in order], scores[order]
                children = [self._child(crowd, rng) for _ in range(POPULATION - PARENTS)]
                scores = np.concatenate([scores, self.scores(children, goal)])
                crowd += children
                evaluations += len(children)
            best = [int(i) for i in np.argsort(-scores, kind="stable")[:2]]
            (worst, claim), where = max((self.judge(crowd[i]), i) for i in best)
        spent = time.perf_counter() - began
        return Finding(self.kind, worst, claim, seed, evaluations, spent, crowd[where])

    def _child(self, parents: list[Candidate], rng: np.random.Generator) -> Candidate:
        # The better a parent, the more children: the least of two draws.
        first = min(rng.integers(len(parents), size=2))
        other = parents[int(rng.integers(len(parents)))]
        return change(parents[int(first)], other, rng, self.labels, len(self.learners))

    def scores(self, crowd: list[Candidate], goal: str = "bound") -> Float64[np.ndarray, " p"]:
        """How far each candidate is on the way to a regret beyond the claim `goal`."""
        samples, claims = self._claims(crowd)
        least = total(self.kind.loss, *samples[:3], claims["comparator"])
        return excess(claims, goal if goal in claims else "bound", least, 0.0)

    def judge(self, candidate: Candidate) -> tuple[float, str]:
        """By how much a candidate exceeds its worst claim, and which claim that is."""
        samples, claims = self._claims([candidate])
        least = self.least(samples, claims["comparator"])
        made = [name for name in CLAIMS if name in claims]
        worst = {name: float(excess(claims, name, least, 1e-3)[0]) for name in made}
        claim = max(worst, key=lambda name: worst[name])
        return worst[claim], claim

    def least(self, samples: Samples, comparator: Float64[np.ndarray, "p d"]) -> Float64[np.ndarray, " p"]:
        """What the end of a restart is judged against: the losses of comparators that SciPy finds, at most
        those of the library's.
        """
        columns = zip(*samples, comparator, strict=True)
        return np.array([least_by_scipy(self.kind.loss, *each)[0] for each in columns])

    def _play(self, crowd: list[Candidate]) -> dict[str, np.ndarray]:
        """What the library says: iterates, its comparator, the last row of its ledger."""
        count = len(crowd)
        crowd = crowd + crowd[:1] * (POPULATION - count)  # one shape, one program
        games = [eqx.partition(self.game(candidate), eqx.is_array) for candidate in crowd]
        stacked: Game = jax.tree.map(lambda *leaves: np.stack(leaves), *(numbers for numbers, _ in games))
        inputs, answers, sizes, weights = _stacked(crowd)
        used = weights[..., None] > 0
        targets = np.stack([1 - answers, answers], axis=-1) if self.labels else answers[..., None]
        parts = map(jnp.asarray, (inputs * used, targets * used, weights))
        data = Batch(*parts, size=jnp.asarray(sizes, jnp.int32))
        if self._program is None:
            self._program = jax.jit(functools.partial(_play_all, games[0][1], self.kind.memory))
        played = jax.device_get(self._program(stacked, data))
        played = {name: np.asarray(value)[:count] for name, value in played.items()}
        return played | {"silent": contradictory(*(played[name] for name in CLAIMS))}

    def _claims(self, crowd: list[Candidate]) -> tuple[Samples, dict[str, np.ndarray]]:
        """What the library claims of each candidate, the loss of its iterates, counted here, and its
        comparator as a vector that counts.
        """
        inputs, answers, _, weights = _stacked(crowd)
        rows = inputs.reshape(len(crowd), -1, inputs.shape[-1])
        answers, weights = (part.reshape(len(crowd), -1) for part in (answers, weights))
        claims = self._play(crowd)
        each = np.repeat(_difference(claims["iterates"]), self.shape[1], axis=1)  # (p, n, d)
        outputs = np.einsum("pnd,pnd->pn", rows, each)
        claims["cost"] = np.sum(weights * sample_losses(self.kind.loss, outputs, answers), axis=1)
        radii = [self.learner(candidate).radius for candidate in crowd]
        limit = np.array([np.inf if radius is None else float(radius) for radius in radii])
        limit = np.fmin(limit, claims.get("norm", np.inf)) * (np.sqrt(2.0) if self.labels else 1.0)
        claims["comparator"] = into(limit, _difference(claims["comparator"]))
        return Samples(rows, answers, weights, limit), claims


def draw(rng: np.random.Generator, shape: tuple[int, int, int], labels: bool, learners: int) -> Candidate:
    """A stream of one of several kinds: features all alike, one at a time, repeated or of low rank, at scales
    that differ; answers from a teacher, from one that changes its sign, or far away.
    """
    T, m, d = shape
    rows = rng.normal(size=(T, m, d))
    kind = rng.integers(5)
    if kind == 0:
        rows = rows * (rng.integers(d, size=(T, m, 1)) == np.arange(d))
    elif kind == 1:
        rows = rows[:1] + 0.1 * rng.normal() * rows
    elif kind == 2:
        rows = rows[rng.integers(max(T // 3, 1), size=T)]
    elif kind == 3:
        rows = rows[..., :1] * rng.normal(size=d) + 10.0 ** rng.uniform(-12, 0) * rows
    if rng.random() < 0.6:
        rows = rows * 10.0 ** rng.uniform(-3, 3, size=d)
    teacher = rng.normal(size=d) / np.maximum(np.abs(rows).mean(axis=(0, 1)), 1e-6)
    sides = np.where(rng.random(T) < rng.choice([0.0, 0.3, 0.5]), -1.0, 1.0)[:, None]
    answers = (rows @ teacher) * sides + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=(T, m))
    answers = answers * 10.0 ** rng.uniform(-2, 2) + rng.choice([0.0, 0.0, 1.0]) * 10.0 ** rng.uniform(0, 3)
    sizes = np.full(T, m) if rng.random() < 0.5 else rng.integers(1, m + 1, size=T)
    numbers = np.array([rng.uniform(-2, 2), rng.uniform(-1.5, 1.5), rng.choice([1, 1, 1, 2, 3])])
    return _legal(rows, answers, sizes, numbers, int(rng.integers(learners)), labels)


def change(
    candidate: Candidate, other: Candidate, rng: np.random.Generator, labels: bool, learners: int
) -> Candidate:
    """The candidate after one to three small or large moves of a pattern search; `other` may lend it
    rounds.
    """
    rows, answers, sizes, numbers = (np.array(part) for part in candidate[:4])
    learner, (T, m, d) = candidate.learner, rows.shape
    for _ in range(rng.integers(1, 4)):
        move, size = rng.integers(9), rng.choice([0.03, 0.3, 1.0])
        t, i, j = (int(rng.integers(most)) for most in (T, m, d))
        span = slice(t, int(rng.integers(t, T)) + 1)
        factor = rng.choice([-1.0, 1.0], p=[0.2, 0.8]) * 10.0 ** (size * rng.normal())
        if move == 0:
            rows[t, i, j] *= factor
        elif move == 1:
            rows[span, :, j] *= factor
        elif move == 2:
            rows[..., j] *= factor
        elif move == 3:
            small = rng.random() < 0.7
            answers[t, i] = answers[t, i] * factor if small else answers[t, i] + size * rng.normal()
        elif move == 4:
            answers[span] *= factor
        elif move == 5:
            source = candidate if rng.random() < 0.7 else other
            u = int(rng.integers(T))
            rows[t], answers[t], sizes[t] = source.inputs[u], source.answers[u], source.sizes[u]
        elif move == 6:
            rows[t, i, j] = rng.choice([0.0, rows[t, i, j] + size * rng.normal()])
        elif move == 7:
            numbers[:2] += size * rng.normal(size=2) * rng.integers(2, size=2)
        elif rng.random() < 0.5:
            sizes[t], numbers[2] = rng.integers(1, m + 1), rng.choice([1, 1, 1, 2, 3])
        else:
            learner = int(rng.integers(learners))
    return _legal(rows, answers, sizes, numbers, learner, labels)


def _legal(
    rows: np.ndarray, answers: np.ndarray, sizes: np.ndarray, numbers: np.ndarray, learner: int, labels: bool
) -> Candidate:
    """Numbers kept where double precision separates a false bound from rounding; shares within [0, 1]."""
    answers = np.clip(answers, -1e6, 1e6)
    if labels:
        outside = (answers < 0) | (answers > 1)
        answers = np.where(outside, (answers > 0).astype(float), answers)
    numbers = np.clip(numbers, [-4, -3, 1], [4, 3, 3])
    return Candidate(np.clip(rows, -1e4, 1e4), answers, sizes, numbers, learner)


def _stacked(crowd: list[Candidate]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (p, T, m, d), answers (p, T, m), the sizes of rounds (p, T), and samples' weights (p, T, m)."""
    inputs, answers, sizes = (np.stack([candidate[i] for candidate in crowd]) for i in range(3))
    return inputs, answers, sizes, (np.arange(inputs.shape[2]) < sizes[..., None]) / sizes[..., None]


def _difference(params: np.ndarray) -> np.ndarray:
    """Parameters (…, d, k) as the vector the truth reads: the only column, or the second less the first."""
    return params[..., 0] if params.shape[-1] == 1 else params[..., 1] - params[..., 0]


def _play_all(static: Game, memory: str, numbers: Game, rounds: Batch) -> dict[str, Array]:
    """Every candidate in turn, inside one program: a CPU loses more by letting lanes wait for each other."""
    T, m = rounds.weights.shape[1:]
    key = jax.random.key(0)

    def play(candidate: tuple[Game, Batch]) -> dict[str, Array]:
        game: Game = eqx.combine(candidate[0], static)
        first: Batch = jax.tree.map(lambda leaf: leaf[0], candidate[1])
        zero = jnp.zeros((rounds.inputs.shape[-1], rounds.targets.shape[-1]))
        empty, own = game.empty(zero, first, T * m), jax.random.fold_in(key, 2**32 - 1)
        losses = limited(memory, empty, first, rounds=T, samples=T * m, key=own)

        def draw_round(
            now: tuple[Array, Batch], params: Array
        ) -> tuple[tuple[Batch, Array, Array], dict[str, Array]]:
            t, batch = now
            return (batch, jax.random.fold_in(key, t), t == T), {"iterates": params}

        elements = (jnp.arange(1, T + 1), candidate[1])
        state, record = game.play_all(game.init(zero, losses), elements, draw_round)
        last = {name: record[name][-1] for name in (*CLAIMS, "norm") if name in record}
        return last | {"iterates": record["iterates"], "comparator": state.comparator}

    return jax.lax.map(play, (numbers, rounds))


def contradictory(bound: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Where numbers contradict each other and claim nothing, as `Certificate.contradictory` says of one."""
    return (low > high) | (low > bound)


def excess(claims: dict[str, np.ndarray], name: str, least: np.ndarray, floor: float) -> np.ndarray:
    """By how much the claim is exceeded, relative to its size and to `floor` times the losses.

    −inf where nothing is claimed, +inf for a bound that is not a number.
    """
    regret, claim, sign = claims["cost"] - least, claims[name], CLAIMS[name]
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.abs(regret) + np.abs(claim)
        share = sign * (regret - claim) / (size + floor * claims["cost"] + 1e-300)
    silent = np.inf if name == "bound" else -np.inf  # an end of the interval is nan where nothing is proved
    share = np.where(np.isnan(claim), silent, np.where(claim == sign * np.inf, -np.inf, share))
    share = np.where(claims["cost"] < 1e100, share, -np.inf)  # a learner that left the numbers' range
    share = np.where(claims.get("silent", False), -np.inf, share)
    return share if floor else np.where(size < 1e-8 * claims["cost"], -1.0, share)
