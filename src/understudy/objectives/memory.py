"""Limited memory: a window of the last rounds, or a reservoir of past samples, in place of all of them.

Both estimate the whole sum ``F_t = Σ_{i≤t} l_i``, so that a penalty keeps its meaning beside it: what is
remembered is scaled up to the number of rounds. FTL does not notice a scale; a regularised learner would,
since its weight Λ_t grows with the rounds while a bare window's sum does not.
"""

# pyright: reportUnknownMemberType=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import dataclasses

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

    samples: Samples
    size: Array

    def add(self, batch: Batch) -> Window:
        """The window with one more round, in the place of the oldest."""
        old, rows = self.samples, batch.inputs.shape[0]
        rounds = old.rounds + 1
        # Padding weighs nothing, so a ring of whole rounds may hold it.
        new = old.put(batch, (old.rounds % self.size) * rows)
        filled = jnp.minimum(rounds, self.size) * rows
        return Window(dataclasses.replace(new, filled=filled, rounds=rounds), self.size)

    def recall(self) -> Samples:
        """The estimate of F_t."""
        held = jnp.minimum(self.samples.rounds, self.size)
        return _scaled(self.samples, self.samples.rounds, held)


class Reservoir(eqx.Module):
    """``(N/n) Σ_{s kept} weight_s D_s``: n = min(N, size) of the N samples so far, each kept with probability
    n/N.

    Every sample draws a number once, and those with the least are kept: at any time a uniform sample without
    replacement. With the weight a sample has in its own round (1/M_i) times N/n the sum is an unbiased
    estimate of F_t, also where rounds differ in size.
    """

    samples: Samples
    luck: Array
    """The numbers drawn by the samples kept, in order; infinite where the buffer is empty."""
    seen: Array
    """N, the samples so far."""
    size: Array
    key: Array

    def add(self, batch: Batch) -> Reservoir:
        """The reservoir after one more round."""
        old, rows = self.samples, batch.inputs.shape[0]
        new = jax.random.uniform(jax.random.fold_in(self.key, old.rounds), (rows,), self.luck.dtype)
        new = jnp.where(jnp.arange(rows) < batch.size, new, jnp.inf)  # padding is never kept
        luck = jnp.concatenate([self.luck, new])
        order = jnp.argsort(luck)[: self.luck.shape[0]]
        alive = (jnp.arange(self.luck.shape[0]) < self.size) & jnp.isfinite(luck[order])

        def pick(buffer: Array, more: Array) -> Array:
            return jnp.concatenate([buffer, more.astype(buffer.dtype)])[order]

        seen = self.seen + batch.size
        weights = pick(old.weights, batch.weights)  # of samples, or of the rows of sequences
        samples = dataclasses.replace(
            old,
            inputs=pick(old.inputs, batch.inputs),
            targets=pick(old.targets, batch.targets),
            weights=jnp.where(alive.reshape(-1, *[1] * (weights.ndim - 1)), weights, 0.0),
            filled=jnp.minimum(seen, self.size),
            rounds=old.rounds + 1,
        )
        luck = jnp.where(alive, luck[order], jnp.inf)
        return dataclasses.replace(self, samples=samples, luck=luck, seen=seen)

    def recall(self) -> Samples:
        """The estimate of F_t."""
        return _scaled(self.samples, self.seen, jnp.minimum(self.seen, self.size))


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
        samples = self.memory.recall()
        return condense(samples, self.whole) if isinstance(self.whole, Statistics) else samples


def condense(samples: Samples, like: Statistics) -> Statistics:
    """The statistics of samples (linear policy, squared loss)."""
    rows = jnp.concatenate([like.policy.design(samples.inputs), samples.targets], axis=1)
    rows = rows * jnp.sqrt(like.loss.scale * samples.weights)[:, None]
    factor = triangle(jnp.zeros_like(like.factor), rows.astype(like.factor.dtype))
    return dataclasses.replace(like, factor=factor, rounds=samples.rounds)


def window(
    policy: Policy, loss: Loss | Squared, like: Batch, size: int, *, room: int | None = None
) -> Window:
    """A window of `size` rounds shaped like `like`; `room` (default `size`) is how many the buffer can hold.

    >>> import numpy as np
    >>> from understudy.policies import Linear
    >>> from understudy.objectives import batch
    >>> rounds = [batch(np.full((1, 1), float(t)), np.zeros((1, 1))) for t in (1, 2, 3)]
    >>> memory = window(Linear(), Squared(), rounds[0], 2)
    >>> for one in rounds:
    ...     memory = memory.add(one)
    >>> float(memory.recall().value(np.ones((1, 1))))  # 3/2 · (2² + 3²)
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
    samples = empty_samples(policy, loss, like, capacity=size if room is None else room)
    luck = jnp.full(samples.weights.shape[:1], jnp.inf, samples.weights.dtype)
    return Reservoir(samples, luck, jnp.zeros((), jnp.int32), jnp.asarray(size, jnp.int32), key)


def parse_memory(memory: str) -> tuple[str, int] | None:
    """What "window:20" or "reservoir:500" asks for, None for "all", or one sentence.

    >>> parse_memory("window:20"), parse_memory("all")
    (('window', 20), None)
    """
    if memory == "all":
        return None
    kind, _, number = str(memory).partition(":")
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


def _scaled(samples: Samples, total: Array, held: Array) -> Samples:
    share = total.astype(samples.weights.dtype) / jnp.maximum(held, 1)
    return dataclasses.replace(samples, weights=samples.weights * share)
