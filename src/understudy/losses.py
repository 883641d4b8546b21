"""Per-sample divergences between what the policy says and what the expert says.

A loss takes the policy's raw outputs (a mean action, or logits) and the expert's answer, both vectors over
action dimensions, and gives one number: a *sum* over dimensions. Averaging over the samples of a round is
the objective's business.
"""

# pyright: reportUnknownMemberType=false, reportIncompatibleMethodOverride=false
# pyright: reportUnnecessaryIsInstance=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# JAX says little of the types of its trees; a constant may stand where the base class has a property; users
# pass anything.

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from numpy.typing import ArrayLike

from .errors import ContractError, UserError, calling, is_own, name_of
from .registry import Registry

MOST_CLASSES = 100_000


class Loss(eqx.Module):
    """What every loss provides; `outputs` and `target` have shape (k,)."""

    @abc.abstractmethod
    def __call__(self, outputs: Float[Array, " k"], target: Float[Array, " k"]) -> Float[Array, ""]:
        """The divergence of one sample."""

    @property
    def categorical(self) -> bool:
        """Whether outputs are logits of a distribution over k actions, and labels name one of them."""
        return False

    @property
    def logits(self) -> bool:
        """Whether outputs are logits and targets probabilities.

        Such a loss falls for ever where the data are separable, so its sum may have no minimiser.
        """
        return self.categorical

    @property
    def convex(self) -> bool:
        """Whether the loss is convex in the outputs and gives its conjugate (`dual`), as a proof needs: a
        class that overrides `__call__` has to give its own.
        """
        return False

    @property
    def least(self) -> float:
        """No value of the loss is smaller, for any outputs and any target that `targets` lets through; −inf,
        which is always true, where the class says nothing.

        A proof may start from it: the losses of a game add up to at least this times their weights. So it is
        to be shown for all outputs, not for likely ones; a loss that is shifted down has to shift it too. A
        class that overrides `__call__` does not inherit it.
        """
        return -np.inf

    def own(self, name: str) -> bool:
        """Whether an attribute comes from the class that computes the loss, or from one made from it."""
        given, computed = (
            next(i for i, kind in enumerate(type(self).__mro__) if attribute in vars(kind))
            for attribute in (name, "__call__")
        )
        return given <= computed

    @property
    def floor(self) -> float:
        """`least`, where it belongs to what is computed; else −inf."""
        return float(self.least) if self.own("least") else -np.inf

    @property
    def curvature(self) -> float:
        """The largest second derivative along any unit direction of the outputs; infinite at a kink."""
        return np.inf

    @property
    def steepness(self) -> float:
        """The largest derivative by one output; infinite where there is none."""
        return np.inf

    def dual(
        self, slope: Float[Array, " k"], target: Float[Array, " k"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Minus the conjugate, ``inf_z loss(z, target) − <slope, z>``, and the size of the terms added up.

        Every slope that `inside` returns gives ``loss(z, target) ≥ <slope, z> + dual`` for all z. That
        is to be shown; a value that is too small makes the interval wider, and one that is too large makes it
        false. `regret.stated` tries it on the data of every game, which finds mistakes and proves nothing.
        """
        raise TypeError(f"the loss {type(self).__name__} gives no conjugate")

    def inside(self, slope: Float[Array, " k"], target: Float[Array, " k"]) -> Float[Array, " k"]:
        """A slope near `slope` at which the conjugate is finite."""
        raise TypeError(f"the loss {type(self).__name__} gives no conjugate")

    def room(self, slope: Float[Array, " k"], target: Float[Array, " k"]) -> Float[Array, "k k"]:
        """How freely a slope can move inside the conjugate's domain: a positive semi-definite matrix."""
        raise TypeError(f"the loss {type(self).__name__} gives no conjugate")

    def targets(self, answers: ArrayLike, outputs: int | None = None) -> np.ndarray:
        """The expert's answers as rows of floats (n, k); raises `UserError` when they cannot be."""
        return columns(answers)


def check_loss(loss: Loss, outputs: int) -> None:
    """Refuses a loss of a user's own that does not return one number for (outputs,) and (outputs,)."""
    if not is_own(loss):
        return
    vector = jax.ShapeDtypeStruct((outputs,), jnp.result_type(float))
    with calling("loss", loss, "call with (outputs, target)"):
        value = eqx.filter_eval_shape(loss, vector, vector)
    if not (isinstance(value, jax.ShapeDtypeStruct) and value.shape == ()):
        kind = f"an array of shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
        raise ContractError(
            f"loss {name_of(loss)!r}: it returned {kind} for outputs and target of shape ({outputs},); one "
            "number is expected, as jnp.sum returns it."
        )


def computes(part: Any, *kinds: type) -> bool:
    """Whether a part (a loss, a learner, …) is of one of these kinds, and not of a class made from one that
    computes something else: what is known of a kind (that a loss is quadratic, how a learner steps) is not
    known of that. Another name or documentation changes nothing.
    """
    return any(isinstance(part, kind) and not overridden(type(part), kind) for kind in kinds)


@functools.lru_cache(maxsize=1024)
def overridden(subclass: type, kind: type) -> str:
    """The first attribute of `kind` that a class made from it has from elsewhere; empty where there is none.

    >>> from understudy.losses import Huber
    >>> overridden(type("Mine", (Huber,), {"room": lambda self, slope, target: None}), Huber)
    'room'
    """
    fields: Iterable[str] = getattr(kind, "__dataclass_fields__", ())
    names = {name for name in (*dir(kind), *fields) if not name.startswith(("__", "_abc_"))} - {"name"}
    for name in (*sorted(names), "__call__", "__getattribute__", "__getattr__"):
        if inspect.getattr_static(subclass, name, None) is not inspect.getattr_static(kind, name, None):
            return name
    return ""


class Squared(Loss):
    """Squared loss, ``scale * ||outputs - target||²`` with scale 1 (½ when `half`).

    >>> float(Squared()(jnp.array([1.0, 2.0]), jnp.array([0.0, 0.0])))
    5.0
    """

    half: bool = eqx.field(static=True, default=False)
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0

    @property
    def scale(self) -> float:
        return 0.5 if self.half else 1.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        return self.scale * jnp.sum((outputs - target) ** 2)

    @property
    def curvature(self) -> float:
        return 2.0 * self.scale

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        linear, square = slope * target, slope**2 / (4.0 * self.scale)
        return -jnp.sum(linear + square), jnp.sum(jnp.abs(linear) + square)

    def inside(self, slope: Array, target: Array) -> Array:
        return slope

    def room(self, slope: Array, target: Array) -> Array:
        return jnp.eye(slope.shape[0], dtype=slope.dtype)


class Absolute(Loss):
    """Absolute loss, ``Σ_j |outputs_j - target_j|``; the subgradient at a kink is 0.

    An answer within ``rounding · (1 + |target_j|)`` of the target is on the kink. With the default 0 only an
    exact one is; where targets can be met exactly, the sign of a rounding error would be a gradient of ±1.

    >>> loss = Absolute(rounding=1e-6)
    >>> jax.grad(loss)(jnp.array([1.0 + 1e-7, 3.0]), jnp.array([1.0, 1.0])).tolist()
    [0.0, 1.0]
    """

    rounding: float = eqx.field(static=True, default=0.0)
    steepness: ClassVar[float] = 1.0
    least: ClassVar[float] = 0.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        error = outputs - target
        # Not jnp.abs, whose derivative at the kink is 1: an exact answer must leave no gradient.
        size = error * jnp.sign(error)
        if self.rounding:
            met = size <= self.rounding * (1 + jnp.abs(target))
            size = jnp.where(met, jax.lax.stop_gradient(size), size)
        return jnp.sum(size)

    @property
    def convex(self) -> bool:
        return not self.rounding  # a slope of 0 beside the kink is none of |·|

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        linear = slope * target
        return -jnp.sum(linear), jnp.sum(jnp.abs(linear))

    def inside(self, slope: Array, target: Array) -> Array:
        return jnp.clip(slope, -1.0, 1.0)

    def room(self, slope: Array, target: Array) -> Array:
        return jnp.diag((1.0 - slope) * (1.0 + slope))


class Huber(Loss):
    """Huber loss, per dimension ``½e²`` where |e| ≤ delta, else ``delta (|e| − ½ delta)``.

    >>> float(Huber()(jnp.array([0.5, 3.0]), jnp.array([0.0, 0.0])))
    2.625
    """

    delta: float = eqx.field(static=True, default=1.0)
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 1.0

    def __check_init__(self):
        if not isinstance(self.delta, (int, float)) or not 0 < self.delta < np.inf:
            raise UserError(f"delta: {self.delta!r} is not a positive number, as the Huber loss needs.")

    def __call__(self, outputs: Array, target: Array) -> Array:
        error = outputs - target
        inside = jnp.clip(error, -self.delta, self.delta)
        return jnp.sum(inside * (error - 0.5 * inside))

    @property
    def steepness(self) -> float:
        return self.delta

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        linear, square = slope * target, 0.5 * slope**2
        return -jnp.sum(linear + square), jnp.sum(jnp.abs(linear) + square)

    def inside(self, slope: Array, target: Array) -> Array:
        return jnp.clip(slope, -self.delta, self.delta)

    def room(self, slope: Array, target: Array) -> Array:
        return jnp.diag((self.delta - slope) * (self.delta + slope))


class CrossEntropy(Loss):
    """Cross-entropy ``-Σ_a target_a log softmax(outputs)_a`` to a label or to the expert's distribution.

    Labels (whole numbers) become one-hot rows; rows of probabilities are taken as they are.
    With `groups` the outputs are choices of these sizes side by side, and their cross-entropies add up.

    >>> round(float(CrossEntropy()(jnp.zeros(4), jnp.array([0.0, 1.0, 0.0, 0.0]))), 6)
    1.386294
    """

    groups: tuple[int, ...] | None = eqx.field(static=True, default=None)
    categorical: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 0.5
    steepness: ClassVar[float] = 1.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        if self.groups is None:
            return _choice(outputs, target)
        edges = list(np.cumsum(self.groups)[:-1])
        pairs = zip(jnp.split(outputs, edges), jnp.split(target, edges), strict=True)
        return jnp.sum(jnp.stack([_choice(*pair) for pair in pairs]))

    def _together(self, size: int) -> np.ndarray:
        """(k, k), 1 where two outputs belong to one choice."""
        groups = (size,) if self.groups is None else self.groups
        owner = np.repeat(np.arange(len(groups)), groups)
        return (owner[:, None] == owner[None, :]).astype(float)

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        # loss = c·logsumexp(z) − <target, z> with c = Σ target, so that p = slope + target sums to c, and the
        # conjugate is Σ p log(p/c). Near p = 0 an error e in p costs e·log(1/e): 40 roundings, not one.
        p, c = jnp.maximum(slope + target, 0.0), self._together(slope.shape[0]) @ target
        safe = jnp.where(p > 0, p / jnp.where(c > 0, c, 1.0), 1.0)
        value = -jnp.sum(p * jnp.log(safe))
        return value, jnp.abs(value) + 40.0 * jnp.sum(target)

    def inside(self, slope: Array, target: Array) -> Array:
        p, together = jnp.maximum(slope + target, 0.0), self._together(slope.shape[0])
        total = together @ p
        share = jnp.where(total > 0, (together @ target) / jnp.where(total > 0, total, 1.0), 1.0)
        return jnp.where(total > 0, p * share - target, 0.0)

    def room(self, slope: Array, target: Array) -> Array:
        p, together = jnp.maximum(slope + target, 0.0), self._together(slope.shape[0])
        c = together @ target
        return jnp.diag(p) - together * jnp.outer(p, p) / jnp.where(c > 0, c, 1.0)[:, None]

    def targets(self, answers: ArrayLike, outputs: int | None = None) -> np.ndarray:
        rows = np.asarray(answers)
        if rows.ndim == 2 and rows.shape[1] == 1 and outputs != 1:
            rows = rows[:, 0]
        if rows.ndim == 1:
            return one_hot(rows, outputs)
        rows = numbers(rows)
        if rows.min(initial=0.0) < 0 or np.abs(rows.sum(axis=1) - 1.0).max(initial=0.0) > 1e-5:
            raise UserError(
                "Y: rows for the cross-entropy loss must be probabilities (not negative, summing to 1) "
                "or whole-number labels."
            )
        return rows


class BinaryCrossEntropy(Loss):
    """One logit a yes-or-no answer, ``Σ_j log(1 + e^{z_j}) − target_j z_j`` with z the outputs.

    Targets are labels 0 and 1, or probabilities of 1. With one output this is logistic regression, and equals
    softmax cross-entropy on the two logits (0, z). Several outputs are questions apart, which need not sum to
    1: on the one-hot rows of n actions they are n classifiers of one action against the rest.

    >>> round(float(BinaryCrossEntropy()(jnp.array([0.0]), jnp.array([1.0]))), 6)
    0.693147
    """

    logits: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    curvature: ClassVar[float] = 0.25
    steepness: ClassVar[float] = 1.0

    def __call__(self, outputs: Array, target: Array) -> Array:
        sure, unsure = jax.nn.softplus(-outputs), jax.nn.softplus(outputs)  # for the two see `_choice`
        return jnp.sum(jnp.where(outputs > 0, sure + (1.0 - target) * outputs, unsure - target * outputs))

    def dual(self, slope: Array, target: Array) -> tuple[Array, Array]:
        p = jnp.clip(slope + target, 0.0, 1.0)
        value = -jnp.sum(_entropic(p) + _entropic(1.0 - p))
        return value, jnp.abs(value) + 80.0 * slope.shape[0]  # for the 40s see `CrossEntropy.dual`

    def inside(self, slope: Array, target: Array) -> Array:
        return jnp.clip(slope, -target, 1.0 - target)

    def room(self, slope: Array, target: Array) -> Array:
        p = jnp.clip(slope + target, 0.0, 1.0)
        return jnp.diag(p * (1.0 - p))

    def targets(self, answers: ArrayLike, outputs: int | None = None) -> np.ndarray:
        rows = columns(answers)
        if rows.size and not (rows.min() >= 0 and rows.max() <= 1):
            bad = rows[~((rows >= 0) & (rows <= 1))][0]
            raise UserError(
                f"Y: {bad:g} is neither a label (0 or 1) nor a probability; for more than two classes the "
                "loss is 'cross-entropy'."
            )
        return rows


def _choice(outputs: Array, target: Array) -> Array:
    """``-Σ_a target_a log softmax(outputs)_a``, relative to the largest output.

    Neither this nor its derivatives contain 1 − p of the largest p. Where an answer is nearly sure, that
    difference would leave few digits of the gradient and the Hessian: at p = 1 − 1e-8 half of them.
    """
    others = jnp.arange(outputs.shape[0]) != jnp.argmax(outputs)
    below = jnp.where(others, outputs - jnp.sum(jnp.where(others, 0.0, outputs)), 0.0)
    rest = jnp.sum(jnp.where(others, jnp.exp(below), 0.0))
    return jnp.sum(target) * jnp.log1p(rest) - jnp.sum(jnp.where(others, target, 0.0) * below)


def _entropic(p: Array) -> Array:
    """``p log p``, 0 at 0."""
    return p * jnp.log(jnp.where(p > 0, p, 1.0))


def columns(answers: ArrayLike) -> np.ndarray:
    """Answers as rows of floats (n, k), a list of numbers as one column."""
    rows = numbers(answers)
    return rows[:, None] if rows.ndim == 1 else rows


def numbers(answers: ArrayLike) -> np.ndarray:
    """Answers as an array of floats, (n,) or (n, k)."""
    try:
        rows = np.asarray(answers, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"Y: expected an array of numbers, got {type(answers).__name__}.") from None
    if rows.ndim not in (1, 2):
        raise UserError(f"Y: expected shape (samples,) or (samples, outputs), got {rows.shape}.")
    return rows


def one_hot(labels: np.ndarray, classes: int | None) -> np.ndarray:
    """Rows (n, classes) with a 1 at each label; refuses labels that are not whole numbers in range."""
    values = np.asarray(labels)
    if not np.issubdtype(values.dtype, np.number) or not np.array_equal(values, np.round(values)):
        raise UserError("Y: labels for the cross-entropy loss must be whole numbers 0, 1, 2, …")
    whole = values.astype(np.int64)
    count = int(whole.max(initial=0)) + 1 if classes is None else classes
    if whole.size and (whole.min() < 0 or whole.max() >= count):
        bad = int(whole.min() if whole.min() < 0 else whole.max())
        raise UserError(f"Y: label {bad} is outside 0 … {count - 1}.")
    if count > MOST_CLASSES:
        raise UserError(f"Y: label {count - 1} would make {count} classes; {MOST_CLASSES} are the most.")
    rows = np.zeros((len(whole), count))
    rows[np.arange(len(whole)), whole] = 1.0
    return rows


LOSSES: Registry[Loss] = Registry(
    "loss",
    Loss,
    {
        "squared": Squared,
        "absolute": Absolute,
        "huber": Huber,
        "cross-entropy": CrossEntropy,
        "binary-cross-entropy": BinaryCrossEntropy,
    },
    aliases={
        "l2": "squared",
        "l1": "absolute",
        "logistic": "cross-entropy",
        "softmax": "cross-entropy",
        "cross_entropy": "cross-entropy",
        "binary": "binary-cross-entropy",
        "binary_cross_entropy": "binary-cross-entropy",
    },
    group="losses",
)

SHIPPED = (Squared, Absolute, Huber, CrossEntropy, BinaryCrossEntropy)
"""Losses whose statements (`convex`, `dual`, `least`, …) are proved; those of others are tried on data."""
