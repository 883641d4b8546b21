"""Limited memory: a window of the last rounds, or a reservoir of past samples, in place of all of them.

Both estimate the whole sum ``F_t = Σ_{i≤t} l_i``, so that a penalty keeps its meaning beside it: what is
remembered is scaled up to the number of rounds. FTL does not notice a scale; a regularised learner would,
since its weight Λ_t grows with the rounds while a bare window's sum does not.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..errors import UserError
from ..losses import Loss, Squared
from ..policies import Policy
from .objective import Batch, Samples, empty_samples, triangle
from .statistics import Statistics


class Window(eqx.Module):
    """``(t/n) Σ l_i`` over the last ``n = min(t, size)`` rounds, kept in a ring of `size` padded rounds.

    `size` is a number within the room that the buffer has, so that windows of several lengths can share one
    compiled program.
    """

    kept: Samples
    size: Array

    def add(self, batch: Batch) -> Window:
        """The window with one more round, in the place of the oldest."""
        kept, rows = self.kept, batch.inputs.shape[0]
        rounds = kept.rounds + 1
        # Padding weighs nothing, so a ring of whole rounds may hold it.
        kept = kept.put(batch, (kept.rounds % self.size) * rows)
        counts = jnp.minimum(rounds, self.size) * rows, rounds
        return Window(eqx.tree_at(lambda one: (one.filled, one.rounds), kept, counts), self.size)

    def recall(self) -> Samples:
        """The estimate of F_t."""
        held = jnp.minimum(self.kept.rounds, self.size)
        return _scaled(self.kept, self.kept.rounds, held)


class Reservoir(eqx.Module):
    """``(N/n) Σ_{s kept} weight_s D_s``: n = min(N, size) of the N samples so far, each kept with probability
    n/N.

    Every sample draws a number once, and those with the least are kept: at any time a uniform sample without
    replacement. With the weight a sample has in its own round (1/M_i) times N/n the sum is an unbiased
    estimate of F_t, also where rounds differ in size.
    """

    kept: Samples
    luck: Array
    """The numbers drawn by the samples kept, in order; infinite where the buffer is empty."""
    seen: Array
    """N, the samples so far."""
    size: Array
    key: Array

    def add(self, batch: Batch) -> Reservoir:
        """The reservoir after one more round."""
        kept, rows = self.kept, batch.inputs.shape[0]
        new = jax.random.uniform(jax.random.fold_in(self.key, kept.rounds), (rows,), self.luck.dtype)
        new = jnp.where(jnp.arange(rows) < batch.size, new, jnp.inf)  # padding is never kept
        luck = jnp.concatenate([self.luck, new])
        order = jnp.argsort(luck)[: self.luck.shape[0]]
        alive = (jnp.arange(self.luck.shape[0]) < self.size) & jnp.isfinite(luck[order])

        def pick(buffer: Array, more: Array) -> Array:
            return jnp.concatenate([buffer, more.astype(buffer.dtype)])[order]

        seen = self.seen + batch.size
        weights = pick(kept.weights, batch.weights)  # of samples, or of the rows of sequences
        weights = jnp.where(alive.reshape(-1, *[1] * (weights.ndim - 1)), weights, 0.0)
        inputs, targets = pick(kept.inputs, batch.inputs), pick(kept.targets, batch.targets)
        kept = eqx.tree_at(
            lambda one: (one.inputs, one.targets, one.weights, one.filled, one.rounds),
            kept,
            (inputs, targets, weights, jnp.minimum(seen, self.size), kept.rounds + 1),
        )
        return Reservoir(kept, jnp.where(alive, luck[order], jnp.inf), seen, self.size, self.key)

    def recall(self) -> Samples:
        """The estimate of F_t."""
        return _scaled(self.kept, self.seen, jnp.minimum(self.seen, self.size))


class Limited(eqx.Module):
    """All losses, by which a learner is judged, and the memory, which is all that it may learn from."""

    whole: Samples | Statistics
    memory: Window | Reservoir

    def add(self, batch: Batch) -> Limited:
        return Limited(self.whole.add(batch), self.memory.add(batch))

    @property
    def rounds(self) -> Array:
        return self.whole.rounds

    def recall(self) -> Samples | Statistics:
        """What is remembered, in the form of the whole: samples, or their statistics."""
        kept = self.memory.recall()
        return condensed(kept, self.whole) if isinstance(self.whole, Statistics) else kept


def condensed(kept: Samples, like: Statistics) -> Statistics:
    """The statistics of kept samples (linear policy, squared loss)."""
    rows = jnp.concatenate([like.policy.design(kept.inputs), kept.targets], axis=1)
    rows = rows * jnp.sqrt(like.loss.scale * kept.weights)[:, None]
    factor = triangle(jnp.zeros_like(like.factor), rows.astype(like.factor.dtype))
    return Statistics(like.policy, like.loss, factor, kept.rounds, like.rounding, like.features)


def window(
    policy: Policy, loss: Loss | Squared, like: Batch, size: int, *, room: int | None = None
) -> Window:
    """A window of `size` rounds shaped like `like`; `room` (default `size`) is how many the buffer can hold.

    >>> import numpy as np
    >>> from understudy.policies import Linear
    >>> from understudy.objectives import batch
    >>> rounds = [batch(np.full((1, 1), float(t)), np.zeros((1, 1))) for t in (1, 2, 3)]
    >>> kept = window(Linear(), Squared(), rounds[0], 2)
    >>> for one in rounds:
    ...     kept = kept.add(one)
    >>> float(kept.recall().value(np.ones((1, 1))))  # 3/2 · (2² + 3²)
    19.5
    """
    capacity = (size if room is None else room) * like.inputs.shape[0]
    return Window(empty_samples(policy, loss, like, capacity=capacity), jnp.asarray(size, jnp.int32))


def reservoir(
    policy: Policy, loss: Loss | Squared, like: Batch, size: int, *, key: Array, room: int | None = None
) -> Reservoir:
    """A reservoir of `size` samples shaped like the rows of `like`; `room` (default `size`) as for
    `window`.
    """
    kept = empty_samples(policy, loss, like, capacity=size if room is None else room)
    luck = jnp.full(kept.weights.shape[:1], jnp.inf, kept.weights.dtype)
    number = jnp.asarray(size, jnp.int32)
    return Reservoir(kept, luck, jnp.zeros((), jnp.int32), number, key)


def parse_memory(memory: str) -> tuple[str, int] | None:
    """What "window:20" or "reservoir:500" asks for, None for "all", or one sentence.

    >>> parse_memory("window:20"), parse_memory("all")
    (('window', 20), None)
    """
    if memory == "all":
        return None
    kind, _, number = memory.partition(":") if isinstance(memory, str) else ("", "", "")
    if kind not in ("window", "reservoir") or not number.isdecimal() or int(number) < 1:
        raise UserError(f"memory: {memory!r} is not 'all', 'window:ROUNDS' or 'reservoir:SAMPLES'.")
    return kind, int(number)


def limited(
    memory: str, whole: Samples | Statistics, like: Batch, *, rounds: int, samples: int, key: Array
) -> Samples | Statistics | Limited:
    """`whole`, or it with the memory asked for; a run has at most `rounds` rounds and `samples` samples, and
    no memory needs more room.
    """
    asked = parse_memory(memory)
    if asked is None:
        return whole
    kind, size = asked
    if kind == "window":
        return Limited(whole, window(whole.policy, whole.loss, like, min(size, rounds)))
    return Limited(whole, reservoir(whole.policy, whole.loss, like, min(size, samples), key=key))


def _scaled(kept: Samples, total: Array, held: Array) -> Samples:
    share = total.astype(kept.weights.dtype) / jnp.maximum(held, 1)
    return eqx.tree_at(lambda one: one.weights, kept, kept.weights * share)
