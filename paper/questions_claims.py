"""Answers to the open questions, as checks: a number with its interval over seeds, and a verdict."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.report.style import look

from .claims import SLACK, Claim, judge, mean, ratio
from .mapping import Table
from .protocol import at_best
from .questions import GD_STEPS, MEMORIES, Answers
from .streams import TOY

DESCENT = ("gd-1", "gd-3", "gd-10")
MINIBATCH = ("adam", "proximal-sgd", "sls")
"""Solvers that leave something behind in every round; gradient descent with 30 steps is judged apart."""
PAIRS = (("ftrl", "alt_ftrl"), ("adaftrl", "alt_adaftrl"))
SAME = 1e-6
"""Outputs this near, relative to the targets, are the same to rounding (features are ill-conditioned)."""

COSTS = {
    DESCENT: "1. few GD steps cost the reformulation more than the mean form (regret, by over 5 %)",
    MINIBATCH: "1. minibatch solves cost the reformulation more than the mean form (regret, by over 5 %)",
}
LEFT = "1. at the end the reformulation has over twice the residual of the mean form"
GROWS = "1. the residual adds up in the reformulation (∝ t^p from a tenth of the rounds on: p above ¼)"
STAYS = {
    DESCENT: "1. … and stays in the mean form with gradient descent (p below ¼)",
    MINIBATCH: "1. … and stays in the mean form with minibatches (p below ¼)",
}
ENOUGH = "1. thirty steps of gradient descent a round are as good as exact (regret, within 5 %)"
TENTH = "2. a reservoir of a tenth of all samples is as good as all of them (regret, within 5 %)"
WINDOW = "2. a window of a tenth of all rounds is as good as all of them (regret, within 5 %)"
AGAINST = "2. a reservoir beats a window of as many samples (regret)"
FTL_SAME = "3. FTL is indifferent to a linear change of the features once the data have full rank (outputs)"
FTL_EARLY = "3. … and before that, too"
TURNED = "3. FTRL is indifferent to a rotation (outputs played, to rounding)"
FTRL_SAME = "3. FTRL is indifferent to other linear changes, each at its best step (regret, within 5 %)"
GAIN = "3. scaling the features lowers FTRL's regret, each at its best step"
PREDICTS = "4. the frozen stream tells the interactive loss (average cumulative loss, within 25 %)"
ORDER = "4. who beats FTL on the frozen stream beats it interactively (average cumulative loss)"
UNTUNED = "5. AdaFTRL untuned (α = 1) matches FTRL at its best step (regret, within 5 %)"
TWICE = "5. … or at least stays within twice its regret"
HINDSIGHT = "5. AdaFTRL with α = D/√2 matches FTRL at its best step (regret, within 5 %)"

ORDER_OF_ALL = (
    *(COSTS[DESCENT], COSTS[MINIBATCH], LEFT, GROWS, STAYS[DESCENT], STAYS[MINIBATCH], ENOUGH),
    *(TENTH, WINDOW, AGAINST, FTL_SAME, FTL_EARLY, TURNED, FTRL_SAME, GAIN),
    *(PREDICTS, ORDER, UNTUNED, TWICE, HINDSIGHT),
)


def judged(study: Answers) -> list[Claim]:
    """Every check of the five questions, in their order."""
    found = [*_inexact(study), *_memory(study), *_views(study), *_interactive(study), *_untuned(study)]
    return sorted(found, key=lambda one: ORDER_OF_ALL.index(one.claim))


def exponent(curves: np.ndarray) -> np.ndarray:
    """p of ``curve ∝ t^p`` from a tenth of the rounds on, by least squares in logarithms; (seeds,).

    >>> exponent(np.arange(1, 21)[None] ** 0.5).round(6).tolist()
    [0.5]
    """
    rounds = curves.shape[1]
    t = np.log(np.arange(rounds // 10, rounds) + 1.0)
    with np.errstate(all="ignore"):
        logs = np.log(curves[:, rounds // 10 :])
    away = t - t.mean()
    return (logs - logs.mean(axis=1, keepdims=True)) @ away / (away @ away)


def end(table: Table) -> np.ndarray:
    """Final regrets, one a seed; infinite where a run left the finite numbers."""
    last = table["regret"][:, -1]
    return np.where(np.isfinite(last), last, np.inf)


def _inexact(study: Answers) -> Iterator[Claim]:
    for stream in study.names:
        here = study.inexact.where(stream=stream)
        for kind in (DESCENT, MINIBATCH):
            for last, centre in PAIRS:
                for solver in kind:
                    one, other = (here.where(learner=name, solver=solver) for name in (last, centre))
                    setting = f"{look(last).label} on {stream} by {solver}"
                    yield judge(COSTS[kind], setting, "last/mean", ratio(end(one), end(other)), above=SLACK)
                    left = ratio(one["residual"][:, -1], other["residual"][:, -1])
                    yield judge(LEFT, setting, "last/mean", left, above=2.0)
                    yield judge(GROWS, setting, "p", mean(exponent(one["residual"])), above=0.25)
                    yield judge(STAYS[kind], setting, "p", mean(exponent(other["residual"])), below=0.25)
        for form in (*PAIRS[0], *PAIRS[1]):
            long, exact = (here.where(learner=form, solver=s) for s in (f"gd-{GD_STEPS[-1]}", "exact"))
            setting = f"{look(form).label} on {stream}"
            yield judge(ENOUGH, setting, "inexact/exact", ratio(end(long), end(exact)), below=SLACK)


def _memory(study: Answers) -> Iterator[Claim]:
    tenth = max((size for size in MEMORIES if size <= study.rounds // 10), default=MEMORIES[0])
    for stream in study.names:
        for name in ("ftl", "ftrl"):
            whole = end(at_best(study.steps.where(stream=stream, learner=name)))
            kept = study.memory.where(stream=stream, learner=name)
            setting = f"{look(name).label} on {stream}"
            for claim, kind in ((TENTH, "reservoir"), (WINDOW, "window")):
                part = end(at_best(kept.where(memory=kind, rounds_held=tenth)))
                yield judge(claim, setting, f"{kind}/all", ratio(part, whole), below=SLACK)
            for size in np.unique(kept["rounds_held"]):
                pair = [end(at_best(kept.where(memory=k, rounds_held=size))) for k in ("reservoir", "window")]
                measure = "reservoir/window"
                yield judge(AGAINST, f"{setting} ({size} rounds' worth)", measure, ratio(*pair), below=1.0)


def _views(study: Answers) -> Iterator[Claim]:
    for stream in study.names:
        here = study.parameterisation.where(stream=stream)
        plain = at_best(here.where(learner="ftrl", view="as recorded"))
        _, samples, features = next(one.inputs.shape for one in study.streams if one.name == stream)
        full = -(-features // samples)  # what is played in a round was learned from those before it
        for view in ("rotated", "random", "scaled", "whitened"):
            apart = here.where(learner="ftl", view=view)["apart"]
            late = mean(apart[:, full:].max(axis=1))
            yield judge(FTL_SAME, f"{stream} {view}", "largest difference", late, below=SAME)
            if full > 1:
                early = mean(apart[:, :full].max(axis=1))
                yield judge(FTL_EARLY, f"{stream} {view}", "largest difference", early, below=SAME)
        turned = here.where(learner="ftrl", view="rotated", step=float(plain["step"][0]))["apart"].max(axis=1)
        yield judge(TURNED, stream, "largest difference", mean(turned), below=SAME)
        for view in ("random", "scaled", "whitened"):
            found = ratio(end(at_best(here.where(learner="ftrl", view=view))), end(plain))
            yield judge(FTRL_SAME, f"{stream} {view}", "larger/smaller", either(found), below=SLACK)
            if view != "random":
                yield judge(GAIN, f"{stream} {view}", f"{view}/recorded", found, below=1.0)


def either(found: tuple[float, ...]) -> tuple[float, float, float]:
    """How far a ratio is from 1, whichever way: the larger over the smaller, with its interval.

    >>> either((0.5, 0.25, 0.8)), either((1.0, 0.5, 1.25))
    ((2.0, 1.25, 4.0), (1.0, 1.0, 2.0))
    """
    low, high = max(found[1], 0.0), found[2]  # what is compared is not negative
    with np.errstate(divide="ignore"):
        both = np.array([found[0], low, high])
        value, *ends = np.maximum(both, 1 / both).tolist()
    return value, 1.0 if low <= 1 <= high else min(ends), max(ends)


def _interactive(study: Answers) -> Iterator[Claim]:
    if study.interactive is None:
        return
    for stream in study.names:
        if stream == TOY:
            continue
        here = study.interactive.where(stream=stream)
        sums = {
            name: {kind: here.where(learner=name)[kind].mean(axis=1) for kind in ("frozen", "interactive")}
            for name in dict.fromkeys(here["learner"].tolist())
        }
        for name, each in sums.items():
            if name == "ftl":
                continue
            setting = f"{look(name).label} on {stream}"
            found = either(ratio(each["interactive"], each["frozen"]))
            yield judge(PREDICTS, setting, "larger/smaller", found, below=1.25)
            if each["frozen"].mean() < sums["ftl"]["frozen"].mean():
                found = ratio(each["interactive"], sums["ftl"]["interactive"])
                yield judge(ORDER, setting, f"{look(name).label}/FTL", found, below=1.0)


def _untuned(study: Answers) -> Iterator[Claim]:
    for stream in study.names:
        tuned = end(at_best(study.steps.where(stream=stream, learner="ftrl")))
        for rule, wanted in (
            ("α = 1", ((UNTUNED, SLACK), (TWICE, 2.0))),
            ("α = D/√2", ((HINDSIGHT, SLACK),)),
        ):
            mine = end(study.untuned.where(stream=stream, rule=rule))
            for claim, below in wanted:
                yield judge(claim, stream, "AdaFTRL/FTRL", ratio(mine, tuned), below=below)
