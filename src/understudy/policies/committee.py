"""Several networks of one architecture that answer as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from ..errors import whole
from .base import Params
from .mlp import MLP


class Committee(MLP):
    """The mean of the outputs of `members` networks, taken after the head: a member whose tanh is saturated
    counts as much as any other.

    Params are those of an `MLP` with the members in front: ``{"weight": (members, in, out), "bias": (members,
    out)}``. For a loss that is convex in the outputs it is at most the mean of the members' losses.

    >>> policy = Committee(widths=(8,), members=3)
    >>> params = policy.init(jax.random.key(0), features=2, outputs=1)
    >>> params[0]["weight"].shape, policy.apply(params, np.ones((5, 2), np.float32)).shape
    ((3, 2, 8), (5, 1))
    """

    members: int = eqx.field(static=True, default=5)
    name: ClassVar[str] = "committee"

    def __check_init__(self):
        whole("members", self.members)

    @property
    def member(self) -> MLP:
        """The architecture of one member."""
        return MLP(**{field.name: getattr(self, field.name) for field in dataclasses.fields(MLP)})

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        keys = jax.random.split(key, self.members)
        return jax.vmap(lambda one: self.member.init(one, features, outputs, dtype))(keys)

    def apply(self, params: Params, inputs: Array) -> Array:
        return jax.vmap(self.member.apply, in_axes=(0, None))(params, inputs).mean(axis=0)

    @classmethod
    def of(cls, policy: MLP, params: Sequence[Params]) -> tuple[Committee, Params]:
        """The committee of networks of one architecture, and its parameters."""
        fields = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
        stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *params)
        return cls(**fields, members=len(params)), stacked

    def last(self, params: Params) -> tuple[MLP, Params]:
        """The last member, as a network of its own."""
        return self.member, jax.tree.map(lambda leaf: np.asarray(leaf)[-1], params)
