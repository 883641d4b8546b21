"""The conformance suite of learners: what every one of them must do."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false
# JAX says little of the types of its trees.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..learners import LEARNERS, AnyLearner, Playable, Solve
from ..losses import CrossEntropy, Loss, Squared
from ..objectives import Batch, Losses, batch
from ..online import Game, GameState, make_game
from ..policies import Linear, Params
from ..programs import compiled
from ..regret.certificate import why_not
from .base import Check, Progress, Report, equal, name_of, run_checks

ROUNDS, SAMPLES, FEATURES, OUTPUTS = 24, 4, 3, 2


def learner(subject: str | AnyLearner, *, progress: Progress | None = None) -> Report:
    """Puts a learner (an object or a registered name) through its suite; raises `CheckError` if it fails.

    A learner has ``init(params) -> state`` and ``update(state, losses, gradient, solve) -> (state,
    solution)``, both pure functions over pytrees, with ``state.params`` the parameters to play. The solution
    is what ``solve`` gave, or None where nothing was solved.

    >>> import understudy
    >>> understudy.checks.learner(understudy.ftl()).passed
    True
    """
    with jax.enable_x64(True):
        return run_checks(f"learner {name_of(subject)}", LEARNERS.resolve(subject), CHECKS, progress)


def _stream(seed: int, *, noise: float = 0.0, labels: bool = False, calm: int = 0) -> list[Batch]:
    """Rounds from a linear expert: exact, noisy, or as labels; in the first `calm` rounds it answers 0."""
    rng = np.random.default_rng(seed)
    expert = rng.normal(size=(FEATURES, OUTPUTS))
    rounds: list[Batch] = []
    for t in range(ROUNDS):
        inputs = rng.normal(size=(SAMPLES, FEATURES))
        targets = np.zeros((SAMPLES, OUTPUTS))
        if t >= calm:
            targets = inputs @ expert + noise * rng.normal(size=targets.shape)
        if labels:
            targets = np.eye(OUTPUTS)[np.argmax(targets + rng.gumbel(size=targets.shape), axis=1)]
        rounds.append(batch(inputs, targets))
    return rounds


def _start(subject: AnyLearner, rounds: list[Batch], loss: Loss) -> tuple[Game, GameState]:
    params = jnp.zeros((FEATURES, OUTPUTS))
    game = make_game(Linear(), loss, subject, "auto", params)
    return game, game.init(params, game.empty(params, rounds[0], ROUNDS * SAMPLES))


def _play(
    subject: AnyLearner, rounds: list[Batch], loss: Loss
) -> tuple[list[dict[str, np.ndarray]], list[Playable]]:
    """Records and states (on the host) of playing all rounds."""
    game, state = _start(subject, rounds, loss)
    play = compiled(game)
    records: list[dict[str, np.ndarray]] = []
    states: list[Playable] = [jax.device_get(state.learner)]
    for t, round in enumerate(rounds):
        state, record = play(state, round, jax.random.key(t), jnp.asarray(True))
        records.append(jax.device_get(record))
        states.append(jax.device_get(state.learner))
    return records, states


def _shape(state: Playable) -> list[tuple[tuple[int, ...], np.dtype]]:
    return [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in jax.tree.leaves(state)]


def _keeps_its_size(subject: AnyLearner) -> tuple[bool, str]:
    _, states = _play(subject, _stream(0, noise=0.1), Squared())
    same = all(
        _shape(state) == _shape(states[0]) and jax.tree.structure(state) == jax.tree.structure(states[0])
        for state in states
    )
    size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(states[-1]))
    return same, f"{size} bytes in every round" if same else "the state's shapes change from round to round"


def _compiles_once(subject: AnyLearner) -> tuple[bool, str]:
    rounds = _stream(0, noise=0.1)
    game, state = _start(subject, rounds, Squared())
    play, programs = compiled(game), []
    for t, round in enumerate(rounds):
        state, _ = play(state, round, jax.random.key(t), jnp.asarray(True))
        # Other games of this process may share the function: what counts is that it does not grow any more.
        programs.append(play.func._cache_size())  # type: ignore[attr-defined]
    new = programs[-1] - programs[0]
    return new == 0, f"{new} new program(s) after the first of {ROUNDS} rounds"


def _repeats_itself(subject: AnyLearner) -> tuple[bool, str]:
    first, second = (_play(subject, _stream(1, noise=0.1), Squared())[1][-1] for _ in range(2))
    same = equal(first, second)
    return same, "same input, same bits" if same else "two runs on the same stream differ"


def _leaves_its_input(subject: AnyLearner) -> tuple[bool, str]:
    """`update` is pure: the state it was given is as it was."""
    rounds = _stream(2, noise=0.1)
    game, state = _start(subject, rounds, Squared())
    before = jax.device_get(state.learner)
    losses, gradient, solve = _posed(game, state, rounds[0])
    subject.update(state.learner, losses, gradient, solve)  # not compiled: a program cannot reach its input
    after = jax.device_get(state.learner)
    same = equal(before, after)
    return same, "the old state is untouched" if same else "update changed the state it was given"


def _posed(game: Game, state: GameState, round: Batch) -> tuple[Losses, Params, Solve]:
    """What a learner is given after a round: the losses with it, its gradient, and a solver, compiled."""

    @jax.jit
    def given(losses: Losses, params: Params) -> tuple[Losses, Params]:
        after = losses.add(round)
        return after, jax.tree.map(jnp.subtract, after.gradient(params), losses.gradient(params))

    solve = jax.jit(lambda objective, params: game.solver(objective, params, jax.random.key(0)))
    return *given(state.losses, state.learner.params), solve


def _survives_calm(subject: AnyLearner) -> tuple[bool, str]:
    """The first gradients may be exactly zero."""
    _, states = _play(subject, _stream(3, calm=3), Squared())
    finite = all(np.isfinite(leaf).all() for state in states for leaf in jax.tree.leaves(state.params))
    return finite, f"{'' if finite else 'not '}finite after rounds without gradient"


def _learns(subject: AnyLearner) -> tuple[bool, str]:
    """On a stream that some parameters fit exactly, it ends up better than where it started."""
    rounds = _stream(4)
    records, _ = _play(subject, rounds, Squared())
    late = slice(-ROUNDS // 4, None)
    played = np.mean([float(record["loss"]) for record in records[late]])
    # The first parameters are zero, so standing still costs ||Y||² a sample.
    still = np.mean([float(jnp.sum(batch.weights[:, None] * batch.targets**2)) for batch in rounds[late]])
    return bool(played < still - 1e-9), f"late mean loss {played:.3g}, {still:.3g} for standing still"


def _stays_inside(subject: AnyLearner) -> tuple[bool | None, str]:
    radius = getattr(subject, "radius", None)
    if radius is None:
        return None, "it has no domain"
    _, states = _play(subject, _stream(5, noise=0.5), Squared())
    largest = max(float(np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(s.params)))) for s in states)
    return largest <= float(radius) * (1 + 1e-9), f"largest norm {largest:.6g}, radius {float(radius):.6g}"


def _certified(subject: AnyLearner) -> tuple[bool | None, str]:
    """The measured regret stays within the live certificate, round by round, on three kinds of stream."""
    if reason := why_not(Linear(), Squared(), subject, None):
        return None, f"nothing is certified: {reason}"
    worst = -np.inf
    noisy, labels = _stream(6, noise=0.5), _stream(6, labels=True)
    for loss, rounds in ((Squared(), _stream(6)), (Squared(), noisy), (CrossEntropy(), labels)):
        records, _ = _play(subject, rounds, loss)
        regret, bound = (np.array([float(row[name]) for row in records]) for name in ("regret", "bound"))
        worst = max(worst, float(np.max(regret - bound - 1e-9 * (1 + np.abs(regret)))))
    return worst <= 0, f"largest (regret − bound) {worst:.3g}"


CHECKS: dict[str, Check[AnyLearner]] = {
    "keeps its size": _keeps_its_size,
    "compiles once": _compiles_once,
    "repeats itself": _repeats_itself,
    "leaves its input alone": _leaves_its_input,
    "survives rounds without gradient": _survives_calm,
    "learns": _learns,
    "stays in its domain": _stays_inside,
    "regret within its certificate": _certified,
}
