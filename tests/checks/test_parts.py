"""The suites of policies, losses, ask rules, experts and environments pass for what is right, and each of
their checks fails for a part that is wrong in that one thing.
"""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from runs.counting import Counting
from understudy import checks, register
from understudy.asking import Asked, Rule
from understudy.checks import CheckError
from understudy.cli import main
from understudy.losses import Huber, Loss, Squared
from understudy.policies import POLICIES, Linear, Policy


class Scaled(Policy):
    """A linear policy with a scale of its own."""

    name = "scaled"
    scale: float = eqx.field(static=True, default=2.0)

    def init(self, key, features, outputs, dtype=None):
        return jax.random.normal(key, (features, outputs), dtype or float)

    def apply(self, params, inputs):
        return self.scale * inputs @ params


class Centred(Scaled):
    def apply(self, params, inputs):
        return (inputs - inputs.mean(axis=0)) @ params


class Careless(Scaled):
    def init(self, key, features, outputs, dtype=None):
        return jnp.ones((features, outputs), jnp.float64)


class Flat(Scaled):
    def apply(self, params, inputs):
        return jnp.sign(inputs @ params)


class Endless(Scaled):
    def apply(self, params, inputs):
        return inputs @ params / 0.0


class Lucky(Scaled):
    draws: ClassVar[list[int]] = []

    def init(self, key, features, outputs, dtype=None):
        self.draws.append(0)
        return jnp.full((features, outputs), float(len(self.draws)), dtype or float)


class Claims(Scaled):
    linear: ClassVar[bool] = True

    def design(self, inputs):
        return inputs


class Steep(Huber):
    """Huber's numbers for another loss: its own `__call__`, and so no claim that it does not make."""

    steepness: ClassVar[float] = 0.5
    curvature: ClassVar[float] = 0.5
    least: ClassVar[float] = 1.0
    convex: ClassVar[bool] = True

    def __call__(self, outputs, target):
        return super().__call__(outputs, target)

    def dual(self, slope, target):
        value, size = super().dual(slope, target)
        return value + 1.0, size


class Rooted(Loss):
    """Not convex, and without a slope where it is met."""

    convex: ClassVar[bool] = True

    def __call__(self, outputs, target):
        return jnp.sqrt(jnp.sqrt(jnp.sum((outputs - target) ** 2)))

    def inside(self, slope, target):
        return 0.0 * slope

    def dual(self, slope, target):
        return jnp.zeros(()), jnp.zeros(())


class Words(Squared):
    def targets(self, answers, outputs=None):
        return np.asarray(answers)[:, :1]


class Ruled(Rule):
    """Ten states at random; what is wrong is put into it."""

    def __str__(self):
        return type(self).__name__

    count, honest = 10, True

    def choose(self, view):
        n = len(view.rows)
        k = min(10, view.most)
        return Asked(np.sort(view.rng.choice(n, k, replace=False)), np.full(k, k / n))


class Greedy(Ruled):
    def choose(self, view):
        return Asked(np.arange(10), np.ones(10))


class Fewer(Ruled):
    honest = False

    def choose(self, view):
        return Asked(np.arange(1), np.ones(1))


class Moody(Ruled):
    def choose(self, view):
        index = np.sort(np.random.default_rng().choice(len(view.rows), min(10, view.most), replace=False))
        return Asked(index, np.full(len(index), len(index) / len(view.rows)))


class Spoiling(Ruled):
    def choose(self, view):
        view.rows[0] = 0.0
        return super().choose(view)


class Peeking(Ruled):
    count, honest = None, False

    def choose(self, view):
        return Asked(
            np.arange(min(1 + len(view.known), view.most)), np.ones(min(1 + len(view.known), view.most))
        )


class Certain(Ruled):
    def choose(self, view):
        asked = super().choose(view)
        return Asked(asked.index, np.ones(len(asked.index)))


FAIL = [
    ("policy", Centred(), {"answers each row by itself"}),
    ("policy", Careless(), {"keeps its precision"}),
    ("policy", Flat(), {"has a gradient"}),
    ("policy", Endless(), {"answers in rows", "answers each row by itself", "has a gradient"}),
    ("policy", Lucky(), {"repeats itself"}),
    ("policy", Claims(), {"is linear where it says so"}),
    (
        "loss",
        Steep(),
        {
            "is nowhere below its least",
            "is nowhere steeper than it says",
            "bends nowhere more than it says",
            "is above its conjugate's lines",
        },
    ),
    ("loss", Rooted(), {"has a finite gradient", "is convex where it says so"}),
    ("loss", Words(), {"takes the expert's answers"}),
    ("ask", Greedy(), {"chooses of its states", "asks about as many as it says", "weighs without bias"}),
    ("ask", Fewer(), {"asks about as many as it says"}),
    ("ask", Moody(), {"repeats itself", "reads labels only where it says so"}),
    ("ask", Spoiling(), {"leaves the round alone"}),
    ("ask", Peeking(), {"reads labels only where it says so"}),
    ("ask", Certain(), {"weighs without bias"}),
]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Policies are read back from their files by name."""
    monkeypatch.setattr(POLICIES, "makers", dict(POLICIES.makers))
    for kind in (Scaled, Centred, Careless, Flat, Endless, Lucky, Claims):
        register("policy", kind.__name__.lower(), kind)


def failed(suite, *subject) -> set[str]:
    with pytest.raises(CheckError) as caught:
        getattr(checks, suite)(*subject)
    return {row.name for row in caught.value.report.rows if row.passed is False}


@pytest.mark.parametrize(("suite", "subject", "names"), FAIL, ids=lambda one: type(one).__name__)
def test_a_part_that_is_wrong_in_one_thing_fails_in_that(suite, subject, names):
    assert failed(suite, subject) == names


@pytest.mark.parametrize(
    ("suite", "subject"),
    [
        *(("policy", one) for one in (Scaled(), Linear(bias=True), "mlp")),
        *(
            ("loss", name)
            for name in ("squared", "absolute", "huber", "cross-entropy", "binary-cross-entropy")
        ),
        *(
            ("ask", one)
            for one in (Ruled(), "fraction:0.2", "distance:10", "leverage:0.1", "radius:1.0", "all")
        ),
        *(("env", one) for one in ("CartPole-v1", "FrozenLake-v1", Counting)),
    ],
    ids=str,
)
def test_what_is_right_passes(suite, subject):
    assert getattr(checks, suite)(subject).passed


def test_a_policy_that_has_no_name_in_files_does_not_go_into_one(monkeypatch):
    """It still passes: a run may keep it, and `understudy.load` names what to register."""
    monkeypatch.delitem(POLICIES.makers, "scaled")
    report = checks.policy(Scaled())
    assert next(row.name for row in report.rows if row.passed is None) == "goes into a file and back"


class Fourth(Loss):
    """Convex, and without a conjugate."""

    convex: ClassVar[bool] = True

    def __call__(self, outputs, target):
        return jnp.sum((outputs - target) ** 4)


def test_a_convex_loss_without_a_conjugate_passes_and_is_told_what_it_lacks():
    (row,) = [row for row in checks.loss(Fourth()).rows if row.name == "is above its conjugate's lines"]
    assert row.passed is None and "no certificate" in row.detail


class Wandering(gym.Env):
    """Its randomness is not that of its seed, it leaves its space, and it does not end."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.random.default_rng().normal(size=1).astype(np.float32), {}

    def step(self, action):
        return np.array([2.0], np.float32), 0.0, False, False, {}


def test_an_environment_that_does_not_replay_fails():
    assert failed("env", Wandering) == {"stays in its spaces", "replays an episode", "ends"}


def wrong_batch(observations):
    return (observations[:, 2] > np.median(observations[:, 2])).astype(int)


def test_experts():
    from understudy.experts import batched

    assert checks.expert(lambda observation: int(observation[2] > 0), "CartPole-v1").passed
    assert failed("expert", batched(wrong_batch), "CartPole-v1") == {"answers one as it answers many"}
    rng = np.random.default_rng(0)
    drawn = lambda observation: int(rng.integers(2))  # noqa: E731
    names = {"answers one as it answers many"}
    assert failed("expert", drawn, "CartPole-v1") == names
    assert "answers in the action space" in failed(
        "expert", lambda observation: 5 if observation[0] > 0 else 0, "CartPole-v1"
    )


def test_the_command_line_says_pass_and_fail(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_rules.py").write_text(
        "import numpy as np\nfrom understudy.asking import Asked, Rule\n\n\nclass First(Rule):\n"
        "    count = 5\n\n    def choose(self, view):\n"
        "        return Asked(np.arange(min(5, view.most)), np.ones(min(5, view.most)))\n\n\n"
        "class Fewer(First):\n    count = 6\n"
    )
    assert main(["check", "ask", "own_rules:First"]) == 0
    assert main(["check", "ask", "own_rules:Fewer"]) == 1
    assert "asks about as many as it says" in capsys.readouterr().out
    assert main(["check", "loss", "hubber"]) == 2
    assert "did you mean 'huber'" in capsys.readouterr().err
