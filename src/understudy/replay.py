"""Play a recorded stream of losses to any learner, in float64, and say how well it did."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .data import Batch, batch, check_rounds
from .errors import UserError
from .learners import LEARNERS, Learner
from .losses import LOSSES, Absolute, CrossEntropy, Huber, Squared
from .objectives import limited, parse_memory, plain
from .online import Game, around_mean, compiled, make_game
from .policies import POLICIES, Params, Policy, Tabular
from .regret import COLUMNS, Certificate, Ledger, bounds
from .regret.bounds import Bound
from .solvers import Status


class Replay:
    """What `replay` returns.

    Attributes:
      ledger: one row per round (see `understudy.regret.COLUMNS`), the same bytes for the same seed.
      certificate: measured regret, certified bound and constants after the last round.
      params: w_{T+1}, the parameters after the last round.
      comparator: the best parameters in hindsight.
      iterates: w_1 … w_{T+1} where `keep_iterates` was asked for, else None.
      times: seconds per round (apart from the ledger, which is reproducible).
    """

    def __init__(
        self,
        game: Game,
        rounds: list[Batch],
        ledger: Ledger,
        certificate: Certificate,
        params: Params,
        comparator: Params,
        iterates: list[Params] | None,
        times: np.ndarray,
    ):
        self.game, self._rounds = game, rounds
        self.ledger, self.certificate = ledger, certificate
        self.params, self.comparator = params, comparator
        self.iterates, self.times = iterates, times

    def __repr__(self) -> str:
        return f"Replay({self.ledger!r}, {self.certificate.kind})"

    def interpolation(self) -> np.ndarray:
        """ε_t² = l_t(w*) − min_w l_t(w) of every round (T,), w* the best in hindsight over all rounds."""
        exact = getattr(self.game.hindsight, "solver", self.game.hindsight)  # unconstrained, also on a ball
        excess = _excess(self.game.policy, self.game.loss, exact)
        with jax.enable_x64(True):
            best = jax.tree.map(jnp.asarray, self.comparator)
            return np.array([max(float(excess(one, best)), 0.0) for one in self._rounds])

    def bounds(self) -> list[Bound]:
        """The theorems that apply to this run, with constants measured on it; needs `keep_iterates=True`."""
        if self.iterates is None:
            raise UserError(
                "bounds: the theorems need the distances of all iterates; replay with keep_iterates=True."
            )
        learner, rounds = self.game.learner, self.ledger.rounds
        if not isinstance(learner, Learner) or not self.game.policy.linear:
            return []
        away = np.array([np.linalg.norm(w - self.comparator) for w in self.iterates[:-1]])
        norms, schedule = self.ledger["gradient_norm"], learner.schedule
        # An inexact solve leaves a residual r_t at w_t, and the lemma then holds with g_t + r_t for g_t.
        left = np.concatenate([[0.0], self.ledger["residual"][:-1]])
        exact = bool(left.max() <= 1e-6 * norms.max())
        slopes = norms + left
        distance, steepest = float(away.max()), float(slopes.max())
        found = []
        if not learner.diagonal:
            found.append(bounds.lemma(gradient_norms=slopes, weights=self.ledger["weight"], distances=away))
        if learner.diagonal or int(schedule.first) != 1:
            return found  # the theorems below are about one number η_t, from round 1 on
        root, adaptive, constant = (float(x) for x in (schedule.root, schedule.adaptive, schedule.constant))
        if root > 0:
            found.append(bounds.ftrl_lipschitz(alpha=1 / root, G=steepest, D=distance, rounds=rounds))
        if not exact or (adaptive == 0 and constant == 0):
            return found
        if adaptive > 0:
            found.append(bounds.adaftrl_lipschitz(alpha=1 / adaptive, G=steepest, D=distance, rounds=rounds))
        smooth = self.smoothness()
        if smooth is None:
            return found
        constants = {"L": smooth, "D": distance, "interpolation": float(self.interpolation().sum())}
        if adaptive > 0:
            found.append(bounds.adaftrl_smooth(alpha=1 / adaptive, **constants))
        if smooth < constant:
            found.append(bounds.ftrl_smooth_constant(eta=1 / constant, **constants))
        return found

    def smoothness(self) -> float | None:
        """L, the largest curvature any round's loss can have; None for losses that are not smooth."""
        loss = self.game.loss
        if isinstance(loss, Absolute):
            return None
        # Per unit of the features' second moment: squared 2·scale, Huber 1, softmax cross-entropy ½.
        unit = (
            2 * loss.scale if isinstance(loss, Squared) else {Huber: 1.0, CrossEntropy: 0.5}.get(type(loss))
        )
        if unit is None:
            return None
        largest = 0.0
        with jax.enable_x64(True):
            for one in self._rounds:
                rows = (
                    np.asarray(self.game.policy.design(one.inputs))
                    * np.sqrt(np.asarray(one.weights))[:, None]
                )
                largest = max(largest, float(np.linalg.norm(rows, 2)) ** 2)
        return unit * largest


@functools.lru_cache(maxsize=64)
def _excess(policy: Policy, loss: Any, exact: Any) -> Callable[[Batch, Params], jax.Array]:
    """``l(w) − min l`` of one round, compiled once for all replays of a kind."""
    game = Game(policy, loss, None, exact, exact)

    @jax.jit
    def excess(one: Batch, best: Params) -> jax.Array:
        losses = game.empty(best, one, one.inputs.shape[0]).add(one)
        return losses.value(best) - exact(plain(losses, best), best, None).value

    return excess


def replay(
    rounds: Iterable[Any],
    *,
    policy: str | Policy = "linear",
    loss: Any = "squared",
    learner: Any = "ftl",
    solver: Any = "auto",
    keep_iterates: bool = False,
    comparator: str | Sequence[int] = "every",
    seed: int = 0,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    batch_size: int | None = None,
    memory: str = "all",
    progress: Callable[[int, dict[str, Any]], None] | None = None,
) -> Replay:
    """Plays recorded rounds ``[(X, Y), …]`` to a learner and returns its ledger, certificate and iterates.

    Args:
      rounds: one pair per round; X (samples, features), or state numbers for the tabular policy; Y (samples,
        outputs), or whole-number labels (samples,) for cross-entropy. Rounds may differ in size: a round's
        loss is a mean.
      policy: "linear", "tabular", "mlp" or an object. The linear policy starts at zero, (features, outputs).
      loss: "squared", "absolute", "huber", "cross-entropy" or an object.
      learner: "ftl", "adaftrl" or an object such as ``understudy.ftrl(eta=0.1)``.
      solver: "auto", a name, or an object; `tolerance`, `max_iterations`, `batch_size` go with a name.
      keep_iterates: return w_1 … w_{T+1}.
      comparator: in which rounds to find the best in hindsight: "every", "last", or round numbers.
      seed: for networks, minibatches and reservoirs; the same seed gives the same bytes.
      memory: what the learner may learn from: "all" rounds, the last W as "window:W", or K past samples, a
        uniform sample of all so far, as "reservoir:K"; scaled up to stand for all. Regret and certificate are
        against all rounds whatever it remembers, and `residual` is what it missed of the whole objective.
      progress: called after every round with the round's number and its row of the ledger.

    >>> import understudy
    >>> stream = [([[1.0, 0.0]], [[1.0]]), ([[0.0, 1.0]], [[2.0]])]
    >>> result = understudy.replay(stream, learner=understudy.ftrl(eta=0.1))
    >>> result.ledger["loss"].tolist()
    [1.0, 4.0]
    >>> result.certificate.holds
    True
    """
    loss = LOSSES.resolve(loss)
    checked = check_rounds(rounds, loss)
    policy = _policy(policy, checked)
    learner = LEARNERS.resolve(learner)
    judged = _judged(comparator, len(checked))
    learner = _remembering(memory, learner, loss)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise UserError(f"seed: {seed!r} is not a whole number from 0 to 2⁶³ − 1.")
    with jax.enable_x64(True):
        return _run(
            checked, policy, loss, learner, solver, keep_iterates, judged, int(seed), progress,
            memory, tolerance=tolerance, max_iterations=max_iterations, batch_size=batch_size,
        )  # fmt: skip


def _run(
    checked: list[tuple[np.ndarray, np.ndarray]],
    policy: Policy,
    loss: Any,
    learner: Any,
    solver: Any,
    keep_iterates: bool,
    judged: set[int],
    seed: int,
    progress: Callable[[int, dict[str, Any]], None] | None,
    memory: str,
    **options: Any,
) -> Replay:
    rows = max(len(X) for X, _ in checked)
    rounds = [batch(X, Y, rows=rows, dtype=np.float64) for X, Y in checked]
    key = jax.random.key(seed)
    features, outputs = int(np.prod(checked[0][0].shape[1:])), checked[0][1].shape[1]
    params = policy.init(jax.random.fold_in(key, 0), features, outputs, jnp.float64)
    game = make_game(policy, loss, learner, solver, params, **options)
    samples = sum(len(X) for X, _ in checked)
    losses = limited(
        memory,
        game.empty(params, rounds[0], samples),
        rounds[0],
        rounds=len(rounds),
        samples=samples,
        key=jax.random.fold_in(key, 2**32 - 1),
    )
    state = game.init(params, losses)
    play = compiled(game)
    host = jax.tree.map(np.asarray, state.learner.params)
    iterates, records, times = [np.copy(host) if isinstance(host, np.ndarray) else host], [], []
    for t, one in enumerate(rounds, 1):
        began = time.perf_counter()
        state, record = play(state, one, jax.random.fold_in(key, t), jnp.asarray(t in judged))
        record = jax.device_get(record)
        times.append(time.perf_counter() - began)
        records.append(_row(t, len(checked[t - 1][0]), record, t in judged))
        if keep_iterates:
            iterates.append(jax.tree.map(lambda leaf: np.array(leaf), state.learner.params))
        if progress is not None:
            progress(t, records[-1])
    ledger = Ledger({name: [row[name] for row in records] for name in COLUMNS})
    kind = "certificate" if game.certified else "estimate"
    constants = {
        "rounds": float(len(rounds)),
        "stability": float(state.running.stability),
        "distance": float(ledger["bound"][-1] - state.running.stability),
        "weight": float(ledger["weight"][-1]),
    }
    verdict = Certificate(float(ledger["regret"][-1]), float(ledger["bound"][-1]), constants, kind)
    final, best = (jax.tree.map(np.array, tree) for tree in (state.learner.params, state.comparator))
    return Replay(
        game, rounds, ledger, verdict, final, best, iterates if keep_iterates else None, np.asarray(times)
    )


def _row(t: int, samples: int, record: dict[str, Any], judged: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"round": t, "samples": samples}
    for name in COLUMNS:
        if name in ("solver_status", "comparator_status"):
            asked = judged or name == "solver_status"
            row[name] = Status(int(record[name])).name.lower() if asked else ""
        elif name in record:
            value = record[name]
            row[name] = int(value) if np.issubdtype(value.dtype, np.integer) else float(value)
    return row


def _policy(policy: str | Policy, checked: list[tuple[np.ndarray, np.ndarray]]) -> Policy:
    if policy == "tabular":
        states = max(int(X.max()) for X, _ in checked) + 1
        policy = Tabular(states=states)
    policy = POLICIES.resolve(policy)
    if isinstance(policy, Tabular):
        for t, (X, _) in enumerate(checked, 1):
            whole = X.size == len(X) and np.array_equal(X, np.round(X))
            if not whole or X.min() < 0 or X.max() >= policy.states:
                raise UserError(
                    f"rounds: X of round {t} must be state numbers 0 … {policy.states - 1}, one a sample."
                )
    return policy


def _remembering(memory: str, learner: Any, loss: Any) -> Any:
    """The learner for a limited memory, or one sentence.

    The reformulation replaces the penalty's past by the gradients of the past losses at w_t, which is right
    where w_t minimised the sum of just those. A memory that drops some and scales others is another sum in
    every round, so FTRL keeps the past in its mean centre instead.
    """
    if parse_memory(memory) is None:
        return learner
    if isinstance(learner, Learner):
        if learner.linear:
            raise UserError(f"memory: {learner.name!r} keeps no past losses, so there are none to limit.")
        if learner.radius is not None and isinstance(loss, Absolute):
            raise UserError("memory: the absolute loss on a ball needs 'all' rounds for its certificate.")
    return around_mean(learner)


def _judged(comparator: str | Sequence[int], rounds: int) -> set[int]:
    if isinstance(comparator, str):
        if comparator == "every":
            return set(range(1, rounds + 1))
        if comparator == "last":
            return {rounds}
    elif isinstance(comparator, Iterable):
        chosen = list(comparator)
        if all(isinstance(t, (int, np.integer)) and 1 <= t <= rounds for t in chosen):
            return {int(t) for t in chosen} | {rounds}
    raise UserError(f"comparator: {comparator!r} is not 'every', 'last' or a list of rounds 1 … {rounds}.")
