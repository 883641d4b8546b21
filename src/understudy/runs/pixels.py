"""NatureCNN end to end, many runs side by side: minibatches of stacks, rebuilt from frames stored once.

The loop over steps is outside the compiled program on a CPU, where the frames stay in host memory (or in a
mapped file) and a minibatch is gathered by NumPy; on a GPU the frames of all runs are copied there and one
compiled loop trains all. A round's cost does not depend on the round: `steps` minibatches, however many
samples there are to draw from.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ..envs.gymnasium import derive
from ..experts.base import Expert
from ..experts.encoders import encoder, head
from ..learners import Learner
from ..policies import NatureCNN
from ..solvers import Status
from .frames import LIMIT, FrameStore
from .lockstep import Chosen, Member


class Trained(eqx.Module):
    """What a solve moves: parameters and Adam's moments."""

    params: Any
    first: Any
    second: Any
    count: Array


def _cross_entropy(policy: NatureCNN, params: Any, images: Array, labels: Array) -> Array:
    return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(policy.apply(params, images)), axis=-1))


def _adam(
    policy: NatureCNN,
    steps: int,
    rate: float,
    now: Trained,
    images: Array,
    labels: Array,
    centre: Any,
    pull: Array,
):
    """One step of Adam on a minibatch's mean loss, then the proximal step of the penalty in Adam's metric.

    `pull` is Λ_t/t: the minibatch estimates F_t/t, and the penalty belongs to the sum. The rate falls along a
    cosine.
    """
    loss, gradient = jax.value_and_grad(functools.partial(_cross_entropy, policy))(now.params, images, labels)
    count = now.count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, now.first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, now.second, gradient)
    here = rate * (0.5 + 0.5 * jnp.cos(jnp.pi * now.count / steps))
    one, two = 1 - 0.9**count, 1 - 0.999**count

    def move(w: Array, m: Array, v: Array, c: Array) -> Array:
        size = here / (jnp.sqrt(v / two) + 1e-8)
        return (w - size * m / one + size * pull * c) / (1 + size * pull)

    params = jax.tree.map(move, now.params, first, second, centre)
    return Trained(params, first, second, count), loss


def _fresh(params: Any) -> Trained:
    zeros = optax.tree.zeros_like(params)
    return Trained(params, zeros, optax.tree.zeros_like(params), jnp.zeros((), jnp.float32))


@functools.lru_cache(maxsize=8)
def _programs(policy: NatureCNN, steps: int, rate: float, batch: int) -> dict[str, Any]:
    step = functools.partial(_adam, policy, steps, rate)

    @functools.partial(jax.jit, donate_argnums=0)
    def once(now: Trained, images: Array, labels: Array, centre: Any, pull: Array) -> Any:
        return step(now, images, labels, centre, pull)

    @jax.jit
    def train(
        params: Any,
        frames: Array,
        index: Array,
        labels: Array,
        keys: Array,
        centre: Any,
        pull: Array,
        filled: Array,
    ):
        """All members at once; frames (members, n, h, w), index (members, rows, stack)."""

        def one(
            i: Array, now: Trained, frames: Any, index: Any, labels: Any, key: Any, centre: Any, pull: Any
        ) -> Trained:
            rows = jax.random.randint(jax.random.fold_in(key, i), (batch,), 0, filled)
            return step(now, frames[index[rows]], labels[rows], centre, pull)[0]

        def body(i: Array, now: Trained) -> Trained:
            return jax.vmap(functools.partial(one, i))(now, frames, index, labels, keys, centre, pull)

        return jax.lax.fori_loop(0, steps, body, jax.vmap(_fresh)(params)).params

    @jax.jit
    def gradient(params: Any, images: Array, labels: Array) -> Any:
        return jax.value_and_grad(functools.partial(_cross_entropy, policy))(params, images, labels)

    return {"once": once, "train": train, "gradient": gradient}


class PixelStudents:
    """NatureCNN policies of all members, trained on minibatches of `batch` for `steps` steps of Adam a round.

    Regularised learners take the mean centre (solves are inexact, and their residuals must not add up).
    """

    def __init__(
        self,
        expert: Expert,
        members: Sequence[Member],
        *,
        capacity: int,
        size: int,
        steps: int = 1000,
        batch: int = 64,
        rate: float = 5e-4,
        limit: int = LIMIT,
    ):
        self.members, self.size, self.steps, self.batch = members, size, steps, batch
        found = encoder(expert)
        weight, bias = head(expert)
        made, outputs = found.network, weight.shape[1]
        self.policy = NatureCNN(stack=made.stack, size=made.size, width=made.width)
        shape = (made.stack, *made.sides)
        width = int(np.prod(shape))
        self.stores = [FrameStore(shape, capacity=capacity, limit=limit) for _ in members]
        self._labels = np.zeros((len(members), capacity, outputs), np.float32)
        self._first, self._states = [], []
        for member in members:
            params = self.policy.init(jax.random.key(derive(member.seed, "params")), width, outputs)
            self._first.append(params)
            self._states.append(member.learner.init(params))
        self._programs = _programs(self.policy, steps, rate, batch)
        self._regularised = jax.jit(lambda learner, state, g: learner.regularised(state, g))
        policy = self.policy

        @jax.jit
        def see(frozen: Any, top: Any, params: Any, images: Any) -> Any:
            theirs = jnp.matmul(made.features(frozen, images), top[0], precision="highest") + top[1]
            count = jax.tree.leaves(params)[0].shape[0]
            each = images.reshape(count, -1, *shape)
            if jax.default_backend() == "gpu":
                mine = jax.vmap(policy.apply)(params, each).reshape(-1, outputs)
            else:  # a convolution under vmap is a grouped one, and slow on a CPU
                one = [jax.tree.map(lambda leaf, j=j: leaf[j], params) for j in range(count)]
                mine = jnp.concatenate([policy.apply(one[j], each[j]) for j in range(count)])
            return mine, theirs

        self._see, self._frozen, self._top = see, jax.device_put(found.params), jax.device_put((weight, bias))
        self._stack()

    def _stack(self) -> None:
        self._params = jax.tree.map(lambda *each: jnp.stack(each), *[state.params for state in self._states])

    def params(self, member: int) -> Any:
        return jax.tree.map(np.asarray, self._states[member].params)

    def seen(self, params: Any, images: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        """As `see`, with these parameters, stacked."""
        outputs, logits = self._see(self._frozen, self._top, params, images)
        return np.asarray(outputs), np.asarray(logits), None

    def see(self, images: Any) -> tuple[np.ndarray, np.ndarray, Any]:
        return self.seen(self._params, images)

    def choose(self, which: Sequence[int]) -> Chosen:
        """Only these members: games of a few are over sooner than games of all."""
        params = jax.tree.map(lambda leaf: leaf[np.asarray(which)], self._params)
        return Chosen([self.members[j] for j in which], functools.partial(self.seen, params))

    def keep(self, images: np.ndarray, seen: Any, labels: np.ndarray) -> None:
        row = len(self.stores[0])
        for store, image in zip(self.stores, images, strict=True):
            store.append(image[None], [0])
        self._labels[:, row] = labels

    def learn(self, t: int, judge: bool) -> list[dict[str, Any]]:
        records, ahead = [], []
        for j in range(len(self.members)):
            began = time.perf_counter()
            loss, gradient = self._round(j)
            record = {"loss": loss, "gradient_norm": float(optax.tree.norm(gradient))}
            state, learner = self._states[j], self._learner(j)
            if learner.linear:
                moved, _ = learner.update(state, None, gradient, None)  # type: ignore[arg-type]
                ahead.append(moved)
            else:
                ahead.append(self._regularised(_nameless(learner), state, gradient))
            records.append(record | {"seconds_solve": time.perf_counter() - began})
        self._solve(t, ahead, records)
        for j, member in enumerate(self.members):
            if member.automatic is not None and not member.automatic.settled:
                away = optax.tree.norm(optax.tree.sub(self._states[j].params, self._first[j]))
                member.automatic.see(t, distance=float(away), gradient=records[j]["gradient_norm"])
        self._stack()
        return records

    def _learner(self, j: int) -> Learner:
        member = self.members[j]
        return member.learner if member.automatic is None else member.automatic.scaled(member.learner)

    def _round(self, j: int) -> tuple[float, Any]:
        """Loss and gradient of the round's own samples, before the update."""
        rows = np.arange(len(self.stores[j]) - self.size, len(self.stores[j]))
        parts = [rows[i : i + 100] for i in range(0, len(rows), 100)]
        loss, gradient = 0.0, None
        for part in parts:
            images, labels = self.stores[j][part], self._labels[j, part]
            value, one = self._programs["gradient"](self._states[j].params, images, labels)
            share = len(part) / len(rows)
            loss += share * float(value)
            one = optax.tree.scale(share, one)
            gradient = one if gradient is None else optax.tree.add(gradient, one)
        return loss, gradient

    def _solve(self, t: int, ahead: list[Any], records: list[dict[str, Any]]) -> None:
        offline = [j for j in range(len(self.members)) if not self._learner(j).linear]
        began = time.perf_counter()
        if jax.default_backend() == "gpu" and offline:
            solved = self._on_device(t, [ahead[j] for j in offline], offline)
            seconds = [(time.perf_counter() - began) / len(offline)] * len(offline)
        else:
            solved, seconds = [], []
            for j in offline:
                begun = time.perf_counter()
                solved.append(self._on_host(t, ahead[j], j))
                seconds.append(time.perf_counter() - begun)
        for j, params, spent in zip(offline, solved, seconds, strict=True):
            ahead[j] = ahead[j]._replace(params=params)
            records[j]["seconds_solve"] += spent
        for j, state in enumerate(ahead):
            fine = bool(jnp.isfinite(optax.tree.norm(state.params)))
            ended = Status.ITERATION_CAP if j in offline else Status.CONVERGED
            records[j] |= {
                "weight": float(sum(jnp.mean(leaf) for leaf in jax.tree.leaves(state.weight))),
                "solver_status": (ended if fine else Status.DIVERGED).name.lower(),
                "solver_iterations": self.steps if j in offline else 1,
                "solver_grad_norm": float("nan"),
                "regret": float("nan"),
                "bound": float("nan"),
            }
            self._states[j] = state if fine else self._states[j]

    def _on_host(self, t: int, ahead: Any, j: int) -> Any:
        store, rng = self.stores[j], np.random.default_rng(derive(self.members[j].seed, "solver", t))
        now, pull = _fresh(jax.tree.map(jnp.copy, ahead.params)), jnp.asarray(ahead.weight / t, jnp.float32)
        for _ in range(self.steps):
            rows = rng.integers(0, len(store), self.batch)
            now, _ = self._programs["once"](now, store[rows], self._labels[j, rows], ahead.centre, pull)
        return jax.block_until_ready(now.params)

    def _on_device(self, t: int, ahead: list[Any], offline: list[int]) -> list[Any]:
        most = max(self.stores[j].frames for j in offline)
        most = -(-most // 1024) * 1024  # few shapes, few programs
        rows = self._labels.shape[1]
        frames = np.zeros((len(offline), most, *self.policy_shape), np.uint8)
        index = np.zeros((len(offline), rows, self.policy.stack), np.int32)
        for i, j in enumerate(offline):
            store = self.stores[j]
            frames[i, : store.frames], index[i, : len(store)] = store.since(0), store.index()
        keys = jnp.stack([jax.random.key(derive(self.members[j].seed, "solver", t)) for j in offline])
        params, centre = (
            jax.tree.map(lambda *each: jnp.stack(each), *[getattr(one, name) for one in ahead])
            for name in ("params", "centre")
        )
        pull = jnp.stack([jnp.asarray(one.weight / t, jnp.float32) for one in ahead])
        filled = jnp.asarray(len(self.stores[offline[0]]))
        labels = jnp.asarray(self._labels[np.asarray(offline)])
        trained = self._programs["train"](params, frames, index, labels, keys, centre, pull, filled)
        trained = jax.block_until_ready(trained)
        return [jax.tree.map(lambda leaf, i=i: leaf[i], trained) for i in range(len(offline))]

    @property
    def policy_shape(self) -> tuple[int, int]:
        return self.policy.sides


def _nameless(learner: Learner) -> Learner:
    """Learners that differ by numbers only share one program."""
    return dataclasses.replace(learner, name="")
