"""A policy with its parameters, what it sees and how it acts: the thing a run is for."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from ..errors import UserError
from . import files
from .acting import forward
from .base import Params, Policy
from .encoded import Encoded, read
from .network import Network, softmax
from .normaliser import Normaliser
from .spaces import Actions, Observations


@final
class TrainedPolicy:
    """A policy ready to act: callable, with Stable-Baselines3's `predict`, and on disk without pickle.

    One observation always takes the same path (see `policies.acting`), so its action does not depend on the
    batch it is in.
    """

    def __init__(
        self,
        policy: Policy,
        params: Params,
        observations: Observations | Encoded,
        actions: Actions,
        normaliser: Normaliser,
    ):
        self.policy, self.params = policy, params
        self.observations, self.actions, self.normaliser = observations, actions, normaliser
        self._forward = forward(policy, params)

    def outputs(self, row: np.ndarray) -> np.ndarray:
        """The raw outputs (k,) for one encoded row: a mean action, or logits."""
        return self._forward(self.normaliser(row))

    def act(self, observation: Any) -> Any:
        """The deterministic action for one observation."""
        return self.actions.play(self.outputs(self.observations.row(observation)))

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """One observation or a batch in, (action or actions, state) out; the action is always the
        deterministic one.
        """
        if self.observations.single(observation):
            return self.act(observation), state
        return np.stack([np.asarray(self.act(one)) for one in self.observations.split(observation)]), state

    def __call__(self, observation: Any) -> Any:
        """The action for one observation, or the actions for a batch."""
        return self.predict(observation)[0]

    def save(self, path: str | os.PathLike[str], **extra: Any) -> Path:
        """Writes `path`.safetensors and `path`.json; `extra` is plain data for the card."""
        tensors, told = self._kept()
        return files.save(path, self.policy, tensors, **(told | extra))

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The policy as named arrays and plain data: what `save` writes and `unpacked` reads."""
        tensors, told = self._kept()
        return files.packed(self.policy, tensors, **told)

    def _kept(self) -> tuple[dict[str, Any], dict[str, Any]]:
        tensors = {"network": self.params, "mean": self.normaliser.mean, "scale": self.normaliser.scale}
        if isinstance(self.observations, Encoded):
            tensors["encoder"] = self.observations.tensors
        told: dict[str, Any] = {"observations": self.observations.config(), "actions": self.actions.config()}
        return tensors, told | ({"clip": self.normaliser.limit} if self.normaliser.limit < math.inf else {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TrainedPolicy:
        """Reads what `save` wrote; `path` may also be a run's folder, or the file of an expert."""
        return cls.read(path)[0]

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        field: str = "policy",
        card: str | os.PathLike[str] | None = None,
    ) -> tuple[TrainedPolicy, dict[str, Any]]:
        """The policy and everything in its card, with what the file `card` says instead. Errors begin with
        `field`.
        """
        base = Path(path)
        base = base / "policy" if base.is_dir() else base
        about = files.read_card(base, field, card)
        return cls._made(*files.read(base, about, field), about, f"{field}: {base}"), about

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray], card: Any, what: str = "policy") -> TrainedPolicy:
        """The policy that `packed` described; errors begin with `what`."""
        about = files.known(card, what)
        return cls._made(*files.unpacked(arrays, about, what), about, what)

    @classmethod
    def _made(cls, policy: Policy, tensors: Params, about: dict[str, Any], what: str) -> TrainedPolicy:
        try:
            seen = read(about["observations"], tensors.get("encoder"))
            acts = Actions.from_config(about["actions"])
            normaliser = Normaliser.identity(seen.width)
            if "mean" in tensors:
                normaliser = Normaliser(tensors["mean"], tensors["scale"], about.get("clip", math.inf))
            return cls(policy, tensors["network"], seen, acts, normaliser)
        except (KeyError, TypeError) as error:
            raise UserError(f"{what} does not say what the policy sees and does ({error}).") from None

    def network(self, *, distribution: bool = False) -> Network:
        """This policy as a network that answers whole batches: with actions, or with the distribution over
        choices that its outputs are the logits of.
        """
        head = softmax if distribution else self.actions.plays
        return Network(self.policy, self.params, self.observations.rows, head, self.normaliser)
