"""The paper's table: each learner is a surrogate, a schedule and a centre."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .base import Learner, Number, Schedule, positive
from .base import schedule as scheduled

LAST, MEAN = np.asarray(True), np.asarray(False)


def _radius(radius: float | None) -> np.ndarray | None:
    return None if radius is None else positive("radius", radius)


def ftl(*, radius: float | None = None) -> Learner:
    """Follow the leader (DAgger): ``w_{t+1} ∈ argmin_w Σ_{i≤t} l_i(w)``, of several the nearest to w_t.

    >>> ftl().name
    'ftl'
    """
    return Learner(Schedule(start=1), around_last=MEAN, radius=_radius(radius), name="ftl")


def ftrl(
    *, eta: Number, schedule: str | Schedule = "sqrt", start: int | None = None, radius: float | None = None
) -> Learner:
    """FTRL, the memory-efficient reformulation, with ``η_t = eta/√t`` by default:

    ``w_{t+1} = argmin_w Σ_{i≤t} l_i(w) − <w, Σ_{i<t} ∇l_i(w_t)> + 1/(2η_t) ||w − w_t||²``.

    Residuals of inexact solves add up in it; the ledger reports the sum. With a `radius`, and on the absolute
    loss, where it would not be FTRL any more, it takes the centre of `alt_ftrl` by itself.

    >>> ftrl(eta=0.1).name
    'ftrl'
    """
    centre = LAST if radius is None else MEAN
    return Learner(
        scheduled(schedule, eta, start=start), around_last=centre, radius=_radius(radius), name="ftrl"
    )


def alt_ftrl(
    *, eta: Number, schedule: str | Schedule = "sqrt", start: int | None = None, radius: float | None = None
) -> Learner:
    """Alt-FTRL, the same update around the weighted mean c_t of past iterates, ``σ_i = 1/η_i − 1/η_{i−1}``:

    ``w_{t+1} = argmin_w Σ_{i≤t} l_i(w) + 1/(2η_t) ||w − c_t||²``, ``c_t = η_t Σ_{i≤t} σ_i w_i``.

    >>> alt_ftrl(eta=0.1).name
    'alt_ftrl'
    """
    return Learner(
        scheduled(schedule, eta, start=start), around_last=MEAN, radius=_radius(radius), name="alt_ftrl"
    )


def adaftrl(*, alpha: Number = 1.0, start: int | None = None, radius: float | None = None) -> Learner:
    """AdaFTRL: FTRL with ``η_t = alpha/√(Σ_{i≤t} ||∇l_i(w_i)||²)``; needs no knowledge of the problem.

    >>> adaftrl().name
    'adaftrl'
    """
    centre = LAST if radius is None else MEAN
    return Learner(
        scheduled("adaptive", alpha, field="alpha", start=start),
        around_last=centre,
        radius=_radius(radius),
        name="adaftrl",
    )


def ogd(*, eta: Number, schedule: str | Schedule = "sqrt", radius: float | None = None) -> Learner:
    """Online gradient descent: ``w_{t+1} = w_t − η_t ∇l_t(w_t)``, projected onto the ball of a `radius`.

    It is `ftrl` on linearised losses.

    >>> ogd(eta=0.1, schedule="constant").name
    'ogd'
    """
    return Learner(
        scheduled(schedule, eta, start=1), linear=True, around_last=LAST, radius=_radius(radius), name="ogd"
    )


def adagrad(*, alpha: Number, diagonal: bool = False, radius: float | None = None) -> Learner:
    """AdaGrad: ``w_{t+1} = w_t − alpha g_t / √(Σ_{i≤t} ||g_i||²)``, `diagonal` with a sum per coordinate.

    It is `adaftrl` on linearised losses. The accumulator starts at 0. On the ball of a `radius` the
    diagonal form projects in the norm ``||x||²_Λ = Σ_j Λ_j x_j²`` of its own weights Λ_t = √(Σ g²)/alpha.
    That is what its bound needs: with z = w_t − g_t/Λ_t and u in the ball, ``||w_{t+1} − u||_Λ ≤ ||z −
    u||_Λ`` gives ``<g_t, w_t − u> ≤ ½||w_t − u||²_Λ − ½||w_{t+1} − u||²_Λ + ½ Σ_j g_j²/Λ_j``, and the sum
    over rounds telescopes. The Euclidean projection does not satisfy the first inequality, and its regret
    can exceed the bound.

    >>> adagrad(alpha=0.1, diagonal=True).name
    'adagrad'
    """
    step = scheduled("adaptive", alpha, field="alpha", start=1)
    return Learner(step, True, LAST, _radius(radius), diagonal=bool(diagonal), name="adagrad")


def linearised(learner: Learner) -> Learner:
    """The same learner on linearised losses ``<g_i, w>``: a formula instead of a solver.

    Around the mean centre it is FTRL's lazy form, which on an active ball differs from OGD's greedy one.
    """
    return dataclasses.replace(learner, linear=True, name=f"linearised_{learner.name}")


def started(learner: Any, start: int) -> Any:
    """The learner with `start` for the first round of its schedule, where none was given.

    >>> int(started(ftrl(eta=0.1), 2).schedule.start), int(started(ftrl(eta=0.1, start=5), 2).schedule.start)
    (2, 5)
    """
    if not isinstance(learner, Learner) or learner.schedule.start is not None:
        return learner
    return dataclasses.replace(learner, schedule=dataclasses.replace(learner.schedule, start=start))
