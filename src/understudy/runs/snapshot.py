"""A run after a round as plain arrays, and the run that goes on from them bit for bit."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UserError
from ..objectives import Limited, Samples, Statistics
from ..online import GameState, copies
from ..policies import Normaliser
from .state import Best, RunState, precision
from .trees import keys_again, plain_keys

COUNTS = ("round", "interactions", "queries", "unanswered", "breaks")


def taken(run: RunState, slots: list[dict[str, Any]]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and plain data from which `restored` continues bit for bit; `slots` are the collector's.

    The samples are on the disk already; where the log keeps none, the learner's buffer is among the arrays.
    """
    arrays = {f"state.{i:03d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(_small(run)))}
    arrays |= {"mean": run.normaliser.mean, "scale": run.normaliser.scale}
    arrays |= _listed("recent", run.recent)
    arrays |= {} if run.best is None else _listed("best", run.best.members)
    arrays |= {} if run.cut is None else run.cut.arrays()
    for i, slot in enumerate(slots):
        arrays |= {f"slot.{i:03d}.{name}": kept for name, kept in slot.items() if name != "episode"}
    plain = {name: getattr(run, name) for name in (*COUNTS, "measuring")} | {
        "rows": run.samples.rows,
        "episodes": [slot["episode"] for slot in slots],
        "automatic": None if run.automatic is None else run.automatic.numbers(),
        "visited": None if run.visited is None else run.visited.numbers(),
        "best": run.best and [run.best.mean, run.best.round],
    }
    return arrays, plain


def restored(
    run: RunState,
    arrays: dict[str, np.ndarray],
    plain: dict[str, Any],
    rows: list[dict[str, Any]],
    times: list[Any],
) -> list[dict[str, Any]]:
    """Back to a snapshot, whose samples must be there already; gives the `slots` of it."""
    for name in COUNTS:
        setattr(run, name, plain[name])
    run.measuring += plain.get("measuring", 0)
    run.rows, run.times = rows, times
    run.see_as(Normaliser(arrays["mean"], arrays["scale"]))
    if run.automatic is not None:
        run.automatic.restore(plain["automatic"])
    if run.visited is not None:
        run.visited.restore(plain["visited"])
    with precision(run.game):
        leaves, structure = jax.tree.flatten(_small(run))
        kept = copies([arrays[f"state.{i:03d}"] for i in range(len(leaves))])
        if any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(kept, leaves, strict=True)):
            raise UserError("run: the checkpoint is damaged: its arrays are not those of this run.")
        _refill(run, jax.tree.unflatten(structure, kept))
        if run.cut is not None:
            run.cut.restore(arrays)
        run.params = jax.tree.map(np.array, run.state.learner.params)
    run.recent = _unlisted(run, "recent", arrays)
    if plain.get("best") is not None:
        mean, number = plain["best"]
        run.best = Best(mean, number, _unlisted(run, "best", arrays))
    slots: list[dict[str, Any]] = [{"episode": n} for n in plain["episodes"]]
    for name, kept in arrays.items():
        if name.startswith("slot."):
            number, _, what = name.removeprefix("slot.").partition(".")
            slots[int(number)][what] = kept
    return slots


def _unlisted(run: RunState, name: str, arrays: dict[str, np.ndarray]) -> list[Any]:
    """The policies of that name, from a snapshot."""
    leaves, structure = jax.tree.flatten(run.params)
    count = sum(one.startswith(f"{name}.") for one in arrays) // len(leaves)
    return [
        jax.tree.unflatten(structure, [arrays[f"{name}.{k:03d}.{i:03d}"] for i in range(len(leaves))])
        for k in range(count)
    ]


def _small(run: RunState) -> tuple[Any, ...]:
    """The state without the buffer of samples, unless they are nowhere else."""
    losses, memory = run.state.losses, None
    if isinstance(losses, Limited):
        losses, memory = losses.whole, plain_keys(losses.memory)
    kept = [getattr(losses, name) for name in _names(run, losses)]
    return (*run.state._replace(losses=None), kept, losses.rounds, memory)


def _names(run: RunState, losses: Any) -> tuple[str, ...]:
    """The arrays of the losses, beside the rounds, that a snapshot holds."""
    if isinstance(losses, Statistics):
        return "factor", "rounding"
    buffer = () if run.samples.keeps or run.reader is not None else ("inputs", "targets", "weights")
    return "filled", *buffer


def _refill(run: RunState, small: tuple[Any, ...]) -> None:
    """Sets the state from what `_small` gave, and fills the buffer from the samples on the disk."""
    learner, _, comparator, running, cumulative, kept, rounds, memory = small
    whole = run.state.losses
    losses = whole.whole if isinstance(whole, Limited) else whole
    names = (*_names(run, losses), "rounds")
    if isinstance(losses, Statistics) or run.reader is not None or not run.samples.keeps:
        losses = eqx.tree_at(lambda one: [getattr(one, name) for name in names], losses, [*kept, rounds])
    else:
        assert isinstance(losses, Samples)
        columns = [run.samples.column(name) for name in ("inputs", "targets", "weights", "slots")]
        done = np.diff([0, *(row["interactions"] for row in run.rows)]).tolist()
        done[:1] = done[:1] if run.parts.demos is None else [len(run.parts.demos)]
        first = 0
        for size in done:
            part = slice(first, first + size)
            rows: list[Any] = [np.asarray(column[part]) for column in columns]
            if run.on_device:  # its arithmetic differs from NumPy's in the last bit
                rows[:2] = map(jnp.asarray, rows[:2])
            losses, first = _add(losses, run.batch(*rows)), first + size
    if isinstance(whole, Limited):
        losses = Limited(losses, keys_again(memory, whole.memory))
    run.state = GameState(learner, losses, comparator, running, cumulative)


def _listed(name: str, policies: list[Any]) -> dict[str, np.ndarray]:
    """The leaves of policies by name and number."""
    return {
        f"{name}.{k:03d}.{i:03d}": leaf
        for k, params in enumerate(policies)
        for i, leaf in enumerate(jax.tree.leaves(params))
    }


_add = jax.jit(lambda losses, one: losses.add(one), donate_argnums=0)
