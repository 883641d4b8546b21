"""What selects a compiled program and what is data to it; rounds compiled, so that all games that differ in
numbers only share one program, alone, in a loop or together; and the trees of arrays that programs take.

The environments of a run are spread over the devices, and a round comes together on the first; runs that are
solved together are spread run by run. With one device nothing is spread.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jax.typing import ArrayLike

from .errors import UserError
from .learners import Learner, Schedule
from .objectives import Batch, Losses, Objective, plain
from .policies import Params
from .solvers import Solution, Solver
from .solvers.base import solved

if TYPE_CHECKING:
    from .online import Game, GameState


def is_data(tree: Any) -> Any:
    """Which leaves of a tree are data of a program: all arrays, and the numbers of a `Solver` (not its
    switches). Numbers elsewhere, as in a solver of one's own that is no `Solver`, select the program.
    """

    def number(value: Any) -> bool:
        return eqx.is_array(value) or (isinstance(value, (int, float)) and not isinstance(value, bool))

    def part(value: Any) -> Any:
        return jax.tree.map(number if isinstance(value, Solver) else eqx.is_array, value)

    return jax.tree.map(part, tree, is_leaf=lambda value: isinstance(value, Solver))


def _split(tree: Any) -> tuple[Any, Any]:
    return eqx.partition(tree, is_data(tree))


class Task(NamedTuple):
    """A solver, what it minimises and from where."""

    solver: Any
    objective: Objective
    params: Params


def alike(one: Task, other: Task) -> bool:
    """Whether two tasks are on the same losses and differ in data only (see `is_data`)."""

    def form(task: Task) -> tuple[Any, ...]:
        numbers, rest = _split((task.solver, task.params))
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

    (numbers, rest), (other, _) = _split(parts(first)), _split(parts(second))

    def task(number: Any) -> Solution:
        def pick(a: Any, b: Any) -> Any:
            return a if a is b else jnp.where(number == 0, a, b)

        solver, params, *penalty = eqx.combine(jax.tree.map(pick, numbers, other), rest)
        return solved(solver, Objective(first.objective.losses, *penalty, penalised=penalised), params, key)

    def turn(number: Any, found: tuple[Solution, Solution]) -> tuple[Solution, Solution]:
        return found[1], task(number)

    none = jax.eval_shape(task, jnp.zeros((), jnp.int32))
    none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), none)
    begin = jnp.where(wanted, 0, 1).astype(jnp.int32)
    return jax.lax.fori_loop(begin, jnp.int32(2), turn, (none, none))


class Static:
    """What selects a program, such as the half of a game that is no data: any pytree, made hashable."""

    def __init__(self, value: Any):
        leaves, structure = jax.tree.flatten(value)
        self.value, self.identity = value, (tuple(leaves), structure)
        try:
            hash(self.identity)
        except TypeError:
            kinds = ", ".join(sorted({type(leaf).__name__ for leaf in leaves}))
            raise UserError(f"axes: {kinds} cannot be hashed; give numbers or fixed objects.") from None

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.identity == other.identity


def _halves(game: Game) -> tuple[Any, Static]:
    """The numbers of a game, and what selects its program."""
    if isinstance(game.learner, Learner):
        # The name is for people: learners that differ by numbers only are one program.
        game = dataclasses.replace(game, learner=dataclasses.replace(game.learner, name=""))
    arrays, static = eqx.partition(game, is_data(game))
    return arrays, Static(static)


@functools.lru_cache(maxsize=64)
def _compiled(static: Any, constant: Constant, together: bool) -> Any:
    play = _player(static, constant)
    return jax.jit(jax.vmap(play, in_axes=(0, 0, 0, 0, None)) if together else play, donate_argnums=1)


def _row(rows: Array, i: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(rows, i, keepdims=False, allow_negative_indices=False)


def _with_row(rows: Array, row: Array, i: Array) -> Array:
    """``rows.at[i].set(row)`` for an i that is known to be inside, at a tenth of the compiling."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, i, axis=0, allow_negative_indices=False)


@functools.lru_cache(maxsize=64)
def _streamed(static: Any, constant: Constant, keep: bool) -> Any:
    play = _player(static, constant)

    @jax.jit  # traced once, though its shapes are asked for before the loop calls it
    def turn(arrays: Any, state: GameState, one: Batch, key: Array, judge: Array | None) -> Any:
        played, policy = state.learner.params, eqx.combine(arrays, static.value).policy
        extra = {"outputs": policy.apply(played, one.inputs)} | ({"params": played} if keep else {})
        new, record = play(arrays, state, one, key, judge)
        return new, record | extra

    def run(
        arrays: Any, state: GameState, rounds: Batch, keys: Array, judged: Any, start: Array, stop: Array
    ) -> tuple[GameState, dict[str, Any]]:
        def at(i: Array) -> Any:
            return jax.tree.map(lambda leaf: _row(leaf, i), (rounds, keys, judged))

        def body(i: Array, carry: tuple[GameState, Any]) -> tuple[GameState, Any]:
            state, record = turn(arrays, carry[0], *at(i))
            return state, jax.tree.map(lambda rows, row: _with_row(rows, row, i), carry[1], record)

        shapes = jax.eval_shape(turn, arrays, state, *at(start))[1]
        empty = jax.tree.map(lambda row: jnp.zeros((len(keys), *row.shape), row.dtype), shapes)
        return jax.lax.fori_loop(start, stop, body, (state, empty))

    return jax.jit(run, donate_argnums=1)


@functools.lru_cache(maxsize=64)
def _solver(static: Any, mapped: bool) -> Any:
    def solve(arrays: Any, losses: Any, start: Any, key: Array) -> Any:
        solver = eqx.combine(arrays, static.value).solver
        with jax.default_matmul_precision("highest"):
            return solver(plain(losses, start), start, key).params

    return jax.jit(jax.vmap(solve, in_axes=(None, None, 0, 0)) if mapped else solve)


class Constant(NamedTuple):
    """What a program takes for granted of its learners, so that the compiler leaves out the rest."""

    around_last: bool | None = None
    """Their centre; None: it is one of the numbers."""
    free: bool = False
    """Whether they have no penalty, as FTL."""


def _player(static: Any, constant: Constant) -> Callable[..., Any]:
    """`Game.play` with the game's numbers for a first argument."""

    def play(arrays: Any, state: GameState, batch: Batch, key: Array, judge: Array | None) -> Any:
        game = eqx.combine(arrays, static.value)
        if constant.around_last is not None:
            game = eqx.tree_at(lambda one: one.learner.around_last, game, np.asarray(constant.around_last))
        if constant.free:
            game = eqx.tree_at(lambda one: one.learner.schedule, game, Schedule())
        with jax.default_matmul_precision("highest"):  # a GPU would multiply with ten bits
            return game.play(state, batch, key, judge)

    return play


def _constant(games: Sequence[Game]) -> Constant:
    """What the games have in common. Nothing for a linear policy, whose program is small and better shared; a
    network's holds a copy of the network for each use.
    """
    if not isinstance(games[0].learner, Learner):
        return Constant()
    centres = {bool(game.learner.around_last) for game in games}
    centre = centres.pop() if len(centres) == 1 else None
    if games[0].policy.linear:
        return Constant(centre if len(games) > 1 else None)  # a vmapped program is not shared
    return Constant(centre, all(game.learner.schedule.zero for game in games))


def program(game: Game) -> Any:
    """What games must have in common to share a compiled program; hashable."""
    arrays, static = _halves(game)
    return static, tuple(np.shape(leaf) for leaf in jax.tree.leaves(arrays))


def compiled(
    game: Game,
) -> Callable[[GameState, Batch, Array, ArrayLike | None], tuple[GameState, dict[str, Array]]]:
    """`game.play`, compiled once for all games that differ in numbers only (networks: and have the same
    centre). The state is donated.
    """
    arrays, static = _halves(game)
    return functools.partial(_compiled(static, _constant([game]), False), arrays)


def compiled_solver(game: Game, *, mapped: bool = False) -> Callable[[Losses, Params, Array], Params]:
    """The game's solver on the sum of some losses, without a penalty: from a start and a key to the
    parameters that it ends with. `mapped`: from several, stacked. Compiled once for all games that differ in
    numbers only.
    """
    arrays, static = _halves(game)
    return functools.partial(_solver(static, mapped), arrays)


def compiled_stream(game: Game, *, keep: bool = False) -> Callable[..., tuple[GameState, dict[str, Any]]]:
    """Many rounds in one compiled loop: ``run(state, rounds, keys, judged, start, stop)``.

    `rounds`, `keys` and `judged` (whether to find the best in hindsight; None: never) have one entry a round
    in front, and rounds start … stop − 1 of them are played. Which these are is data: one program for all,
    and the same bits whether they are played in one call or in several. Returns the state after them and
    their records, stacked, of which the entries start … stop − 1 are written. A record also has the
    `outputs` on the round's samples of the policy that was played and, with `keep`, its `params`. The state
    is donated.
    """
    arrays, static = _halves(game)
    return functools.partial(_streamed(static, _constant([game]), keep), arrays)


def compiled_together(games: Sequence[Game]) -> Callable[[GameState, Batch, Array, ArrayLike | None], Any]:
    """`play` of many games of one program at once: states, batches and keys are stacked, `judge` is for all.

    It is the fast way on a GPU; a CPU is faster with one after another.
    """
    numbers, keys = zip(*map(_halves, games), strict=True)
    together = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *numbers)
    return functools.partial(_compiled(keys[0], _constant(games), True), together)


@jax.jit
def stacked(trees: Sequence[Any]) -> Any:
    """Trees of one shape as one, with their number in front of every array: one program for all arrays.

    >>> stacked([(1.0, 2.0), (3.0, 4.0)])[1].tolist()
    [2.0, 4.0]
    """
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnums=1)
def apart(tree: Any, count: int) -> list[Any]:
    """The `count` trees that were `stacked`.

    >>> [one.tolist() for one in apart(jnp.array([[1, 2], [3, 4]]), 2)]
    [[1, 2], [3, 4]]
    """
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(count)]


def kind(tree: Any) -> Any:
    """What trees of arrays that one program takes have in common: their structure, shapes and types.

    >>> kind({"w": jnp.zeros(2)}) == kind({"w": jnp.ones(2)}), kind(jnp.zeros(2)) == kind(jnp.zeros(3))
    (True, False)
    """
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def architecture(policy: Any) -> Any:
    """What policies that act through one program have in common; arrays inside of them must be the same."""
    leaves, structure = jax.tree.flatten(policy)
    return structure, tuple(map(id, leaves))


def over_devices(tree: Any) -> Any:
    """Arrays with n in front, spread over all devices where their number divides n.

    >>> over_devices(jax.numpy.zeros(3)).shape
    (3,)
    """
    devices = jax.devices()
    leaves = jax.tree.leaves(tree)
    if len(devices) == 1 or any(leaf.ndim == 0 or leaf.shape[0] % len(devices) for leaf in leaves):
        return tree
    place = NamedSharding(Mesh(devices, ("lanes",)), PartitionSpec("lanes"))
    return jax.device_put(tree, place)


def to_one_device(tree: Any) -> Any:
    """The same arrays on the first device, where they are spread."""
    if len(jax.devices()) == 1:
        return tree
    return jax.device_put(tree, SingleDeviceSharding(jax.devices()[0]))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain_keys(tree: Any) -> Any:
    """The tree with keys as their numbers.

    >>> plain_keys({"key": jax.random.key(3), "other": jnp.ones(1)})["key"].tolist()
    [0, 3]
    """
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def keys_again(tree: Any, like: Any) -> Any:
    """What `plain_keys` was made of; `like` is a tree with the same kinds of leaves."""

    def kind(leaf: Array, was: Any) -> Array:
        return jax.random.wrap_key_data(leaf, impl="threefry2x32") if _is_key(was) else leaf

    return jax.tree.map(kind, tree, like)
