"""From a spec to the parts of a game in an environment: policy, loss, learner, solver.

Here is what `auto` stands for in policy, loss and learner. A linear policy's solver is `solvers.auto`, the
encoder of images is in `parts.py`. What a preset sets is in `spec/presets.py`; other defaults are where their
setting or option is declared.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from .automatic import Automatic
from .errors import UserError
from .experts.networks import sees
from .learners import LEARNERS, Learner, started
from .losses import LOSSES, CrossEntropy, Loss
from .policies import GRU, MLP, POLICIES, Actions, Camera, Observations, Policy
from .policies.camera import LEAST
from .solvers import SOLVERS
from .spec import PRESETS, RunSpec
from .spec.presets import EDGE, FEW, MANY, MEMBERS, SPARSE

SCALES = {"ftrl": "eta", "alt_ftrl": "eta", "adaftrl": "alpha"}
"""Regularised learners and the number that sets how strong their penalty is."""


class Chosen(NamedTuple):
    """What a spec comes to; `options` are for `make_game`, with a solver given by name. members: networks of
    the committee that is kept, the learner's own among them; weigh: what weighs alike, rounds or labels.
    """

    policy: Policy
    loss: Loss
    learner: Any
    automatic: Automatic | None
    solver: Any
    options: dict[str, Any]
    members: int = 1
    weigh: str = "rounds"


def choose(spec: RunSpec, space: Any, actions: Actions, teacher: Any) -> Chosen:
    """The parts for observations in `space`, `actions` and an expert; nothing here starts JAX."""
    policy = choose_policy(spec, space, actions, teacher)
    loss = choose_loss(spec, policy, actions, teacher)
    learner, automatic = choose_learner(spec, policy)
    solver = choose_solver(spec, space, policy, learner)
    members, weigh = choose_members(spec, policy, learner), choose_weigh(spec, policy)
    return Chosen(policy, loss, learner, automatic, *solver, members, weigh)


def choose_loss(spec: RunSpec, policy: Policy, actions: Actions, teacher: Any) -> Loss:
    """The loss; `auto` is cross-entropy for choices and squared for Box actions, or Huber's, which a few
    labels that do not fit disturb less, where networks learn from a budget of them.
    """
    loss, given = spec.loss, spec.options("loss")
    if isinstance(loss, str):
        if loss == "auto":
            loss = "cross-entropy" if actions.categorical else "squared"
            if _few(spec, policy) and actions.bounded and not given:
                assert actions.low is not None and actions.high is not None
                loss, given = "huber", {"delta": EDGE * float(np.mean(actions.high - actions.low))}
        made = LOSSES.make(loss, given)
    else:
        made = LOSSES.resolve(loss)
    if made.logits and not actions.categorical:
        raise UserError("loss: cross-entropy is for Discrete and MultiDiscrete actions, these are Box.")
    if teacher.kind == "distribution" and spec.labels == "expert" and not made.logits and spec.loss != "auto":
        raise UserError(
            f"loss: {loss!r} does not fit an expert that gives distributions; cross-entropy does."
        )
    if isinstance(made, CrossEntropy) and actions.kind == "multi":
        return CrossEntropy(groups=actions.counts)
    return made


def choose_policy(spec: RunSpec, space: Any, actions: Actions, teacher: Any) -> Policy:
    """The policy: by name with the preset's head and bias, or an object as it is.

    `auto` is a network; linear on the expert's features where observations are images, and on vectors where
    the expert is a person, who gives few labels.
    """
    policy, given, squash = spec.policy, spec.options("policy"), spec.squash
    if not isinstance(policy, str):
        made = POLICIES.resolve(policy)
        return _squashed(made, actions) if squash else made
    if policy == "auto":
        own = sees(teacher) is not None
        few = own if _images(space) else teacher.person is not None
        policy = "linear" if few and not given else "mlp"
        policy = "camera" if _beside(space) else policy
    if policy == "linear":
        given = {"bias": PRESETS[spec.preset].bias} | given
    elif policy == "tabular":
        given = {"states": Observations.of(space, tabular=True).leaves[0].counts[0]} | given
    elif policy == "nature_cnn":
        given = _pixels(space) | given
    elif policy == "camera":
        given = _picture(space) | given
    made = POLICIES.make(policy, given)
    fits = isinstance(made, MLP | Camera | GRU) and not actions.categorical and actions.bounded
    return _squashed(made, actions) if squash or (spec.decided("squash") and fits) else made


def _squashed(policy: Policy, actions: Actions) -> Policy:
    if not isinstance(policy, MLP | Camera | GRU):
        raise UserError(f"squash: the policy {policy.name!r} has no tanh head; mlp, gru and camera have.")
    if actions.categorical or not actions.bounded:
        raise UserError("squash: a tanh head needs Box actions with finite bounds.")
    low, high = (tuple(edge.astype(float).tolist()) for edge in (actions.low, actions.high))  # type: ignore[union-attr]
    return dataclasses.replace(policy, head="tanh", low=low, high=high)


def _images(space: Any) -> bool:
    """Whether observations are images of bytes."""
    return len(getattr(space, "shape", None) or ()) == 3 and getattr(space, "dtype", None) == np.uint8


def _beside(space: Any) -> bool:
    """Whether an image, not too small, has other things beside it."""
    leaves = Observations.of(space).leaves
    images = [leaf for leaf in leaves if leaf.kind == "byte" and len(leaf.shape) == 3]
    return len(images) == 1 < len(leaves) and min(sorted(images[0].shape)[1:]) >= LEAST


def _picture(space: Any) -> dict[str, Any]:
    """Where in a row the image is."""
    place, found = 0, None
    for leaf in Observations.of(space).leaves:
        if leaf.kind == "byte" and len(leaf.shape) == 3:
            if found is not None:
                raise UserError("policy: 'camera' sees one image; student_sees chooses among several.")
            found = {"shape": tuple(leaf.shape), "place": place}
        place += leaf.width
    if found is None:
        raise UserError(f"policy: 'camera' needs an image of bytes among the observations {space}.")
    return found


def _pixels(space: Any) -> dict[str, Any]:
    """A stack and size of frames; the solver's loop is inside a compiled program, where products are fast."""
    shape: Any = tuple(getattr(space, "shape", None) or ())
    if not _images(space) or shape[1] != shape[2]:
        raise UserError(
            "policy: 'nature_cnn' sees stacks of square frames of bytes, (stack, size, size), "
            f"as Atari's; these observations are {space}."
        )
    return {"stack": int(shape[0]), "size": int(shape[1]), "method": "matmul"}


def choose_learner(spec: RunSpec, policy: Policy) -> tuple[Any, Automatic | None]:
    """The learner, and what finds its scale where a name comes without one.

    Where its `start` was not given, the schedule starts in round 1 for a policy that is linear in its
    parameters: without a penalty, separable data would send the first solve to infinity, and the certificate
    with it. A network of the practical preset starts in round 2: the first gradient of an untrained network
    says nothing about the later ones. There a regularised learner given by name finds its scale, and takes
    the mean centre, which the residuals of inexact solves stay out of; a linear policy has α = 1 or η = 1.
    """
    network = PRESETS[spec.preset].automatic and not policy.linear
    learner, given, found = spec.learner, spec.options("learner"), None
    if isinstance(learner, str):
        learner = "ftl" if learner == "bc" else LEARNERS.aliases.get(learner, learner)
        scale = SCALES.get(learner)
        if scale is not None and scale not in given and PRESETS[spec.preset].automatic:
            found = Automatic(adaptive=scale == "alpha") if network else None
            # A scale is found in the rounds before `found.start`, and it is that of α or of η/√t.
            early = found is not None and given.get("start", found.start) < found.start
            found = None if early or given.get("schedule", "sqrt") != "sqrt" else found
            given |= {scale: 1.0} if found is not None or not network else {}
        learner = LEARNERS.make(learner, given)
        if found is not None:
            learner = eqx.tree_at(lambda one: one.around_last, learner, np.asarray(False))
    made = LEARNERS.resolve(learner)
    solves = network and not getattr(made, "linear", False)
    return started(made, 1 if not solves else 2 if found is None else found.start), found


def choose_solver(spec: RunSpec, space: Any, policy: Policy, learner: Any) -> tuple[Any, dict[str, Any]]:
    """What to hand to `make_game`: for networks minibatches at a cost per round that does not grow.

    In the practical preset Adam's step falls to zero along a cosine in every round (Hopper, seed 0, loss of
    round 22: 0.0034 with a constant step, 0.0015 so), and the penalty of a regularised learner is taken by
    proximal steps, since Adam would magnify it (AdaFTRL's mean score on Walker2d at 5,000 queries: 0.33 with
    neither, 0.84 with both).
    """
    solver, given = spec.solver, spec.options("solver")
    if policy.linear or not isinstance(solver, str):
        return solver, given
    takes = SOLVERS.takes("adam" if solver == "auto" else solver)
    if takes is not None and "batch_size" not in takes:
        return solver, given
    network: dict[str, Any] = {"batch_size": policy.minibatch, "measure": False}
    network = {name: value for name, value in network.items() if takes is None or name in takes}
    if solver == "auto":
        solver = "adam"
        if PRESETS[spec.preset].automatic:
            network |= {"decay": "cosine", "proximal": not _free(learner)}
            if policy.memory:
                # 33,000 labels of Hopper without velocities: held-out error 0.063 so, with 1e-3 0.108.
                network["learning_rate"] = 3e-3
            if _few(spec, policy):
                network |= FEW | (SPARSE if Observations.of(space).width > MANY else {})
                if "max_iterations" in given:
                    del network["passes"], network["most_passes"]  # as many steps as were asked for
    SOLVERS.refuse_foreign(solver, given)
    return solver, network | given


def choose_members(spec: RunSpec, policy: Policy, learner: Any) -> int:
    """Networks of the committee that is evaluated and kept: `MEMBERS` where a network learns from few labels
    without a penalty, else one. What cannot be one of several is refused.
    """
    if spec.decided("average") > 1 and not policy.linear:
        raise UserError(
            f"average: {spec.average!r} is for policies that are linear in their parameters, and "
            f"{policy.name!r} is not; members trains several networks."
        )
    apart = type(policy) is MLP and _free(learner) and spec.init is None
    if spec.members is None:
        return MEMBERS if apart and _few(spec, policy) else 1
    if spec.members > 1 and not apart:
        raise UserError(
            f"members: {spec.members!r} is for networks (mlp) which FTL or BC trains without init; the "
            f"policy is {policy.name!r}, the learner {spec.name!r}."
        )
    return spec.members


def choose_weigh(spec: RunSpec, policy: Policy) -> str:
    """What weighs alike: labels where a network learns from few. The first, expert-driven round has several
    times those of another, and where each of them weighs less, a robot may fall in its first steps.
    Demonstrations, which may be many, stay one round.
    """
    if spec.weigh == "labels" and policy.linear:
        raise UserError(
            f"weigh: 'labels' is for networks, and {policy.name!r} is linear; 'rounds' is accepted."
        )
    if spec.weigh is None:
        counted = spec.rule.count is not None or spec.decided("ask") == "all"
        return "labels" if _few(spec, policy) and counted and spec.demos is None else "rounds"
    return spec.weigh


def _few(spec: RunSpec, policy: Policy) -> bool:
    """Whether a network on vectors learns from few labels, and the preset decides how."""
    return spec.budget is not None and PRESETS[spec.preset].automatic and isinstance(policy, MLP)


def _free(learner: Any) -> bool:
    """Whether the learner has no penalty, as FTL."""
    return isinstance(learner, Learner) and learner.schedule.zero
