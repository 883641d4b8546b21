"""Images seen through a frozen network: what a linear policy on features learns from."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from ..errors import UserError
from .acting import as_numbers, features
from .base import Params
from .nature_cnn import NatureCNN
from .observations import Observations, Wrapped


class Encoder(NamedTuple):
    """A frozen network up to its last hidden layer, its parameters, and a name for the record."""

    network: NatureCNN
    params: Params
    name: str


@final
class Encoded(Wrapped):
    """Observations as the features of a frozen network: `Observations`' interface, each image encoded once.
    Numbers beside the image stay as they are.

    One image takes one compiled program for a batch of one, so its features do not depend on the batch.
    """

    def __init__(self, inner: Observations, encoder: Encoder):
        made = encoder.network
        wanted = (made.stack, *made.sides)
        images = [one for one in inner.leaves if one.kind == "byte" and tuple(one.shape) == wanted]
        if len(images) != 1:
            raise UserError(
                f"encoder: {encoder.name!r} sees images of bytes of shape {wanted}; the observations are "
                f"{', '.join(f'{one.kind} {one.shape}' for one in inner.leaves)}."
            )
        self.inner, self.encoder = inner, encoder
        self.image = Observations(images)
        self.beside = Observations([one for one in inner.leaves if one is not images[0]])
        self.width, self.dtype = made.width + self.beside.width, np.dtype(np.float32)
        self._program = features(made, encoder.params)

    @property
    def measured(self) -> np.ndarray:
        """Every feature is a plain number; of the rest those that are."""
        return np.concatenate([np.ones(self.encoder.network.width, bool), self.beside.measured])

    def row(self, observation: Any) -> np.ndarray:
        """The features of the image, and beside them what else there is (width,)."""
        seen = self._program(self.image.row(observation).reshape(self.image.leaves[0].shape))
        if not self.beside.leaves:
            return seen
        return np.concatenate([seen, as_numbers(self.beside.row(observation), self.dtype)])

    def rows(self, batch: Any) -> np.ndarray:
        """The features (n, width) of a batch, each image to the bits of `row`."""
        return np.stack([self.row(one) for one in self.split(batch)])

    def config(self) -> dict[str, Any]:
        return {
            "inner": self.inner.config(),
            "encoder": self.encoder.network.config(),
            "name": self.encoder.name,
        }

    @property
    def tensors(self) -> Params:
        """The encoder's parameters, which are saved with the policy: it needs no other file."""
        return self.encoder.params
