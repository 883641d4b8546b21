"""The search for lies: it finds the false certificates there are, and counts the regret by itself."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from scipy import optimize

import understudy
from understudy.checks import CheckError, truth
from understudy.checks.certificates import (
    CLAIMS,
    FAMILIES,
    Finding,
    Kind,
    Search,
    change,
    confirm,
    draw,
    excess,
    kinds,
    save,
)
from understudy.cli.replay import read_stream
from understudy.learners import Learner
from understudy.solvers import project


class Euclidean(Learner):
    """Diagonal AdaGrad with the projection of OGD, where the proof needs the one in the norm of Λ_t."""

    def update(self, state, losses, gradient, solve):
        free = Learner(self.schedule, True, self.around_last, None, self.diagonal)
        new, solution = free.update(state, losses, gradient, solve)
        return new._replace(params=project(new.params, self.radius)), solution


def euclidean(step, start, radius):
    like = understudy.adagrad(alpha=step, diagonal=True, radius=radius)
    return Euclidean(like.schedule, True, like.around_last, like.radius, True, "euclidean")


def trust(patch):
    """As if a learner with an update of its own were certified, contradictions and all."""
    patch.setattr("understudy.online.why_not", lambda *_: "")
    patch.setattr("understudy.checks.certificates.contradictory", lambda *ends: np.zeros(len(ends[0]), bool))


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        trust(patch)
        search = Search(Kind("squared", "diagonal", True), (euclidean,))
        return search, search.restart(3)


@pytest.fixture
def lie(found, monkeypatch):
    trust(monkeypatch)
    return found


def test_the_euclidean_projection_of_diagonal_adagrad_is_found_out(lie):
    search, finding = lie
    assert finding.false and finding.worst > 1e-3 and finding.claim == "bound"
    assert finding.evaluations < 1000
    assert "replay prints regret" in confirm(search, finding)


def test_a_finding_can_be_played_again(lie, tmp_path):
    search, finding = lie
    file = save(search, finding, tmp_path / "lies")
    settings = json.loads(file.with_suffix(".json").read_text())
    assert settings["seed"] == 3 and settings["loss"] == "squared" and settings["diagonal"] is True
    played = understudy.replay(read_stream(file), loss="squared", learner=search.learner(finding.candidate))
    assert played.ledger["cumulative_loss"][-1] - played.ledger["comparator"][-1] > played.certificate.bound
    again = search.restart(3)
    assert again.worst == finding.worst and (again.candidate.inputs == finding.candidate.inputs).all()


def test_the_settings_of_a_finding_are_those_of_the_learner(tmp_path):
    """The candidate has a first round too, which a learner of one's own does not take."""
    search = Search(Kind("squared", "online"), (lambda step, start, radius: understudy.ogd(eta=0.5),))
    finding = search.restart(0, generations=0)
    other = finding._replace(candidate=finding.candidate._replace(numbers=np.array([0.0, 0.0, 3.0])))
    settings = json.loads(save(search, other, tmp_path).with_suffix(".json").read_text())
    assert settings["schedule"] == {"constant": 0.0, "root": 2.0, "adaptive": 0.0, "start": 1}


@pytest.mark.parametrize("kind", [Kind("squared", "offline"), Kind("squared", "online", True)], ids=str)
def test_a_short_search_finds_no_false_certificate(kind):
    finding = Search(kind).restart(0, generations=8)
    assert not finding.false, finding


class Hasty(Learner):
    """Steps twice as far as its books say."""

    def update(self, state, losses, gradient, solve):
        new, solution = super().update(state, losses, gradient, solve)
        return new._replace(params=2.0 * new.params - state.params), solution


def test_a_learner_of_ones_own_goes_through_the_search(monkeypatch):
    like = understudy.ogd(eta=0.5)
    own = Hasty(like.schedule, True, like.around_last, None, False, "hasty")
    with pytest.raises(
        understudy.UserError, match="nothing is certified of 'hasty': the learner Hasty has its"
    ):
        understudy.checks.certificate(own, restarts=1, kind="squared, online")
    trust(monkeypatch)
    with pytest.raises(CheckError, match="bound is false"):
        understudy.checks.certificate(own, restarts=1, kind="squared, online")
    with pytest.raises(understudy.UserError, match="there is no 'squared, offline'"):
        understudy.checks.certificate(own, restarts=1, kind="squared, offline")


@pytest.mark.parametrize(
    "asked", [{"minutes": 0.0}, {"minutes": float("nan")}, {"restarts": 0}, {"seed": -1}], ids=str
)
def test_a_search_that_would_search_nothing_is_refused(asked):
    with pytest.raises(understudy.UserError, match=f"^{next(iter(asked))}: "):
        understudy.checks.certificate(**asked)


def test_a_search_of_no_time_searches_once(monkeypatch):
    def restart(self, seed):
        return Finding(self.kind, -1.0, "bound", seed, 48, 0.0, None)

    monkeypatch.setattr(Search, "restart", restart)
    report = understudy.checks.certificate("ftl", minutes=1e-12)
    assert report.passed and sum(row.passed is not None for row in report.rows) == 1
    twice = understudy.checks.certificate("ftl", restarts=2, seed=5, kind="squared, offline")
    assert [row.detail[:8] for row in twice.rows] == ["96 plays"]


def test_every_kind_has_its_learners_and_a_name_of_its_own():
    names = [str(kind) for kind in kinds()]
    assert len(set(names)) == len(names) > 40
    assert {kind.family for kind in kinds()} == set(FAMILIES)


# The truth.

LOSSES = ("squared", "absolute", "huber", "cross-entropy")


@pytest.mark.parametrize("radius", [np.inf, 0.4])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_truth_is_a_loss_that_exists_and_nearly_the_least(loss, radius):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 14, 2)) * [1.0, 0.01], rng.normal(size=(6, 14))
    y = (y > 0.0).astype(float) if loss == "cross-entropy" else 3 * y
    weights = np.full(14, 1 / 14)
    for i in range(6):
        least, there = truth.least_by_scipy(loss, X[i], y[i], weights, radius, np.zeros(2))
        assert np.linalg.norm(there) <= radius
        np.testing.assert_allclose(truth.total(loss, X[i], y[i], weights, there), least, rtol=1e-14)

        # A second opinion, which does not know the first: a simplex search from there goes no lower.
        def beyond(w, i=i):
            return truth.total(loss, X[i], y[i], weights, truth.into(np.asarray(radius), w))

        assert optimize.minimize(beyond, there, method="Nelder-Mead", tol=1e-12).fun >= least * (1 - 1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_losses_of_the_truth_are_those_of_the_library(loss):
    rng = np.random.default_rng(1)
    made = understudy.losses.LOSSES.resolve(loss)
    z, y = rng.normal(size=20) * 2, rng.random(20)
    with jax.enable_x64(True):
        for one, other, expected in zip(z, y, truth.sample_losses(loss, z, y), strict=True):
            pair = ([0.0, one], [1 - other, other]) if loss == "cross-entropy" else ([one], [other])
            assert float(made(*map(np.asarray, pair))) == pytest.approx(expected, rel=1e-14)
    slope = (truth.sample_losses(loss, z + 1e-6, y) - truth.sample_losses(loss, z - 1e-6, y)) / 2e-6
    np.testing.assert_allclose(truth.slopes(loss, z, y), slope, atol=1e-7)


# What counts as a lie.


def test_claims_above_and_below():
    claims = {"cost": np.full(3, 10.0), "bound": np.array([5.0, np.inf, np.nan])}
    claims |= {"regret_low": np.array([4.5, 3.0, np.nan])}
    least = np.full(3, 6.0)  # the regret is 4
    above = excess(claims, "bound", least, 1e-3)
    assert above[0] == pytest.approx(-1 / 9.01) and above[1] == -np.inf and above[2] == np.inf
    below = excess(claims, "regret_low", least, 1e-3)
    assert below[0] == pytest.approx(0.5 / 8.51) and below[1] < 0 and below[2] == -np.inf
    assert set(CLAIMS) == {"bound", "regret_high", "regret_low"}


@pytest.mark.parametrize("labels", [False, True])
def test_candidates_are_legal_whatever_is_changed(labels):
    rng = np.random.default_rng(2)
    one = other = draw(rng, (5, 2, 3), labels, 4)
    for _ in range(300):
        one, other = change(one, other, rng, labels, 4), one
        assert np.isfinite(one.inputs).all() and np.abs(one.inputs).max() <= 1e4
        assert ((one.sizes >= 1) & (one.sizes <= 2)).all() and 1 <= one.numbers[2] <= 3
        assert not labels or ((one.answers >= 0) & (one.answers <= 1)).all()
        assert sum(len(X) for X, _ in one.rounds(labels)) == one.sizes.sum()
