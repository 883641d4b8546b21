"""Play a recorded stream of losses to any learner, in float64, and say how well it did."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from .errors import UserError
from .learners import LEARNERS, AnyLearner, Learner, ftl
from .losses import LOSSES, Loss, check_loss
from .objectives import Batch, batch, limited, plain
from .online import Game, GameState, certify, make_game, with_memory
from .policies import POLICIES, Params, Policy, Tabular
from .policies.base import first_params
from .programs import compiled_stream
from .regret import COLUMNS, Certificate, Ledger, bounds
from .regret.bounds import Bound
from .solvers import AnySolver, InBall, Status
from .spec import comparator_rounds

ROOMS, BYTES, SECONDS = (1024, 256, 64, 16, 4, 1), 2**25, 0.2
"""Rounds that a compiled loop has room for, the bytes they may take, and how long a call should last."""

Pair = tuple[np.ndarray, np.ndarray]
"""A recorded round: its inputs and its targets."""


@dataclasses.dataclass(eq=False, repr=False)
class Replay:
    """What `replay` returns.

    Attributes:
      ledger: one row per round (see `understudy.regret.COLUMNS`), the same bytes for the same seed.
      certificate: measured regret, certified bound and constants after the last round.
      params: w_{T+1}, the parameters after the last round.
      comparator: the best parameters in hindsight; None where they were not looked for.
      predictions: (N, k), the outputs on every sample, in order, of the parameters that were played on it,
        before they learned from it: prequential predictions. ``np.split(predictions,
        np.cumsum(ledger["samples"])[:-1])`` has them round by round.
      iterates: w_1 … w_{T+1} where `keep_iterates` was asked for, else None.
      times: seconds per round (apart from the ledger, which is reproducible). Rounds that were played in one
        call share its time equally.
    """

    game: Game
    _rounds: list[Pair]
    ledger: Ledger
    certificate: Certificate
    params: Params
    comparator: Params | None
    predictions: np.ndarray
    iterates: list[Params] | None
    times: np.ndarray

    def __repr__(self) -> str:
        return f"Replay({self.ledger!r}, {self.certificate.kind})"

    def _needs_comparator(self, what: str) -> None:
        if self.comparator is None:
            raise UserError(
                f"{what}: it needs the best in hindsight; replay with comparator='last', not 'none'."
            )

    def interpolation(self) -> np.ndarray:
        """ε_t² = l_t(w*) − min_w l_t(w) of every round (T,), w* the best in hindsight over all rounds."""
        self._needs_comparator("interpolation")
        solver = self.game.comparator_solver
        exact = solver.solver if isinstance(solver, InBall) else solver
        alone = dataclasses.replace(self.game, learner=ftl(), solver=exact, comparator_solver=exact)
        with jax.enable_x64(True):
            best = jax.device_put(self.comparator)
            rows = max(len(X) for X, _ in self._rounds)
            batches = (batch(X, Y, rows=rows) for X, Y in self._rounds)
            return np.array([max(float(_excess(alone, round, best)), 0.0) for round in batches])

    def bounds(self) -> list[Bound]:
        """The theorems that apply to this run, with constants measured on it; needs `keep_iterates=True`."""
        if self.iterates is None:
            raise UserError("bounds: the theorems need all iterates; replay with keep_iterates=True.")
        self._needs_comparator("bounds")
        learner, rounds = self.game.learner, self.ledger.rounds
        if not (self.game.certified and isinstance(learner, Learner)):
            return []
        away = np.array([np.linalg.norm(w - self.comparator) for w in self.iterates[:-1]])
        norms, schedule = self.ledger["gradient_norm"], learner.schedule
        # An inexact solve leaves a residual r_t at w_t, and the lemma then holds with g_t + r_t for g_t.
        left = np.concatenate([[0.0], self.ledger["residual"][:-1]])
        exact = bool(left.max() <= 1e-6 * norms.max())
        slopes = norms + left
        distance = float(away.max())
        lipschitz = {"G": float(slopes.max()), "D": distance}
        theorems: list[Bound] = []
        if not learner.diagonal:
            theorems.append(
                bounds.lemma(gradient_norms=slopes, weights=self.ledger["weight"], distances=away)
            )
        if learner.diagonal or int(schedule.first) != 1:
            return theorems  # the theorems below are about one number η_t, from round 1 on
        root, adaptive, constant = (float(x) for x in (schedule.root, schedule.adaptive, schedule.constant))
        if root > 0:
            theorems.append(bounds.ftrl_lipschitz(alpha=1 / root, rounds=rounds, **lipschitz))
        if not exact or (adaptive == 0 and constant == 0):
            return theorems
        if adaptive > 0:
            theorems.append(bounds.adaftrl_lipschitz(alpha=1 / adaptive, rounds=rounds, **lipschitz))
        smooth = self.smoothness()
        if smooth is None:
            return theorems
        constants = {"L": smooth, "D": distance, "interpolation": float(self.interpolation().sum())}
        if adaptive > 0:
            theorems.append(bounds.adaftrl_smooth(alpha=1 / adaptive, **constants))
        if smooth < constant:
            theorems.append(bounds.ftrl_smooth_constant(eta=1 / constant, **constants))
        return theorems

    def smoothness(self) -> float | None:
        """L, the largest curvature any round's loss can have; None for losses that are not smooth."""
        loss = self.game.loss
        if not np.isfinite(loss.curvature):
            return None
        largest = 0.0
        with jax.enable_x64(True):
            for X, _ in self._rounds:
                rows = np.asarray(self.game.policy.design(jax.device_put(X))) / np.sqrt(len(X))
                largest = max(largest, float(np.linalg.norm(rows, 2)) ** 2)
        return loss.curvature * largest


@eqx.filter_jit
def _excess(game: Game, round: Batch, best: Params) -> Array:
    """``l(w) − min l`` of one round."""
    losses = game.empty(best, round, round.inputs.shape[0]).add(round)
    return losses.value(best) - game.solver(plain(losses, best), best, None).value


def replay(
    rounds: Iterable[tuple[ArrayLike, ArrayLike]],
    *,
    policy: str | Policy = "linear",
    loss: str | Loss = "squared",
    learner: str | AnyLearner = "ftl",
    solver: str | AnySolver = "auto",
    keep_iterates: bool = False,
    comparator: str | Sequence[int] = "every",
    seed: int = 0,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    batch_size: int | None = None,
    memory: str = "all",
    progress: Callable[[int, dict[str, float | str]], None] | None = None,
) -> Replay:
    """Plays recorded rounds ``[(X, Y), …]`` to a learner and returns its ledger, certificate and iterates.

    Args:
      rounds: one pair per round; X (samples, features), or state numbers for the tabular policy; Y (samples,
        outputs), or whole-number labels (samples,) for cross-entropy. Rounds may differ in size: a round's
        loss is a mean.
      policy: "linear", "tabular", "mlp" or an object. The linear policy starts at zero, (features, outputs).
      loss: "squared", "absolute", "huber", "cross-entropy" (softmax), "binary-cross-entropy" (one logit;
        labels 0 and 1, or probabilities) or an object.
      learner: "ftl", "adaftrl" or an object such as ``understudy.ftrl(eta=0.1)``.
      solver: "auto", a name, or an object; `tolerance`, `max_iterations`, `batch_size` go with a name.
      keep_iterates: return w_1 … w_{T+1}.
      comparator: in which rounds to find the best in hindsight: "every", "last", "none", or round numbers
        ([5, 10] or "5,10"), beside the last. "none" has no regret, and a third less to compile.
      seed: for networks, minibatches and reservoirs; the same seed gives the same bytes.
      memory: what the learner may learn from: "all" rounds, the last W as "window:W", or K past samples, a
        uniform sample of all so far, as "reservoir:K"; scaled up to stand for all. Regret and certificate are
        against all rounds whatever it remembers, and `residual` is what it missed of the whole objective.
      progress: called for every round, in order, with the round's number and its row of the ledger. Short
        rounds are played many at a time, so the calls come in bursts, about five times a second.

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
    resolved = LEARNERS.resolve(learner)
    compared = comparator_rounds(comparator, len(checked))
    compared |= {len(checked)} if compared else set()  # which the certificate is about
    resolved = with_memory(memory, resolved, loss)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise UserError(f"seed: {seed!r} is not a whole number from 0 to 2⁶³ − 1.")
    with jax.enable_x64(True):
        rows, samples = max(len(X) for X, _ in checked), sum(len(X) for X, _ in checked)
        key = jax.random.key(int(seed))
        features, outputs = int(np.prod(checked[0][0].shape[1:])), checked[0][1].shape[1]
        check_loss(loss, outputs)
        params = first_params(policy, jax.random.fold_in(key, 0), features, outputs, jnp.float64)
        game = make_game(
            policy,
            loss,
            resolved,
            solver,
            params,
            tolerance=tolerance,
            max_iterations=max_iterations,
            batch_size=batch_size,
        )
        like = batch(*checked[0], rows=rows)
        losses = limited(
            memory,
            game.empty(params, like, samples),
            like,
            rounds=len(checked),
            samples=samples,
            key=jax.random.fold_in(key, 2**32 - 1),
        )
        state = game.init(params, losses)
        table: dict[str, list[float | str]] = {name: [] for name in COLUMNS}
        predictions: list[np.ndarray] = []
        iterates: list[Params] = []
        times: list[float] = []
        played = play_rounds(game, state, checked, key, compared=compared, keep=keep_iterates)
        for state, record, seconds in played:  # noqa: B007 - the last state is read below
            first, count = len(times) + 1, len(record["loss"])
            sizes = np.array([len(inputs) for inputs, _ in checked[first - 1 : first - 1 + count]])
            predictions.append(record["outputs"][np.arange(rows) < sizes[:, None]])
            if keep_iterates:
                # Copies: a view would keep the whole buffer of the call, most of it empty, alive.
                iterates += [
                    jax.tree.map(lambda leaf, i=i: leaf[i].copy(), record["params"]) for i in range(count)
                ]
            times += [seconds / count] * count
            new = columns(first, sizes, record, compared)
            for name, values in new.items():
                table[name] += values
            if progress is not None:
                for i in range(count):
                    progress(first + i, {name: values[i] for name, values in new.items()})
        last = {name: values[-1] for name, values in table.items() if not isinstance(values[-1], str)}
        final, best = (jax.tree.map(np.array, tree) for tree in (state.learner.params, state.comparator))
        return Replay(
            game=game,
            _rounds=checked,
            ledger=Ledger(table),
            certificate=certify(game, last),
            params=final,
            comparator=best if compared else None,
            predictions=np.concatenate(predictions),
            iterates=[*iterates, jax.tree.map(np.copy, final)] if keep_iterates else None,
            times=np.asarray(times),
        )


def _policy(policy: str | Policy, checked: list[Pair]) -> Policy:
    if policy == "tabular":
        states = max(int(inputs.max()) for inputs, _ in checked) + 1
        policy = Tabular(states=states)
    policy = POLICIES.resolve(policy)
    if isinstance(policy, Tabular):
        for t, (inputs, _) in enumerate(checked, 1):
            whole = inputs.size == len(inputs) and np.array_equal(inputs, np.round(inputs))
            if not whole or inputs.min() < 0 or inputs.max() >= policy.states:
                raise UserError(f"rounds: X of round {t} must be states 0 … {policy.states - 1}, one each.")
    return policy


def play_rounds(
    game: Game,
    state: GameState,
    rounds: Sequence[Pair],
    key: Array,
    *,
    compared: Collection[int],
    keep: bool,
) -> Iterator[tuple[GameState, dict[str, np.ndarray], float]]:
    """Plays rounds (X, Y) and yields, call by call, the state after them, their records and the seconds.

    The best in hindsight is found in the rounds `compared`; with `keep` a record holds the parameters played.
    The compiled loop has room for one of a few numbers of rounds, so streams of any length share a few
    programs. The first call plays one round, later ones as many as fit into SECONDS: long runs show progress
    and can be interrupted.
    """
    (inputs, targets), rows = rounds[0], max(len(inputs) for inputs, _ in rounds)
    each = rows * (inputs[0].nbytes + 2 * targets[0].nbytes)
    each += sum(leaf.nbytes for leaf in jax.tree.leaves(state.learner.params)) if keep else 0
    room = next((n for n in ROOMS if n * each <= BYTES and (n <= 64 or n <= len(rounds))), 1)
    run, count = compiled_stream(game, keep=keep), 1
    for begin in range(0, len(rounds), room):
        part = rounds[begin : begin + room]
        numbers = np.arange(begin + 1, begin + room + 1)
        batches, keys = stack(part, rows=rows, room=room), _keys(key, numbers)
        asked, at = np.isin(numbers, list(compared)) if compared else None, 0
        while at < len(part):
            stop, began = min(at + count, len(part)), time.perf_counter()
            state, played = run(state, batches, keys, asked, at, stop)
            record: dict[str, np.ndarray] = jax.device_get(played)
            seconds = time.perf_counter() - began
            yield state, jax.tree.map(lambda leaf, a=at, b=stop: leaf[a:b], record), seconds
            count = max(1, min(8 * count, int(count * SECONDS / seconds)))
            at = stop


@jax.jit
def _keys(key: Array, numbers: Array | np.ndarray) -> Array:
    return jax.vmap(lambda t: jax.random.fold_in(key, t))(numbers)


def columns(
    first: int, sizes: np.ndarray, record: Mapping[str, np.ndarray], compared: Collection[int]
) -> dict[str, list[float | str]]:
    """The ledger's columns for the rounds of a record, the first of which is round `first`."""
    numbers = range(first, first + len(sizes))
    listed: dict[str, list[float | str]] = {"round": list(numbers), "samples": sizes.tolist()}
    listed |= {name: record[name].tolist() for name in COLUMNS if name in record}
    names = [status.name.lower() for status in Status]
    for name in [name for name in listed if name.endswith("_status")]:
        known = [name == "solver_status" or t in compared for t in numbers]
        listed[name] = [
            names[int(code)] if told else "" for code, told in zip(listed[name], known, strict=True)
        ]
    return {name: listed[name] for name in COLUMNS if name in listed}


def stack(rounds: Sequence[Pair], *, rows: int, room: int) -> Batch:
    """Rounds (X, Y) as one `Batch` with rounds in front: `room` of them, the rest without samples.

    >>> rounds = stack([(np.ones((2, 3)), np.ones((2, 1)))], rows=4, room=8)
    >>> rounds.inputs.shape, rounds.size.tolist()
    ((8, 4, 3), [2, 0, 0, 0, 0, 0, 0, 0])
    """
    sizes = np.zeros(room, np.int32)
    sizes[: len(rounds)] = [len(inputs) for inputs, _ in rounds]
    inputs, targets = (np.zeros((room, rows, *like.shape[1:]), like.dtype) for like in rounds[0])
    for t, (X, Y) in enumerate(rounds):
        inputs[t, : len(X)], targets[t, : len(Y)] = X, Y
    used = np.arange(rows) < sizes[:, None]
    weights = np.where(used, 1.0 / np.maximum(sizes, 1)[:, None], 0.0)
    return Batch(*jax.device_put((inputs, targets, weights, sizes)))


def check_rounds(rounds: Iterable[Sequence[ArrayLike]], loss: Loss) -> list[Pair]:
    """Recorded rounds [(X, Y), …] as arrays (m, …) and target rows (m, k), or one clear sentence.

    >>> from understudy.losses import Squared
    >>> [(X, Y)] = check_rounds([([[1.0, 2.0]], [3.0])], Squared())
    >>> X.shape, Y.shape
    ((1, 2), (1, 1))
    """
    try:
        listed = list(rounds)
    except TypeError:
        raise UserError(f"rounds: expected a list of (X, Y) pairs, got {type(rounds).__name__}.") from None
    if not listed:
        raise UserError("rounds: the list is empty; at least one round (X, Y) is needed.")
    inputs = [_inputs(pair, t) for t, pair in enumerate(listed, 1)]
    if any(X.dtype != np.uint8 for X in inputs):
        # Bytes stay bytes (images) when all rounds have them; a buffer of whole numbers would cut floats.
        inputs = [X.astype(np.float64) for X in inputs]
    answers = [_answers(pair, t) for t, pair in enumerate(listed, 1)]
    outputs, targets = _outputs(answers, loss), loss.targets  # Equinox binds a method anew at each access
    checked: list[Pair] = []
    for t, (X, answer) in enumerate(zip(inputs, answers, strict=True), 1):
        if answer.ndim == 0 or len(answer) != len(X):
            raise UserError(f"rounds: round {t} has {len(X)} inputs but answers of shape {answer.shape}.")
        try:
            Y = targets(answer, outputs)
        except UserError as error:
            raise UserError(f"rounds: round {t}: {error}") from None
        if X.shape[1:] != inputs[0].shape[1:]:
            raise UserError(f"rounds: round {t} has rows {X.shape[1:]}, round 1 {inputs[0].shape[1:]}.")
        if outputs is not None and Y.shape[1] != outputs:
            raise UserError(f"rounds: Y of round {t} has {Y.shape[1]} outputs, round 1 has {outputs}.")
        checked.append((X, Y))
    return checked


def _inputs(pair: Sequence[ArrayLike], t: int) -> np.ndarray:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise UserError(f"rounds: round {t} is not a pair (X, Y).")
    X = _array("X", pair[0], t)
    if X.ndim == 0 or len(X) == 0:
        raise UserError(f"rounds: round {t} is empty; every round needs at least one sample.")
    if X.size == 0:
        raise UserError(f"rounds: X of round {t} has no features, its shape is {X.shape}.")
    return X


def _answers(pair: Sequence[ArrayLike], t: int) -> np.ndarray:
    Y = _array("Y", pair[1], t)
    if Y.ndim > 1 and len(Y) and Y.size == 0:
        raise UserError(f"rounds: Y of round {t} has no outputs, its shape is {Y.shape}.")
    return Y


def _array(name: str, values: ArrayLike, t: int) -> np.ndarray:
    array = np.asarray("")
    with contextlib.suppress(TypeError, ValueError):
        array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise UserError(f"rounds: {name} of round {t} is not an array of numbers.")
    if not np.isfinite(array).all():
        raise UserError(f"rounds: {name} of round {t} holds a value that is not a finite number.")
    return array


def _outputs(answers: list[np.ndarray], loss: Loss) -> int | None:
    """How many outputs the answers ask for: labels count up to the largest one anywhere."""
    if not loss.categorical:
        return None if answers[0].ndim > 2 else (1 if answers[0].ndim < 2 else answers[0].shape[1])
    flat = [a for a in answers if a.ndim == 1 or (a.ndim == 2 and a.shape[1] == 1)]
    if len(flat) == len(answers):
        top = max(
            (float(np.max(a)) for a in flat if a.size and np.issubdtype(a.dtype, np.number)), default=0.0
        )
        return max(int(top) + 1, 2) if np.isfinite(top) else None
    return next((a.shape[1] for a in answers if a.ndim == 2 and a.shape[1] > 1), None)
