"""What a user makes may state what is false: then nothing is certified of it, and it is said why."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import own_parts as own
import understudy
from understudy.asking.visited import largest
from understudy.checks.certificates import Kind
from understudy.learners import Learner, Schedule
from understudy.losses import SHIPPED, Absolute, Huber, Loss, Squared, computes, overridden
from understudy.policies import MLP, Actions, Linear
from understudy.regret import Certificate
from understudy.regret.certificate import why_not
from understudy.report import tables

LAST = np.asarray(True)


def stream(rounds=12):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(4, 3)), rng.normal(size=(4, 2))) for _ in range(rounds)]


def counted(result, loss, rounds):
    """The regret against the comparator found, counted by NumPy: the true one is at least this."""
    error = {
        "huber": lambda e: np.clip(e, -1, 1) * (e - 0.5 * np.clip(e, -1, 1)),
        "absolute": np.abs,
        "squared": np.square,
    }[loss]

    def total(params):
        return sum(error(X @ w - Y).sum(axis=1).mean() for w, (X, Y) in zip(params, rounds, strict=True))

    return total(result.iterates[:-1]) - total([result.comparator] * len(rounds))


def replayed(loss, learner=None, **more):
    learner = understudy.adaftrl(alpha=1.0) if learner is None else learner
    return understudy.replay(stream(), loss=loss, learner=learner, keep_iterates=True, **more)


def test_a_loss_below_zero_has_a_true_interval():
    """Before: low 1.03, high −48.3, and the bound −47.0 "held"."""
    made = replayed(own.Shifted(Huber()))
    regret, one = counted(made, "huber", stream()), made.certificate
    assert one.kind == "certificate" and one.holds and not one.contradictory
    assert regret == pytest.approx(1.0286848567304432, rel=1e-9)
    assert one.low <= regret <= one.high <= one.bound and one.high - one.low < 1e-9
    assert made.ledger["comparator"][-1] < -40
    # The shift changes neither the learner nor its regret.
    plain = replayed("huber").certificate
    assert one.bound == pytest.approx(plain.bound) and one.high == pytest.approx(plain.high)


@pytest.mark.parametrize("kind", [own.Stating, own.Shifted], ids=lambda one: one.__name__)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_other_losses_below_zero_too(kind, loss):
    shipped = {"squared": Squared, "absolute": Absolute}[loss]()
    made = replayed(kind(shipped), understudy.adaftrl(alpha=1.0))
    regret, one = counted(made, loss, stream()), made.certificate
    assert one.kind == "certificate"
    assert one.low <= regret * (1 + 1e-12) and regret * (1 - 1e-12) <= one.high <= one.bound


class Convex(Loss):
    """Half the square, less one, with what a subclass states of it."""

    convex: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0
    least: ClassVar[float] = -1.0

    def __call__(self, outputs, target):
        return 0.5 * jnp.sum((outputs - target) ** 2) - 1.0

    def dual(self, slope, target):
        return -1.0 - jnp.sum(slope * target + 0.5 * slope**2), 1.0 + jnp.sum(
            jnp.abs(slope * target) + slope**2
        )

    def inside(self, slope, target):
        return slope

    def room(self, slope, target):
        return jnp.eye(slope.shape[0], dtype=slope.dtype)


class AboveZero(Convex):
    least: ClassVar[float] = 0.0


class TooLarge(Convex):
    def dual(self, slope, target):
        value, size = super().dual(slope, target)
        return value + 1.0, size


class TooFlat(Convex):
    curvature: ClassVar[float] = 0.5


class TooGentle(Convex):
    steepness: ClassVar[float] = 0.1


class Wavy(Convex):
    def __call__(self, outputs, target):
        return super().__call__(outputs, target) + jnp.sum(jnp.sin(3 * outputs))

    def dual(self, slope, target):
        return super().dual(slope, target)


@jax.custom_jvp
def turned(z):
    return 0.5 * jnp.sum(z**2) - 1.0


turned.defjvp(lambda z, v: (turned(z[0]), -jnp.vdot(z[0], v[0])))


class Uphill(Convex):
    """The gradient that JAX is given has the wrong sign."""

    def __call__(self, outputs, target):
        return turned(outputs - target)

    def dual(self, slope, target):
        return super().dual(slope, target)


def test_what_is_true_of_a_loss_is_not_refuted():
    one = replayed(Convex()).certificate
    assert one.kind == "certificate" and one.holds and one.low <= one.high


@pytest.mark.parametrize("loss", [AboveZero, TooLarge, TooFlat, TooGentle, Wavy, Uphill])
def test_what_is_false_of_a_loss_is_refuted_by_its_values(loss):
    made = replayed(loss(), understudy.ogd(eta=0.1))
    one = made.certificate
    assert one.kind == "estimate" and not one.holds and one.contradictory and one.high == -np.inf
    assert one.reason.startswith(
        f"the loss {loss.__name__} states something that its values on this data refute"
    )
    assert (made.ledger["regret_low"] > made.ledger["regret_high"]).all()
    (name, text) = tables.regret(one)[-1]
    assert name == "proved" and text.startswith("nothing: the loss")
    assert made.bounds() is not None


class Inherits(Huber):
    """Huber's loss less five, with its own conjugate, and the infimum of the class that it was made from."""

    def __call__(self, outputs, target):
        return super().__call__(outputs, target) - 5.0

    def dual(self, slope, target):
        value, size = super().dual(slope, target)
        return value - 5.0, size + 5.0


def test_an_infimum_is_not_inherited_by_what_computes_something_else():
    assert Huber().floor == 0.0 and Inherits().least == 0.0 and Inherits().floor == -np.inf
    one, regret = replayed(Inherits()), counted(replayed(Inherits()), "huber", stream())
    assert one.certificate.kind == "certificate" and one.certificate.low <= regret <= one.certificate.high


@pytest.mark.parametrize("loss", [kind() for kind in SHIPPED], ids=lambda one: type(one).__name__)
def test_shipped_losses_are_never_below_their_infimum(loss):
    rng = np.random.default_rng(1)
    z, y = 10 ** rng.uniform(-3, 3, size=(200, 3)) * rng.choice([-1, 1], size=(200, 3)), rng.random((200, 3))
    y = y / y.sum(axis=1, keepdims=True)
    with jax.enable_x64(True):
        values = jax.vmap(loss)(jnp.asarray(z), jnp.asarray(y))
    assert loss.floor == 0.0 and float(values.min()) >= 0.0


# Parts other than losses.


class Ascent(Learner):
    def update(self, state, losses, gradient, solve):
        new, solution = Learner.update(self, state, losses, gradient, solve)
        return new._replace(params=2 * state.params - new.params), solution


@pytest.mark.parametrize(("loss", "least"), [("huber", 17.5054), ("absolute", 34.5189)])
def test_a_learner_with_another_update_is_not_certified(loss, least):
    """Before: kind "certificate" with bounds of 4.906 and 7.159."""
    learner = Ascent(Schedule(constant=2.0, start=1), linear=True, around_last=LAST, name="ascent")
    made = replayed(loss, learner)
    assert counted(made, loss, stream()) == pytest.approx(least, rel=1e-4)
    assert made.certificate.kind == "estimate" and not made.certificate.holds
    assert made.certificate.reason == (
        "the learner Ascent has its own 'update', and the proof is about that of Learner."
    )
    assert np.isnan(made.ledger["bound"]).all() and made.bounds() == []
    honest = replayed(loss, dataclasses.replace(understudy.ogd(eta=0.5, schedule="constant"), name=""))
    assert honest.certificate.kind == "certificate" and honest.certificate.holds


class Renamed(Learner):
    """The family, under another name and with a number that nothing reads."""

    marks: int = 3


class Stepless(Linear):
    def design(self, inputs):
        return super().design(inputs)


def with_schedule(kind):
    return own.scheduled(kind)(understudy.ftrl(eta=0.1, start=1))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, ""),
        ({"learner": own.remade(Renamed)(understudy.ftl())}, ""),
        ({"learner": own.remade(own.Heavy)(understudy.ftl())}, "the learner Heavy has its own 'update'"),
        ({"learner": with_schedule(own.Falling)}, "the schedule Falling has its own 'weight'"),
        ({"learner": with_schedule(own.Silent)}, "the schedule Silent has its own 'zero'"),
        ({"policy": Stepless()}, "the policy Stepless has its own 'design'"),
        ({"policy": own.Squashed()}, "the policy Squashed has its own 'apply'"),
        ({"policy": own.Centred()}, "the policy Centred has its own 'design'"),
        ({"policy": MLP()}, "the policy 'mlp' is not linear"),
        ({"loss": Absolute(rounding=1e-3)}, "the loss Absolute gives no conjugate"),
    ],
    ids=str,
)
def test_one_rule_says_why_a_game_is_not_certified(parts, words):
    usual = {"policy": Linear(), "loss": Squared(), "learner": understudy.ftl(), "comparator_solver": None}
    found = why_not(**usual | parts)
    assert found.startswith(words) and bool(found) == bool(words)
    assert found.count(".") == bool(words)  # one sentence


def test_a_class_that_changes_a_helper_is_another_class():
    class Odd(Squared):
        scale: ClassVar[float] = -1.0

    class Same(Squared):
        """Only these words."""

    assert computes(Same(), Squared) and not computes(Odd(), Squared) and overridden(Odd, Squared) == "scale"
    assert not computes(Ascent(Schedule()), Learner)
    # Its sum has no statistics then, and its values refute that it is convex.
    assert replayed(Odd(), understudy.ogd(eta=0.01)).certificate.contradictory


@pytest.mark.parametrize("kind", [Kind("huber", "offline"), Kind("squared", "offline", True)], ids=str)
def test_a_solver_that_lies_widens_the_bound_and_falsifies_nothing(kind):
    finding = own.OwnSearch(kind._replace(parts="liar")).restart(0, generations=3)
    assert finding.evaluations > 48 and not finding.false


# Numbers that contradict each other.


@pytest.mark.parametrize(
    ("low", "high", "bound", "contradictory"),
    [
        (1.03, -48.3, -47.0, True),
        (1.0, 2.0, 0.5, True),
        (1.0, 2.0, 1.5, False),
        (np.nan, np.nan, np.nan, False),
    ],
)
def test_an_interval_that_contradicts_itself_holds_nothing(low, high, bound, contradictory):
    made = Certificate(low, bound, {}, "certificate", low, high, 1.0)
    assert made.contradictory == contradictory and not made.holds
    assert Certificate.read(made.described()).contradictory == contradictory


def test_a_certificate_says_that_its_numbers_contradict_each_other(monkeypatch):
    """Where the values of the loss do not show it, the ends of the interval may."""
    monkeypatch.setattr("understudy.regret.interval.contradicted", lambda *_: False)
    monkeypatch.setattr("understudy.regret.interval.refuted", lambda *_: False)

    class Three(Convex):
        least: ClassVar[float] = 3.0

    made = replayed(Three(), understudy.ogd(eta=0.1)).certificate
    assert made.low > made.high > -np.inf and not made.holds and made.kind == "estimate"
    assert made.reason.startswith("the interval contradicts itself: it begins at")
    assert made.reason in tables.regret(made)[-1][1]


# The search finds them out where the rules are taken away, so it would where the rules are wrong.


@pytest.mark.parametrize("name", ["ascent", "haste", "jumps"])
def test_without_the_rule_the_search_finds_false_bounds(monkeypatch, name):
    search = own.OwnSearch(Kind("squared", "online", parts=name))
    assert search.uncertified.startswith("the learner") and search.restart(0).evaluations == 0
    monkeypatch.setattr("understudy.online.why_not", lambda *_: "")
    assert not search.restart(0, generations=1).false  # the interval is above the bound, which shows
    monkeypatch.setattr(
        "understudy.checks.certificates.contradictory", lambda *ends: np.zeros(len(ends[0]), bool)
    )
    assert search.restart(0, generations=4).false


@pytest.mark.parametrize("name", ["forgetting", "bending"])
def test_without_a_look_at_its_values_a_false_conjugate_makes_false_certificates(monkeypatch, name):
    kind = Kind("huber", "offline", parts=name)
    assert not own.OwnSearch(kind).restart(1, generations=2).false
    for check in ("contradicted", "refuted"):
        monkeypatch.setattr(f"understudy.regret.interval.{check}", lambda *_: jnp.asarray(False))
    monkeypatch.setattr(
        "understudy.checks.certificates.contradictory", lambda *ends: np.zeros(len(ends[0]), bool)
    )
    assert own.OwnSearch(kind).restart(1, generations=2).false


def test_the_largest_loss_is_known_of_shipped_losses_and_networks_only():
    from gymnasium.spaces import Box

    class Twice(MLP):
        def apply(self, params, inputs):
            return 2 * super().apply(params, inputs)

    acts, how = Actions.of(Box(-1, 1, (1,))), {"head": "tanh", "low": (-1.0,), "high": (1.0,)}
    assert largest(MLP(**how), Squared(), acts) == 4.0
    assert largest(Twice(**how), Squared(), acts) == np.inf
    assert largest(MLP(**how), own.Shifted(Squared()), acts) == np.inf
