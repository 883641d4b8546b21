"""Bad input: one sentence that names the field."""

from __future__ import annotations

import numpy as np
import pytest

import understudy
from reference import FEW, stream
from understudy import UserError, adagrad, alt_ftrl, ftl, ftrl, ogd, replay
from understudy.learners import Schedule
from understudy.losses import Huber
from understudy.policies import MLP, Tabular

X, Y = np.ones((2, 3)), np.ones((2, 1))
GOOD = [(X, Y)]
PLAYED = stream("squared", rounds=FEW)
"""Rounds of the size of other tests, for calls that are refused after the game."""
NAN, INF = np.where(np.eye(2, 3) > 0, np.nan, 1.0), np.where(np.eye(2, 3) > 0, np.inf, 1.0)

TABLE = {
    "nan in X": ("rounds", lambda: replay([(NAN, Y)])),
    "inf in X": ("rounds", lambda: replay([(INF, Y)])),
    "nan in Y": ("rounds", lambda: replay([(X, [[np.nan], [1.0]])])),
    "complex X": ("rounds", lambda: replay([(X * 1j, Y)])),
    "words in Y": ("rounds", lambda: replay([(X, ["a", "b"])])),
    "ragged X": ("rounds", lambda: replay([([[1.0], [1.0, 2.0]], Y)])),
    "ragged Y": ("rounds", lambda: replay([(X, [[1.0], [1.0, 2.0]])])),
    "lengths differ": ("rounds", lambda: replay([(X, np.ones((3, 1)))])),
    "features differ": ("rounds", lambda: replay([(X, Y), (np.ones((2, 4)), Y)])),
    "outputs differ": ("rounds", lambda: replay([(X, Y), (X, np.ones((2, 2)))])),
    "no features": ("rounds", lambda: replay([(np.ones((2, 0)), Y)])),
    "no outputs": ("rounds", lambda: replay([(X, np.ones((2, 0)))])),
    "three dimensions": ("rounds", lambda: replay([(X, np.ones((2, 1, 1)))])),
    "empty round": ("rounds", lambda: replay([(X, Y), (np.ones((0, 3)), np.ones((0, 1)))])),
    "no rounds": ("rounds", lambda: replay([])),
    "not a list": ("rounds", lambda: replay(None)),
    "not pairs": ("rounds", lambda: replay([(X, Y, X)])),
    "label negative": ("rounds", lambda: replay([(X, [0, -1])], loss="cross-entropy")),
    "label not whole": ("rounds", lambda: replay([(X, [0, 0.5])], loss="cross-entropy")),
    "label too large": ("rounds", lambda: replay([(X, np.eye(2)), (X, [0, 2])], loss="cross-entropy")),
    "probabilities": ("rounds", lambda: replay([(X, [[0.5, 0.6], [0.5, 0.5]])], loss="cross-entropy")),
    "negative probability": (
        "rounds",
        lambda: replay([(X, [[1.5, -0.5], [0.5, 0.5]])], loss="cross-entropy"),
    ),
    "label of no sample": ("rounds", lambda: replay([(X, 1)], loss="cross-entropy")),
    "labels too deep": ("rounds", lambda: replay([(X, np.ones((2, 2, 2)))], loss="cross-entropy")),
    "states not whole": ("rounds", lambda: replay([([0.5], [1.0])], policy="tabular")),
    "state out of range": ("rounds", lambda: replay([([5], [1.0])], policy=Tabular(states=3))),
    "eta zero": ("eta", lambda: ftrl(eta=0)),
    "eta negative": ("eta", lambda: alt_ftrl(eta=-1.0)),
    "eta nan": ("eta", lambda: ogd(eta=float("nan"))),
    "eta infinite": ("eta", lambda: ogd(eta=float("inf"))),
    "eta too small for an inverse": ("eta", lambda: ftrl(eta=1e-310)),
    "eta a word": ("eta", lambda: ftrl(eta="big")),
    "eta a list": ("eta", lambda: ftrl(eta=[1.0, 2.0])),
    "alpha zero": ("alpha", lambda: adagrad(alpha=0)),
    "radius zero": ("radius", lambda: ftl(radius=0.0)),
    "radius for a network": ("radius", lambda: replay(GOOD, policy="mlp", learner=ftl(radius=1.0))),
    "start": ("start", lambda: ftrl(eta=1.0, start=0)),
    "schedule negative": ("schedule", lambda: Schedule(constant=-1.0)),
    "schedule not finite": ("schedule", lambda: Schedule(root=float("inf"))),
    "start of a schedule": ("start", lambda: Schedule(root=1.0, start=1.5)),
    "schedule": ("schedule", lambda: ftrl(eta=1.0, schedule="sqr")),
    "smoothness": ("smoothness", lambda: understudy.learners.theorem(smoothness=0.0, interpolation=1.0)),
    "interpolation": (
        "interpolation",
        lambda: understudy.learners.theorem(smoothness=1.0, interpolation="x"),
    ),
    "delta": ("delta", lambda: Huber(delta=0.0)),
    "widths": ("widths", lambda: MLP(widths=(0,))),
    "activation": ("activation", lambda: MLP(activation="rleu")),
    "seed negative": ("seed", lambda: replay(GOOD, seed=-1)),
    "seed not whole": ("seed", lambda: replay(GOOD, seed=1.5)),
    "seed too large": ("seed", lambda: replay(GOOD, seed=2**70)),
    "comparator beyond": ("comparator", lambda: replay(GOOD, comparator=[2])),
    "comparator nothing": ("comparator", lambda: replay(GOOD, comparator=None)),
    "comparator nested": ("comparator", lambda: replay(GOOD, comparator=[[1]])),
    "comparator empty": ("comparator", lambda: replay(GOOD, comparator=[])),
    "comparator fraction": ("comparator", lambda: replay(GOOD, comparator=[1.5])),
    "comparator word": ("comparator", lambda: replay(GOOD, comparator="always")),
    "option not taken": ("solver", lambda: replay(GOOD, solver="gd", batch_size=4)),
    "option of no option": ("solver", lambda: replay(GOOD, solver="closed-form", tolerance=1.0)),
    "option and object": ("solver", lambda: replay(GOOD, solver=understudy.solvers.gd(), tolerance=1.0)),
    "closed form elsewhere": ("solver", lambda: replay(GOOD, loss="huber", solver="closed-form")),
    "tolerance": ("tolerance", lambda: understudy.solvers.gd(tolerance=float("nan"))),
    "max_iterations": ("max_iterations", lambda: understudy.solvers.gd(max_iterations=0)),
    "batch_size": ("batch_size", lambda: understudy.solvers.adam(batch_size=0)),
    "learning_rate": ("learning_rate", lambda: understudy.solvers.adam(learning_rate=-1.0)),
    "bounds without iterates": ("bounds", lambda: replay(PLAYED).bounds()),
    "column": ("ledger column", lambda: replay(PLAYED).ledger["regrets"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_one_sentence_names_the_field(name):
    field, call = TABLE[name]
    with pytest.raises(UserError) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(f"{field}: ") and "\n" not in text and len(text) < 400


NAMES = {"loss": ("sqared", "squared"), "policy": ("linaer", "linear"), "learner": ("adaftlr", "adaftrl")}
NAMES["solver"] = ("newtn", "newton")


@pytest.mark.parametrize("field", NAMES)
def test_an_unknown_name_is_told_the_nearest(field):
    wrong, near = NAMES[field]
    with pytest.raises(UserError, match=f"^{field}: unknown value '{wrong}', did you mean '{near}'"):
        replay(GOOD, **{field: wrong})
    with pytest.raises(UserError, match=f"^{field}: expected a name"):
        replay(GOOD, **{field: 3})


def test_a_name_that_needs_options_says_so():
    with pytest.raises(UserError, match=r"^learner: 'ftrl' needs options .*understudy\.ftrl"):
        replay(GOOD, learner="ftrl")


def test_whole_numbers_and_floats_may_be_mixed():
    """A first round of whole numbers must not make the buffer cut the floats of later rounds."""
    mixed = [([[1, 0], [0, 1]], [[1], [2]]), ([[0.5, 0.25], [0.1, 0.9]], [[0.5], [0.3]])]
    floats = [(np.asarray(X, float), np.asarray(Y, float)) for X, Y in mixed]
    one, other = (replay(s, loss="huber", learner=ogd(eta=0.5), keep_iterates=True) for s in (mixed, floats))
    np.testing.assert_array_equal(one.ledger["comparator"], other.ledger["comparator"])
    np.testing.assert_array_equal(one.iterates[-1], other.iterates[-1])
