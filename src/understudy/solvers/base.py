"""What a solver returns, what a method provides, the one loop that all of them share, and descent in it: a
direction (steepest, L-BFGS or Newton) and an Armijo line search.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnnecessaryIsInstance=false
# JAX and optax say little of the types of their trees, and users pass anything.

from __future__ import annotations

import abc
import enum
import functools
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Float

from ..errors import ContractError, UserError, check_int, kind_of, name_of
from ..objectives import Counts, Objective, Samples, epsilon, orthonormal, tiny
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
    dual: Array | None = None
    """Slopes (n, k) of the samples' terms of J, from solvers that have them: a proof of how low J can be."""


@runtime_checkable
class AnySolver(Protocol):
    """What a solver must be: a callable from (objective, params, key) to a `Solution`, under jit."""

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution: ...


class Progress(NamedTuple):
    """The part of a method's state that the loop reads."""

    params: Params
    value: Array
    gradient: Params
    iterations: Array
    evaluations: Array
    status: Array


State = TypeVar("State")


def solution_of(done: Progress) -> Solution:
    """Where a smooth solve has come to."""
    return Solution(
        params=done.params,
        status=done.status,
        value=done.value,
        grad_norm=optax.tree.norm(done.gradient),
        iterations=done.iterations,
        evaluations=done.evaluations,
        residual=done.gradient,
        gap=jnp.zeros_like(done.value),
    )


def by_formula(params: Params, status: Array, value: Array, gradient: Params) -> Solution:
    """The solution that a formula gave: in one iteration, with one evaluation."""
    once = jnp.ones((), jnp.int32)
    return solution_of(Progress(params, value, gradient, once, once, status.astype(jnp.int32)))


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

    def limit(self, objective: Objective) -> int | Array:
        """The most iterations on `objective`."""
        return self.max_iterations

    def finish(self, objective: Objective, state: State) -> Solution:
        """The solution at the end of the loop."""
        return solution_of(self.progress(state))

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        """Minimises `objective` from `params`; `key` is read by methods that draw minibatches."""
        key, limit = jax.random.key(0) if key is None else key, self.limit(objective)

        def going(state: State) -> Array:
            done = self.progress(state)
            return (done.status == Status.RUNNING) & (done.iterations < limit)

        state = self.init(objective, params, key)
        if not isinstance(done := self.progress(state), Progress):
            raise ContractError(
                f"solver {name_of(self)!r}: its progress returned {kind_of(done)}; an "
                "understudy.solvers.Progress is expected."
            )
        state = jax.lax.while_loop(going, lambda state: self.step(objective, state), state)
        solution = self.finish(objective, state)
        status = jnp.where(solution.status == Status.RUNNING, Status.ITERATION_CAP, solution.status)
        if not self.minibatch or getattr(self, "measure", True):  # else nothing ever counts as converged
            escaped = (status == Status.CONVERGED) & escapes(objective, solution)
            status = jnp.where(escaped, Status.NO_MINIMISER, status)
        return eqx.tree_at(lambda s: s.status, solution, status.astype(jnp.int32))


@eqx.filter_jit
def solve_traced_once(solver: AnySolver, objective: Objective, params: Params, key: Array | None) -> Solution:
    """``solver(objective, params, key)``. Inside a program: traced and lowered once, however often objectives
    of one form are minimised in it.
    """
    return solver(objective, params, key)


def zeros_of(solve: Callable[..., Solution], *args: Params) -> Solution:
    """All zeros in the form of ``solve(*args)``, which is not computed: a loop over solves begins with it."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(solve, *args))


def is_data(tree: Any) -> Any:
    """Which leaves of a tree are data of a program: all arrays, and a `Solver`'s numbers (no switches)."""

    def number(value: ArrayLike | None) -> bool:
        return eqx.is_array(value) or (isinstance(value, (int, float)) and not isinstance(value, bool))

    def part(value: Any) -> Any:
        return jax.tree.map(number if isinstance(value, Solver) else eqx.is_array, value)

    return jax.tree.map(part, tree, is_leaf=lambda value: isinstance(value, Solver))


class Task(NamedTuple):
    """A solver, what it minimises and from where."""

    solver: AnySolver
    objective: Objective
    params: Params


def same_program(first: Task, second: Task) -> bool:
    """Whether two tasks are on the same losses and differ in data only (see `is_data`)."""

    def form(task: Task) -> tuple[Any, ...]:
        parts = task.solver, task.params
        numbers, rest = eqx.partition(parts, is_data(parts))
        # Where a number stands in one solver and None in the other, the structures differ.
        return rest, jax.tree.structure(numbers), [jnp.shape(leaf) for leaf in jax.tree.leaves(numbers)]

    (rest, *shapes), (other_rest, *other_shapes) = form(first), form(second)
    same = first.objective.losses is second.objective.losses and shapes == other_shapes
    return same and bool(eqx.tree_equal(rest, other_rest))


def solve_in_turn(
    first: Task, second: Task, wanted: ArrayLike, key: Array | None
) -> tuple[Solution, Solution]:
    """Solutions of two tasks of the `same_program`, in one loop, which compiles their solver once. Without
    `wanted` (a boolean array) the first is not solved, and its solution is all zeros.
    """
    penalised = first.objective.penalised or second.objective.penalised

    def split(task: Task) -> tuple[Any, Any]:
        parts = task.solver, task.params, task.objective.centre, task.objective.tilt, task.objective.weight
        return eqx.partition(parts, is_data(parts))

    (numbers, rest), (others, _) = split(first), split(second)

    def task(number: Array) -> Solution:
        def pick(a: ArrayLike, b: ArrayLike) -> ArrayLike:
            return a if a is b else jnp.where(number == 0, a, b)

        solver, params, *penalty = eqx.combine(jax.tree.map(pick, numbers, others), rest)
        objective = Objective(first.objective.losses, *penalty, penalised=penalised)
        return solve_traced_once(solver, objective, params, key)

    def turn(number: Array, solutions: tuple[Solution, Solution]) -> tuple[Solution, Solution]:
        return solutions[1], task(number)

    none = zeros_of(task, jnp.zeros((), jnp.int32))
    begin = jnp.where(wanted, 0, 1).astype(jnp.int32)
    return jax.lax.fori_loop(begin, jnp.int32(2), turn, (none, none))


def draws(solver: AnySolver) -> bool:
    """Whether a solver draws minibatches; a plain function does not."""
    return getattr(solver, "minibatch", False)


def check_number(field: str, value: float | np.ndarray | Array, *, zero: bool = False) -> None:
    """Refuses what is not a positive finite number (or zero, where allowed); arrays pass."""
    if isinstance(value, Array):
        return
    good = isinstance(value, (int, float, np.number, np.ndarray)) and not isinstance(value, bool)
    if not (good and np.all(np.isfinite(value)) and np.all(np.asarray(value) >= 0 if zero else value > 0)):
        raise UserError(
            f"{field}: {value!r} is not a {'finite number ≥ 0' if zero else 'positive finite number'}."
        )


def check_count(field: str, value: int | Array) -> None:
    """Refuses what is not a whole number ≥ 1."""
    if not isinstance(value, Array):
        check_int(field, value)


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
    norm = jnp.maximum(optax.tree.norm(gradient), tiny(solution.value))
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
        return Solution(
            params=params,
            status=jnp.full((), Status.RUNNING, jnp.int32),
            value=nan,
            grad_norm=nan,
            iterations=none,
            evaluations=none,
            residual=optax.tree.zeros_like(params),
            gap=nan,
        )


Memory = TypeVar("Memory")


class Direction(eqx.Module, Generic[Memory]):
    """Where to go from here, and the memory for the next direction: whatever it needs to remember."""

    warm_step: bool = eqx.field(static=True, default=False)
    """Whether the first step tried is the last one accepted, grown, rather than 1."""

    def start(self, objective: Objective, params: Params) -> Params:
        """Where to begin, given the parameters of the round before."""
        return params

    @abc.abstractmethod
    def init(self, objective: Objective, params: Params) -> Memory: ...

    @abc.abstractmethod
    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: Memory
    ) -> tuple[Params, Memory]: ...


class Steepest(Direction[tuple[()]]):
    """The steepest descent, ``−g``."""

    warm_step: bool = eqx.field(static=True, default=True)

    def init(self, objective: Objective, params: Params) -> tuple[()]:
        return ()

    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: tuple[()]
    ) -> tuple[Params, tuple[()]]:
        return optax.tree.scale(-1.0, gradient), memory


def lbfgs_rule(memory: int) -> optax.GradientTransformation:
    """A gradient times the L-BFGS inverse Hessian of the last `memory` steps."""
    return optax.scale_by_lbfgs(memory_size=memory, scale_init_precond=True)


class LimitedMemory(Direction[optax.OptState]):
    """``−H g`` with the L-BFGS inverse Hessian of the last `memory` steps."""

    memory: int = eqx.field(static=True, default=10)

    def init(self, objective: Objective, params: Params) -> optax.OptState:
        return lbfgs_rule(self.memory).init(params)

    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: optax.OptState
    ) -> tuple[Params, optax.OptState]:
        scaled, memory = lbfgs_rule(self.memory).update(gradient, memory, params)
        return optax.tree.scale(-1.0, scaled), memory


class BlocksMemory(NamedTuple):
    """Steps so far, the factors L_a of the blocks and their inverses, (k, d, d), and L-BFGS's memory."""

    steps: Array
    lower: Array
    inverse: Array
    lbfgs: optax.OptState


class Blocks(Direction[BlocksMemory]):
    """L-BFGS for linear policies, preconditioned by the Hessian's diagonal blocks, one (d, d) an output.

    A feature that is rarely on and an action that is rarely likely make flat directions: plain L-BFGS crawls
    along them. In the coordinates ``v_a = L_aᵀ w_a``, ``L_a L_aᵀ`` the block of output a, they are as steep
    as the others. The blocks are taken anew every `every` steps. They steer and nothing else, so float32 is
    enough for their sums.
    """

    memory: int = eqx.field(static=True, default=20)
    every: int = 40

    def init(self, objective: Objective, params: Float[Array, "d k"]) -> BlocksMemory:
        d, k = params.shape
        none = jnp.zeros((k, d, d), params.dtype)
        return BlocksMemory(_count(0), none, none, lbfgs_rule(self.memory).init(params))

    def _factor(self, objective: Objective, params: Params) -> tuple[Array, Array]:
        blocks = objective.blocks(params).astype(params.dtype)
        size = jnp.trace(blocks, axis1=1, axis2=2)[:, None, None] / blocks.shape[1]
        eye = jnp.eye(blocks.shape[1], dtype=blocks.dtype)
        lower = jnp.linalg.cholesky(blocks + jnp.maximum(1e-6 * size, 1e-12) * eye)
        lower = jnp.where(jnp.all(jnp.isfinite(lower)), lower, eye)
        return lower, jax.vmap(lambda L: jax.scipy.linalg.solve_triangular(L, eye, lower=True))(lower)

    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: BlocksMemory
    ) -> tuple[Params, BlocksMemory]:
        fresh, rule = memory.steps % self.every == 0, lbfgs_rule(self.memory)
        lower, inverse = jax.lax.cond(
            fresh, lambda: self._factor(objective, params), lambda: (memory.lower, memory.inverse)
        )
        past = jax.tree.map(lambda new, old: jnp.where(fresh, new, old), rule.init(params), memory.lbfgs)
        there = jnp.einsum("aji,ja->ia", lower, params)
        scaled, past = rule.update(jnp.einsum("aij,ja->ia", inverse, gradient), past, there)
        step = -jnp.einsum("aji,ja->ia", inverse, scaled)
        return step, BlocksMemory(memory.steps + 1, lower, inverse, past)


class NewtonStep(Direction[Array | None]):
    """``−(H + τ I)⁻¹ g`` with τ = 0.01 ||g||: it bounds flat directions and vanishes at the solution.

    The Hessian's condition is the square of the features'. Where theirs is beyond 1e5 (linear policies), H
    and g are those of an orthonormal basis of the features, chosen once a solve.

    Logits that separable data have driven far off are flat: curvature says nothing there, and a step is at
    most 100 long. One label that contradicts them makes zero the better start, so the lower one is taken.
    """

    def start(self, objective: Objective, params: Params) -> Params:
        losses = objective.losses
        if not (isinstance(losses, (Samples, Counts)) and losses.loss.logits):
            return params
        zero = optax.tree.zeros_like(params)
        lower = objective.value(zero) < objective.value(params)
        return jax.tree.map(functools.partial(jnp.where, lower), zero, params)

    def init(self, objective: Objective, params: Params) -> Array | None:
        losses = objective.losses
        if not (isinstance(losses, Samples) and losses.policy.linear and losses.reader is None):
            return None
        share = jnp.where(losses.used & (losses.weights > 0), losses.weights / objective.rounds, 0.0)
        rows = losses.policy.design(losses.inputs) * jnp.sqrt(share)[:, None]
        basis, scale = orthonormal(rows, objective.weight / objective.rounds)
        small = jnp.min(jnp.where(scale > 0, scale, jnp.inf))
        straight = basis / jnp.where(scale > 0, scale, 1.0).T
        return jnp.where(small < 1e-5 * jnp.max(scale), straight, jnp.eye(len(basis), dtype=basis.dtype))

    def __call__(
        self, objective: Objective, params: Params, gradient: Params, memory: Array | None
    ) -> tuple[Params, Array | None]:
        basis = memory
        flat, unravel = ravel_pytree(gradient if basis is None else basis.T @ gradient)
        hessian = objective.hessian(params, basis)
        floor = 32 * flat.size * epsilon(flat) * jnp.max(jnp.abs(jnp.diagonal(hessian)))
        shift = 0.01 * jnp.linalg.norm(flat) + floor
        lower = jnp.linalg.cholesky(hessian + shift * jnp.eye(flat.size, dtype=flat.dtype))
        step = -jax.scipy.linalg.cho_solve((lower, True), flat)
        step = unravel(jnp.where(jnp.all(jnp.isfinite(step)), step, -flat))
        return step if basis is None else basis @ step, memory


def _count(number: int) -> Array:
    return jnp.asarray(number, jnp.int32)


class DescentState(NamedTuple):
    progress: Progress
    direction: Params  # of the last step tried
    slope: Array
    step: Array
    memory: Any
    backtracks: Array
    floor: Array


class Descent(Solver[DescentState]):
    """``w ← w + s d`` with the first s in s₀, s₀·shrink, … where ``J(w + s d) ≤ J(w) + c s <g, d>``.

    One turn of the loop tries one step, so a backtrack is a turn and not an inner loop: lanes of a vmapped
    solve wait for each other as little as they can. When no step is found in `max_backtracks` tries the
    status is `STALLED`. By default the direction is the steepest, and a line search starts at `growth` times
    the step accepted before: gradient descent, the paper's inner solver.
    """

    _: KW_ONLY
    direction: Direction[Any] = eqx.field(default_factory=Steepest)
    tolerance: float = 1e-8
    max_iterations: int = 1000
    c: float = 1e-4
    shrink: float = 0.5
    first_step: float = 1.0
    growth: float = 2.0
    max_backtracks: int = 60

    def init(self, objective: Objective, params: Params, key: Array) -> DescentState:
        params = self.direction.start(objective, params)
        value, gradient = objective.value_and_gradient(params)
        status = first_status(value, gradient, self.tolerance)
        progress = Progress(params, value, gradient, _count(0), _count(1), status)
        step = jnp.asarray(self.first_step, value.dtype)
        if not self.direction.warm_step and not isinstance(self.direction, NewtonStep):
            # A first quasi-Newton direction is the bare gradient: its length means nothing yet.
            step = jnp.minimum(step, 1.0 / jnp.maximum(optax.tree.norm(gradient), 1e-30))
        return DescentState(
            progress=progress,
            direction=optax.tree.zeros_like(gradient),
            slope=jnp.zeros_like(value),
            step=step,
            memory=self.direction.init(objective, params),
            backtracks=_count(0),
            floor=-1e20 * (1.0 + jnp.abs(value)),
        )

    def _aim(
        self, objective: Objective, params: Params, gradient: Params, memory: Memory
    ) -> tuple[Params, Array, Memory]:
        direction, memory = self.direction(objective, params, gradient, memory)
        slope = jnp.asarray(optax.tree.vdot(gradient, direction))
        downhill = jnp.isfinite(slope) & (slope < 0)
        direction = jax.tree.map(lambda d, g: jnp.where(downhill, d, -g), direction, gradient)
        return direction, jnp.where(downhill, slope, -(optax.tree.norm(gradient) ** 2)), memory

    def step(self, objective: Objective, state: DescentState) -> DescentState:
        old = state.progress
        # A direction is taken before the first step along it, here and nowhere else: its program is long.
        direction, slope, memory = jax.lax.cond(
            state.backtracks == 0,
            lambda: self._aim(objective, old.params, old.gradient, state.memory),
            lambda: (state.direction, state.slope, state.memory),
        )
        trial = optax.tree.add_scale(old.params, state.step, direction)
        value, gradient = objective.value_and_gradient(trial)
        norm, before = optax.tree.norm(gradient), optax.tree.norm(old.gradient)
        finite = jnp.isfinite(value) & jnp.isfinite(norm)
        enough = value <= old.value + self.c * state.step * slope
        # Close to the minimum differences of J are rounding; there the gradient shows whether a step is good.
        rounding = 16 * epsilon(value) * jnp.abs(old.value)
        level = (value <= old.value + rounding) & (norm < before)
        accepted = finite & (enough | level)

        status = jnp.where(norm <= self.tolerance, Status.CONVERGED, Status.RUNNING)
        status = jnp.where(value < state.floor, Status.NO_MINIMISER, status).astype(jnp.int32)
        longer = state.step * self.growth if self.direction.warm_step else jnp.ones_like(state.step)
        there = Progress(trial, value, gradient, old.iterations + 1, old.evaluations + 1, status)
        tries = state.backtracks + 1
        status = jnp.where(tries > self.max_backtracks, Status.STALLED, Status.RUNNING).astype(jnp.int32)
        here = old._replace(evaluations=old.evaluations + 1, status=status)
        moved, shortened = (there, longer, _count(0)), (here, state.step * self.shrink, tries)
        progress, step, tries = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), moved, shortened)
        return DescentState(progress, direction, slope, step, memory, tries, state.floor)

    def progress(self, state: DescentState) -> Progress:
        return state.progress


gd = Descent


def lbfgs(
    *, tolerance: float = 1e-9, max_iterations: int = 1000, memory: int = 10, c: float = 1e-4
) -> Descent:
    """L-BFGS with Armijo backtracking from step 1."""
    rule = LimitedMemory(memory=memory)
    return Descent(direction=rule, tolerance=tolerance, max_iterations=max_iterations, c=c)


def block_lbfgs(
    *, tolerance: float = 1e-7, max_iterations: int = 500, memory: int = 20, every: int = 40, c: float = 1e-4
) -> Descent:
    """L-BFGS preconditioned by the Hessian's diagonal blocks; for linear policies with many features.

    On cross-entropy with 512 × 6 parameters it needs a tenth of the steps of plain L-BFGS.
    """
    rule = Blocks(memory=memory, every=every)
    return Descent(direction=rule, tolerance=tolerance, max_iterations=max_iterations, c=c)


def newton(*, tolerance: float = 1e-12, max_iterations: int = 200, c: float = 1e-4) -> Descent:
    """Newton's method, regularised by the gradient's norm, with Armijo backtracking from step 1.

    It forms the Hessian: meant for up to some two thousand parameters.
    """
    return Descent(direction=NewtonStep(), tolerance=tolerance, max_iterations=max_iterations, c=c)
