"""What came before in the episode: rows with the last changes beside them, and marks where episodes begin."""

from __future__ import annotations

from typing import Any, final

import jax.numpy as jnp
import numpy as np

from ..errors import UserError
from .encoded import Encoded, Encoder
from .nature_cnn import NatureCNN
from .observations import Observations, Wrapped

MOST = 10_000
"""Rows that are seen together, at most."""


@final
class Recalled(Wrapped):
    """Observations with their past: `Observations`' interface, where a row also depends on what was seen
    before in the episode.

    depth: how many rows of the episode are seen. What is there is the last row and the changes that led to
    it, x_{t−k+2} − x_{t−k+1}, …, x_t − x_{t−1}, x_t, 0 where the episode has no so many rows yet. The rows
    themselves say the same, but hardly differ: a network would have to learn weights that take their small
    differences apart, where these are columns that are standardised. mark: one more column, 1 where an
    episode begins, by which a policy with a state of its own starts anew.

    >>> from gymnasium.spaces import Box
    >>> seen = Recalled(Observations.of(Box(-1, 1, (1,))), 2, mark=True)
    >>> history = History(seen, slots=1)
    >>> for number in (0.25, 0.5):
    ...     rows = history.see([0], np.array([[number]]))
    ...     history.advance([0], rows)
    ...     print(rows.tolist())
    [[0.0, 0.25, 1.0]]
    [[0.25, 0.5, 0.0]]
    """

    def __init__(self, inner: Observations | Encoded, depth: int = 1, *, mark: bool = False):
        if inner.dtype != np.float32:
            raise UserError(
                "stack: bytes and numbers of states have no stack and no gru here; numbers have, and the "
                "features of images (policy linear)."
            )
        if not 1 <= depth <= MOST:
            raise UserError(f"stack: {depth!r} is not a whole number from 1 to {MOST:,}.")
        self.inner, self.depth, self.mark = inner, depth, mark
        self.width, self.dtype = depth * inner.width + mark, inner.dtype

    @property
    def measured(self) -> np.ndarray:
        """Which columns are plain numbers; the mark is none."""
        return np.concatenate([np.tile(self.inner.measured, self.depth), np.zeros(int(self.mark), bool)])

    def join(self, now: Any, past: Any, fresh: Any) -> Any:
        """Rows (n, width) of the inner rows seen `now` (n, inner), what `past` gave of the rows before them
        (n, depth − 1, inner), and whether an episode begins (n,): then what came before does not count.
        Arrays of NumPy or of JAX.
        """
        own = np if isinstance(now, np.ndarray) else jnp
        parts = [now]
        if self.depth > 1:
            changes = own.concatenate([past[:, :-1], now[:, None] - past[:, -1:]], axis=1)
            changes = own.where(fresh[:, None, None], own.zeros_like(changes), changes)
            parts = [changes.reshape(len(now), -1), now]
        return own.concatenate([*parts, fresh[:, None].astype(now.dtype)] if self.mark else parts, axis=1)

    def past(self, rows: Any) -> Any:
        """What the next `join` needs, (n, depth − 1, inner): all changes but the oldest, and the last row."""
        each = self.inner.width
        return rows[:, each : self.depth * each].reshape(len(rows), self.depth - 1, each)

    def row(self, observation: Any) -> np.ndarray:
        """The row of an observation that begins an episode."""
        return self._first(self.inner.row(observation)[None])[0]

    def rows(self, batch: Any) -> np.ndarray:
        """The rows of observations each of which begins an episode."""
        return self._first(self.inner.rows(batch))

    def _first(self, now: np.ndarray) -> np.ndarray:
        past = np.zeros((len(now), self.depth - 1, now.shape[1]), now.dtype)
        return self.join(now, past, np.ones(len(now), bool))

    def along(self, batch: Any, begins: np.ndarray) -> np.ndarray:
        """The rows of observations in the order in which they were seen; `begins` (n,): of an episode."""
        now, history, found = self.inner.rows(batch), History(self, slots=1), []
        for row, begin in zip(now, begins, strict=True):
            if begin:
                history.begin([0])
            found.append(history.see_rows([0], row[None]))
            history.advance([0], found[-1])
        return np.concatenate(found)

    def config(self) -> dict[str, Any]:
        return {"recalled": self.inner.config(), "changes": self.depth - 1, "mark": self.mark}

    @property
    def tensors(self) -> Any:
        """Those of a frozen network, where one is looked through."""
        return getattr(self.inner, "tensors", None)


Seen = Observations | Encoded | Recalled
"""How an observation becomes a row."""


@final
class History:
    """What was seen in the episodes under way in some slots, and the rows made of it.

    `see` gives the rows of what the slots show now, as often as it is asked; `advance` goes on to the next
    step. The last `keep` rows of every slot stay in `kept`, (slots, keep, width). For observations without a
    past it does nothing but make rows.
    """

    def __init__(self, observations: Seen, slots: int, *, keep: int = 0):
        self.observations = observations
        self._codec = observations if isinstance(observations, Recalled) else None
        self._fresh = np.ones(slots, bool)
        self.kept = np.zeros((slots, keep, observations.width), observations.dtype)
        if self._codec is not None:
            shape = slots, self._codec.depth - 1, self._codec.inner.width
            self._past = np.zeros(shape, observations.dtype)

    def begin(self, slots: Any) -> None:
        """The next rows of these slots begin episodes."""
        self._fresh[slots] = True

    def see(self, slots: Any, batch: Any) -> np.ndarray:
        """The rows (n, width) of a batch of observations, one of each slot."""
        if self._codec is None:
            return self.observations.rows(batch)
        return self.see_rows(slots, self._codec.inner.rows(batch))

    def see_rows(self, slots: Any, now: np.ndarray) -> np.ndarray:
        """`see` for the rows that the inner observations made."""
        assert self._codec is not None
        return self._codec.join(now, self._past[slots], self._fresh[slots])

    def advance(self, slots: Any, rows: np.ndarray) -> None:
        """These rows of these slots were acted on."""
        if self._codec is None:
            return
        self._past[slots], self._fresh[slots] = self._codec.past(rows), False
        if self.kept.shape[1]:
            self.kept[slots] = np.concatenate([self.kept[slots][:, 1:], rows[:, None]], axis=1)


def read(config: Any, tensors: Any) -> Seen:
    """What `config` described, from a policy's card."""
    if not isinstance(config, dict):
        return Observations.from_config(config)
    if "recalled" in config:
        inner = read(config["recalled"], tensors)
        if isinstance(inner, Recalled):
            raise KeyError("encoder")
        return Recalled(inner, config["changes"] + 1, mark=config["mark"])
    from . import from_config

    network = from_config(config["encoder"])
    if not isinstance(network, NatureCNN) or tensors is None:
        raise KeyError("encoder")
    return Encoded(Observations.from_config(config["inner"]), Encoder(network, tensors, config["name"]))
