"""A policy with its parameters, what it sees and how it acts: the thing a run is for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, final

import numpy as np

from ..errors import UserError
from . import files
from .acting import forward
from .base import Params, Policy
from .encoded import Encoded, read
from .spaces import Actions, Observations


@final
class Normaliser:
    """``(x − mean) / scale`` per column, fixed once; columns that are not plain numbers pass as they are.

    >>> seen = Normaliser.fit(np.array([[0.0, 5.0], [2.0, 5.0]], np.float32), np.array([True, True]))
    >>> seen(np.array([[2.0, 5.0]], np.float32)).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, mean: np.ndarray, scale: np.ndarray):
        self.mean, self.scale = np.asarray(mean, np.float32), np.asarray(scale, np.float32)
        self.nothing = not self.mean.any() and bool((self.scale == 1).all())

    @classmethod
    def identity(cls, width: int) -> Normaliser:
        return cls(np.zeros(width), np.ones(width))

    @classmethod
    def fit(cls, rows: np.ndarray, which: np.ndarray) -> Normaliser:
        """Mean and deviation of `rows` (n, width) where `which`; a column that hardly moves keeps its
        scale.
        """
        if not which.any():  # images, say: many columns, and none of them a plain number
            return cls.identity(rows.shape[1])
        rows = np.asarray(rows, np.float64)
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        moves = spread > 1e-4 * np.maximum(1.0, np.abs(mean))
        return cls(np.where(which, mean, 0.0), np.where(which & moves, spread, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.nothing else (rows - self.mean) / self.scale


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
        tensors = {"network": self.params, "mean": self.normaliser.mean, "scale": self.normaliser.scale}
        if isinstance(self.observations, Encoded):
            tensors["encoder"] = self.observations.tensors
        spaces = {"observations": self.observations.config(), "actions": self.actions.config()}
        return files.save(path, self.policy, tensors, **spaces, **extra)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TrainedPolicy:
        """Reads what `save` wrote; `path` may also be a run's folder."""
        base = Path(path)
        policy, tensors, card = files.load(base / "policy" if base.is_dir() else base)
        try:
            seen = read(card["observations"], tensors.get("encoder"))
            acts = Actions.from_config(card["actions"])
            normaliser = Normaliser(tensors["mean"], tensors["scale"])
            return cls(policy, tensors["network"], seen, acts, normaliser)
        except (KeyError, TypeError) as error:
            raise UserError(f"policy: {base} does not say what the policy sees and does ({error}).") from None
