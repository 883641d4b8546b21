"""Parts from outside the package: registered, or named as module:name, they reach every door."""

from __future__ import annotations

import json
import sys

import pytest

import understudy
from quick import SIZE
from understudy import Study, UserError, registry
from understudy.cli import main
from understudy.spec import registries

OUTSIDE = '''
import equinox as eqx
import jax.numpy as jnp
from typing import ClassVar
from understudy import ftrl
from understudy.losses import Loss
from understudy.policies import Linear, Policy
from understudy.solvers import newton


def learner(*, eta=0.5, mood="calm"):
    assert mood in ("calm", "wild")
    return ftrl(eta=eta if mood == "calm" else 2 * eta)


class Quartic(Loss):
    """Σ e² + e⁴: convex, and none of ours."""

    weight: float = eqx.field(static=True, default=1.0)

    def __call__(self, outputs, target):
        error = outputs - target
        return jnp.sum(error**2 + self.weight * error**4)


class Odd(Policy):
    """Linear in the signs and the values of what is seen."""

    name: ClassVar[str] = "outside-odd"

    @property
    def linear(self):
        return True

    def init(self, key, features, outputs, dtype=None):
        return jnp.zeros((2 * features, outputs), dtype)

    def design(self, inputs):
        return jnp.concatenate([inputs, jnp.sign(inputs)], axis=1)

    def apply(self, params, inputs):
        return self.design(inputs) @ params


def solver(*, tolerance=1e-6, max_iterations=30):
    return newton(tolerance=tolerance, max_iterations=max_iterations)
'''
PARTS = {"learner": "learner", "loss": "Quartic", "policy": "Odd", "solver": "solver"}
SMALL = {"env": "Pendulum-v1", **SIZE, "episodes": 0}


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """The module, and its parts registered under names that begin with outside-."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside_parts.py").write_text(OUTSIDE)
    sys.path.insert(0, str(folder))
    try:
        import outside_parts  # pyright: ignore[reportMissingImports]

        for part, name in PARTS.items():
            getattr(understudy, f"register_{part}")(f"outside-{name.lower()}", getattr(outside_parts, name))
        yield {part: f"outside-{name.lower()}" for part, name in PARTS.items()}
    finally:
        sys.path.remove(str(folder))
        for part, name in PARTS.items():
            registries()[part].makers.pop(f"outside-{name.lower()}", None)


def ledger(rows):
    return understudy.Ledger({name: [row[name] for row in rows] for name in rows[0]}).to_csv()


def test_all_four_have_one_ledger_from_every_door_and_from_a_worker(outside, tmp_path):
    run = SMALL | outside | {"learner_options": {"mood": "wild"}, "loss_options": {"weight": 0.5}}
    asked = understudy.imitate(**run, out=tmp_path / "python").ledger.to_csv()
    typed = [f"--{name.replace('_', '-')}" for name in run if name != "env"]
    words = [value if isinstance(value, str) else json.dumps(value) for value in list(run.values())[1:]]
    pairs = [one for pair in zip(typed, words, strict=True) for one in pair]
    assert main(["train", "Pendulum-v1", *pairs, "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "ledger.csv").read_text() == asked
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1"]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["loss"] == "outside-quartic"
    done = Study(**run, seeds=2).run(workers=1)
    assert done.failed == {} and ledger(done.results[0].rows) == asked
    assert ledger(done.results[1].rows) != asked


@pytest.mark.parametrize("part", PARTS)
def test_each_alone_is_found_by_module_and_name(outside, part):
    # The program of the squared loss is small; Huber's has a solver.
    loss = "huber" if part == "solver" else "squared"
    plainly = SMALL | {"policy": "linear", "loss": loss, "comparator": "none"}
    registered, placed = (
        understudy.imitate(**plainly | {part: name})
        for name in (outside[part], f"outside_parts:{PARTS[part]}")
    )
    plain = understudy.imitate(**plainly)
    assert registered.ledger.to_csv() == placed.ledger.to_csv()
    same = plain.ledger.to_csv() == registered.ledger.to_csv()
    assert not same or part == "solver"  # the solver is Newton, which `auto` takes for this loss


def test_a_maker_that_no_module_holds_is_refused_by_workers_in_one_sentence(outside):
    understudy.register("learner", "outside-lambda", lambda: understudy.ftl())
    try:
        assert registry.registered()["learner"]["outside-lambda"] is None
        with pytest.raises(UserError, match="put its maker into a module"):
            Study(**SMALL, policy="linear", learner="outside-lambda").run(workers=1)
    finally:
        del registries()["learner"].makers["outside-lambda"]


def test_options_that_a_part_does_not_take_are_refused(outside):
    with pytest.raises(UserError, match="does not take wings; it takes eta, mood"):
        understudy.RunSpec(**SMALL | outside, learner_options={"wings": 2})
