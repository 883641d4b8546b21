"""The conformance suites pass for what we ship and fail for what is broken."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import understudy
from understudy.checks import CheckError
from understudy.checks.learners import CHECKS
from understudy.learners import LEARNERS, Learner
from understudy.solvers import Solution, Status


@pytest.mark.slow
def test_a_shipped_learner_passes():
    """FTL is the example of `checks.learner`."""
    assert understudy.checks.learner(understudy.adagrad(alpha=0.5, diagonal=True)).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [
        understudy.ftrl(eta=0.3),
        understudy.alt_ftrl(eta=0.3),
        understudy.adaftrl(),
        understudy.ogd(eta=0.1),
        understudy.adagrad(alpha=0.5),
        understudy.ftrl(eta=0.3, radius=1.0),
        understudy.learners.linearised(understudy.alt_ftrl(eta=0.1)),
    ],
    ids=lambda learner: learner.name,
)
def test_every_shipped_learner_passes(learner):
    assert understudy.checks.learner(learner).passed


class Uphill:
    """A user's own learner that walks the wrong way."""

    name = "uphill"

    def init(self, params):
        return understudy.ogd(eta=0.1).init(params)

    def update(self, state, losses, gradient, solve):
        return understudy.ogd(eta=0.1).update(state, losses, optax.tree.scale(-1.0, gradient), solve)


class Hoarder(Uphill):
    """Keeps every gradient, so its state grows."""

    name = "hoarder"

    def init(self, params):
        return {"params": params, "gradients": ()}

    def update(self, state, losses, gradient, solve):
        raise TypeError("shapes change")


def test_a_learner_that_walks_uphill_fails_and_says_so():
    with pytest.raises(CheckError, match="FAIL  learns") as caught:
        understudy.checks.learner(Uphill())
    failed = {row.name for row in caught.value.report.rows if row.passed is False}
    assert failed == {"learns"}


class Plain(NamedTuple):
    params: Any


class Downhill:
    """As small as a learner can be; `gives` makes what `update` answers of the new state."""

    def __init__(self, gives):
        self.gives = gives

    def init(self, params):
        return Plain(params)

    def update(self, state, losses, gradient, solve):
        step = jax.tree.map(lambda w, g: w - 0.5 * g, state.params, gradient)
        return self.gives(Plain(step))


def test_a_learner_of_ones_own_may_solve_nothing_and_is_told_what_it_must_give():
    stream = [([[1.0]], [[1.0]])] * 2
    found = understudy.replay(stream, learner=Downhill(lambda state: (state, None)), keep_iterates=True)
    assert [float(one.squeeze()) for one in found.iterates] == [0.0, 1.0, 1.0]
    assert list(found.ledger["solver_status"]) == ["converged", "converged"]
    for said, gives in {
        "update gave Plain; a pair is expected": lambda state: state,
        "update gave \\(Plain, Plain\\)": lambda state: (state, state),
        "are missing in the state that its update gave \\(dict\\)": lambda state: (state._asdict(), None),
        "are not shaped like the first": lambda state: (Plain(state.params[None]), None),
    }.items():
        with pytest.raises(understudy.UserError, match=said):
            understudy.replay(stream, learner=Downhill(gives))
    with pytest.raises(CheckError, match="a pair is expected"):  # it has failed, not: it does not apply
        understudy.checks.learner(Downhill(lambda state: state))


class Frozen(Learner):
    """Of the family by its books, which say that every step was taken; but it never moves."""

    def update(self, state, losses, gradient, solve):
        new, solution = super().update(state, losses, gradient, solve)
        return new._replace(params=state.params), solution


class Rested(Frozen):
    """The same: a program of its own, compiled where the rule is taken away."""


def frozen(like):
    fields = {name: getattr(like, name) for name in like.__dataclass_fields__}
    return Frozen(**fields | {"name": "frozen"})


@pytest.mark.slow
def test_a_learner_whose_steps_do_not_match_its_books_fails_its_certificate(monkeypatch):
    """A step of a linearised learner is taken on trust, so a class with another one is not certified. A solve
    is measured: the frozen FTL fails to learn, and its bound would be large and true.
    """
    asked = {name: CHECKS[name] for name in ("learns", "regret within its certificate")}
    monkeypatch.setattr("understudy.checks.learners.CHECKS", asked)
    with pytest.raises(CheckError, match="learns") as caught:
        understudy.checks.learner(frozen(understudy.ogd(eta=0.3)))
    assert "nothing is certified: the learner Frozen has its own 'update'" in str(caught.value)
    for module in ("online", "checks.learners"):
        monkeypatch.setattr(f"understudy.{module}.why_not", lambda *_: "")
    with monkeypatch.context() as patch:  # the squared loss alone finds it out
        patch.setattr("understudy.checks.learners.CrossEntropy", understudy.losses.Squared)
        with pytest.raises(CheckError, match="FAIL  regret within its certificate"):
            understudy.checks.learner(Rested(**vars(frozen(understudy.ogd(eta=0.3)))))
    with pytest.raises(CheckError, match="FAIL  learns") as caught:
        understudy.checks.learner(Rested(**vars(frozen(understudy.ftl()))))
    assert "pass  regret within its certificate" in str(caught.value)


def test_a_learner_that_raises_fails_every_check_but_the_suite_goes_on():
    with pytest.raises(CheckError) as caught:
        understudy.checks.learner(Hoarder())
    assert len(caught.value.report.rows) == 8
    assert "raised" in str(caught.value)


def test_a_registered_learner_is_found_by_name():
    understudy.register("learner", "test-only-ftl", understudy.ftl)
    try:
        assert understudy.replay([([[1.0]], [[1.0]])], learner="test-only-ftl").ledger.rounds == 1
        with pytest.raises(understudy.UserError, match="taken"):
            understudy.register("learner", "test-only-ftl", understudy.ftl)
    finally:
        del LEARNERS.makers["test-only-ftl"]


def test_a_shipped_solver_passes():
    assert understudy.checks.solver("closed-form").passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [
        "adam",
        "gd",
        "interior-point",
        "lbfgs",
        "newton",
        "proximal-sgd",
        "sls",
        understudy.solvers.sls(batch_size=16),
    ],
    ids=str,
)
def test_every_shipped_solver_passes(solver):
    assert understudy.checks.solver(solver).passed


class Liar(eqx.Module):
    """Moves a little and says that it converged."""

    minibatch = False

    def __call__(self, objective, params, key=None):
        value, gradient = objective.value_and_gradient(params)
        step = optax.tree.add_scale(params, -1e-3, gradient)
        one, none = jnp.ones((), jnp.int32), jnp.zeros_like(value)
        status = jnp.asarray(Status.CONVERGED, jnp.int32)
        return Solution(step, status, value, none, one, one, jax.tree.map(jnp.zeros_like, params), none)


@pytest.mark.slow
def test_a_solver_that_lies_fails():
    with pytest.raises(CheckError) as caught:
        understudy.checks.solver(Liar())
    failed = {row.name for row in caught.value.report.rows if row.passed is False}
    assert {"minimises (squared)", "tells the gradient it left", "admits failure"} <= failed
