"""What selects a compiled program and what is data to it; rounds compiled, so that all games that differ in
numbers only share one program, alone, in a loop or together; and the trees of arrays that programs take.

The environments of a run are spread over the devices, and a round comes together on the first; runs that are
solved together are spread run by run. With one device nothing is spread.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jax.typing import ArrayLike

from .errors import UserError
from .learners import Learner, Schedule
from .objectives import Batch, Losses, plain
from .policies import Params, Policy
from .solvers import is_data

if TYPE_CHECKING:
    from .online import Game, GameState, Record

Tree = TypeVar("Tree")
"""A pytree: one array, or arrays in containers."""


class Play(Protocol):
    """`Game.play`, compiled."""

    def __call__(
        self, state: GameState, batch: Batch, key: Array, compare: ArrayLike | None, /
    ) -> tuple[GameState, Record]: ...


class PlayStream(Protocol):
    """Rounds start … stop − 1 of a stream, compiled."""

    def __call__(
        self,
        state: GameState,
        rounds: Batch,
        keys: Array,
        compared: ArrayLike | None,
        start: ArrayLike,
        stop: ArrayLike,
        /,
    ) -> tuple[GameState, Record]: ...


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


def _halves(game: Game) -> tuple[Game, Static]:
    """The numbers of a game (a game with None for the rest), and what selects its program."""
    if isinstance(game.learner, Learner):
        # The name is for people: learners that differ by numbers only are one program.
        game = dataclasses.replace(game, learner=dataclasses.replace(game.learner, name=""))
    arrays, static = eqx.partition(game, is_data(game))
    return arrays, Static(static)


@functools.lru_cache(maxsize=64)
def _compiled(static: Static, constant: Constant, together: bool) -> Callable[..., tuple[GameState, Record]]:
    play = _player(static, constant)
    return jax.jit(jax.vmap(play, in_axes=(0, 0, 0, 0, None)) if together else play, donate_argnums=1)


def _row(rows: Array, i: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(rows, i, keepdims=False, allow_negative_indices=False)


def _with_row(rows: Array, row: Array, i: Array) -> Array:
    """``rows.at[i].set(row)`` for an i that is known to be inside, at a tenth of the compiling."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, i, axis=0, allow_negative_indices=False)


@functools.lru_cache(maxsize=64)
def _streamed(static: Static, constant: Constant, keep: bool) -> Callable[..., tuple[GameState, Record]]:
    play = _player(static, constant)

    @jax.jit  # traced once, though its shapes are asked for before the loop calls it
    def turn(
        numbers: Game, state: GameState, round: Batch, key: Array, compare: Array | None
    ) -> tuple[GameState, Record]:
        played, policy = state.learner.params, eqx.combine(numbers, static.value).policy
        extra = {"outputs": policy.apply(played, round.inputs)} | ({"params": played} if keep else {})
        new, record = play(numbers, state, round, key, compare)
        return new, record | extra

    def play_stream(
        numbers: Game,
        state: GameState,
        rounds: Batch,
        keys: Array,
        compared: Array | None,
        start: Array,
        stop: Array,
    ) -> tuple[GameState, Record]:
        def at(i: Array) -> tuple[Batch, Array, Array | None]:
            return jax.tree.map(lambda leaf: _row(leaf, i), (rounds, keys, compared))

        def body(i: Array, carry: tuple[GameState, Record]) -> tuple[GameState, Record]:
            state, record = turn(numbers, carry[0], *at(i))
            return state, jax.tree.map(lambda rows, row: _with_row(rows, row, i), carry[1], record)

        shapes = jax.eval_shape(turn, numbers, state, *at(start))[1]
        empty = jax.tree.map(lambda row: jnp.zeros((len(keys), *row.shape), row.dtype), shapes)
        return jax.lax.fori_loop(start, stop, body, (state, empty))

    return jax.jit(play_stream, donate_argnums=1)


@functools.lru_cache(maxsize=64)
def _solver(static: Static, mapped: bool) -> Callable[..., Params]:
    def solve(numbers: Game, losses: Losses, start: Params, key: Array) -> Params:
        solver = eqx.combine(numbers, static.value).solver
        with jax.default_matmul_precision("highest"):
            return solver(plain(losses, start), start, key).params

    return jax.jit(jax.vmap(solve, in_axes=(None, None, 0, 0)) if mapped else solve)


class Constant(NamedTuple):
    """What a program takes for granted of its learners, so that the compiler leaves out the rest."""

    around_last: bool | None = None
    """Their centre; None: it is one of the numbers."""
    free: bool = False
    """Whether they have no penalty, as FTL."""


def _player(static: Static, constant: Constant) -> Callable[..., tuple[GameState, Record]]:
    """`Game.play` with the game's numbers for a first argument."""

    def play_round(
        numbers: Game, state: GameState, batch: Batch, key: Array, compare: Array | None
    ) -> tuple[GameState, Record]:
        game = eqx.combine(numbers, static.value)
        if constant.around_last is not None:
            game = eqx.tree_at(lambda g: g.learner.around_last, game, np.asarray(constant.around_last))
        if constant.free:
            game = eqx.tree_at(lambda g: g.learner.schedule, game, Schedule())
        with jax.default_matmul_precision("highest"):  # a GPU would multiply with ten bits
            return game.play(state, batch, key, compare)

    return play_round


def _constant(games: Sequence[Game]) -> Constant:
    """What the games have in common. Nothing for a linear policy, whose program is small and better shared; a
    network's holds a copy of the network for each use.
    """
    learners = [game.learner for game in games if isinstance(game.learner, Learner)]
    if not learners:
        return Constant()
    centres = {bool(learner.around_last) for learner in learners}
    centre = centres.pop() if len(centres) == 1 else None
    if games[0].policy.linear:
        return Constant(centre if len(games) > 1 else None)  # a vmapped program is not shared
    return Constant(centre, all(learner.schedule.zero for learner in learners))


def program(game: Game) -> Hashable:
    """What games must have in common to share a compiled program."""
    numbers, static = _halves(game)
    return static, tuple(np.shape(leaf) for leaf in jax.tree.leaves(numbers))


READY = 8
"""Games whose program is found at once, without a look at what they have in common with others."""
_READY: dict[int, tuple[Game, Play]] = {}


def compiled(game: Game) -> Play:
    """`game.play`, compiled once for all games that differ in numbers only (networks: and have the same
    centre). The state is donated.
    """
    known = _READY.get(id(game))
    if known is None or known[0] is not game:
        numbers, static = _halves(game)
        while len(_READY) >= READY:
            _READY.pop(next(iter(_READY)), None)
        known = _READY[id(game)] = (
            game,
            functools.partial(_compiled(static, _constant([game]), False), numbers),
        )
    return known[1]


def alone(
    game: Game, state: GameState, samples: Batch, key: Array, compare: ArrayLike | None
) -> tuple[GameState, Record]:
    """A round of one game by itself."""
    return compiled(game)(to_one_device(state), samples, key, compare)


def compiled_solver(game: Game, *, mapped: bool = False) -> Callable[[Losses, Params, Array], Params]:
    """The game's solver on the sum of some losses, without a penalty: from a start and a key to the
    parameters that it ends with. `mapped`: from several, stacked. Compiled once for all games that differ in
    numbers only.
    """
    numbers, static = _halves(game)
    return functools.partial(_solver(static, mapped), numbers)


def compiled_stream(game: Game, *, keep: bool = False) -> PlayStream:
    """Many rounds in one compiled loop: ``run(state, rounds, keys, compared, start, stop)``.

    `rounds`, `keys` and `compared` (whether to find the best in hindsight; None: never) have one entry a
    round in front, and rounds start … stop − 1 of them are played. Which these are is data: one program for
    all, and the same bits whether they are played in one call or in several. Returns the state after them and
    their records, stacked, of which the entries start … stop − 1 are written. A record also has the
    `outputs` on the round's samples of the policy that was played and, with `keep`, its `params`. The state
    is donated.
    """
    numbers, static = _halves(game)
    return functools.partial(_streamed(static, _constant([game]), keep), numbers)


def compiled_together(games: Sequence[Game]) -> Play:
    """`play` of many games of one program at once: states, batches and keys are stacked, `compare` is for
    all.

    It is the fast way on a GPU; a CPU is faster with one after another.
    """
    numbers, statics = zip(*map(_halves, games), strict=True)
    together = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *numbers)
    return functools.partial(_compiled(statics[0], _constant(games), True), together)


@jax.jit
def stacked(trees: Sequence[Tree]) -> Tree:
    """Trees of one shape as one, with their number in front of every array: one program for all arrays.

    >>> stacked([(1.0, 2.0), (3.0, 4.0)])[1].tolist()
    [2.0, 4.0]
    """
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@functools.partial(jax.jit, static_argnums=1)
def apart(tree: Tree, count: int) -> list[Tree]:
    """The `count` trees that were `stacked`.

    >>> [part.tolist() for part in apart(jnp.array([[1, 2], [3, 4]]), 2)]
    [[1, 2], [3, 4]]
    """
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(count)]


def kind(tree: Any) -> Hashable:
    """What trees of arrays that one program takes have in common: their structure, shapes and types.

    >>> kind({"w": jnp.zeros(2)}) == kind({"w": jnp.ones(2)}), kind(jnp.zeros(2)) == kind(jnp.zeros(3))
    (True, False)
    """
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def architecture(policy: Policy) -> Hashable:
    """What policies that act through one program have in common; arrays inside of them must be the same."""
    leaves, structure = jax.tree.flatten(policy)
    return structure, tuple(map(id, leaves))


def over_devices(tree: Tree) -> Tree:
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


def to_one_device(tree: Tree) -> Tree:
    """The same arrays on the first device, where they are spread."""
    if len(jax.devices()) == 1:
        return tree
    return jax.device_put(tree, SingleDeviceSharding(jax.devices()[0]))


def _is_key(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain_keys(tree: Tree) -> Tree:
    """The tree with keys as their numbers.

    >>> plain_keys({"key": jax.random.key(3), "other": jnp.ones(1)})["key"].tolist()
    [0, 3]
    """
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def keys_again(tree: Tree, like: Tree) -> Tree:
    """The tree whose keys `plain_keys` replaced; `like` is a tree with the same kinds of leaves."""

    def restored(leaf: Array, model: Array) -> Array:
        return jax.random.wrap_key_data(leaf, impl="threefry2x32") if _is_key(model) else leaf

    return jax.tree.map(restored, tree, like)
