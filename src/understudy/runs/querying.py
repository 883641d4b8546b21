"""The coming round of runs, as it is to be collected, and what a query rule asks the expert about in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..asking import Driven, Gate, View
from ..asking.base import at_random, beside, shortly_before
from ..envs.gymnasium import derive
from .collected import Wanted

if TYPE_CHECKING:
    from .state import RunState


def wanted(runs: Sequence[RunState], going: Sequence[int], acting: Any) -> Wanted:
    """The next round of the runs that are `going`, all of one size; `acting` gives their policies."""
    one = runs[going[0]]
    t = one.round + 1
    return Wanted(
        going,
        one.plan.sizes[t - 1],
        number=t,
        betas=[runs[i].plan.mixing.beta(t) for i in going],
        acting=acting,
        asking=None if one.plan.rule is None else lambda i, *round: weights(runs[i], *round),
        most={i: runs[i].left for i in going} if one.plan.budget is not None else {},
        gates={i: found for i in going if (found := gate(runs[i])) is not None},
    )


def gate(run: RunState) -> tuple[Gate | None, int] | None:
    """When the expert takes over in the coming round (None: a person, who decides that), and for how many
    steps at most; None where it does not.
    """
    if run.spec.moment != "spot":
        return None
    if isinstance(run.plan.rule, Driven):
        return None, run.left
    if not run.round:
        return None
    last = run.samples.column("inputs")[-run.plan.sizes[run.round - 1] :]
    made = run.plan.rule.gate(_view(run, last, run.left))
    return made._replace(score=lambda rows: made.score(run.normaliser(rows))), run.left


def weights(run: RunState, inputs: np.ndarray, free: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """What the query rule chooses of the states of a round, of which those that are not `free` are asked
    about anyway: their weights, see `collected.Asking`. They are 1/(M p), or one over the number of the
    asked where some states are never asked about.
    """
    size, states, rule, p = len(free), np.flatnonzero(free), run.plan.rule, 1.0 - free
    driven = size - len(states)
    most = run.left - driven
    if len(states) and most > 0:
        spares = getattr(rule, "falls", True) is False
        lost = shortly_before(ends, run.plan.envs)[states] if spares else None
        view = _view(run, inputs[states], most, lost)
        if run.spec.moment == "spot":  # the rule has chosen already
            random = min(at_random(rule, driven), most)
            chosen = beside(np.zeros(0, int), random, len(states), view.rng)
        else:
            chosen = rule.choose(view)
        p[states[chosen.index]] = chosen.p
    asked = p > 0
    if rule.honest:
        return np.where(asked, 1.0 / (size * np.where(asked, p, 1.0)), 0.0)
    return asked / max(asked.sum(), 1)


def _view(run: RunState, rows: np.ndarray, most: int, lost: np.ndarray | None = None) -> View:
    """What the query rule sees of the coming round; `rows` are states before they are standardised."""
    known, rule = np.zeros(0, int), run.plan.rule
    if rule.reads and run.samples.rows:
        known = np.flatnonzero(run.samples.column("weights"))
    seen = {one: run.samples.column(one)[known] for one in ("inputs", "targets") if len(known)}
    return View(
        rows=run.normaliser(rows),
        known=run.normaliser(seen.get("inputs", rows[:0])),
        targets=seen.get("targets", np.zeros((0, run.parts.actions.outputs), np.float32)),
        policy=run.game.policy,
        params=run.params,
        loss=run.game.loss,
        most=most,
        rng=np.random.default_rng(derive(run.spec.seed, "ask", run.round + 1)),
        lost=lost,
    )
