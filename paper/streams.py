"""Frozen loss streams: recorded once, then played to every learner, so that all see the same losses."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from understudy import imitate
from understudy.learners import Learner, ftl
from understudy.losses import Squared
from understudy.objectives import Batch, Limited, reservoir, window
from understudy.online import make_game
from understudy.policies import Linear
from understudy.programs import compiled_stream
from understudy.regret import Ledger
from understudy.solvers import Unsolved
from understudy.studies.study import check_seeds

from . import toy_stream
from .protocol import Seeds

ROUNDS, INTERACTIONS = 100, 100
ENVIRONMENTS = ("Hopper-v5", "Walker2d-v5")
TOY = "adversarial toy"
POLICY, LOSS = Linear(), Squared()


@dataclasses.dataclass(frozen=True)
class Stream:
    """Inputs (rounds, samples, d) and targets (rounds, samples, k) of every round, and the best in hindsight.

    `least` (rounds,) is ``min_w Σ_{s≤t} l_s(w)`` and `best` (d, k) the minimiser over all rounds. `ledger` is
    that of the run the stream was recorded from, where there was one.
    """

    name: str
    seed: int
    inputs: np.ndarray
    targets: np.ndarray
    least: np.ndarray
    best: np.ndarray
    ledger: Ledger | None = None

    @property
    def rounds(self) -> int:
        return len(self.inputs)

    def through(self, matrix: np.ndarray) -> Stream:
        """The stream as seen through features x → A x, for an invertible `matrix` A: the same problem."""
        best = np.linalg.solve(matrix.T, self.best)
        return dataclasses.replace(self, inputs=self.inputs @ matrix.T, best=best)


def streams(
    names: Sequence[str], *, seeds: Seeds, rounds: int, seed: int, progress: Any = None
) -> list[Stream]:
    """Every stream for every seed: linear FTL runs in the environments, recorded, and the toy problem."""
    found = []
    for name, number in itertools.product(names, (seed + one for one in check_seeds(seeds))):
        inputs, targets, ledger = _toy(number, rounds) if name == TOY else _recorded(name, number, rounds)
        stream = Stream(name, number, inputs, targets, np.zeros(0), np.zeros(0), ledger)
        record, state = _play(stream, ftl(), "auto", None, judge=True)
        least, best = np.asarray(record["comparator"]), np.asarray(state.comparator)
        found.append(dataclasses.replace(stream, least=least, best=best))
        if progress is not None:
            progress(len(found), None)
    return found


def interactive(name: str, learner: Learner, *, seed: int, rounds: int) -> Any:
    """A linear run driven by the agent from the first round on, with the paper's settings."""
    return imitate(
        name,
        policy="linear",
        loss="squared",
        learner=learner,
        preset="paper",
        rounds=rounds,
        steps_per_round=INTERACTIONS,
        seed=seed,
        episodes=0,
        comparator="none",
    )


def _recorded(name: str, seed: int, rounds: int) -> tuple[np.ndarray, np.ndarray, Ledger]:
    run = interactive(name, ftl(), seed=seed, rounds=rounds)
    inputs, targets = (
        run.samples(column).astype(np.float64).reshape(rounds, INTERACTIONS, -1)
        for column in ("inputs", "targets")
    )
    return inputs, targets, run.ledger


def _toy(seed: int, rounds: int) -> tuple[np.ndarray, np.ndarray, None]:
    with jax.enable_x64(True):
        X, Y = toy_stream.stream(toy_stream.problem(jax.random.key(seed), flip=1.0), rounds)
    return np.asarray(X)[:, None], np.asarray(Y)[:, None], None


def play(
    stream: Stream, learner: Learner, solver: Any = "auto", memory: tuple[str, int, int] | None = None
) -> dict[str, np.ndarray]:
    """One learner on a stream: `loss`, `regret` and `residual` of every round, and `params`, those played.

    `memory` is (window or reservoir, its size, the room it gets): sizes that share a room share a program.
    """
    record, _ = _play(stream, learner, solver, memory, judge=False)
    with np.errstate(all="ignore"):
        regret = np.cumsum(record["loss"]) - stream.least
    return {"regret": regret} | {name: np.asarray(record[name]) for name in ("loss", "residual", "params")}


def _play(stream: Stream, learner: Learner, solver: Any, memory: Any, *, judge: bool) -> tuple[Any, Any]:
    rounds, samples, features = stream.inputs.shape
    with jax.enable_x64(True):
        params = jnp.zeros((features, stream.targets.shape[2]))
        game = make_game(POLICY, LOSS, learner, solver, params)
        weights = jnp.full((rounds, samples), 1.0 / samples)
        sizes = jnp.full(rounds, samples, jnp.int32)
        batches = Batch(jnp.asarray(stream.inputs), jnp.asarray(stream.targets), weights, sizes)
        first = jax.tree.map(lambda leaf: leaf[0], batches)
        key = jax.random.key(zlib.crc32(f"{stream.name} {stream.seed}".encode()))
        losses: Any = game.empty(params, first, rounds * samples)
        if memory is not None:
            kind, size, room = memory
            made: Any = {"window": window, "reservoir": reservoir}[kind]
            drawn = {"key": jax.random.fold_in(key, 1)} if kind == "reservoir" else {}
            losses = Limited(losses, made(POLICY, LOSS, first, size, room=room, **drawn))
        if not judge:  # on a frozen stream the best in hindsight is the same for all learners
            game = dataclasses.replace(game, comparator_solver=Unsolved())
        run = compiled_stream(game, keep=True)
        judged, keys = np.full(rounds, judge), jax.random.split(key, rounds)
        state, record = run(game.init(params, losses), batches, keys, judged, 0, rounds)
        return jax.device_get(record), state
