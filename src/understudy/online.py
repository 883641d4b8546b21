"""One round of online learning as a pure function of state and data: replays, runs and studies play it."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnnecessaryIsInstance=false
# JAX and optax say little of the types of their trees, and users pass anything.

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Bool, Float

from .errors import ContractError, UserError, calling, kind_of, name_of
from .learners import AnyLearner, Learner, LearnerState, Playable, first_state, next_state, started
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
from .policies import Params, Policy, flat, norm
from .regret import certificate
from .regret.certificate import Certificate, why_not
from .regret.interval import above, below, measure
from .solvers import (
    NEWTON_LIMIT,
    SOLVERS,
    AnySolver,
    ClosedForm,
    InBall,
    Solution,
    Task,
    auto,
    draws,
    lbfgs,
    newton,
    same_program,
    solve_in_turn,
)

LARGE = 2048
"""Samples of a round from which a network's loss and gradient are added up in parts, which the caches of a
CPU hold: 3.5 times as fast with 100,000 samples, and the activations of a part are all that is in memory."""
COMPARED = ("comparator", "regret", "regret_low", "regret_high", "norm", "bound", "comparator_error")
"""What a round's record says of the comparator, the best in hindsight, where it was looked for."""

Element = TypeVar("Element")
Anyone = TypeVar("Anyone", bound=AnyLearner)
Record = dict[str, Array]
"""What a round cost, by the names of the ledger's columns."""


class GameState(NamedTuple):
    """Everything that moves: the learner, the losses so far, the best in hindsight and the running sums."""

    learner: Playable
    losses: Losses | Limited
    """The losses so far, or these and a memory of some of them."""
    comparator: Params
    running: certificate.Running
    cumulative: Float[Array, ""]


class Game(eqx.Module):
    """The fixed parts of a run. `play` is pure: under jit, scan or vmap it is the same game.

    Arrays inside (step sizes, radii) and the numbers of its solvers (tolerances, iteration limits, learning
    rates) are data; everything else selects the program.
    """

    policy: Policy
    loss: Loss
    learner: AnyLearner
    solver: AnySolver
    comparator_solver: AnySolver
    """What finds the best in hindsight."""

    @property
    def uncertified(self) -> str:
        """Why regret and bound prove nothing, in one sentence; empty where they are proofs."""
        return why_not(self.policy, self.loss, self.learner, self.comparator_solver)

    @property
    def certified(self) -> bool:
        """Whether interval and bound are proofs: convex losses and a known learner, whatever the solver."""
        return not self.uncertified

    @property
    def unbounded(self) -> str:
        """Why a bound that was computed is not finite, in one sentence."""
        assert isinstance(self.learner, Learner)  # of others nothing is certified
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
        loss, drawn = self.loss, draws(self.solver) or draws(self.comparator_solver)
        if self.policy.linear and not drawn and isinstance(loss, Squared) and computes(loss, Squared):
            return empty_statistics(self.policy, loss, params)
        return empty_samples(self.policy, self.loss, like, capacity=capacity)

    def init(self, params: Params, losses: Losses | Limited) -> GameState:
        state = first_state(self.learner, params)
        zero = zeros((), jax.tree.leaves(params)[0])
        first = GameState(
            learner=state,
            losses=losses,
            comparator=params,
            running=certificate.start(params),
            cumulative=zero,
        )
        # Every leaf its own buffer: the compiled round takes the state over, and none can be given twice.
        return jax.device_put(first, may_alias=False)

    def play(
        self, state: GameState, batch: Batch, key: Array, compare: Bool[Array, ""] | None
    ) -> tuple[GameState, Record]:
        """Measures the loss, updates the learner and, where `compare`, finds the best in hindsight. With None
        the program has no search for it, which is about a third of the compiling.
        """
        old = state.learner
        (loss, outputs), gradient = self._measured(old.params, batch, state.losses)
        added = state.losses.add(batch)
        losses, recalled = (added.whole, added.recall()) if isinstance(added, Limited) else (added, added)
        search = Task(self.comparator_solver, plain(losses, state.comparator), state.comparator)
        beside: list[Solution] = []  # the best in hindsight, if one program solves for it and for the learner
        # A user's learner may call `solve` in a branch or loop, from which no traced value may leak out.
        shared = compare is not None and type(self.learner) is Learner

        def solve(objective: Objective, params: Params) -> Solution:
            if not isinstance(objective, Objective):
                raise ContractError(
                    f"learner {name_of(self.learner)!r}: its update called solve with "
                    f"{type(objective).__name__}; an Objective is expected, as "
                    "understudy.objectives.plain(losses, params) makes one of the losses."
                )
            own = Task(self.solver, objective, params)
            if compare is None or not (shared and same_program(search, own)):
                return self._solve(objective, params, key)
            best, solution = solve_in_turn(search, own, compare, key)
            beside.append(best)
            return solution

        learner, solution = next_state(self.learner, old, recalled, gradient, solve)
        cumulative = state.cumulative + loss
        rounds = losses.rounds.astype(loss.dtype)
        unknown = jnp.nan * loss
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
            "weight": unknown,
            "residual": unknown,
            "stability": unknown,
        }
        running = state.running
        if (
            isinstance(self.learner, Learner)
            and isinstance(old, LearnerState)
            and isinstance(learner, LearnerState)
        ):
            gap = jnp.zeros_like(loss)
            if self.certified and not self.learner.linear:
                # Slopes belong to the samples that the solver saw: all of them, or some.
                slopes = None if solution.dual is None or recalled is not losses else rounds * solution.dual
                learner, gap = certificate.residual(self.learner, learner, losses, slopes)
            seen = measure(self.policy, self.loss, old.params, batch) if self.certified else None
            running = certificate.advance(
                running, self.learner, old, learner, losses, gradient, gap, seen, cumulative
            )
            weights: list[Array] = jax.tree.leaves(jax.tree.map(jnp.sum, learner.weight))
            record["weight"] = functools.reduce(jnp.add, weights) / optax.tree.size(learner.weight)
            record["residual"] = norm(learner.residual)
            record["stability"] = running.stability

        new = GameState(learner, added, state.comparator, running, cumulative)
        nothing = dict.fromkeys(COMPARED, unknown) | {"comparator_status": jnp.zeros((), jnp.int32)}
        if compare is None:
            return new, record | nothing

        def find_best() -> tuple[Params, Record]:
            found = beside[0] if beside else self.comparator_solver(*search[1:], key)
            return found.params, nothing | self._compared(new, losses, found)

        comparator, verdict = jax.lax.cond(compare, find_best, lambda: (state.comparator, nothing))
        return new._replace(comparator=comparator), record | verdict

    def _compared(self, state: GameState, losses: Losses, best: Solution) -> Record:
        """What the best in hindsight says of the state after a round."""
        cumulative, running = state.cumulative, state.running
        rounds = losses.rounds.astype(cumulative.dtype)
        value = best.value * rounds
        record = {
            "comparator": value,
            "regret": cumulative - value,
            "comparator_status": best.status,
        }
        learner = state.learner
        if not (self.certified and isinstance(self.learner, Learner) and isinstance(learner, LearnerState)):
            return record
        reach = certificate.norm(running, self.learner.radius, best.params)
        slopes = None if best.dual is None else rounds * best.dual
        low, high = below(losses, best.params, slopes, reach), above(losses, best.params)
        # Every point gives a bound: the best in hindsight, and w_{t+1}, which the learner chose.
        chosen = above(losses, learner.params)
        bounds = (
            certificate.bound(running, learner, best.params, high - low, reach),
            certificate.bound(running, learner, learner.params, chosen - low, reach),
        )
        return record | {
            "norm": reach,
            "comparator_error": high - low,
            "regret_low": cumulative - running.wrong - high,
            "regret_high": cumulative + running.wrong - low,
            "bound": jnp.fmin(*bounds),
        }

    def _solve(self, objective: Objective, params: Params, key: Array) -> Solution:
        """The solver's answer, which must be a `Solution`."""
        with calling("solver", self.solver, "call with (objective, params, key)"):
            solution = self.solver(objective, params, key)
        if not isinstance(solution, Solution):
            raise ContractError(
                f"solver {name_of(self.solver)!r}: it returned {kind_of(solution)}; a Solution is expected, "
                "which a subclass of understudy.solvers.Solver makes from its init, step and progress."
            )
        return solution

    def play_all(
        self,
        state: GameState,
        rounds: Element,
        draw: Callable[[Element, Params], tuple[tuple[Batch, Array, Array | None], Record]],
    ) -> tuple[GameState, Record]:
        """Plays a round for every element of `rounds` (arrays, stacked) in one loop, and stacks the records.

        ``draw(element, params)`` returns the arguments of `play`, (batch, key, compare), for the parameters
        that act in the round, and a dict of what to keep beside the round's record.
        """

        def play_next(state: GameState, element: Element) -> tuple[GameState, Record]:
            arguments, more = draw(element, state.learner.params)
            new, record = self.play(state, *arguments)
            return new, record | more

        return jax.lax.scan(play_next, state, rounds)

    def _measured(
        self, params: Params, batch: Batch, losses: Losses | Limited | None = None
    ) -> tuple[tuple[Array, Array], Params]:
        """Loss and outputs of a round, and the gradient. Inputs that the batch is without (0 numbers each)
        are read where those of `losses` are, some at a time.
        """
        gradient_of, many = jax.value_and_grad(self._round_loss, has_aux=True), batch.inputs.shape[0]
        reader = losses if batch.inputs.shape[-1] == 0 and isinstance(losses, Samples) else None
        if reader is None and (self.policy.linear or batch.weights.size <= LARGE):
            return gradient_of(params, batch)
        rows = self.policy.minibatch * (1 if jax.default_backend() == "cpu" else BUSY)

        def split(values: Array) -> Array:
            padded = jnp.pad(values, [(0, -many % rows)] + [(0, 0)] * (values.ndim - 1))
            return padded.reshape(-1, rows, *values.shape[1:])

        def add(
            total: tuple[Array, Params], part: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Params], Array]:
            inputs, targets, weights = part
            inputs = inputs if reader is None else reader.read(inputs)[0]
            (loss, outputs), gradient = gradient_of(params, Batch(inputs, targets, weights, batch.size))
            return jax.tree.map(jnp.add, total, (loss, gradient)), outputs

        zero = jnp.zeros((), batch.weights.dtype), optax.tree.zeros_like(params)
        inputs = batch.inputs
        if reader is not None:
            inputs = reader.filled + jnp.arange(many, dtype=reader.filled.dtype)
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


def certify(game: Game, row: Mapping[str, float | str | np.generic]) -> Certificate:
    """The certificate (or the estimate) of a round in which the best in hindsight was found.

    `row` is the ledger's row of that round, so that regret and bound are of the same round.
    """
    numbers = {name: float(row.get(name, np.nan)) for name in (*COMPARED, "stability", "weight", "round")}
    bound, reason = numbers["bound"], game.uncertified
    if not reason and np.isnan(numbers["norm"]):
        reason = "the best policy in hindsight was not looked for."
    elif not reason and not np.isfinite(bound):
        reason = game.unbounded
    printed = Certificate(
        regret=numbers["regret"],
        bound=bound,
        constants={
            "rounds": numbers["round"],
            "stability": numbers["stability"],
            "distance": bound - numbers["stability"],
            "weight": numbers["weight"],
        },
        kind="certificate" if game.certified else "estimate",
        low=numbers["regret_low"],
        high=numbers["regret_high"],
        norm=numbers["norm"],
        reason=reason,
    )
    if not printed.contradictory:
        return printed
    return printed._replace(kind="estimate", reason=_contradiction(game, printed))


def _contradiction(game: Game, printed: Certificate) -> str:
    """What numbers that cannot all be true say of the parts, in one sentence."""
    if printed.high == -np.inf:  # see `below`
        return (
            f"the loss {type(game.loss).__name__} states something that its values on this data refute: that "
            "it is convex, its dual, its least, its steepness or its curvature."
        )
    wide = printed.low > printed.high
    ends = f"it ends at {printed.high:.6g}" if wide else f"the bound is {printed.bound:.6g}"
    return (
        f"the interval contradicts itself: it begins at {printed.low:.6g} and {ends}, so a part states "
        "something false."
    )


def make_game(
    policy: Policy,
    loss: Loss,
    learner: AnyLearner,
    solver: str | AnySolver,
    params: Params,
    *,
    comparator_solver: AnySolver | None = None,
    **options: float | None,
) -> Game:
    """A game from its parts: `solver` a name or an object, fitted to the learner's domain and the loss.

    `comparator_solver` finds the best parameters in hindsight; by default it is an exact one where there is
    one. `options` (tolerance, max_iterations, batch_size, …) go to a solver given by name; `auto` takes two.
    """
    size = optax.tree.size(params)
    exact = auto(policy, loss, size)
    radius = getattr(learner, "radius", None)
    if isinstance(loss, Absolute):
        # The reformulation needs the optimal subgradients of past rounds, which sign(·) is not.
        learner = around_mean(learner)
    learner = started(learner, 1)
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(solver, str):
        if solver != "auto":
            solver = SOLVERS.make(solver, given)
        elif not given:
            solver = exact
        else:
            fields: Iterable[str] = getattr(exact, "__dataclass_fields__", ())
            for name in given:
                # The closed form has neither a tolerance nor a limit: it is exact.
                if name not in (*fields, "tolerance", "max_iterations"):
                    raise UserError(f"solver: 'auto' does not take {name}.")
            takes = {name: value for name, value in given.items() if name in fields}
            solver = dataclasses.replace(exact, **takes) if isinstance(exact, eqx.Module) else exact
    elif given:
        raise UserError(f"solver: {', '.join(sorted(given))} go with a solver's name, not an object.")
    solver = SOLVERS.resolve(solver)
    if draws(solver) and isinstance(exact, ClosedForm):
        # Minibatches keep the samples, and the closed form reads statistics.
        exact = newton() if size <= NEWTON_LIMIT else lbfgs()
    best = exact if comparator_solver is None else comparator_solver
    if radius is not None and not (isinstance(learner, Learner) and learner.linear):
        if not policy.linear:
            raise UserError("radius: a domain needs a linear policy or a linearised learner.")
        solver = InBall(solver, radius)
    if radius is not None and policy.linear:
        best = InBall(best, radius)
    return Game(policy, loss, learner, solver, best)


def around_mean(learner: Anyone) -> Anyone:
    """The learner around the mean centre, where the reformulation would not be FTRL."""
    if not isinstance(learner, Learner) or learner.linear:
        return learner
    return dataclasses.replace(learner, around_last=np.asarray(False))


def with_memory(memory: str, learner: AnyLearner, loss: Loss) -> AnyLearner:
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
