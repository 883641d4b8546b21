"""The round loop: collect, measure, update, judge, evaluate; and its whole state as plain arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..data import Batch, batch
from ..envs.gymnasium import derive
from ..errors import UserError
from ..objectives import Samples, Statistics, empty_samples
from ..online import Game, GameState, certify, compiled
from ..policies import Normaliser, TrainedPolicy
from ..regret import COLUMNS, Certificate, Ledger
from ..solvers import Status, Unsolved
from ..spec import Mixing
from . import hindsight
from .automatic import Automatic
from .collect import EXPERT, Collector, Round
from .evaluate import Evaluation, Evaluator, acting
from .samples import Book, Reader

EXTRA = {
    "interactions": "environment steps so far",
    "queries": "expert labels so far",
    "beta": "probability that the expert acted",
    "by_expert": "share of the round's steps that the expert acted",
    "episodes": "episodes that ended in the round",
    "return_mean": "mean return of the policy after the round; nan where it was not evaluated",
    "return_std": "its standard deviation over episodes",
}
"""Columns of a run's ledger beside `understudy.regret.COLUMNS`."""
NAMES = ["round", "samples", *EXTRA, *(name for name in COLUMNS if name not in ("round", "samples"))]
TIMES = ("collect", "solve", "judge", "evaluate")


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What is decided before the first round.

    sizes: interactions of every round; judged: rounds after which the best in hindsight is looked for;
    evaluated: rounds after which `episodes` episodes are played; search: steps of the search for the best
    network.
    """

    sizes: tuple[int, ...]
    mixing: Mixing
    judged: frozenset[int]
    evaluated: frozenset[int]
    episodes: int
    standardise: bool
    search: int
    seed: int


class Question(NamedTuple):
    """The arguments of one `Game.play`, which donates the buffers of `state`: do not use it afterwards."""

    game: Game
    state: GameState
    batch: Batch
    key: jax.Array
    judge: jax.Array


def compiled_play(asked: Question) -> tuple[GameState, dict[str, Any]]:
    """Plays one question by itself; the record comes back to the host."""
    with precision(asked.game):
        state, record = compiled(asked.game)(*asked[1:])
        return state, jax.device_get(record)


def precision(game: Game) -> Any:
    """Linear policies are solved to rounding, which needs float64; networks are not."""
    return jax.enable_x64(True) if game.policy.linear else contextlib.nullcontext()


@final
class Loop:
    """A run under way. `advance` plays one round; `snapshot` and `restore` move all of it to and from plain
    arrays.
    """

    def __init__(
        self,
        plan: Plan,
        game: Game,
        params: Any,
        collector: Collector,
        evaluator: Evaluator | None,
        book: Book,
        automatic: Automatic | None = None,
        *,
        mapped: bool = False,
    ):
        if not game.policy.linear:
            # The best network is searched for here, apart from the round (see `_judge`): half as much to
            # compile.
            game = Game(game.policy, game.loss, game.learner, game.solver, Unsolved())
        self.plan, self.game, self.collector, self.book = plan, game, collector, book
        # A run whose episodes are played elsewhere (see `convoy`) has no evaluator.
        self.evaluator: Any = evaluator
        self.automatic, self.evaluation = automatic, None
        self.round = self.interactions = self.queries = 0
        self.rows: list[dict[str, Any]] = []
        self.times: list[dict[str, float]] = []
        self.normaliser = Normaliser.identity(collector.observations.width)
        self._dtype = jnp.float64 if game.policy.linear else jnp.float32
        self._key = jax.random.key(derive(plan.seed, "solver"))
        self._reader = Reader(book, plan.sizes, self._dtype) if mapped else None
        with self.precision():
            self.state = game.init(params, self._empty(params))
        self._first = jax.tree.map(np.array, params)

    def precision(self) -> Any:
        return precision(self.game)

    def _like(self) -> Batch:
        rows, seen = max(self.plan.sizes), self.collector.observations
        kind = self._dtype if seen.dtype.kind == "f" else seen.dtype
        outputs = self.collector.actions.outputs
        inputs, targets = np.zeros((rows, seen.width), kind), np.zeros((rows, outputs), self._dtype)
        return batch(inputs, targets, dtype=self._dtype)

    def _empty(self, params: Any) -> Any:
        if self._reader is None:
            return self.game.empty(params, self._like(), sum(self.plan.sizes))
        parts = self.game.policy, self.game.loss, self._like()
        return empty_samples(*parts, capacity=sum(self.plan.sizes), reader=self._reader)

    @property
    def finished(self) -> bool:
        return self.round >= len(self.plan.sizes)

    def policy(self) -> TrainedPolicy:
        """The policy as it is now."""
        params = jax.tree.map(np.array, self.state.learner.params)
        codecs = self.collector.observations, self.collector.actions
        return TrainedPolicy(self.game.policy, params, *codecs, self.normaliser)

    def advance(self) -> dict[str, Any]:
        """Plays one round and returns its row of the ledger."""
        t, clock = self.round + 1, Clock()
        beta = self.plan.mixing.beta(t)
        policy = None if beta >= 1 else self.policy()
        try:
            round = self.collector.collect(policy, self.plan.sizes[t - 1], beta=beta, number=t)
        except UserError as error:
            raise UserError(f"round {t}: {error}") from error
        clock.lap("collect")
        self.learn(round, clock)
        if t in self.plan.evaluated:
            self.assess(self.evaluator(acting(self.policy()), episodes=self.plan.episodes, number=t))
            clock.lap("evaluate")
        return self.rows[-1]

    def learn(self, round: Round, clock: Clock | None = None) -> None:
        """Ends a round that was collected: the books, the solve, and a row of the ledger without returns."""
        clock = clock or Clock()
        self.answer(round, *compiled_play(self.question(round)), clock)

    def question(self, round: Round) -> Question:
        """What a round asks of the game: everything that `Game.play` is given."""
        t = self.round + 1
        if t == 1 and self.plan.standardise:
            self.see_as(Normaliser.fit(round.inputs, self.collector.observations.measured))
        self.book.append(round)
        with self.precision():
            rows = max(self.plan.sizes)
            one = batch(self.normaliser(round.inputs), round.targets, rows=rows, dtype=self._dtype)
            game = self.game if self.automatic is None else self.automatic.tuned(self.game)
            exact = t in self.plan.judged and self.game.policy.linear
            return Question(game, self.state, one, jax.random.fold_in(self._key, t), jnp.asarray(exact))

    def answer(self, round: Round, state: GameState, record: dict[str, Any], clock: Clock) -> None:
        """Takes what `Game.play` gave: the new state and the round's record, its numbers on the host."""
        t, self.state = self.round + 1, state
        if self.automatic is not None and not self.automatic.settled:
            with self.precision():
                travelled = optax.tree.norm(optax.tree.sub(state.learner.params, self._first))
            self.automatic.see(t, distance=float(travelled), gradient=float(record["gradient_norm"]))
        status = Status(int(record["solver_status"]))
        if status in (Status.DIVERGED, Status.NOT_FINITE):
            raise UserError(
                f"round {t}: the solver left the finite numbers ({status.name.lower()}); "
                "a smaller step or another loss may help."
            )
        clock.lap("solve")
        self._judge(t, record)
        clock.lap("judge")
        self.round, self.interactions = t, self.interactions + len(round)
        self.queries += round.queries
        row: dict[str, Any] = {
            "round": t,
            "samples": len(round),
            "interactions": self.interactions,
            "queries": self.queries,
            "beta": self.plan.mixing.beta(t),
            "by_expert": float((round.flags & EXPERT > 0).mean()),
            "episodes": int((round.flags & ~np.uint8(EXPERT) > 0).sum()),
            "return_mean": np.nan,
            "return_std": np.nan,
        }
        self.rows.append(row | _plain(record, judged=t in self.plan.judged))
        self.times.append(clock.laps)

    def assess(self, result: Evaluation) -> None:
        """Enters the returns of the policy after the last round."""
        self.rows[-1] |= {"return_mean": result.mean, "return_std": result.std}
        self.evaluation = result if self.finished else None

    def see_as(self, normaliser: Normaliser) -> None:
        """Fixes how observations are standardised."""
        self.normaliser = normaliser
        if self._reader is not None:
            self._reader.normaliser = normaliser

    def _judge(self, t: int, record: dict[str, Any]) -> None:
        """For networks the best in hindsight is searched for apart from the round, from where the learner
        is.
        """
        if self.game.policy.linear or t not in self.plan.judged or not self.plan.search:
            return
        key = jax.random.fold_in(jax.random.fold_in(self._key, t), 1)
        least, best, status = hindsight.comparator(
            self.state.losses, self.state.learner.params, key, self.plan.search
        )
        regret = float(record["cumulative_loss"]) - least
        record |= {"comparator": least, "regret": regret, "comparator_status": status}
        self.state = self.state._replace(comparator=jax.tree.map(jnp.copy, best))

    @property
    def ledger(self) -> Ledger:
        return Ledger({name: [row[name] for row in self.rows] for name in NAMES})

    def certificate(self) -> Certificate:
        """Measured regret and bound after the last judged round; proved for linear policies only."""
        judged = [row for row in self.rows if row["comparator_status"]]
        return certify(self.game, judged[-1] if judged else {})

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data from which `restore` continues bit for bit; samples are the book's affair."""
        arrays = {f"state.{i:03d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self._small()))}
        arrays |= {"mean": self.normaliser.mean, "scale": self.normaliser.scale}
        slots = self.collector.snapshot()
        for i, slot in enumerate(slots):
            arrays |= {f"slot.{i:03d}.actions": slot["actions"], f"slot.{i:03d}.row": slot["row"]}
        plain = {
            "round": self.round,
            "interactions": self.interactions,
            "queries": self.queries,
            "rows": self.book.rows,
            "episodes": [slot["episode"] for slot in slots],
            "automatic": None if self.automatic is None else self.automatic.numbers(),
        }
        return arrays, plain

    def restore(
        self,
        arrays: dict[str, np.ndarray],
        plain: dict[str, Any],
        rows: list[dict[str, Any]],
        times: list[Any],
    ) -> None:
        """Back to a snapshot; the book must hold its samples already."""
        self.round, self.interactions, self.queries = plain["round"], plain["interactions"], plain["queries"]
        self.rows, self.times = rows, times
        self.see_as(Normaliser(arrays["mean"], arrays["scale"]))
        if self.automatic is not None:
            self.automatic.restore(plain["automatic"])
        with self.precision():
            leaves, structure = jax.tree.flatten(self._small())
            kept = [jnp.asarray(arrays[f"state.{i:03d}"]) for i in range(len(leaves))]
            if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(kept, leaves, strict=True)):
                raise UserError("run: the checkpoint is damaged: its arrays are not those of this run.")
            self._refill(jax.tree.unflatten(structure, kept))
        slots = [
            {"episode": n, "actions": arrays[f"slot.{i:03d}.actions"], "row": arrays[f"slot.{i:03d}.row"]}
            for i, n in enumerate(plain["episodes"])
        ]
        self.collector.restore(slots)

    def _small(self) -> tuple[Any, ...]:
        """The state without the buffer of samples."""
        losses = self.state.losses
        kept = losses.factor if isinstance(losses, Statistics) else losses.filled
        return (*self.state._replace(losses=None), kept, losses.rounds)  # type: ignore[arg-type]

    def _refill(self, small: tuple[Any, ...]) -> None:
        learner, _, comparator, running, cumulative, kept, rounds = small
        losses = self.state.losses
        if isinstance(losses, Statistics):
            losses = eqx.tree_at(lambda one: (one.factor, one.rounds), losses, (kept, rounds))
        else:
            assert isinstance(losses, Samples)
            if self._reader is not None:
                losses = eqx.tree_at(lambda one: (one.filled, one.rounds), losses, (kept, rounds))
            first, row = 0, max(self.plan.sizes)
            inputs, targets = self.book.column("inputs"), self.book.column("targets")
            for size in self.plan.sizes[: self.round if self._reader is None else 0]:
                part = slice(first, first + size)
                one = batch(self.normaliser(inputs[part]), targets[part], rows=row, dtype=self._dtype)
                losses, first = _add(losses, one), first + size
        self.state = GameState(learner, losses, comparator, running, cumulative)


_add = jax.jit(lambda losses, one: losses.add(one), donate_argnums=0)


class Clock:
    """Seconds spent in each part of a round."""

    def __init__(self):
        self.laps: dict[str, float] = dict.fromkeys((str(name) for name in TIMES), 0.0)
        self._last = time.perf_counter()

    def lap(self, name: str, share: int = 1) -> None:
        """Counts the time since the last lap, or one of `share` equal parts of it."""
        now = time.perf_counter()
        self.laps[name] += (now - self._last) / share
        self._last = now

    def copy(self) -> Clock:
        """Another clock with the same laps, started now."""
        new = Clock()
        new.laps |= self.laps
        return new


def _plain(record: dict[str, Any], *, judged: bool) -> dict[str, Any]:
    """A round's record as plain numbers and words."""
    row: dict[str, Any] = {}
    for name in NAMES:
        if name in ("solver_status", "comparator_status"):
            asked = name == "solver_status" or (judged and np.isfinite(record["comparator"]))
            row[name] = Status(int(record[name])).name.lower() if asked else ""
        elif name in record:
            value = np.asarray(record[name])
            row[name] = int(value) if value.dtype.kind == "i" else float(value)
    return row
