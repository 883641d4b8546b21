"""What a run's query rule asks the expert about in the coming round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..asking import Driven, Gate, View
from ..asking.base import at_random, beside, shortly_before
from ..envs.gymnasium import derive

if TYPE_CHECKING:
    from .state import RunState


def gate(run: RunState) -> tuple[Gate | None, int] | None:
    """When the expert takes over in the coming round (None: a person, who decides that), and for how many
    steps at most; None where it does not.
    """
    if run.spec.moment != "spot":
        return None
    if isinstance(run.parts.rule, Driven):
        return None, run.left
    if not run.round:
        return None
    last = run.samples.column("inputs")[-run.spec.sizes[run.round - 1] :]
    made = run.parts.rule.gate(_view(run, last, run.left))
    return made._replace(score=lambda rows: made.score(run.normaliser(rows))), run.left


def weights(run: RunState, inputs: np.ndarray, free: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """What the query rule chooses of the states of a round, of which those that are not `free` are asked
    about anyway: their weights, see `collected.Asking`. They are 1/(M p), or one over the number of the
    asked where some states are never asked about.
    """
    size, states, rule, p = len(free), np.flatnonzero(free), run.parts.rule, 1.0 - free
    driven = size - len(states)
    most = run.left - driven
    if len(states) and most > 0:
        spares = getattr(rule, "falls", True) is False
        lost = shortly_before(ends, run.parts.envs)[states] if spares else None
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
    known, rule = np.zeros(0, int), run.parts.rule
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
