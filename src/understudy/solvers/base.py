"""What a solver returns, what a method provides, and the one loop that all of them share."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ..errors import UserError, whole
from ..objectives import Counts, Objective, Samples
from ..policies import Params


class Status(enum.IntEnum):
    """How a solve ended. Only `CONVERGED` promises a gradient norm within the tolerance."""

    RUNNING = 0
    CONVERGED = 1
    ITERATION_CAP = 2
    """All iterations were used; the solution is the last iterate."""
    STALLED = 3
    """No step decreases the objective any more in this precision, and the gradient is above the tolerance."""
    NO_MINIMISER = 4
    """The objective falls for ever: unbounded below, or an infimum that no parameters attain."""
    DIVERGED = 5
    """A finite start led to numbers that are not; the solution is the last finite iterate."""
    NOT_FINITE = 6
    """The objective or its gradient was not finite at the start; the solution is the start."""


class Solution(eqx.Module):
    """Where a solver stopped and why. Norms and values are of the mean objective J = (whole objective)/t."""

    params: Params
    status: Array
    value: Array
    grad_norm: Array
    iterations: Array
    evaluations: Array
    residual: Params
    """The gradient left at `params`: of J, of its Lagrangian on a domain; absolute loss: the subgradient."""
    gap: Array
    """For non-smooth losses, how far J may still be above its minimum by the residual's account; else 0."""
    dual: Any = None
    """Slopes (n, k) of the samples' terms of J, from solvers that have them: a proof of how low J can be."""


class Progress(NamedTuple):
    """The part of a method's state that the loop reads."""

    params: Params
    value: Array
    gradient: Params
    iterations: Array
    evaluations: Array
    status: Array


State = TypeVar("State")


class Solver(eqx.Module, Generic[State]):
    """A method (`init`, `step`, `progress`) run by the one loop until ``||∇J|| ≤ tolerance`` or
    `max_iterations`.

    Numbers among a method's fields are data of a compiled round: one program for all their values. A field
    that decides shapes or branches is ``eqx.field(static=True)``.
    """

    tolerance: eqx.AbstractVar[float]
    max_iterations: eqx.AbstractVar[int]

    def __check_init__(self):
        check_number("tolerance", self.tolerance, zero=True)
        check_count("max_iterations", self.max_iterations)

    @abc.abstractmethod
    def init(self, objective: Objective, params: Params, key: Array) -> State: ...

    @abc.abstractmethod
    def step(self, objective: Objective, state: State) -> State: ...

    @abc.abstractmethod
    def progress(self, state: State) -> Progress: ...

    @property
    def minibatch(self) -> bool:
        """Whether samples must be kept, as minibatches are drawn from them."""
        return False

    def limit(self, objective: Objective) -> Any:
        """The most iterations on `objective`."""
        return self.max_iterations

    def finish(self, objective: Objective, state: State) -> Solution:
        """The solution at the end of the loop."""
        done = self.progress(state)
        return Solution(
            done.params,
            done.status,
            done.value,
            optax.tree.norm(done.gradient),
            done.iterations,
            done.evaluations,
            done.gradient,
            jnp.zeros_like(done.value),
        )

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        """Minimises `objective` from `params`; `key` is read by methods that draw minibatches."""
        key, limit = jax.random.key(0) if key is None else key, self.limit(objective)

        def going(state: State) -> Array:
            done = self.progress(state)
            return (done.status == Status.RUNNING) & (done.iterations < limit)

        state = self.init(objective, params, key)
        state = jax.lax.while_loop(going, lambda state: self.step(objective, state), state)
        solution = self.finish(objective, state)
        status = jnp.where(solution.status == Status.RUNNING, Status.ITERATION_CAP, solution.status)
        if not self.minibatch or getattr(self, "measure", True):  # else nothing ever counts as converged
            escaped = (status == Status.CONVERGED) & escapes(objective, solution)
            status = jnp.where(escaped, Status.NO_MINIMISER, status)
        return eqx.tree_at(lambda s: s.status, solution, status.astype(jnp.int32))


@eqx.filter_jit
def solved(solver: Any, objective: Objective, params: Params, key: Array | None) -> Solution:
    """``solver(objective, params, key)``. Inside a program: traced and lowered once, however often objectives
    of one form are minimised in it.
    """
    return solver(objective, params, key)


def zeros_of(solve: Callable[..., Solution], *args: Any) -> Solution:
    """All zeros in the form of ``solve(*args)``, which is not computed: a loop over solves begins with it."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(solve, *args))


class Task(NamedTuple):
    """A solver, what it minimises and from where."""

    solver: Any
    objective: Objective
    params: Params


def alike(one: Task, other: Task) -> bool:
    """Whether two tasks are on the same losses and differ in data only (see `is_data`)."""

    def form(task: Task) -> tuple[Any, ...]:
        numbers, rest = _halves((task.solver, task.params))
        # A number in one that is None in the other leaves the rest as it is.
        return rest, jax.tree.structure(numbers), [jnp.shape(leaf) for leaf in jax.tree.leaves(numbers)]

    (rest, *kind), (other_rest, *other_kind) = form(one), form(other)
    same = one.objective.losses is other.objective.losses and kind == other_kind
    return same and bool(eqx.tree_equal(rest, other_rest))


def solved_in_turn(first: Task, second: Task, wanted: Any, key: Array | None) -> tuple[Solution, Solution]:
    """Solutions of two tasks that are `alike`, in one loop, which compiles their solver once. Without
    `wanted` (a boolean array) the first is not solved, and its solution is all zeros.
    """
    penalised = first.objective.penalised or second.objective.penalised

    def parts(one: Task) -> Any:
        return one.solver, one.params, one.objective.centre, one.objective.tilt, one.objective.weight

    (numbers, rest), (other, _) = _halves(parts(first)), _halves(parts(second))

    def task(number: Any) -> Solution:
        def pick(a: Any, b: Any) -> Any:
            return a if a is b else jnp.where(number == 0, a, b)

        solver, params, *penalty = eqx.combine(jax.tree.map(pick, numbers, other), rest)
        return solved(solver, Objective(first.objective.losses, *penalty, penalised=penalised), params, key)

    def turn(number: Any, found: tuple[Solution, Solution]) -> tuple[Solution, Solution]:
        return found[1], task(number)

    none = zeros_of(task, jnp.zeros((), jnp.int32))
    begin = jnp.where(wanted, 0, 1).astype(jnp.int32)
    return jax.lax.fori_loop(begin, jnp.int32(2), turn, (none, none))


def is_data(tree: Any) -> Any:
    """Which leaves of a tree are data of a program: all arrays, and the numbers of a `Solver` (not its
    switches). Numbers elsewhere, as in a solver of one's own that is no `Solver`, select the program.
    """

    def number(value: Any) -> bool:
        return eqx.is_array(value) or (isinstance(value, (int, float)) and not isinstance(value, bool))

    def part(value: Any) -> Any:
        return jax.tree.map(number if isinstance(value, Solver) else eqx.is_array, value)

    return jax.tree.map(part, tree, is_leaf=lambda value: isinstance(value, Solver))


def _halves(tree: Any) -> tuple[Any, Any]:
    return eqx.partition(tree, is_data(tree))


def check_number(field: str, value: Any, *, zero: bool = False) -> None:
    """Refuses what is not a positive finite number (or zero, where allowed); arrays pass."""
    if isinstance(value, Array):
        return
    good = isinstance(value, (int, float, np.number, np.ndarray)) and not isinstance(value, bool)
    if not (good and np.all(np.isfinite(value)) and np.all(np.asarray(value) >= 0 if zero else value > 0)):
        raise UserError(
            f"{field}: {value!r} is not a {'finite number ≥ 0' if zero else 'positive finite number'}."
        )


def check_count(field: str, value: Any) -> None:
    """Refuses what is not a whole number ≥ 1."""
    if not isinstance(value, Array):
        whole(field, value)


def first_status(value: Array, gradient: Params, tolerance: float) -> Array:
    """The status before any step."""
    norm = optax.tree.norm(gradient)
    finite = jnp.isfinite(value) & jnp.isfinite(norm)
    status = jnp.where(norm <= tolerance, Status.CONVERGED, Status.RUNNING)
    return jnp.where(finite, status, Status.NOT_FINITE).astype(jnp.int32)


def escapes(objective: Objective, solution: Solution) -> Array:
    """Whether a vanishing gradient only means that the parameters are on their way to infinity.

    Cross-entropy on separable data has no minimiser: its gradient and its curvature vanish at the same rate,
    so the Newton step along the gradient, ``||g||³ / gᵀHg``, stays of the order of 1 where at a minimiser it
    is of the order of the tolerance.
    """
    losses = objective.losses
    if not (isinstance(losses, (Samples, Counts)) and losses.loss.logits):
        return jnp.zeros((), bool)
    gradient = solution.residual
    norm = jnp.maximum(optax.tree.norm(gradient), jnp.finfo(solution.value.dtype).tiny)
    unit = optax.tree.scale(1.0 / norm, gradient)
    curvature = optax.tree.vdot(unit, objective.hessian_vector(solution.params, unit))
    size = 1.0 + optax.tree.norm(solution.params)
    return (objective.weight <= 0) & (norm > 1e-3 * size * jnp.maximum(curvature, 0.0)) & (norm > 1e-30)


class Unsolved(eqx.Module):
    """The solver that does not solve, for games that are judged elsewhere: it returns where it started, with
    status RUNNING and nothing measured, and costs no compiling.
    """

    minibatch: ClassVar[bool] = False

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        nan = jnp.full((), jnp.nan, jax.tree.leaves(params)[0].dtype)
        none = jnp.zeros((), jnp.int32)
        status = jnp.full((), Status.RUNNING, jnp.int32)
        return Solution(params, status, nan, nan, none, none, optax.tree.zeros_like(params), nan)
