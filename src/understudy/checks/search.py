"""A search for false certificates: it makes (true regret − certified bound) as large as it can."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..learners import Learner, adaftrl, adagrad, alt_ftrl, ftl, ftrl, linearised, ogd
from ..losses import LOSSES, Loss
from ..objectives import Batch, limited
from ..online import Game, around_mean, make_game
from ..solvers import SOLVERS
from . import truth
from .candidates import Candidate, change, draw
from .own import LOSSES_OF_OWN, OWN, Part

Make = Callable[[Candidate, float | None], Learner]
Samples = tuple[np.ndarray, np.ndarray, np.ndarray]
FAMILIES: dict[str, tuple[Make, ...]] = {
    "offline": (
        lambda c, r: ftl(radius=r),
        lambda c, r: ftrl(eta=c.step, start=c.start, radius=r),
        lambda c, r: ftrl(eta=c.step, schedule="constant", start=c.start, radius=r),
        lambda c, r: alt_ftrl(eta=c.step, start=c.start, radius=r),
        lambda c, r: adaftrl(alpha=c.step, start=c.start, radius=r),
    ),
    "online": (
        lambda c, r: ogd(eta=c.step, radius=r),
        lambda c, r: ogd(eta=c.step, schedule="constant", radius=r),
        lambda c, r: adagrad(alpha=c.step, radius=r),
        lambda c, r: linearised(ftrl(eta=c.step, start=c.start, radius=r)),
        lambda c, r: linearised(alt_ftrl(eta=c.step, start=c.start, radius=r)),
        lambda c, r: linearised(adaftrl(alpha=c.step, start=c.start, radius=r)),
    ),
    "diagonal": (lambda c, r: adagrad(alpha=c.step, diagonal=True, radius=r),),
}
"""What shares one compiled program: learners that differ by numbers."""
SHAPES = {"offline": (8, 2, 2), "online": (24, 1, 2), "diagonal": (24, 1, 2)}
"""Rounds, samples a round and features: few, so that thousands are played in a second."""
SOLVING: dict[str, tuple[str, dict[str, Any]]] = {
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
POPULATION, PARENTS, GENERATIONS = 48, 8, 30
PLAIN = 0.01
"""A claim exceeded by this share of the losses needs no further search."""
TOLERANCE = 1e-11
"""How far beyond a claim a regret may look, relative to both and a thousandth of the losses."""


CLAIMS = {"bound": 1.0, "regret_high": 1.0, "regret_low": -1.0}
"""What the last row of the ledger claims: numbers above (1) and below (−1) the regret.

A restart aims at one of them, by its seed in turn, and is judged by all.
"""


class Kind(NamedTuple):
    """One kind of game, compiled once: the search moves within it."""

    loss: str
    family: str
    ball: bool = False
    solver: str = "auto"
    memory: str = "all"
    own: str = ""
    """Which of `OWN` takes the place of a shipped part."""

    def __str__(self) -> str:
        parts = [self.loss, self.family]
        parts += ["ball"] if self.ball else []
        parts += [part for part in (self.solver, self.memory, self.own) if part not in ("auto", "all", "")]
        return ", ".join(parts)


def kinds() -> list[Kind]:
    """Every kind of game that the long search plays."""
    losses = ("squared", "absolute", "huber", "cross-entropy")
    found = [Kind(loss, family, ball) for loss in losses for family in FAMILIES for ball in (False, True)]
    for loss in losses:
        found += [Kind(loss, "offline", memory=memory) for memory in ("window:2", "reservoir:3")]
        found += [Kind(loss, "offline", solver=solver) for solver in ("gd", "adam", "sls", "proximal-sgd")]
        found += [Kind(loss, "offline", solver="sls on minibatches")]
    found += [
        Kind("squared", "offline", True, memory="window:2"),
        Kind("huber", "offline", True, solver="gd"),
    ]
    found += [Kind(loss, "offline", solver="interior-point stopped early") for loss in ("absolute", "huber")]
    found += [Kind(loss, "offline", True, "newton stopped early") for loss in losses[2:]]
    return [one for pair in itertools.zip_longest(found, _own_kinds()) for one in pair if one is not None]


def _own_kinds() -> list[Kind]:
    """Games with a part of somebody's own, in turn with the shipped ones in a search that is not long."""
    tried = {kind.__name__.lower() for kind in LOSSES_OF_OWN}
    found = [Kind("huber", "offline", own=name) for name in OWN]
    found += [Kind("squared", "online", own=name) for name in OWN]
    found += [Kind(loss, "offline", own=name) for name in sorted(tried) for loss in ("absolute", "squared")]
    found += [Kind("cross-entropy", "offline", True, own=name) for name in ("stating", "forgetting", "liar")]
    return [
        *found,
        Kind("squared", "offline", True, own="liar"),
        Kind("huber", "online", True, own="shifted"),
    ]


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


class Search:
    """The search within one kind of game; `learners` replaces the family's by others of one program."""

    def __init__(self, kind: Kind, learners: tuple[Make, ...] | None = None):
        self.kind, self.shape = kind, SHAPES[kind.family]
        self.learners = FAMILIES[kind.family] if learners is None else learners
        self.labels, self.own = kind.loss == "cross-entropy", OWN.get(kind.own, Part())
        self.outputs = 2 if self.labels else 1
        self._program: Callable[..., dict[str, jax.Array]] | None = None

    def learner(self, one: Candidate) -> Learner:
        made = self.learners[int(one.learner)](one, one.radius if self.kind.ball else None)
        return made if self.own.learner is None else self.own.learner(made)

    def loss(self) -> Loss:
        shipped = LOSSES.resolve(self.kind.loss)
        return shipped if self.own.loss is None else self.own.loss(shipped)

    def solver(self) -> Any:
        if self.own.solver is not None:
            return self.own.solver()
        name, options = SOLVING[self.kind.solver]
        return name if name == "auto" else SOLVERS.maker(name)(**options)

    def game(self, one: Candidate) -> Game:
        """The game that `replay` would play with these settings."""
        learner = self.learner(one)
        if self.kind.memory != "all":
            learner = around_mean(learner)
        learner = dataclasses.replace(learner, name="")  # the name would select another program
        zero = jnp.zeros((self.shape[2], self.outputs))
        return make_game(self.own.policy(), self.loss(), learner, self.solver(), zero)

    @property
    def uncertified(self) -> str:
        """Why games of this kind claim nothing, in one sentence; empty where they do."""
        return self.game(self._draw(np.random.default_rng(0))).uncertified

    def _draw(self, rng: np.random.Generator) -> Candidate:
        return draw(rng, self.shape, self.labels, len(self.learners))

    def restart(self, seed: int, generations: int = GENERATIONS) -> Finding:
        """One population from its first draw to its last generation; the same seed, the same finding. Games
        that claim nothing are not played.
        """
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
            best = np.argsort(-scores, kind="stable")[:2]
            judged = [(self.judge(crowd[i]), i) for i in best]
        (worst, claim), where = max(judged)
        spent = time.perf_counter() - began
        return Finding(self.kind, worst, claim, seed, evaluations, spent, crowd[where])

    def _child(self, parents: list[Candidate], rng: np.random.Generator) -> Candidate:
        # The better a parent, the more children: the least of two draws.
        first = min(rng.integers(len(parents), size=2))
        return change(
            parents[first], parents[rng.integers(len(parents))], rng, self.labels, len(self.learners)
        )

    def scores(self, crowd: list[Candidate], goal: str = "bound") -> np.ndarray:
        """How far each candidate is on the way to a regret beyond the claim `goal`, by the quick truth."""
        data, claims, limit = self._told(crowd)
        least, _ = truth.least(self.kind.loss, *data, limit, _difference(claims["found"]))
        return excess(claims, goal if goal in claims else "bound", least, 0.0)

    def judge(self, one: Candidate) -> tuple[float, str]:
        """By how much a candidate exceeds its worst claim, by SciPy's truth, and which claim that is."""
        data, claims, limit = self._told([one])
        _, start = truth.least(self.kind.loss, *data, limit, _difference(claims["found"]))
        X, y, weights = (part[0] for part in data)
        least, _ = truth.least_by_scipy(self.kind.loss, X, y, weights, float(limit[0]), start[0])
        worst = {
            name: float(excess(claims, name, np.array([least]), 1e-3)[0]) for name in CLAIMS if name in claims
        }
        claim = max(worst, key=lambda name: worst[name])
        return worst[claim], claim

    def _play(self, crowd: list[Candidate]) -> dict[str, np.ndarray]:
        """What the library says: iterates, its comparator, the last row of its ledger."""
        count = len(crowd)
        crowd = crowd + crowd[:1] * (POPULATION - count)  # one shape, one program
        games = [self.game(one) for one in crowd]
        numbers, static = zip(*(eqx.partition(game, eqx.is_array) for game in games), strict=True)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *numbers)
        X, y, sizes, weights = _stacked(crowd)
        inside = weights[..., None] > 0
        targets = np.stack([1 - y, y], axis=-1) if self.labels else y[..., None]
        inputs, answers, shares = (jnp.asarray(one) for one in (X * inside, targets * inside, weights))
        rounds: Any = Batch(inputs, answers, shares, jnp.asarray(sizes, jnp.int32))
        if self._program is None:
            self._program = jax.jit(functools.partial(_play_all, static[0], self.kind.memory))
        played = jax.device_get(self._program(stacked, rounds))
        played = {name: value[:count] for name, value in played.items()}
        return played | {"silent": contradictory(*(played[name] for name in CLAIMS))}

    def _told(self, crowd: list[Candidate]) -> tuple[Samples, dict[str, np.ndarray], np.ndarray]:
        """All samples of each candidate, (p, n, d) and (p, n), with their weights in the sum of losses; what
        the library claims, and the cumulative loss of the iterates it played, counted here; the norm up to
        which comparators count, for the difference of outputs where there are two.
        """
        X, y, _, weights = _stacked(crowd)
        X, y, weights = (part.reshape(len(crowd), -1, *part.shape[3:]) for part in (X, y, weights))
        claims = self._play(crowd)
        each = np.repeat(_difference(claims["iterates"]), self.shape[1], axis=1)  # (p, n, d)
        z = np.einsum("pnd,pnd->pn", X, each)
        claims["cost"] = np.sum(weights * truth.sample_losses(self.kind.loss, z, y), axis=1)
        own = [self.learner(one).radius for one in crowd]
        radius = np.array([np.inf if one is None else float(one) for one in own])
        radius = np.fmin(radius, claims.get("norm", np.inf))
        return (X, y, weights), claims, radius * (np.sqrt(2.0) if self.labels else 1.0)


def _stacked(crowd: list[Candidate]) -> tuple[np.ndarray, ...]:
    """X (p, T, m, d), y (p, T, m), the sizes of rounds (p, T), and the weights of samples (p, T, m)."""
    X, y, sizes = (np.stack([getattr(one, name) for one in crowd]) for name in ("X", "y", "sizes"))
    return X, y, sizes, (np.arange(X.shape[2]) < sizes[..., None]) / sizes[..., None]


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
        found = sign * (regret - claim) / (size + floor * claims["cost"] + 1e-300)
    silent = np.inf if name == "bound" else -np.inf  # an end of the interval is nan where nothing is proved
    found = np.where(np.isnan(claim), silent, np.where(claim == sign * np.inf, -np.inf, found))
    found = np.where(claims["cost"] < 1e100, found, -np.inf)  # a learner that left the numbers' range
    found = np.where(claims.get("silent", False), -np.inf, found)
    return found if floor else np.where(size < 1e-8 * claims["cost"], -1.0, found)


def _difference(W: np.ndarray) -> np.ndarray:
    """Parameters (…, d, k) as the vector the truth reads: the only column, or the second less the first."""
    return W[..., 0] if W.shape[-1] == 1 else W[..., 1] - W[..., 0]


def _play_all(static: Any, memory: str, numbers: Any, rounds: Batch) -> dict[str, jax.Array]:
    """Every candidate in turn, inside one program: a CPU loses more by letting lanes wait for each other."""
    T, m = rounds.weights.shape[1:]
    key = jax.random.key(0)

    def play(one: tuple[Any, Batch]) -> dict[str, jax.Array]:
        game: Game = eqx.combine(one[0], static)
        first = jax.tree.map(lambda leaf: leaf[0], one[1])
        zero = jnp.zeros((rounds.inputs.shape[-1], rounds.targets.shape[-1]))
        losses = limited(
            memory,
            game.empty(zero, first, T * m),
            first,
            rounds=T,
            samples=T * m,
            key=jax.random.fold_in(key, 2**32 - 1),
        )

        def draw(now: tuple[jax.Array, Batch], params: Any) -> Any:
            t, batch = now
            return (batch, jax.random.fold_in(key, t), t == T), {"iterates": params}

        rounds_of = (jnp.arange(1, T + 1), one[1])
        state, record = game.play_all(game.init(zero, losses), rounds_of, draw)
        last = {name: record[name][-1] for name in (*CLAIMS, "norm") if name in record}
        return last | {"iterates": record["iterates"], "found": state.comparator}

    return jax.lax.map(play, (numbers, rounds))
