"""What an expert is: something that says, for a batch of observations, what it would have done.

There is one final class. Everything else in this room is a function that returns one, and wrapping an expert
(checking its answers, showing it other observations, asking it over a slow line) is `dataclasses.replace`
with another `ask`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from ..errors import UserError
from ..nested import batch_size, stacked

if TYPE_CHECKING:  # importing this room is cheap, and networks bring JAX
    from gymnasium import Space

    from ..policies import Network
    from .human import Person

Ask = Callable[[Any, Any], Any]
Kind = Literal["action", "distribution"]
KINDS = ("action", "distribution")


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Expert:
    """A named labeller of batches of observations.

    `ask(observations, infos)` is given n observations at once and returns n labels. With `kind="action"` a
    label is an action: float32 (n, *shape) for Box, int64 (n, *shape) for choices, (n,) where there is one.
    With `kind="distribution"` (Discrete only) it is a row of probabilities, float32 (n, k). The spaces are
    what the expert was made for, None where that is unknown; the card says where it comes from.

    >>> left = Expert("left", ask=lambda observations, infos: np.zeros(len(observations), np.int64))
    >>> left.label(np.ones((3, 4)))
    array([0, 0, 0])
    """

    name: str
    ask: Ask = dataclasses.field(repr=False)
    kind: Kind = "action"
    observation_space: Space[Any] | None = dataclasses.field(default=None, repr=False)
    action_space: Space[Any] | None = dataclasses.field(default=None, repr=False)
    card: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    needs_infos: bool = False
    on_reset: Callable[[], None] | None = dataclasses.field(default=None, repr=False)
    """Called when an episode begins, of an expert that remembers what it saw in the last one."""
    network: Network | None = dataclasses.field(default=None, repr=False)
    """The network it plays, where it is one that this package runs itself."""
    pure: Callable[[Any], Any] | None = dataclasses.field(default=None, repr=False)
    """The same answers as a function of n observations that JAX can trace, where there is one: then runs in
    pure environments stay on the device."""
    alike: bool = False
    """Whether an observation has one answer, to the bit, in any batch and at any time."""
    probed: int = 0
    """Calls that were made to find out what it is."""
    batch: int = 32
    """Most observations in one call of a slow expert; 1: it is asked about them one at a time."""
    person: Person | None = dataclasses.field(default=None, repr=False)
    """Who is asked in place of `ask`, where it is a person (`experts.human`)."""
    workers: int | None = None
    """Calls that may be under way at once, for a slow or expensive expert; None: it is neither. A run
    asks such an expert about a state once, in parallel, after the round where it does not act itself, and
    does not play it for its return unless that is asked for."""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise UserError(f"kind: {self.kind!r} is not a kind of label; accepted: {', '.join(KINDS)}.")

    def label(self, observations: Any, infos: Any = None) -> np.ndarray:
        """The expert's answers to n observations (arrays, or a dict of arrays, with n in front)."""
        if batch_size(observations) == 0:
            return self._no_labels()
        labels = np.asarray(self.ask(observations, infos))
        wanted = np.int64 if self.kind == "action" and labels.dtype.kind in "iub" else np.float32
        return labels if labels.dtype == wanted else labels.astype(wanted)

    def act(
        self, observations: Any, infos: Any = None, *, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """The actions it would play: its labels, or from a distribution the mode, or with `rng` a sample.

        >>> coin = Expert("coin", ask=lambda o, i: np.full((len(o), 2), [0.25, 0.75]), kind="distribution")
        >>> coin.act(np.zeros(3)), coin.act(np.zeros(8), rng=np.random.default_rng(0)).sum()
        (array([1, 1, 1]), np.int64(6))
        """
        labels = self.label(observations, infos)
        if self.kind == "action":
            return labels
        indices = labels.argmax(axis=1) if rng is None else sample_rows(labels, rng)
        return indices.astype(np.int64) + int(getattr(self.action_space, "start", 0))

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ):
        """Stable-Baselines3's signature: one observation or a batch in, (action or actions, state) out.

        A distribution is answered with its mode whatever `deterministic` says: randomness is an argument here
        (see `act`), never hidden in the expert.
        """
        if self.observation_space is None:
            raise UserError(
                f"expert {self.name!r}: predict cannot tell one observation from a batch because the "
                "observation space is unknown; give observation_space=, or call act."
            )
        if not is_single(observation, self.observation_space):
            return self.act(observation), state
        return self.act(stacked([observation]))[0], state

    def __call__(self, observation: Any) -> Any:
        """The action for one observation, or the actions for a batch."""
        return self.predict(observation)[0]

    def _no_labels(self) -> np.ndarray:
        space: Any = self.action_space
        if space is None:
            raise UserError(f"expert {self.name!r}: was asked about nothing, and its actions are unknown.")
        if self.kind == "distribution":
            return np.empty((0, int(space.n)), np.float32)
        discrete = np.issubdtype(space.dtype, np.integer)
        return np.empty((0, *space.shape), np.int64 if discrete else np.float32)


def together(name: str, answers: Sequence[Any]) -> np.ndarray:
    """n answers as one array with n in front; refused where their shapes differ."""
    try:
        return np.stack([np.asarray(answer) for answer in answers])
    except ValueError:
        raise UserError(f"expert {name!r}: its answers do not all have the same shape.") from None


def sample_rows(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index per row, drawn from it: the first whose cumulative probability exceeds a uniform number."""
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    thresholds = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.minimum((thresholds[:, None] >= cumulative).sum(axis=1), probabilities.shape[1] - 1)


def is_single(observation: Any, space: Any) -> bool:
    """Whether this is one observation of the space, not a batch: it has exactly the space's dimensions."""
    inner = getattr(space, "spaces", None)
    if isinstance(observation, Mapping):
        key = next(iter(observation), None)
        if not isinstance(inner, Mapping) or key not in inner:
            raise UserError(f"observation: its key {key!r} is not in the observation space {space}.")
        return is_single(observation[key], inner[key])
    if isinstance(observation, tuple) and isinstance(inner, tuple):
        return is_single(observation[0], inner[0])
    return np.ndim(observation) == len(space.shape or ())
