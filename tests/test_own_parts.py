"""A wrong part of a user's own is refused in one sentence that names it, and not with a traceback of JAX."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import understudy
from quick import SIZE
from understudy import UserError
from understudy.asking import Asked, Rule
from understudy.errors import calling
from understudy.losses import Loss
from understudy.policies import Policy
from understudy.solvers import Solver


class FTL:
    """What an own learner is made of, with an `update` to be got wrong."""

    def __init__(self, update):
        self.change = update

    def init(self, params):
        return understudy.ftl().init(params)

    def update(self, state, losses, gradient, solve):
        return self.change(state, losses, gradient, solve)


def branching(state, losses, gradient, solve):
    return (state, None) if state.round > 1 else (state, solve(losses, state.params))


def stepping(state, losses, gradient, solve):
    return state._replace(params=np.asarray(state.params) - np.asarray(gradient)), None


class Vector(Loss):
    def __call__(self, outputs, target):
        return (outputs - target) ** 2


class Floating(Loss):
    def __call__(self, outputs, target):
        return float(jnp.sum((outputs - target) ** 2))


class Rows(Policy):
    """A linear policy that is right, without a name of its own."""

    def init(self, key, features, outputs, dtype=None):
        return jnp.zeros((features, outputs), dtype)

    def apply(self, params, inputs):
        return inputs @ params


class Wide(Rows):
    def init(self, key, features, outputs, dtype=None):
        return jnp.zeros((features, outputs + 1), dtype)


class OneRow(Rows):
    def apply(self, params, inputs):
        return params.T @ inputs


class Whole(Rows):
    def init(self, key, features, outputs, dtype=None):
        return eqx.nn.MLP(features, outputs, 8, 1, key=key)


class Dynamic(Rows):
    activation: object = jnp.tanh


class Holding(Rows):
    activation: object = eqx.field(static=True, default=jnp.tanh)


class Bare(Solver):
    tolerance: float = 1e-6
    max_iterations: int = 10

    def init(self, objective, params, key):
        return params

    def step(self, objective, state):
        return state

    def progress(self, state):
        return state


class Chooses:
    count: ClassVar[None] = None
    reads: ClassVar[bool] = False
    honest: ClassVar[bool] = True

    def __init__(self, answer):
        self.choose = lambda view: answer


class Raises(Rule):
    def choose(self, view):
        raise ValueError("no idea")


def play(env="CartPole-v1", **settings):
    """A short run. The expert is a function, which needs no extra."""
    given = {"policy": "linear", "episodes": 0, "expert_episodes": 0, "comparator": "none"} | settings
    return understudy.imitate(env, expert=lambda observation: env_action(env), **SIZE, **given)


def env_action(env):
    return 1 if env == "CartPole-v1" else np.zeros(1)


WRONG = {
    "losses of losses": (
        {"learner": FTL(lambda state, losses, *rest: (state, losses.losses))},
        "learner 'FTL': its update failed .*no attribute 'losses', at .*test_own_parts.py",
    ),
    "losses to solve": (
        {"learner": FTL(lambda state, losses, gradient, solve: (state, solve(losses, state.params)))},
        r"called solve with Statistics; an Objective is expected, as understudy\.objectives\.plain",
    ),
    "a branch": ({"learner": FTL(branching)}, r"needs the value of an array .*jnp\.where or jax\.lax\.cond"),
    "NumPy": ({"learner": FTL(stepping)}, r"needs the value of an array .*write jnp in place of np"),
    "a class": ({"learner": FTL}, r"got the class FTL; make an object of it, as in FTL\(\)"),
    "a vector": ({"loss": Vector()}, r"loss 'Vector': it returned an array of shape \(1,\)"),
    "a float": ({"loss": Floating()}, "loss 'Floating': its call .* failed .*write jnp"),
    "a function": (
        {"loss": lambda z, y: 0.0},
        "got function, which is no subclass of understudy.losses.Loss",
    ),
    "outputs": ({"policy": Wide()}, r"'Wide': its apply returned \(2, 2\) .*shape \(2, 1\) are expected"),
    "one row": ({"policy": OneRow()}, r"policy 'OneRow': its apply to inputs of shape \(2, 3\) failed"),
    "a module": ({"policy": Whole()}, r"'Whole': the parameters .* hold 'relu', which is no array"),
    "a dynamic field": ({"policy": Dynamic()}, r"activation holds PjitFunction; .*eqx\.field\(static=True\)"),
    "a static field": ({"policy": Holding()}, "field activation holds 'tanh', which the policy's file"),
    "two arguments": ({"solver": lambda objective, params: params}, "solver .* failed .*2 positional"),
    "parameters": ({"solver": lambda objective, params, key: params}, "returned an array; a Solution is"),
    "no progress": ({"solver": Bare()}, "solver 'Bare': its progress returned an array"),
    "numbers": ({"ask": Chooses(np.arange(3))}, r"ask rule 'Chooses': .* ndarray; .*Asked\(index, p\)"),
    "shapes": ({"ask": Chooses(Asked(np.arange(3), np.ones(2)))}, r"index \(3,\) of int64 and p \(2,\)"),
    "twice": ({"ask": Chooses(Asked(np.zeros(2, int), np.ones(2)))}, r"index \[0, 0\]; .*each once"),
    "beyond": ({"ask": Chooses(Asked(np.array([40]), np.ones(1)))}, r"index \[40\]; numbers below 40"),
    "never": ({"ask": Chooses(Asked(np.arange(2), np.zeros(2)))}, r"p \[0\.0, 0\.0\]; probabilities above 0"),
    "raising": ({"ask": Raises()}, r"'Raises': its choose failed \(ValueError: no idea, at .*in choose\)"),
    "half a rule": ({"ask": object()}, "got object, which lacks count, reads, honest, choose"),
    "half a sink": ({"sinks": [object()]}, "got object, which lacks begin, row, end"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_part_is_one_sentence(case):
    given, sentence = WRONG[case]
    with pytest.raises(UserError, match=sentence) as refused:
        play("Pendulum-v1", preset="paper", **{"loss": "squared"} | given)
    assert "\n" not in str(refused.value)


def test_more_states_than_may_be_asked_about_are_refused():
    ask = Chooses(Asked(np.arange(30), np.ones(30)))
    with pytest.raises(UserError, match=r"30 states; at most 10 \(view\.most\)"):
        play("Pendulum-v1", preset="paper", ask=ask, budget=10)


def test_a_rule_may_set_its_numbers_or_leave_them_out():
    class Some(Rule):
        def __init__(self, count):
            self.count = count

        def choose(self, view):
            return Asked(np.arange(self.count), np.ones(self.count))

    assert (Some(3).count, Some(3).reads, Some(3).honest) == (3, False, False)
    assert play("Pendulum-v1", preset="paper", ask=Some(3)).ledger["labels"][-1] == 9


def test_a_policy_without_a_name_goes_by_its_class():
    assert Rows.name == "Rows" and Rows().config() == {"policy": "Rows"}


class Modules(Policy):
    """A network whose parameters are modules of equinox."""

    def init(self, key, features, outputs, dtype=None):
        one, two = jax.random.split(key)
        return [eqx.nn.Linear(features, 8, key=one), eqx.nn.Linear(8, outputs, key=two)]

    def apply(self, params, inputs):
        hidden, last = params
        return jax.vmap(last)(jnp.tanh(jax.vmap(hidden)(inputs)))


def test_parameters_may_be_modules_and_come_back_from_the_disk(tmp_path, monkeypatch):
    from understudy.policies import POLICIES

    monkeypatch.setattr(POLICIES, "makers", POLICIES.makers | {"Modules": Modules})
    run = play("Pendulum-v1", policy=Modules(), max_iterations=3, out=tmp_path / "run")
    there = understudy.load(tmp_path / "run").policy
    seen = np.array([0.6, 0.8, 0.1])
    assert isinstance(there.params[0], eqx.nn.Linear)
    assert there(seen) == run.policy(seen)


def test_errors_of_shipped_parts_keep_their_traceback():
    """The negative control: only a user's own part is spoken of."""
    with pytest.raises(KeyError), calling("learner", understudy.ftl(), "update"):
        raise KeyError("ours")
