"""The samples of a run as episodes: what was seen, what was played, what the expert would have done."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from gymnasium import spaces

from ..errors import UserError
from ..nested import nest
from ..policies import Actions, Encoded, Observations, Recalled, Seen
from ..policies.codecs import Leaf
from ..runs import Record
from ..samples import BREAK, EXPERT, TERMINATED, TRUNCATED

if TYPE_CHECKING:
    from ..nested import Nested, Space


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Episode:
    """T steps of one episode. `observations` (T in front) as the policy saw them, `actions` that were played,
    `expert_actions` (nan or −1 where the expert was not asked), `targets` (T, k) as the learner had them,
    `rewards`, `by_expert` (who acted), `asked`, `weights` of the samples; how it ended.

    The observation after the last step is not among a run's samples.
    """

    observations: Nested
    actions: np.ndarray
    expert_actions: np.ndarray
    targets: np.ndarray
    rewards: np.ndarray
    by_expert: np.ndarray
    asked: np.ndarray
    weights: np.ndarray
    terminated: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.rewards)


class Steps(NamedTuple):
    """Which samples of a run are one episode: its environment, its number there, from which its seed follows
    (see `runs.episodes`), and the samples' numbers in order.
    """

    slot: int
    episode: int
    rows: np.ndarray


def split(run: Record) -> list[Steps]:
    """The episodes of a run by their first steps. Demonstrations and labels before a break are in none."""
    flags, slots = np.asarray(run.samples("flags")), np.asarray(run.samples("slots"))
    played = (np.arange(len(flags)) >= run.demos) & (flags & BREAK == 0)
    breaks = np.diff(run.ledger["breaks"], prepend=0) > 0  # a new episode began with these rounds
    begun = np.append(0, run.ledger["steps"][:-1])[breaks] + run.demos
    begun = begun[begun > run.demos]  # before the first step there was no episode to break
    episodes: list[Steps] = []
    for slot in np.unique(slots[played]).tolist():
        rows = np.flatnonzero(played & (slots == slot))
        ends = np.flatnonzero(flags[rows] & (TERMINATED | TRUNCATED)) + 1
        for part in np.split(rows, np.unique(np.append(ends, np.searchsorted(rows, begun)))):
            if len(part):
                before = np.count_nonzero(rows[ends - 1] < part[0]) + np.count_nonzero(begun <= part[0])
                episodes.append(Steps(slot, int(before), part))
    return sorted(episodes, key=lambda steps: int(steps.rows[0]))


def episodes(run: Record) -> Iterator[Episode]:
    """The episodes of a run, one after the other."""
    names = ("inputs", "targets", "executed", "rewards", "flags", "weights")
    columns, parts = [run.samples(name) for name in names], split(run)
    if not parts:
        raise UserError("run: it has no episode to export.")
    for _, _, rows in parts:
        inputs, targets, executed, rewards, flags, weights = (np.asarray(column[rows]) for column in columns)
        yield Episode(
            observations=decode(run.policy.observations, inputs),
            actions=executed.reshape(len(rows), *run.policy.actions.shape),
            expert_actions=_expert_actions(run.policy.actions, targets, weights > 0),
            targets=targets,
            rewards=rewards,
            by_expert=flags & EXPERT > 0,
            asked=weights > 0,
            weights=weights,
            terminated=bool(flags[-1] & TERMINATED),
            truncated=bool(flags[-1] & TRUNCATED),
        )


def _expert_actions(actions: Actions, targets: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The expert's actions (T, …); nan, or −1 for choices, where it was not asked."""
    if actions.kind == "box":
        answers = targets.reshape(len(targets), *actions.shape).astype(actions.dtype)
        answers[~asked] = np.nan
    else:
        answers = np.asarray(actions.plays(targets), np.int64)
        answers[~asked] = -1
    return answers


# From rows back to observations.


def space(observations: Seen) -> Space:
    """The Gymnasium space of what `decode` returns: what the policy sees, without what it recalls."""
    if isinstance(observations, Recalled):
        return space(observations.inner)
    if isinstance(observations, Encoded):
        return spaces.Box(-np.inf, np.inf, (observations.width,))
    return Observations([_seen_part(leaf) for leaf in observations.leaves]).space()


def decode(observations: Seen, rows: np.ndarray) -> Nested:
    """n rows as observations with n in front: what `Observations.rows` makes rows of, exactly. Features of an
    encoder stay features, and of a vector that is seen in part there is that part.

    >>> from gymnasium.spaces import Box, Dict, Discrete
    >>> seen = Observations.of(Dict(a=Box(-1, 1, (2,)), b=Discrete(3, start=5)))
    >>> decode(seen, seen.rows({"a": np.array([[0.5, -0.5]]), "b": np.array([7])}))
    {'a': array([[ 0.5, -0.5]], dtype=float32), 'b': array([7])}
    """
    if isinstance(observations, Recalled):
        width, depth = observations.inner.width, observations.depth
        return decode(observations.inner, rows[:, (depth - 1) * width : depth * width])
    if isinstance(observations, Encoded):
        return rows
    blocks = np.split(rows, np.cumsum([leaf.width for leaf in observations.leaves])[:-1], axis=1)
    leaves = zip(observations.leaves, blocks, strict=True)
    return nest([(leaf.path, _values(_seen_part(leaf), block)) for leaf, block in leaves])


def _seen_part(leaf: Leaf) -> Leaf:
    return dataclasses.replace(leaf, shape=(len(leaf.picks),), picks=()) if leaf.picks else leaf


def _values(leaf: Leaf, block: np.ndarray) -> np.ndarray:
    n = len(block)
    if leaf.kind == "byte" and block.dtype != np.uint8:
        block = np.rint(block * 255).astype(np.uint8)
    if leaf.kind in ("number", "byte"):
        return block.reshape(n, *leaf.shape)
    if leaf.kind == "state":
        return block[:, 0].astype(np.int64) + leaf.starts[0]
    groups = np.split(block, np.cumsum(leaf.counts)[:-1], axis=1)
    chosen = np.stack([group.argmax(axis=1) for group in groups], axis=1)
    return (chosen + np.asarray(leaf.starts)).reshape(n, *leaf.shape)
