"""One run under way: its learner, its ledger, and all of it as plain arrays."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import threefry
from ..data import Batch, batch
from ..envs.gymnasium import derive
from ..errors import UserError
from ..objectives import Limited, empty_samples, limited
from ..online import Game, certify
from ..policies import MLP, Committee, Normaliser, Policy, TrainedPolicy
from ..regret import Certificate, Ledger
from ..solvers import Status
from .automatic import Automatic
from .collected import Round
from .evaluate import Evaluation
from .ledger import NAMES, Clock, row_of
from .members import beside, search
from .samples import UNREAD, Reader, SampleLog
from .sequences import Sequences
from .trees import plain_keys
from .visited import Visited, largest, per_sample

if TYPE_CHECKING:
    from .parts import Parts


class Best(NamedTuple):
    """The best policy that was evaluated: its mean return, its round, and the parameters that it is the mean
    of.
    """

    mean: float
    round: int
    members: list[Any]


class Question(NamedTuple):
    """A round as `Game.play` takes it: the game with its numbers of now, and three of its arguments. A run
    that is never judged there, such as a network's (see `RunState._judge`), has no `judge`.
    """

    game: Game
    batch: Batch
    key: jax.Array
    judge: np.ndarray | None


def precision(game: Game) -> Any:
    """Linear policies are solved to rounding, which needs float64; networks are not."""
    return jax.enable_x64(True) if game.policy.linear else contextlib.nullcontext()


@jax.jit
def _distance(params: Any, others: Any) -> jax.Array:
    return optax.tree.norm(optax.tree.sub(params, others))


@final
class RunState:
    """A run under way. `question` and `answer` are the two halves of a round's solve; between them is one
    call of `Game.play`, alone or with other runs (see `groups.OneProgram`).

    Attributes:
      state: the `GameState`; None while it is in a stack with those of other runs.
      params: the policy's parameters now, as NumPy arrays.
      on_device: whether its rounds come from the device, and are standardised there.
      rows, times: the ledger and the seconds, one dict per round.
      recent: the parameters whose mean acts: the last, or the last ones.
      committee: those whose mean is evaluated and kept in its place; empty: there is none yet after the last
        round.
      evaluation, expert_evaluation: returns of the last evaluation, and of the expert's (see `Run`).
      cut: what cuts rounds into sequences, for a policy with memory; else None.
      measuring: calls of the expert that gave no label, but for those of its evaluation.
    """

    def __init__(self, parts: Parts, samples: SampleLog):
        game, spec = parts.game, parts.spec
        self.parts, self.spec, self.game, self.samples = parts, spec, game, samples
        self.resolved, self.plan, self.on_device = parts.resolved, parts.resolved.plan, False
        scale = parts.resolved.automatic
        self.automatic = None if scale is None else Automatic(scale)
        self.evaluation: Evaluation | None = None
        self.expert_evaluation: Evaluation | None = None
        self.round = self.interactions = self.queries = self.unanswered = self.breaks = 0
        self.measuring = parts.expert.probed
        self.rows: list[dict[str, Any]] = []
        self.times: list[dict[str, float]] = []
        self._dtype = jnp.float64 if game.policy.linear else jnp.float32
        self._key = threefry.key(derive(spec.seed, "solver"))
        self._rows, self._capacity = parts.room()
        self.reader: Any = None
        if samples.mapped:
            self.reader = Reader(samples, self._dtype) if samples.keeps else UNREAD
        self.see_as(parts.normaliser)
        architecture: Any = game.policy
        remembers = architecture.memory > 0
        self.cut = Sequences(architecture.length, architecture.burn) if remembers else None
        with precision(game):
            self.state: Any = game.init(parts.params, self._empty(parts.params))
        self.params = self._first = jax.tree.map(np.array, parts.params)
        self.recent: list[Any] = []
        self.committee: list[Any] = []
        self.best: Best | None = None
        self.visited: Visited | None = None
        if self.plan.rule is not None:
            top = largest(game.policy, game.loss, parts.actions)
            labels = min(most for _, most in self.plan.rounds[:3])
            self.visited = Visited(self.plan.rule, top, labels, weighed=self.resolved.ordinary is not None)

    def _like(self) -> Batch:
        seen = self.parts.observations
        kind = self._dtype if seen.dtype.kind == "f" else seen.dtype
        shape = (self._rows,) if self.cut is None else (self._rows, self.cut.burn + self.cut.length)
        inputs = np.zeros((*shape, seen.width), kind)
        targets = np.zeros((*shape, self.parts.actions.outputs), self._dtype)
        return batch(inputs, targets, np.zeros(shape), dtype=self._dtype)

    def _empty(self, params: Any) -> Any:
        like, capacity, spec = self._like(), self._capacity, self.spec
        if self.reader is None:
            whole = self.game.empty(params, like, capacity)
        else:
            parts = self.game.policy, self.game.loss, like
            whole = empty_samples(*parts, capacity=capacity, reader=self.reader)
        key = threefry.key(derive(spec.seed, "memory"))
        return limited(spec.memory, whole, like, rounds=len(self.plan.sizes), samples=capacity, key=key)

    def memory_bytes(self) -> int:
        """Bytes of what the learner learns from, with room for all rounds: samples, or their statistics."""

        def kept() -> Any:
            losses = self._empty(jax.tree.map(jnp.asarray, self.parts.params))
            return plain_keys(losses.memory if isinstance(losses, Limited) else losses)

        with precision(self.game):
            return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(jax.eval_shape(kept)))

    @property
    def finished(self) -> bool:
        return self.plan.ends(self.round, self.queries)

    @property
    def left(self) -> int:
        """The most queries of the coming round."""
        most, budget = self.plan.rounds[self.round][1], self.plan.budget
        return most if budget is None else min(most, budget - self.queries)

    def policy(self) -> TrainedPolicy:
        """The policy that is kept: the last one shown or, with ``best=True``, the best of those evaluated."""
        made = self.shown() if self.best is None else self._mean(self.best.members)
        return TrainedPolicy(*made, self.parts.observations, self.parts.actions, self.normaliser)

    def acting(self) -> tuple[Policy, Any]:
        """Architecture and parameters of the policy that acts: the last one, or the mean of the last ones."""
        return self._mean(self._acting)

    def shown(self) -> tuple[Policy, Any]:
        """Those of the policy that is evaluated: the committee, or the acting one."""
        return self._mean(self.committee or self._acting)

    @property
    def _acting(self) -> list[Any]:
        return self.recent or [self.params]

    def _mean(self, members: list[Any]) -> tuple[Policy, Any]:
        policy = self.game.policy
        if len(members) < 2:
            return policy, members[0]
        if isinstance(policy, MLP):
            return Committee.of(policy, members)
        return policy, jax.tree.map(lambda *leaves: np.mean(leaves, axis=0, dtype=leaves[0].dtype), *members)

    def complete(self) -> None:
        """Trains the members of the committee that are missing; the state must be the run's own."""
        if self.resolved.ensemble > 1 and not self.committee:
            self.committee = [*beside(self), self.params]

    def settle(self) -> None:
        """The rounds are over: from now on the policy that is kept is the one shown."""
        self.committee = self.committee if self.best is None else self.best.members

    @property
    def kept_round(self) -> int:
        """The round after which the policy that is kept was learnt."""
        return self.round if self.best is None else self.best.round

    def question(self, round: Round) -> Question:
        """Keeps the round's samples, and gives what `Game.play` needs beside the state."""
        t = self.round + 1
        if t == 1 and self.resolved.standardise:
            self.see_as(Normaliser.fit(round.inputs, self.parts.observations.measured))
        share = 1.0 if self.resolved.ordinary is None else round.labelled / self.resolved.ordinary
        round = dataclasses.replace(round, weights=share * round.weights)
        self.samples.append(round)
        with precision(self.game):
            one = self.batch(round.inputs, round.targets, round.weights, round.slots)
            if self.visited is not None and self.cut is None:
                about = self.game.policy, self.game.loss, self.params, one.inputs, one.targets
                losses = np.asarray(per_sample(*about), np.float64)[: round.labelled]
                rng = np.random.default_rng(derive(self.spec.seed, "ask", t, 1))
                self.visited.add(round.weights, losses, rng, share)
            game = self.game if self.automatic is None else self.automatic.tuned(self.game)
            judge = None
            if self.plan.judged and self.game.policy.linear:
                judge = np.asarray(self.plan.due(self.plan.judged, t, self.queries + round.queries))
            return Question(game, one, threefry.fold_in(self._key, t), judge)

    def batch(self, inputs: Any, targets: Any, weights: Any, slots: Any) -> Batch:
        """The samples of a round that have a label, as the learner sees them; of a policy with memory all, in
        sequences.
        """
        if self.cut is not None:
            kept = self.cut.of(self.normaliser(inputs), targets, weights, slots)
        else:
            has = slice(None) if (weights > 0).all() else np.flatnonzero(weights > 0)
            kept = self.normaliser(inputs[has]), targets[has], weights[has]
        return batch(*kept, rows=self._rows, dtype=self._dtype)

    def answer(
        self,
        round: Round,
        params: Any,
        record: dict[str, Any],
        losses: Callable[[], Any],
        clock: Clock,
    ) -> None:
        """Takes what `Game.play` gave, on the host, and adds a row without returns to the ledger.

        `losses()` are the losses so far, for the search after the round.
        """
        t, self.params = self.round + 1, params
        self.recent, self.committee = [*self.recent, params][-self.resolved.average :], []
        if self.automatic is not None and not self.automatic.settled:
            with precision(self.game):
                travelled = float(_distance(params, self._first))
            self.automatic.see(t, distance=travelled, gradient=float(record["gradient_norm"]))
        status = Status(int(record["solver_status"]))
        if status in (Status.DIVERGED, Status.NOT_FINITE):
            raise UserError(
                f"round {t}: the solver left the finite numbers ({status.name.lower()}); "
                "a smaller step or another loss may help."
            )
        clock.lap("solve")
        judged = self.plan.due(self.plan.judged, t, self.queries + round.queries)
        if judged:
            record = record | self._judge(t, record, losses)
        clock.lap("judge")
        self.round, self.interactions = t, self.interactions + round.interactions
        self.queries, self.unanswered = self.queries + round.queries, self.unanswered + round.unanswered
        self.rows.append(row_of(self, round, record, judged=judged))
        self.times.append(clock.laps)

    def leads(self, result: Evaluation, *, final: bool = False) -> bool:
        """Whether the policy with these returns is the best so far, as that of the `final` evaluation is;
        never where the best one is not to be kept. A mean that is no number is behind every other.
        """
        if final or self.best is None or np.isnan(self.best.mean):
            return self.plan.keep_best
        return result.mean >= self.best.mean

    def assess(self, result: Evaluation, *, final: bool = False) -> None:
        """Enters the returns of the policy after the last round; those that are `final` chose nothing, and
        the ledger is written already.
        """
        if final or (self.finished and not self.plan.keep_best):
            self.evaluation = result
        if not final:
            self.rows[-1] |= {"return_mean": result.mean, "return_std": result.std}
            if self.leads(result):
                self.best = Best(result.mean, self.round, self.committee or self._acting)

    @property
    def calls(self) -> int:
        """Calls of the expert that gave no label."""
        return self.measuring + int(self.expert_evaluation.lengths.sum() if self.expert_evaluation else 0)

    def see_as(self, normaliser: Normaliser) -> None:
        """Standardises observations so from now on."""
        self.normaliser = normaliser
        if isinstance(self.reader, Reader):
            self.reader.normaliser = normaliser

    @property
    def searches(self) -> bool:
        """Whether the best in hindsight is searched for, as that of a network is, and not solved for."""
        return not self.game.policy.linear and self.spec.search > 0

    def _judge(self, t: int, record: dict[str, Any], losses: Callable[[], Any]) -> dict[str, Any]:
        """For networks: the best in hindsight, searched for from where the learner is."""
        if not self.searches:
            return {}
        key = threefry.fold_in(threefry.fold_in(self._key, t), 1)
        start = jax.tree.map(jax.device_put, self.params)
        all_losses = losses()
        whole = all_losses.whole if isinstance(all_losses, Limited) else all_losses
        least, status = map(np.asarray, search(whole, start, key, self.spec.search))
        regret = float(record["cumulative_loss"]) - float(least)
        return {"comparator": float(least), "regret": regret, "comparator_status": status}

    @property
    def ledger(self) -> Ledger:
        return Ledger({name: [row[name] for row in self.rows] for name in NAMES})

    def certificate(self) -> Certificate:
        """Measured regret and bound after the last judged round; proved for linear policies only."""
        judged = [row for row in self.rows if row["comparator_status"]]
        return certify(self.game, judged[-1] if judged else {})
