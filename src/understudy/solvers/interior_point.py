"""A true minimiser for absolute and Huber losses on linear policies: an interior-point method, in the one
form of the problem that it reads, and from a point close to the minimiser of an absolute loss to the
minimiser itself.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportMissingTypeStubs=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int

from ..errors import UserError
from ..losses import Absolute, Huber, computes
from ..objectives import Objective, Samples, epsilon, orthonormal
from ..policies import Params
from .base import Progress, Solution, Solver, Status

TURNS = 4
"""Runs of the method at most: one, and where the nearest of many minimisers is asked for up to three more."""
PASSES = 3
LEAN = 1e-6
"""How much of a kink's room the pull towards the centre takes in the test for the nearest minimiser."""


class Problem(NamedTuple):
    """``min_V Σ φ(Y − X V) − <V − C, T> + ½ Σ λ (V − C)²`` with ``φ(r) = max_{|u| ≤ b} u r − κ u²/2``.

    κ = 0 and b = a give a|r|; κ = 1/a and b = aδ give a times the Huber loss (a: the sample's weight).

    The parameters are those of an orthonormal basis of the features, ``W = basis (V / scale)``: the columns
    of X have weighted squares that add up to 1 or less, whatever the features' condition, and the matrices of
    an interior point are as good as its weights allow. Directions that the features do not reach have columns
    of zeros. The basis is orthogonal, so ``||W||² = Σ (V / scale)²``.
    """

    rows: Float[Array, "n d"]
    targets: Float[Array, "n k"]
    used: Float[Array, "n 1"]  # 1 where the sample counts
    bound: Float[Array, "n k"]
    curvature: Float[Array, "n 1"]
    centre: Float[Array, "d k"]
    tilt: Float[Array, "d k"]
    weight: Float[Array, "d k"]
    basis: Float[Array, "d d"]
    scale: Float[Array, "d 1"]

    def inside(self, params: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """V of parameters W."""
        return self.scale * (self.basis.T @ params)

    def outside(self, params: Float[Array, "d k"]) -> Float[Array, "d k"]:
        """W of parameters V."""
        return self.basis @ (params / self.scale)


def piecewise(objective: Objective) -> Problem:
    """The objective's data in the form above, divided by the number of rounds."""
    losses = objective.losses
    if not (isinstance(losses, Samples) and losses.policy.linear and computes(losses.loss, Absolute, Huber)):
        raise UserError("solver: 'interior-point' needs a linear policy and the absolute or the Huber loss.")
    t = objective.rounds
    used = (losses.used & (losses.weights > 0))[:, None].astype(losses.weights.dtype)
    share = jnp.where(used > 0, losses.weights[:, None] / t, 1.0)
    rows = losses.policy.design(losses.inputs) * used
    bound = share * losses.loss.delta if isinstance(losses.loss, Huber) else share
    basis, scale = orthonormal(rows * jnp.sqrt(bound), objective.weight / t)
    tall = jnp.where(scale > 0, scale, 1.0)
    straight = Problem(
        rows=(rows @ basis) * jnp.where(scale > 0, 1.0 / tall, 0.0)[:, 0],
        targets=losses.targets * used,
        used=used,
        bound=bound * jnp.ones_like(losses.targets),
        curvature=1.0 / share if isinstance(losses.loss, Huber) else jnp.zeros_like(share),
        centre=objective.centre,
        tilt=basis.T @ (objective.tilt / t) / tall,
        weight=objective.weight / t / tall**2 * jnp.ones_like(objective.centre),
        basis=basis,
        scale=tall,
    )
    return straight._replace(centre=straight.inside(objective.centre))


def dual_residual(problem: Problem, params: Array, dual: Array) -> Array:
    """``λ(V − C) − T − Xᵀu``, (d, k): zero at the minimiser with the dual that belongs to it."""
    return problem.weight * (params - problem.centre) - problem.tilt - problem.rows.T @ dual


class Point(NamedTuple):
    """W with the dual u in (−b, b) and the slacks of its two sides, all positive: r = κu + over − under.

    The room that u has, b − u and b + u, is carried along: computed from u it would round to zero near the
    end.
    """

    params: Float[Array, "d k"]
    dual: Float[Array, "n k"]
    over: Float[Array, "n k"]
    under: Float[Array, "n k"]
    above: Float[Array, "n k"]
    below: Float[Array, "n k"]


def gap_of(problem: Problem, point: Point) -> Float[Array, " k"]:
    """The duality gap of each column."""
    return jnp.sum(problem.used * (point.over * point.above + point.under * point.below), axis=0)


def stiffness_of(problem: Problem, point: Point) -> Float[Array, "n k"]:
    """The curvature of the smoothed loss at each sample: without limit on a kink."""
    return 1.0 / (problem.curvature + point.over / point.above + point.under / point.below)


def next_point(problem: Problem, point: Point, slow: Array, trust: Array) -> Point:
    """The next point. Where the last step was slow, (k,), this one goes back to the middle first."""
    above, below = point.above, point.below
    samples = jnp.maximum(jnp.sum(problem.used), 1.0)
    residual = dual_residual(problem, point.params, point.dual)
    mismatch = problem.targets - problem.rows @ point.params - problem.curvature * point.dual
    mismatch = mismatch - point.over + point.under
    stiffness = stiffness_of(problem, point)

    def factor(column: Array, weight: Array) -> Array:
        gram = problem.rows.T @ (problem.rows * column[:, None])
        # Fewer active samples than features leave the factor singular to rounding: a ridge, mended by
        # refinement.
        ridge = 1e-15 * gram.shape[0] * jnp.max(jnp.diagonal(gram)) + weight + 1e-300
        return jnp.linalg.cholesky(gram + jnp.diag(ridge))

    lower = jax.vmap(factor, in_axes=1)(stiffness, problem.weight)  # (k, d, d)
    solve = jax.vmap(lambda f, r: jax.scipy.linalg.cho_solve((f, True), r), in_axes=(0, 1), out_axes=1)

    def newton(upper_target: Array, lower_target: Array) -> tuple[Array, Array, Array, Array]:
        """Moves W, u and the slacks towards ``over·(b − u)`` and ``under·(b + u)`` changed by the targets."""
        pull = mismatch - upper_target / above + lower_target / below

        def refine(_: Array, move: Array) -> Array:
            turn = stiffness * (pull - problem.rows @ move)
            right = problem.rows.T @ turn - residual - problem.weight * move
            return move + solve(lower, right)

        move = jax.lax.fori_loop(0, 3, refine, jnp.zeros_like(point.params))
        turn = stiffness * (pull - problem.rows @ move)
        over, under = upper_target + point.over * turn, lower_target - point.under * turn
        return move, turn, over / above, under / below

    def reach(turn: Array, over: Array, under: Array) -> Array:
        """The longest step in (0, 1] per column that keeps everything positive."""
        room = [
            jnp.where(change < 0, -value / jnp.where(change < 0, change, -1.0), jnp.inf)
            for value, change in ((above, -turn), (below, turn), (point.over, over), (point.under, under))
        ]
        return jnp.min(jnp.stack([jnp.min(r, axis=0) for r in room]), axis=0)

    products = point.over * above, point.under * below
    gap = jnp.sum(problem.used * (products[0] + products[1]), axis=0)
    level = gap / (2 * samples)
    _, turn, over, under = newton(-products[0], -products[1])
    length = jnp.minimum(1.0, reach(turn, over, under))
    ahead = (point.over + length * over) * (above - length * turn)
    ahead += (point.under + length * under) * (below + length * turn)
    reached = jnp.sum(problem.used * ahead, axis=0) / (2 * samples)
    aim = level * (reached / jnp.maximum(level, 1e-300)) ** 3
    # The second-order correction is no descent: it can lead round in circles for ever, the gap growing
    # threefold and shrinking again (Cartis, 2009). After a step that did not halve the gap the next one is
    # plain Newton's towards the middle, which leaves a fifth if it can be taken whole, and later ones trust
    # the correction less.
    aim = jnp.where(slow, 0.2 * level, aim)
    trust = jnp.where(slow, 0.0, trust)
    second = trust * over * turn, trust * under * turn
    move, turn, over, under = newton(aim - products[0] + second[0], aim - products[1] - second[1])
    # Near the end the full step, almost: the gap then falls with its square.
    length = jnp.minimum(1.0, (1.0 - jnp.minimum(0.005, gap)) * reach(turn, over, under))
    return Point(
        params=point.params + length * move,
        dual=point.dual + length * turn,
        over=point.over + length * over,
        under=point.under + length * under,
        above=above - length * turn,
        below=below + length * turn,
    )


COLUMNS = Problem._make((None, -1, None, -1, None, -1, -1, -1, None, None))
"""Where the parts of a problem have their columns: targets, bound, centre, tilt and weight."""


def polish(
    problem: Problem, params: Array, dual: Array, stiffness: Array
) -> tuple[Array, Array, Array, Array]:
    """Minimisers and duals of the columns, which of them, (k,), fit the conditions of a minimiser, and which,
    (k,), those of the nearest to the centre as well.

    A minimiser of ``Σ b|y − xᵀv| − <v − c, tilt> + ½ Σ λ (v − c)²`` answers some samples exactly. Given
    which, and on which side the others are, it solves linear equations,

        λ(v − c) − tilt = Σ u x,    xᵀv = y for the samples on the kink,    u = ±b for the others,

    and without a penalty it is the nearest such point to c. Each pass solves them and moves the samples that
    contradict: ``u/b + r/scale`` is within ±1 for those on the kink and gives the side of the others (a
    semi-smooth Newton step). An interior point is off by the root of its gap where a sample is all but on
    the kink, and by rounding over nothing where the penalty and the data leave a direction free; this is not.

    Without a penalty the duals are those of the interior point, corrected. Where there are several
    minimisers the nearest may lie on kinks that bear nothing, u = ±b; there v − c = Σ p x, and p must pull u
    inwards, as a vanishing penalty would: that is what sets the nearest apart.

    The equations of equal samples depend on each other. A diagonal of rounding's size makes them solvable,
    and refinement against the true ones takes its effect out again.
    """
    if not problem.bound.shape[0]:
        none = jnp.zeros(params.shape[1], bool)
        return params, dual, none, none
    smooth = jnp.any(problem.curvature > 0)
    error = problem.targets - problem.rows @ params
    count = jnp.maximum(jnp.sum(problem.used), 1.0)
    size = jnp.abs(problem.targets) + jnp.abs(problem.rows @ problem.centre)
    size = jnp.sum(problem.used * size, axis=0) / count + 1e-30
    scale = jnp.sum(problem.used * jnp.abs(error), axis=0) / count + 1e-6 * size
    place = jnp.where(stiffness * scale > problem.bound, 0.0, 2.0 * jnp.sign(error))
    columns = jax.vmap(_pass, in_axes=(COLUMNS, -1, -1, -1, -1, -1), out_axes=-1)

    def going(state: tuple[Array, Pass]) -> Array:
        return (state[0] < PASSES) & ~jnp.all(state[1].fits & state[1].nearest)

    def improve(state: tuple[Array, Pass]) -> tuple[Array, Pass]:
        turn, best = state
        new = columns(problem, best.place, dual, stiffness, size, scale)
        better = ~(best.fits & best.nearest) & (new.fits >= best.fits)
        best = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, best)
        return turn + 1, best._replace(place=new.place)

    none = jnp.zeros(params.shape[1], bool)
    start = jnp.zeros((), jnp.int32), Pass(place, params, dual, none | smooth, none | smooth)
    _, best = jax.lax.while_loop(going, improve, start)
    return best.params, best.dual, best.fits & ~smooth, best.fits & best.nearest & ~smooth


class Pass(NamedTuple):
    """What a pass found of each column: where its samples lie, a point and its dual, and what they fit."""

    place: Array
    params: Array
    dual: Array
    fits: Array
    nearest: Array


def _pass(problem: Problem, place: Array, dual: Array, stiffness: Array, size: Array, scale: Array) -> Pass:
    """One pass over one column."""
    rows, used, targets, bound = problem.rows, problem.used[:, 0] > 0, problem.targets, problem.bound
    centre, tilt, weight = problem.centre, problem.tilt, problem.weight
    features, most = rows.shape[1], min(rows.shape[0], 2 * rows.shape[1] + 2)
    eps = epsilon(targets)
    near = 1e4 * eps
    heavy = jnp.any(weight > 0)
    # Distances are those of the parameters outside, in units of the least.
    metric = jnp.min(problem.scale) ** 2 / problem.scale[:, 0] ** 2
    penalty = jnp.where(heavy, weight, metric)

    kink = (jnp.abs(place) <= 1.0) & used
    value, index = jax.lax.top_k(jnp.where(kink, stiffness, 0.0), most)
    taken = jnp.where(value > 0, 1.0, 0.0)
    chosen = jnp.zeros_like(kink).at[index].set(value > 0)
    held = jnp.where(used, jnp.where(kink, dual, jnp.clip(place, -1.0, 1.0) * bound), 0.0)
    push = tilt + rows.T @ held
    few = rows[index] * taken[:, None]
    small = 64 * eps * (1.0 + jnp.max(jnp.sum(few**2, axis=1))) / jnp.max(penalty)
    whole = jnp.block([[jnp.diag(penalty), -few.T], [few, jnp.diag(1.0 - taken)]])
    firm = whole + jnp.diag(jnp.concatenate([jnp.zeros_like(penalty), small * taken]))
    # Without a penalty the second right side gives the duals: the part of the push that the kinks bear.
    first = jnp.concatenate([penalty * centre + jnp.where(heavy, push, 0.0), targets[index] * taken])
    second = jnp.concatenate([push, jnp.zeros_like(taken)])
    right = jnp.stack([first, second], axis=1)
    factor = jax.scipy.linalg.lu_factor(firm)

    def refine(_: Array, guess: Array) -> Array:
        return guess + jax.scipy.linalg.lu_solve(factor, right - whole @ guess)

    solved = jax.lax.fori_loop(0, 3, refine, jnp.zeros_like(right))
    params, pull = solved[:features, 0], solved[features:, 0] * taken
    turned = held.at[index].add(jnp.where(heavy, pull, -solved[features:, 1] * taken))
    error = jnp.where(chosen, 0.0, targets - rows @ params)
    answered = jnp.abs(targets - rows @ params) <= near * size
    sided = jnp.where(kink, answered, error * jnp.sign(held) >= -near * size)
    within = jnp.abs(turned) <= bound * (1.0 + near)
    fits = jnp.all((sided & within) | ~used) & jnp.all(jnp.isfinite(params))
    most_pull = jnp.max(jnp.abs(pull) / bound[index]) + 1e-300
    leaning = turned.at[index].add(jnp.where(heavy, 0.0, LEAN * pull / most_pull))
    nearest = jnp.all((jnp.abs(leaning) <= bound * (1.0 + 1e-3 * LEAN)) | ~used)
    return Pass(
        place=leaning / bound + error / scale,
        params=params,
        dual=jnp.clip(turned, -bound, bound),
        fits=fits,
        nearest=nearest,
    )


class InteriorState(NamedTuple):
    progress: Progress
    problem: Problem
    point: Point
    status: Int[Array, " k"]  # how each column stands
    norm: Float[Array, " k"]  # its dual residual
    gap: Float[Array, " k"]  # its duality gap
    slow: Bool[Array, " k"]  # whether the last step left more than half of the gap
    trust: Float[Array, " k"]  # how much of the second-order correction is taken
    goal: Float[Array, ""]  # where the gap should end, in tolerances


class Best(NamedTuple):
    """The best so far of each column, and whether it is the nearest minimiser to the centre."""

    params: Float[Array, "d k"]
    dual: Float[Array, "n k"]
    norm: Float[Array, " k"]
    gap: Float[Array, " k"]
    status: Int[Array, " k"]
    nearest: Bool[Array, " k"]


class InteriorPoint(Solver[InteriorState]):
    """Mehrotra's predictor-corrector interior-point method on the primal-dual pair.

    Each output column is a problem of its own: it takes its own step lengths and stays where it is once it is
    solved, since going on would only lose digits. One iteration costs one pass over the data and one Cholesky
    factor (d, d) per column. It ends when the dual residual and the duality gap of the mean objective are
    both within the tolerance; the residual it reports belongs to the optimal dual u, which is the subgradient
    that FTRL's bookkeeping needs.

    The absolute loss is then solved to the last digit (`polish`). Without a penalty it may have
    many minimisers, a polyhedron, and the method ends in the middle of it. Where the nearest to the centre is
    not found from there, a second run with a penalty that is small enough ends at it: below some size the
    minimiser of a polyhedral function with a penalty *is* the nearest of its minimisers.
    """

    _: KW_ONLY
    tolerance: float = 1e-10
    max_iterations: int = 100

    def init(self, objective: Objective, params: Params, key: Array) -> InteriorState:
        problem = piecewise(objective)
        return self._begin(problem, problem.inside(params), jnp.zeros((), jnp.int32), 1e-4)

    def _begin(self, problem: Problem, params: Array, count: Array, depth: float) -> InteriorState:
        error = problem.targets - problem.rows @ params
        start = 0.1 * jnp.mean(jnp.abs(error), axis=0, keepdims=True) + 1e-3
        zero = jnp.zeros_like(error)
        over, under = jnp.maximum(error, 0.0) + start, jnp.maximum(-error, 0.0) + start
        point = Point(params, zero, over, under, zero + problem.bound, zero + problem.bound)
        goal = jnp.asarray(depth, error.dtype)
        gradient, norm, gap, status = self._judge(problem, point, goal, Status.NOT_FINITE)
        value = jnp.zeros((), norm.dtype)
        return InteriorState(
            progress=Progress(params, value, gradient, count, count + 1, _overall(status)),
            problem=problem,
            point=point,
            status=status,
            norm=norm,
            gap=gap,
            slow=jnp.zeros_like(norm, bool),
            trust=jnp.ones_like(norm),
            goal=goal,
        )

    def _judge(
        self, problem: Problem, point: Point, goal: Array, bad: Status
    ) -> tuple[Array, Array, Array, Array]:
        """Residual, its norm, the gap and the status of each column."""
        gradient = dual_residual(problem, point.params, point.dual)
        norm, gap = _norm(problem, gradient), gap_of(problem, point)
        # A last digit of the gap is worth two of the parameters: go a little further.
        small = (norm <= self._share(norm)) & (gap <= goal * self._share(gap))
        status = jnp.where(small, Status.CONVERGED, Status.RUNNING)
        return gradient, norm, gap, jnp.where(jnp.isfinite(gap) & jnp.isfinite(norm), status, bad)

    def _share(self, columns: Array) -> float:
        return self.tolerance / columns.shape[0]

    def step(self, objective: Objective, state: InteriorState) -> InteriorState:
        problem = state.problem
        point = next_point(problem, state.point, state.slow, state.trust)
        gradient, norm, gap, status = self._judge(problem, point, state.goal, Status.DIVERGED)
        # Where rounding ends the progress, keep the better point and say whether it is good enough.
        limit = self._share(norm)
        good = (state.norm <= limit) & (state.gap <= limit)
        close = (state.norm <= 1e-6) & (state.gap <= 1e-6)
        lost = jnp.maximum(norm, gap) > 10.0 * jnp.maximum(state.norm, state.gap)
        worse = good & ((norm > limit) | (gap > 0.5 * state.gap))
        # The gap can fall for ever; where it is small and the residual does not follow, that is rounding.
        stuck = (state.gap <= limit) & (state.norm > limit) & (norm > 0.5 * state.norm)
        worse |= (status == Status.DIVERGED) | (close & (lost | stuck))
        ended = jnp.where(good, Status.CONVERGED, jnp.where(close, Status.STALLED, Status.DIVERGED))
        running = state.status == Status.RUNNING
        old = (state.point, state.progress.gradient, state.norm, state.gap)
        new = (point, gradient, norm, gap)
        slow = gap > 0.5 * state.gap
        trust = jnp.where(slow, 0.25 * state.trust, state.trust)
        status = jnp.where(running, jnp.where(worse, ended, status), state.status)
        point, gradient, norm, gap = jax.tree.map(lambda a, b: jnp.where(running & ~worse, a, b), new, old)
        count = state.progress.iterations + 1
        progress = Progress(point.params, state.progress.value, gradient, count, count + 1, _overall(status))
        return InteriorState(progress, problem, point, status, norm, gap, slow, trust, state.goal)

    def progress(self, state: InteriorState) -> Progress:
        return state.progress

    def __call__(self, objective: Objective, params: Params, key: Array | None = None) -> Solution:
        """Minimises `objective` from `params`; `key` is not read."""
        state = self.init(objective, params, jax.random.key(0) if key is None else key)
        problem = state.problem
        best = _unpolished(state)

        def going(state: InteriorState) -> Array:
            done = state.progress
            return (done.status == Status.RUNNING) & (done.iterations < self.max_iterations)

        if isinstance(objective.losses.loss, Huber):  # no kinks: nothing to polish
            state = jax.lax.while_loop(going, lambda state: self.step(objective, state), state)
            return self._solution(objective, problem, _unpolished(state), state.progress)

        def again(carry: tuple[Array, InteriorState, Best]) -> Array:
            turn, _, best = carry
            many = ~best.nearest & (best.gap <= 1e-6) & jnp.all(problem.weight <= 0, axis=0)
            return (turn == 0) | ((turn < TURNS) & jnp.any(many & jnp.all(problem.curvature <= 0)))

        def solve(carry: tuple[Array, InteriorState, Best]) -> tuple[Array, InteriorState, Best]:
            turn, state, best = carry
            state = jax.lax.cond(turn == 0, lambda: state, lambda: self._second(problem, state, best))
            state = jax.lax.while_loop(going, lambda state: self.step(objective, state), state)
            return turn + 1, state, self._polished(problem, state, best, turn)

        _, state, best = jax.lax.while_loop(again, solve, (jnp.zeros((), jnp.int32), state, best))
        return self._solution(objective, problem, best, state.progress)

    def _polished(self, problem: Problem, state: InteriorState, old: Best, turn: Array) -> Best:
        """What is kept after a run: its polished end where that is a minimiser, else the end itself."""
        first, point = turn == 0, state.point
        dual = jnp.where(first, point.dual, old.dual)  # those of the first run, which had no penalty
        stiffness = stiffness_of(problem, point)
        params, dual, fits, nearest = polish(problem, point.params, dual, stiffness)
        gradient = dual_residual(problem, params, dual)
        error = problem.targets - problem.rows @ params
        gap = jnp.sum(problem.used * (problem.bound * jnp.abs(error) - dual * error), axis=0)
        norm, limit = _norm(problem, gradient), self._share(gap)
        better = fits & (norm <= limit) & (gap <= limit) & (state.gap <= 1e-6)
        old = jax.tree.map(lambda a, b: jnp.where(first, a, b), _unpolished(state), old)
        ended = jnp.full_like(state.status, Status.CONVERGED)
        new = Best(params, dual, norm, gap, ended, nearest & better)
        take = better & (first | ~old.nearest)
        return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)

    def _second(self, problem: Problem, state: InteriorState, best: Best) -> InteriorState:
        """The start of a run that ends at the nearest minimiser, for the columns that need it."""
        away = jnp.linalg.norm((state.point.params - problem.centre) / problem.scale**2, axis=0)
        each = problem.bound * jnp.linalg.norm(problem.rows, axis=1, keepdims=True)
        force = jnp.sum(problem.used * each, axis=0) / jnp.maximum(jnp.sum(problem.used), 1.0)
        small = 1e-4 * force / jnp.maximum(away, 1e-300)
        weak = problem._replace(weight=small / problem.scale**2)
        begun = self._begin(weak, problem.centre, state.progress.iterations, 1e-10)
        status = jnp.where(best.nearest, Status.CONVERGED, begun.status)
        return begun._replace(status=status, progress=begun.progress._replace(status=_overall(status)))

    def _solution(self, objective: Objective, problem: Problem, best: Best, done: Progress) -> Solution:
        """The solution in the parameters outside."""
        params = problem.outside(best.params)
        gradient = dual_residual(problem, best.params, best.dual)
        residual = problem.basis @ (problem.scale * gradient)
        status = _overall(best.status)
        # Where nothing is left of the gap, its rounding is.
        eps = epsilon(params)
        rounding = eps * jnp.sum(problem.used * problem.bound * jnp.abs(problem.targets)) + 1e-300
        return Solution(
            params=params,
            status=jnp.where(status == Status.RUNNING, Status.ITERATION_CAP, status).astype(jnp.int32),
            value=objective.value(params),
            grad_norm=optax.tree.norm(residual),
            iterations=done.iterations,
            evaluations=done.evaluations,
            residual=residual,
            gap=jnp.maximum(jnp.sum(best.gap), rounding),
            dual=-best.dual,
        )


def _unpolished(state: InteriorState) -> Best:
    """The end of a run as it is."""
    point, no = state.point, jnp.zeros_like(state.norm, bool)
    return Best(point.params, point.dual, state.norm, state.gap, state.status, no)


def _norm(problem: Problem, gradient: Array) -> Array:
    """Of each column's residual, (k,), inside or outside, whichever is larger."""
    return jnp.maximum(jnp.linalg.norm(gradient, axis=0), jnp.linalg.norm(problem.scale * gradient, axis=0))


def _overall(status: Array) -> Array:
    """Running while any column runs; then the worst of their ends, which have the larger numbers."""
    running = jnp.any(status == Status.RUNNING)
    return jnp.where(running, Status.RUNNING, jnp.max(status)).astype(jnp.int32)


interior_point = InteriorPoint
