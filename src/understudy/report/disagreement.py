"""Where a run's policy and its expert disagree, on the states of the run: its own and the expert's."""

from __future__ import annotations

import dataclasses
from typing import Any, final

import numpy as np

from ..envs.gymnasium import derive
from ..exports.episodes import split
from ..policies import Actions
from ..policies.acting import forward_rows
from ..runs import Record
from ..samples import BREAK, EXPERT
from .summaries import thinned

MOST_STATES, BYTES = 20_000, 64 << 20
"""Most labelled states that are looked at, and most bytes of them."""
POINTS = 900
"""Most states that are drawn."""
WIDE = 2048
"""Observations of more numbers, as images are, are not drawn as points."""


@final
@dataclasses.dataclass(frozen=True)
class Compared:
    """Labelled states of a run and what both do in them; all arrays have one entry per state.

    rows: their numbers among the run's samples. away: how far the policy is from the label (see `distance`).
    mine, theirs: the actions (n, a), as they are played. by_expert: whether the expert was acting.
    """

    rows: np.ndarray
    away: np.ndarray
    mine: np.ndarray
    theirs: np.ndarray
    by_expert: np.ndarray
    actions: Actions

    @property
    def differs(self) -> np.ndarray:
        """Where the choices are not the same; for numbers, where any differs."""
        return (self.mine != self.theirs).any(axis=1)


def distance(actions: Actions, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """How far outputs (n, k) are from labels (n, k): for choices the Kullback-Leibler divergence from the
    expert's distribution, which for a single choice is −log of its probability; else the Euclidean distance
    of the actions as they are played.

    >>> from gymnasium.spaces import Discrete
    >>> distance(Actions.of(Discrete(2)), np.zeros((1, 2)), np.array([[1.0, 0.0]])).round(4).tolist()
    [0.6931]
    """
    outputs, targets = np.asarray(outputs, float), np.asarray(targets, float)
    if not actions.categorical:
        mine, theirs = (np.asarray(actions.plays(x), float).reshape(len(x), -1) for x in (outputs, targets))
        return np.sqrt(np.square(mine - theirs).sum(axis=1))
    total, first = np.zeros(len(outputs)), 0
    for count in actions.counts:
        logits, wanted = outputs[:, first : first + count], targets[:, first : first + count]
        logits = logits - logits.max(axis=1, keepdims=True)
        log = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        known = np.log(np.where(wanted > 0, wanted, 1.0))
        total += (wanted * (known - log)).sum(axis=1)
        first += count
    return np.maximum(total, 0.0)


def compare(run: Record) -> Compared | None:
    """Both on the labelled states of the run, at most `MOST_STATES`, evenly spread; None without any."""
    weights, flags = run.samples("weights"), np.asarray(run.samples("flags"))
    labelled = np.flatnonzero((np.asarray(weights) > 0) & (flags & BREAK == 0))
    if not len(labelled):
        return None
    policy = run.policy
    width = policy.observations.width * policy.observations.dtype.itemsize
    rows = labelled[thinned(len(labelled), max(1, min(MOST_STATES, BYTES // width)))]
    inputs = np.asarray(run.samples("inputs")[rows])
    targets = np.asarray(run.samples("targets")[rows])
    acts = policy.actions
    if policy.policy.memory:  # it answers along whole episodes
        outputs = policy.along(run.samples("inputs"), run.samples("slots"))[rows]
    else:
        outputs = forward_rows(policy.policy, policy.params)(policy.normaliser(inputs))
    mine, theirs = (np.asarray(acts.plays(one)).reshape(len(rows), -1) for one in (outputs, targets))
    return Compared(rows, distance(acts, outputs, targets), mine, theirs, flags[rows] & EXPERT > 0, acts)


def described(run: Record, found: Compared) -> dict[str, Any]:
    """What a page shows of it: means on the expert's and on the policy's own states, by action or choice, and
    the states on the plane of their two main directions.
    """
    acts = found.actions
    sides = {}
    for name, there in (("expert", found.by_expert), ("own", ~found.by_expert)):
        side: dict[str, Any] = {"states": int(there.sum())}
        if there.any():
            side |= {"away": float(found.away[there].mean()), "differs": float(found.differs[there].mean())}
            if not acts.categorical:
                gaps = np.abs(found.mine[there] - found.theirs[there])
                side["gaps"] = gaps.mean(axis=0)[:16].tolist()
        sides[name] = side
    made: dict[str, Any] = {"choices": acts.categorical, "sides": sides, "states": len(found.rows)}
    if acts.kind == "discrete" and acts.counts[0] <= 18:
        table = np.zeros((acts.counts[0], acts.counts[0]), int)
        np.add.at(table, (found.theirs[:, 0] - acts.starts[0], found.mine[:, 0] - acts.starts[0]), 1)
        made |= {"confusion": table.tolist(), "first": acts.starts[0]}
    plane = _plane(run, found)
    return made | ({} if plane is None else {"plane": plane})


def _plane(run: Record, found: Compared) -> dict[str, Any] | None:
    """Some of the states, evenly spread, on the two directions in which states vary most."""
    if run.policy.observations.width > WIDE or len(found.rows) < 3:
        return None
    chosen = thinned(len(found.rows), POINTS)
    states = run.policy.normaliser(np.asarray(run.samples("inputs")[found.rows])).astype(float)
    centred = states - states.mean(axis=0)
    centred /= np.maximum(centred.std(axis=0), 1e-12)
    _, sizes, directions = np.linalg.svd(centred[thinned(len(states), 4000)], full_matrices=False)
    if len(sizes) < 2 or sizes[1] <= 0:
        return None
    # A direction and its opposite are the same; the largest entry is made positive.
    two = directions[:2] * np.sign(directions[:2][[0, 1], np.abs(directions[:2]).argmax(axis=1)])[:, None]
    places = centred[chosen] @ two.T
    limit = float(np.quantile(found.away, 0.9))
    return {
        "x": places[:, 0].round(3).tolist(),
        "y": places[:, 1].round(3).tolist(),
        "expert": found.by_expert[chosen].tolist(),
        "far": (found.away[chosen] > limit).tolist(),
        "limit": limit,
        "share": float(np.square(sizes[:2]).sum() / np.square(sizes).sum()),
    }


@final
@dataclasses.dataclass(frozen=True)
class Moment:
    """One state in which they disagree, and where it is: round, environment, episode and step, from 0 but for
    the round; `seed` is that of the episode and `actions` (steps, a) are those played in it.
    """

    at: int
    """Its place in `Compared`."""
    row: int
    round: int
    slot: int
    episode: int
    step: int
    seed: int
    actions: np.ndarray


def worst(run: Record, found: Compared, count: int, apart: int = 40) -> list[Moment]:
    """The states with the largest disagreement, those where choices differ first; two of one episode are at
    least `apart` steps from each other.
    """
    executed, demos = run.samples("executed"), run.demos
    bounds = np.append(demos, demos + np.asarray(run.ledger["steps"], int))
    episodes = split(run)
    which = np.full(len(executed), -1)
    for number, one in enumerate(episodes):
        which[one.rows] = number
    agree = ~found.differs if found.actions.categorical else np.zeros(len(found.away), bool)
    chosen: list[Moment] = []
    for at in np.lexsort((-found.away, agree))[:4000].tolist():
        row = int(found.rows[at])
        if len(chosen) >= count or found.away[at] <= 0:
            break
        if which[row] < 0:  # a demonstration
            continue
        slot, episode, rows = episodes[which[row]]
        step = int(np.searchsorted(rows, row))
        same = [one for one in chosen if (one.slot, one.episode) == (slot, episode)]
        if any(abs(one.step - step) < apart for one in same):
            continue
        number = int(np.searchsorted(bounds, row, side="right"))
        seed = derive(run.settings["seed"], "collect", slot, episode)
        actions = np.asarray(executed[rows[: step + 4 * apart]])
        chosen.append(Moment(at, row, number, slot, episode, step, seed, actions))
    return chosen
