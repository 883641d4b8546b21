"""The rounds of a student that is computed elsewhere: what `online.Game` does, with its own fit.

The learner's weight and centre are those of `learners.Learner`; the student is fitted to the samples with the
penalty that they make. Regret and comparator are estimates: the least loss is what another fit comes to.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false
# JAX and optax say little of the types of their trees.

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from ..asking.visited import Measure, per_sample
from ..learners import Learner, LearnerState
from ..objectives import Batch, Limited, Losses, Samples, empty_samples
from ..online import COMPARED, Game, GameState, Record
from ..policies import Guest, Params, Policy
from ..solvers import Status

Kept = TypeVar("Kept", Samples, Limited)


class Said(Policy):
    """Outputs that somebody else has computed, in the place of a policy's inputs."""

    name: ClassVar[str] = "said"

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        return ()

    def apply(self, params: Params, inputs: Array) -> Array:
        return inputs


SAID = Said()


@final
class Fitted:
    """The rounds of a game whose policy is a `Guest`; `student.Compiled` has those of a policy of JAX."""

    reader = None
    """It is fitted to arrays: none of its samples is in files only."""

    def __init__(self, game: Game):
        assert isinstance(game.policy, Guest)
        self.game, self.guest, self.host = game, game.policy, game.policy.host

    def empty(self, params: Params, like: Batch, capacity: int) -> Samples:
        """The losses of no round yet."""
        return empty_samples(SAID, self.game.loss, like, capacity=capacity)

    def start(self, params: Params, losses: Losses | Limited) -> GameState:
        """The game before round 1."""
        learner = self.game.learner
        assert isinstance(learner, Learner)
        state = LearnerState(
            params=params,
            centre={} if learner.schedule.zero else floats(params),
            gradients=(),
            squares=np.zeros(()),
            weight=np.zeros(()),
            residual=(),
            round=np.zeros((), np.int32),  # type: ignore[arg-type]
        )
        losses = jax.device_put(losses, may_alias=False)  # in buffers of its own, which `add` takes over
        return GameState(state, losses, (), (), np.zeros(()))  # type: ignore[arg-type]

    def taken(self, stored: list[np.ndarray], leaves: Sequence[object]) -> list[np.ndarray]:
        """The leaves of a state as a snapshot has them."""
        return stored

    def play(
        self, game: Game, state: GameState, batch: Batch, key: Array, compare: ArrayLike | None
    ) -> tuple[GameState, Record]:
        """`Game.play`, with the learner's weight and centre as the penalty of a fit."""
        host, learner, old = self.host, game.learner, state.learner
        assert isinstance(learner, Learner) and isinstance(old, LearnerState)
        each = self._outputs(old.params, batch)
        loss = float(np.sum(np.asarray(batch.weights) * self._losses(each, batch.targets)))
        gradient = self._gradient(learner, old, batch)
        added: Any = add(state.losses, batch)
        whole, seen = (added.whole, added.recall()) if isinstance(added, Limited) else (added, added)
        with jax.enable_x64(True):  # what a weight adds up to is a matter of many rounds
            ahead = learner.regularised(
                old._replace(params=floats(old.params)), gradient or {"": np.zeros(1)}
            )
            ahead = jax.tree.map(np.asarray, ahead)
        weight = float(ahead.weight)
        proximal = ({k: np.asarray(c, old.params[k].dtype) for k, c in ahead.centre.items()}, weight)
        samples = samples_of(seen, device=host.device)
        params = host.fitted(old.params, *samples, proximal=proximal if weight > 0 else None)
        new = ahead._replace(params=params, gradients=(), residual=(), centre=proximal[0])
        cumulative, finite = float(state.cumulative) + loss, np.isfinite(loss)
        finite = finite and all(np.isfinite(values).all() for values in floats(params).values())
        record: dict[str, Any] = dict.fromkeys(
            (*COMPARED, "residual", "stability", "solver_grad_norm"), np.nan
        )
        record |= {
            "loss": loss,
            "cumulative_loss": cumulative,
            "average_loss": cumulative / int(whole.rounds),
            "gradient_norm": np.sqrt(_square(gradient)) if gradient is not None else np.nan,
            "solver_status": np.int32(Status.ITERATION_CAP if finite else Status.DIVERGED),
            "solver_iterations": np.int32(1),
            "solver_evaluations": np.int32(1),
            "agreement": float(game._agreement(jnp.asarray(each), batch)),
            "weight": weight,
            "comparator_status": np.int32(Status.RUNNING),
        }
        return GameState(new, added, (), (), np.asarray(cumulative)), record  # type: ignore[arg-type]

    def searched(self, losses: Losses, params: Params, key: Array, steps: int) -> tuple[float, int]:
        """The least Σ l_s that another fit, without a penalty, comes to from `params`, at most theirs."""
        [found] = self.solved(losses, [params], [key])
        return min(self._value(found, losses), self._value(params, losses)), Status.ITERATION_CAP

    def solved(self, losses: Losses, starts: list[Params], keys: Sequence[Array]) -> list[Params]:
        """Where the student comes to from each of these states, without a penalty."""
        return [self.host.fitted(one, *samples_of(losses), proximal=None) for one in starts]

    def measured(self, params: Params, batch: Batch, count: int, measure: Measure = per_sample) -> np.ndarray:
        """The loss, or another measure, of each of the `count` samples of a round."""
        outputs = jnp.asarray(self._outputs(params, batch))
        return np.asarray(measure(SAID, self.game.loss, (), outputs, batch.targets))[:count]

    def distance(self, params: Params, others: Params) -> Array:
        """The distance of two states in what a penalty could hold."""
        return distance(floats(params), floats(others))

    def mean(self, members: list[Params]) -> tuple[Policy, Params]:
        """The policy that plays the mean of several."""
        return self.guest.several(members)

    def _outputs(self, params: Params, samples: Batch | Samples) -> np.ndarray:
        """What the student says of all rows of a buffer, 0 of those that weigh nothing."""
        said = np.zeros(samples.targets.shape, np.float32)
        rows, has = np.asarray(samples.inputs), np.asarray(samples.weights) > 0
        if has.any():
            said[has] = self.guest.apply(params, rows[has])
        return said

    def _value(self, params: Params, losses: Losses) -> float:
        """Σ l_s of all samples."""
        assert isinstance(losses, Samples)
        each = self._losses(self._outputs(params, losses), losses.targets)
        return float(np.sum(np.asarray(losses.weights, float) * each))

    def _losses(self, outputs: np.ndarray, targets: Array) -> np.ndarray:
        return np.asarray(per_sample(SAID, self.game.loss, (), jnp.asarray(outputs), targets), float)

    def _gradient(self, learner: Learner, old: LearnerState, batch: Batch) -> Params | None:
        """The gradient of the round's loss, where a penalty is weighed and the student has one."""
        if learner.schedule.zero or not self.host.has("gradient"):
            return None
        has = np.asarray(batch.weights) > 0
        columns = [np.asarray(one)[has] for one in (batch.inputs, batch.targets, batch.weights)]
        return self.host.gradient(old.params, *columns)


@functools.partial(jax.jit, donate_argnums=0)
def add(losses: Kept, batch: Batch) -> Kept:
    """The losses with one more round; the old ones are given up."""
    return losses.add(batch)  # type: ignore[return-value]


@jax.jit
def distance(params: Params, others: Params) -> Array:
    """The Euclidean distance of two sets of parameters."""
    return optax.tree.norm(optax.tree.sub(params, others))


def samples_of(losses: Losses, *, device: bool = False) -> tuple[np.ndarray | Array, ...]:
    """Rows, labels and weights of the samples that weigh something, in the order in which they were seen. On
    an accelerator they stay there for a student that takes arrays of the `device`.
    """
    assert isinstance(losses, Samples)
    many = int(losses.filled)
    columns = [np.asarray(one)[:many] for one in (losses.inputs, losses.targets, losses.weights)]
    has = columns[2] > 0
    if device and jax.default_backend() != "cpu":
        index = jnp.asarray(np.flatnonzero(has))
        return losses.inputs[index], losses.targets[index], losses.weights[index]
    rows, targets, weights = (one[has] for one in columns)
    return rows, targets, weights


def _square(gradient: Params) -> float:
    return sum(float(np.sum(np.square(leaf, dtype=float))) for leaf in gradient.values())


def floats(params: Params) -> Params:
    """The parameters among the arrays of a student's state: those of floating-point numbers."""
    return {name: values for name, values in params.items() if values.dtype.kind == "f"}
