"""A policy with its parameters, what it does with observations before and with its outputs after.

One observation takes one fixed path: the same matrix-vector calls of NumPy, or the same compiled program for
a batch of one. Its answer is therefore the same, bit for bit, alone and in any batch; a product of n rows is
not (BLAS and XLA both choose other kernels for other shapes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import UserError
from .acting import features, forward, forward_rows
from .actions import Actions
from .base import Params, Policy
from .encoded import Encoder
from .normaliser import Normaliser
from .observations import Observations


@final
class Network:
    """n observations in, n answers out.

    see: observations (n in front) -> rows (n, width) or images (n, …). encoder: a frozen image network whose
    features the policy takes in their place. head: outputs (n, k) -> n answers.

    >>> from understudy import MLP
    >>> double = Network(MLP(widths=()), [{"weight": 2 * np.eye(2), "bias": np.zeros(2)}], np.asarray, np.abs)
    >>> double([[1.0, -3.0]])
    array([[2., 6.]])
    """

    def __init__(
        self,
        policy: Policy,
        params: Params,
        see: Callable[[Any], np.ndarray],
        head: Callable[[np.ndarray], np.ndarray],
        normaliser: Normaliser | None = None,
        encoder: Encoder | None = None,
    ):
        self.policy, self.params, self.see, self.head = policy, params, see, head
        self.normaliser, self.encoder = normaliser, encoder
        self._one, self._many = forward(policy, params), forward_rows(policy, params)
        self._image = None if encoder is None else features(encoder.network, encoder.params)

    def inputs(self, observations: Any) -> np.ndarray:
        """What the policy sees of n observations, with n in front."""
        rows = np.ascontiguousarray(self.see(observations))  # products of strided rows have other bits
        if self.normaliser is not None:
            rows = self.normaliser(rows)
        return rows if self._image is None else np.stack([self._image(image) for image in rows])

    def outputs(self, observations: Any) -> np.ndarray:
        """The raw outputs (n, k), each row to the bits it has alone."""
        rows = self.inputs(observations)
        return self._one(rows[0])[None] if len(rows) == 1 else self._many(rows)

    def __call__(self, observations: Any) -> np.ndarray:
        return self.head(self.outputs(observations))

    def traced(
        self, seen: Any, actions: Actions, *, distribution: bool = False
    ) -> Callable[[Any], Array] | None:
        """The same as a function of n observations on the device: the outputs as actions or, with
        `distribution`, as probabilities. None where it sees through a frozen image network, or otherwise than
        `Observations` do.

        >>> from gymnasium.spaces import Box, Dict, Discrete
        >>> from understudy import Linear
        >>> seen, acts = Observations.of(Dict(a=Box(-1, 1, (1,)), b=Discrete(3))), Actions.of(Discrete(4))
        >>> network = Network(Linear(), jnp.eye(4), seen.rows, acts.plays)
        >>> network.traced(seen, acts)({"a": jnp.array([[0.5]]), "b": jnp.array([2])}).tolist()
        [3]
        """
        if self.encoder is not None or not isinstance(seen, Observations):
            return None

        def answers(batch: Any) -> Array:
            params, inputs = jax.tree.map(jnp.asarray, self.params), seen.rows(batch)
            if self.normaliser is not None:
                inputs = self.normaliser(inputs)
            outputs = self.policy.apply(params, inputs)
            return jax.nn.softmax(outputs) if distribution else actions.plays(outputs)

        return answers


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities (n, k) of rows of logits, each to the bits it has alone.

    >>> softmax(np.log(np.array([[0.25, 0.75]]))).round(6)
    array([[0.25, 0.75]])
    """
    rows = [np.exp(row - row.max()) for row in logits]
    return np.stack([row / row.sum() for row in rows])


def require_fit(what: str, policy: Policy, params: Params, features: int, outputs: int) -> None:
    """Refuses parameters whose shapes are not those of `policy` with so many features and outputs."""

    def init() -> Params:  # with its key: made outside it would start the accelerator, for shapes alone
        return policy.init(jax.random.key(0), features, outputs)

    try:
        made = jax.eval_shape(init)
    except jax.errors.JAXTypeError:  # a policy of someone's own that looks at the numbers of its key
        made = init()
    wanted, found = _shapes(made), _shapes(params)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise UserError(
                f"{what}: its network does not go from {features} to {outputs} numbers: the parameter {name} "
                f"has the shape {found.get(name)}, {wanted.get(name)} is needed."
            )


def _shapes(params: Params) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path): np.shape(leaf) for path, leaf in leaves}
