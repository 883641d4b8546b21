"""One round of online learning as a pure function of state and data: replays, runs and studies play it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from .errors import ContractError, UserError, calling, kind_of, name_of
from .learners import AnyLearner, Learner, started
from .learners.base import answered, first_state
from .losses import Absolute, Loss, Squared, computes
from .objectives import (
    Batch,
    Limited,
    Losses,
    Objective,
    Samples,
    Statistics,
    empty_samples,
    empty_statistics,
    parse_memory,
    plain,
    zeros,
)
from .objectives.objective import BUSY
from .policies import Params, Policy, count, flat, norm
from .programs import Task, alike, solved_in_turn
from .regret import certificate
from .regret.certificate import why_not
from .regret.interval import above, below, measured
from .solvers import NEWTON_LIMIT, SOLVERS, ClosedForm, InBall, Solution, auto, lbfgs, newton

LARGE = 2048
"""Samples of a round from which a network's loss and gradient are added up in parts, which the caches of a
CPU hold: 3.5 times as fast with 100,000 samples, and the activations of a part are all that is in memory."""
JUDGED = ("comparator", "regret", "regret_low", "regret_high", "norm", "bound", "comparator_error")
"""What a round's record says of the best in hindsight, where it was looked for."""


def copies(leaves: list[Any]) -> list[Array]:
    """Each leaf in a buffer of its own, without a program to compile."""
    return [jax.device_put(leaf, may_alias=False) for leaf in leaves]


class GameState(NamedTuple):
    """Everything that moves: the learner, the losses so far, the best in hindsight and the running sums."""

    learner: Any
    losses: Any
    """The losses so far (`Losses`), or these and a memory of some of them (`Limited`)."""
    comparator: Params
    running: certificate.Running
    cumulative: Array


class Game(eqx.Module):
    """The fixed parts of a run. `play` is pure: under jit, scan or vmap it is the same game.

    Arrays inside (step sizes, radii) and the numbers of its solvers (tolerances, iteration limits, learning
    rates) are data; everything else selects the program.
    """

    policy: Policy
    loss: Loss
    learner: Any
    solver: Any
    hindsight: Any

    @property
    def uncertified(self) -> str:
        """Why regret and bound prove nothing, in one sentence; empty where they are proofs."""
        return why_not(self.policy, self.loss, self.learner, self.hindsight)

    @property
    def certified(self) -> bool:
        """Whether interval and bound are proofs: convex losses and a known learner, whatever the solver."""
        return not self.uncertified

    @property
    def unbounded(self) -> str:
        """Why a bound that was computed is not finite, in one sentence."""
        plan = self.learner.schedule
        if plan.first > 1 or not any(np.any(part) for part in (plan.constant, plan.root, plan.adaptive)):
            return (
                "a round was solved without a penalty, and only squared losses (without minibatches) have a "
                "bound without one; adaftrl, or a schedule that starts in round 1, has one."
            )
        return (
            "the bound is not a finite number: the squares of the data are beyond what a float can hold, or "
            "the samples were kept in files, over which nothing is proved."
        )

    def empty(self, params: Params, like: Batch, capacity: int) -> Samples | Statistics:
        """Losses of no rounds: streaming statistics where they suffice, else a buffer of `capacity` rows."""
        streams = self.policy.linear and computes(self.loss, Squared)
        if streams and not draws(self.solver) and not draws(self.hindsight):
            return empty_statistics(self.policy, self.loss, params)  # type: ignore[arg-type]
        return empty_samples(self.policy, self.loss, like, capacity=capacity)

    def init(self, params: Params, losses: Losses | Limited) -> GameState:
        state = first_state(self.learner, params)
        zero = zeros((), jax.tree.leaves(params)[0])
        first = GameState(state, losses, params, certificate.start(params), zero)
        # Every leaf its own buffer: the compiled round takes the state over, and none can be given twice.
        leaves, structure = jax.tree.flatten(first)
        return jax.tree.unflatten(structure, copies(leaves))

    def play(
        self, state: GameState, batch: Batch, key: Array, judge: Array | None
    ) -> tuple[GameState, dict[str, Array]]:
        """Measures the loss, updates the learner and, where `judge`, finds the best in hindsight. With None
        the program has no search for it, which is about a third of the compiling.
        """
        old = state.learner
        (loss, outputs), gradient = self._measured(old.params, batch, state.losses)
        kept = state.losses.add(batch)
        losses, recalled = (kept.whole, kept.recall()) if isinstance(kept, Limited) else (kept, kept)
        hindsight = Task(self.hindsight, plain(losses, state.comparator), state.comparator)
        beside: list[Solution] = []  # the best in hindsight, where the learner's solver finds it as well
        # A learner of someone's own may solve inside a branch or a loop, out of which this must not come.
        shared = judge is not None and type(self.learner) is Learner

        def solve(objective: Objective, params: Params) -> Solution:
            if not isinstance(objective, Objective):
                raise ContractError(
                    f"learner {name_of(self.learner)!r}: its update called solve with "
                    f"{type(objective).__name__}; an Objective is expected, as "
                    "understudy.objectives.plain(losses, params) makes one of the losses."
                )
            own = Task(self.solver, objective, params)
            if not (shared and alike(hindsight, own)):
                return self._solved(objective, params, key)
            best, solution = solved_in_turn(hindsight, own, judge, key)
            beside.append(best)
            return solution

        with calling("learner", self.learner, "update"):
            answer = self.learner.update(old, recalled, gradient, solve)
        learner, solution = answered(self.learner, answer, old.params)
        cumulative = state.cumulative + loss
        rounds = losses.rounds.astype(loss.dtype)
        record = {
            "loss": loss,
            "cumulative_loss": cumulative,
            "average_loss": cumulative / rounds,
            "gradient_norm": norm(gradient),
            "solver_status": solution.status,
            "solver_grad_norm": solution.grad_norm,
            "solver_iterations": solution.iterations,
            "solver_evaluations": solution.evaluations,
            # The whole objective at the new parameters; for FTL the least loss in hindsight.
            "objective": solution.value * rounds,
            "agreement": self._agreement(outputs, batch),
        }
        running = state.running
        known = isinstance(self.learner, Learner)
        if known:
            gap = jnp.zeros_like(loss)
            if self.certified and not self.learner.linear:
                # Slopes belong to the samples that the solver saw: all of them, or some.
                slopes = None if solution.dual is None or recalled is not losses else rounds * solution.dual
                learner, gap = certificate.residual(self.learner, learner, losses, slopes)
            seen = measured(self.policy, self.loss, old.params, batch) if self.certified else None
            running = certificate.advance(
                running, self.learner, old, learner, losses, gradient, gap, seen, cumulative
            )
            total = sum(jax.tree.leaves(jax.tree.map(jnp.sum, learner.weight)))
            record["weight"] = total / count(learner.weight)
            record["residual"] = norm(learner.residual)
            record["stability"] = running.stability
        else:
            record["weight"] = record["residual"] = record["stability"] = jnp.nan * loss

        nothing: dict[str, Any] = dict.fromkeys(JUDGED, jnp.nan * loss)
        nothing["comparator_status"] = jnp.zeros((), jnp.int32)

        def best(_: None) -> tuple[Params, dict[str, Any]]:
            found = beside[0] if beside else self.hindsight(*hindsight[1:], key)
            value = found.value * rounds
            verdict = nothing | {
                "comparator": value,
                "regret": cumulative - value,
                "comparator_status": found.status,
            }
            if self.certified:
                reach = certificate.norm(running, self.learner.radius, found.params)
                slopes = None if found.dual is None else rounds * found.dual
                low, high = below(losses, found.params, slopes, reach), above(losses, found.params)
                # Every point gives a bound: the best in hindsight, and w_{t+1}, which the learner chose.
                chosen = above(losses, learner.params)
                bounds = (
                    certificate.bound(running, learner, found.params, high - low, reach),
                    certificate.bound(running, learner, learner.params, chosen - low, reach),
                )
                verdict |= {
                    "norm": reach,
                    "comparator_error": high - low,
                    "regret_low": cumulative - running.wrong - high,
                    "regret_high": cumulative + running.wrong - low,
                    "bound": jnp.fmin(*bounds),
                }
            return found.params, verdict

        comparator, verdict = state.comparator, nothing
        if judge is not None:
            comparator, verdict = jax.lax.cond(judge, best, lambda _: (comparator, nothing), None)
        return GameState(learner, kept, comparator, running, cumulative), record | verdict

    def _solved(self, objective: Objective, params: Params, key: Array) -> Solution:
        """The solver's answer, which must be a `Solution`."""
        with calling("solver", self.solver, "call with (objective, params, key)"):
            found = self.solver(objective, params, key)
        if not isinstance(found, Solution):
            raise ContractError(
                f"solver {name_of(self.solver)!r}: it returned {kind_of(found)}; a Solution is expected, "
                "which a subclass of understudy.solvers.Solver makes from its init, step and progress."
            )
        return found

    def play_all(
        self, state: GameState, rounds: Any, draw: Callable[[Any, Params], tuple[Any, dict[str, Any]]]
    ) -> tuple[GameState, dict[str, Any]]:
        """Plays a round for every element of `rounds` (arrays, stacked) in one loop, and stacks the records.

        ``draw(element, params)`` returns the arguments of `play`, (batch, key, judge), for the parameters
        that act in the round, and a dict of what to keep beside the round's record.
        """

        def play(state: GameState, one: Any) -> tuple[GameState, dict[str, Any]]:
            arguments, more = draw(one, state.learner.params)
            new, record = self.play(state, *arguments)
            return new, record | more

        return jax.lax.scan(play, state, rounds)

    def _measured(
        self, params: Params, batch: Batch, losses: Any = None
    ) -> tuple[tuple[Array, Array], Params]:
        """Loss and outputs of a round, and the gradient. Inputs that the batch is without (0 numbers each)
        are read where those of `losses` are, some at a time.
        """
        measure, many = jax.value_and_grad(self._round_loss, has_aux=True), batch.inputs.shape[0]
        reads = batch.inputs.shape[-1] == 0
        if not reads and (self.policy.linear or batch.weights.size <= LARGE):
            return measure(params, batch)
        rows = self.policy.minibatch * (1 if jax.default_backend() == "cpu" else BUSY)

        def split(values: Array) -> Array:
            padded = jnp.pad(values, [(0, -many % rows)] + [(0, 0)] * (values.ndim - 1))
            return padded.reshape(-1, rows, *values.shape[1:])

        def add(total: Any, part: Any) -> tuple[Any, Array]:
            part = (losses.read(part[0])[0], *part[1:]) if reads else part
            (loss, outputs), gradient = measure(params, Batch(*part, size=batch.size))
            return jax.tree.map(jnp.add, total, (loss, gradient)), outputs

        zero = jnp.zeros((), batch.weights.dtype), optax.tree.zeros_like(params)
        inputs = losses.filled + jnp.arange(many, dtype=losses.filled.dtype) if reads else batch.inputs
        parts = split(inputs), split(batch.targets), split(batch.weights)
        (loss, gradient), outputs = jax.lax.scan(add, zero, parts)
        outputs = outputs.reshape(-1, outputs.shape[-1])[: batch.weights.size]
        return (loss, outputs), gradient

    def _round_loss(self, params: Params, batch: Batch) -> tuple[Array, Array]:
        outputs = flat(self.policy.apply(params, batch.inputs))
        losses = jax.vmap(self.loss)(outputs, flat(batch.targets))
        return jnp.sum(batch.weights.reshape(-1) * losses), outputs

    def _agreement(self, outputs: Array, batch: Batch) -> Array:
        """The share of the round where the most likely action is the target's; nan without one choice."""
        if not self.loss.categorical or getattr(self.loss, "groups", None) is not None:
            return jnp.full((), jnp.nan, batch.weights.dtype)
        same = jnp.argmax(outputs, axis=1) == jnp.argmax(flat(batch.targets), axis=1)
        return jnp.sum(batch.weights.reshape(-1) * same)


def certify(game: Game, row: Mapping[str, Any]) -> certificate.Certificate:
    """The certificate (or the estimate) of a round in which the best in hindsight was found.

    `row` is the round's row of the ledger: what is printed beside each other belongs to one round.
    """
    numbers = {name: float(row.get(name, np.nan)) for name in (*JUDGED, "stability", "weight", "round")}
    bound, reason = numbers["bound"], game.uncertified
    if not reason and np.isnan(numbers["norm"]):
        reason = "the best policy in hindsight was not looked for."
    elif not reason and not np.isfinite(bound):
        reason = game.unbounded
    constants = {
        "rounds": numbers["round"],
        "stability": numbers["stability"],
        "distance": bound - numbers["stability"],
        "weight": numbers["weight"],
    }
    made = certificate.Certificate(
        numbers["regret"],
        bound,
        constants,
        "certificate" if game.certified else "estimate",
        numbers["regret_low"],
        numbers["regret_high"],
        numbers["norm"],
        reason,
    )
    return made._replace(kind="estimate", reason=_contradiction(game, made)) if made.contradictory else made


def _contradiction(game: Game, made: certificate.Certificate) -> str:
    """What numbers that cannot all be true say of the parts, in one sentence."""
    if made.high == -np.inf:  # see `below`
        return (
            f"the loss {type(game.loss).__name__} states something that its values on this data refute: that "
            "it is convex, its dual, its least, its steepness or its curvature."
        )
    ends = f"it ends at {made.high:.6g}" if made.low > made.high else f"the bound is {made.bound:.6g}"
    return (
        f"the interval contradicts itself: it begins at {made.low:.6g} and {ends}, so a part states "
        "something false."
    )


def make_game(
    policy: Policy,
    loss: Loss,
    learner: AnyLearner,
    solver: Any,
    params: Params,
    *,
    hindsight: Any = None,
    **options: Any,
) -> Game:
    """A game from its parts: `solver` a name or an object, fitted to the learner's domain and the loss.

    `hindsight` is the solver that finds the best parameters in hindsight, by default an exact one where there
    is one. `options` (tolerance, max_iterations, batch_size, …) go to a solver given by name; `auto` takes
    two.
    """
    exact = auto(policy, loss, count(params))
    radius = getattr(learner, "radius", None)
    if isinstance(loss, Absolute):
        # The reformulation needs the optimal subgradients of past rounds, which sign(·) is not.
        learner = around_mean(learner)
    learner = started(learner, 1)
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(solver, str):
        solver = _with(exact, options) if solver == "auto" else SOLVERS.make(solver, options)
    elif options:
        raise UserError(f"solver: {', '.join(sorted(options))} go with a solver's name, not an object.")
    solver = SOLVERS.resolve(solver)
    if draws(solver) and isinstance(exact, ClosedForm):
        # Minibatches keep the samples, and the closed form reads statistics.
        exact = newton() if count(params) <= NEWTON_LIMIT else lbfgs()
    best: Any = exact if hindsight is None else hindsight
    if radius is not None and not (isinstance(learner, Learner) and learner.linear):
        if not policy.linear:
            raise UserError("radius: a domain needs a linear policy or a linearised learner.")
        solver = InBall(solver, radius)
    if radius is not None:
        best = InBall(best, radius) if policy.linear else best
    return Game(policy, loss, learner, solver, best)


def around_mean(learner: Any) -> Any:
    """The learner around the mean centre, where the reformulation would not be FTRL."""
    if not isinstance(learner, Learner) or learner.linear:
        return learner
    return eqx.tree_at(lambda one: one.around_last, learner, np.asarray(False))


def remembering(memory: str, learner: Any, loss: Any) -> Any:
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


def _with(solver: Any, options: dict[str, Any]) -> Any:
    fields = getattr(solver, "__dataclass_fields__", {})
    for name in options:
        if name not in fields:
            if name in ("tolerance", "max_iterations"):
                continue  # the closed form has neither: it is exact
            raise UserError(f"solver: 'auto' does not take {name}.")
    return dataclasses.replace(solver, **{k: v for k, v in options.items() if k in fields})


def draws(solver: Any) -> bool:
    """Whether a solver draws minibatches; a plain function does not."""
    return getattr(solver, "minibatch", False)
