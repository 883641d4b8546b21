"""Compiled rounds: one program for all games that differ in numbers only, alone, in a loop or together."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .data import Batch
from .errors import UserError
from .learners import Learner, Schedule
from .objectives import Losses, plain
from .online import Game, GameState
from .policies import Params
from .solvers.base import is_data


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
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *numbers)
    return functools.partial(_compiled(keys[0], _constant(games), True), stacked)
