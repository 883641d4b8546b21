"""`imitate` from end to end: real environments, every kind of space, and wrong everything."""

from __future__ import annotations

import inspect
import json

import gymnasium as gym
import numpy as np
import pytest

import understudy
from quick import SIZE
from runs.counting import Counting, answering, half
from understudy import UserError, imitate
from understudy.envs.gymnasium import derive
from understudy.runs.players import evaluate
from understudy.spec import FIELDS

QUICK = SIZE | {"episodes": 1, "expert_episodes": 0}
SHORT = {"widths": (8,), "solver_options": {"max_iterations": 20}, "comparator": "none"}
UNJUDGED = {"comparator": "none"}  # half of the program
LEAN = QUICK | UNJUDGED | {"loss": "squared"}  # statistics in place of samples, and a formula for a solver
CARTPOLE = {"policy": "linear", "rounds": 5, "steps_per_round": 300, **UNJUDGED}


def score(env: str, run, episodes: int = 40) -> float:
    """(R − random)/(expert − random) over the run's own evaluation."""

    space = gym.make(env).action_space
    space.seed(derive(0, "random"))
    chance = evaluate(lambda o, i: space.sample(), env, episodes=episodes, stream="random").mean
    return (run.evaluation.mean - chance) / (run.expert_evaluation.mean - chance)


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("CartPole-v1", CARTPOLE),
        pytest.param("CartPole-v1", CARTPOLE | {"loss": "binary"}, marks=pytest.mark.slow),
        pytest.param(
            "Pendulum-v1",
            {"rounds": 6, "steps_per_round": 500, "comparator": "none", "episodes": 60},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "Acrobot-v1",
            {"rounds": 5, "steps_per_round": 500, "comparator": "none", "episodes": 30},
            marks=pytest.mark.slow,
        ),
        (
            "FrozenLake-v1",
            {"policy": "tabular", "rounds": 10, "steps_per_round": 200, "episodes": 200, **UNJUDGED},
        ),
        pytest.param(
            "FrozenLake-v1",
            {"policy": "linear", "rounds": 10, "steps_per_round": 200, "episodes": 400},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "Taxi-v3",
            {"policy": "tabular", "rounds": 10, "steps_per_round": 2000, "episodes": 100},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_small_environments_are_learnt(env, options):
    env = env if env in gym.registry else env.replace("-v3", "-v4")
    run = imitate(env, **{"episodes": 20, **options})
    assert score(env, run) >= 0.95
    assert run.summary()["labels"] == options["rounds"] * options["steps_per_round"]


class Gathered(gym.ObservationWrapper):
    """CartPole as a Dict of position, a picture of bytes, and a choice: left or right of the middle."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict(
            state=gym.spaces.Box(-np.inf, np.inf, (4,), np.float32),
            side=gym.spaces.Discrete(2, start=5),
            picture=gym.spaces.Box(0, 255, (2, 2, 1), np.uint8),
        )

    def observation(self, observation):
        picture = np.full((2, 2, 1), 7, np.uint8)
        return {"state": observation, "side": 5 + int(observation[0] > 0), "picture": picture}


def test_dict_observations_and_a_privileged_expert():
    def make():
        return Gathered(gym.make("CartPole-v1"))

    def act(observation):
        return int(observation @ np.array([0.1, 0.5, 2.0, 1.0]) > 0)

    run = imitate(
        make,
        expert=act,
        expert_options={"expert_sees": "state"},
        policy="linear",
        rounds=4,
        steps_per_round=250,
        episodes=5,
        **UNJUDGED,
    )
    assert run.policy.observations.width == 4 + 2 + 4
    assert run.evaluation.mean >= 0.95 * run.expert_evaluation.mean > 400


class Panels(gym.Env):
    """MultiDiscrete actions: press the two buttons that the observation shows."""

    observation_space = gym.spaces.MultiDiscrete([3, 4])
    action_space = gym.spaces.MultiDiscrete([3, 4])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.shown = 10, self.np_random.integers([3, 4])
        return self.shown, {}

    def step(self, action):
        reward = float(np.sum(np.asarray(action) == self.shown))
        self.left, self.shown = self.left - 1, self.np_random.integers([3, 4])
        return self.shown, reward, self.left == 0, False, {}


@pytest.mark.parametrize("policy", ["linear", pytest.param("mlp", marks=pytest.mark.slow)])
def test_multidiscrete_actions(policy):
    options = UNJUDGED | ({"solver_options": {"max_iterations": 200}} if policy == "mlp" else {})
    run = imitate(
        Panels, expert=lambda seen: np.asarray(seen), policy=policy, rounds=3, steps_per_round=100, **options
    )
    assert run.evaluation.mean == run.expert_evaluation.mean == 20.0
    assert run.policy(np.array([2, 3])).tolist() == [2, 3]


class Pixels(gym.Env):
    """A picture of bytes whose bright half says what to do."""

    observation_space = gym.spaces.Box(0, 255, (4, 4, 1), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def _see(self):
        self.side = int(self.np_random.integers(2))
        picture = self.np_random.integers(0, 100, (4, 4, 1), dtype=np.uint8)
        picture[:, 2 * self.side : 2 * self.side + 2] += 100
        return picture

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 20
        return self._see(), {}

    def step(self, action):
        reward, self.left = float(action == self.side), self.left - 1
        return self._see(), reward, False, self.left == 0, {}


def test_image_observations_are_kept_as_bytes():
    def act(picture):
        return int(picture[:, 2:].mean() > picture[:, :2].mean())

    run = imitate(
        Pixels,
        expert=act,
        rounds=3,
        steps_per_round=150,
        widths=(16,),
        max_iterations=200,
        episodes=5,
        comparator="none",
    )
    assert run.samples("inputs").dtype == np.uint8
    assert run.evaluation.mean >= 19


def test_an_expert_that_gives_distributions():
    def act(observation):
        p = 1 / (1 + np.exp(-20 * (observation @ np.array([0.1, 0.5, 2.0, 1.0]))))
        return np.array([1 - p, p], np.float32)

    run = imitate("CartPole-v1", expert=act, episodes=5, **CARTPOLE)
    targets = run.samples("targets")
    assert ((targets > 0) & (targets < 1)).any() and np.allclose(targets.sum(axis=1), 1)
    assert run.evaluation.mean > 400


def test_hopper_from_a_few_queries():
    """Real MuJoCo and the shipped expert: far beyond what cloning noise could reach (random scores 17)."""
    run = imitate(
        "Hopper-v5",
        widths=(64,),
        rounds=2,
        steps_per_round=1000,
        episodes=3,
        expert_episodes=1,
        comparator="none",
    )
    assert run.expert_evaluation.mean > 3400
    assert run.evaluation.mean > 300


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    def go(name: str, seed: int) -> bytes:
        imitate("Hopper-v5", seed=seed, out=tmp_path / name, **QUICK, **SHORT)
        return (tmp_path / name / "ledger.csv").read_bytes() + (
            tmp_path / name / "policy.safetensors"
        ).read_bytes()

    np.random.seed(1)  # noqa: NPY002  global state must not matter
    first = go("a", 7)
    np.random.seed(2)  # noqa: NPY002
    assert first == go("b", 7) != go("c", 8)


def test_global_random_state_is_neither_read_nor_changed():
    import random

    np.random.seed(5), random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].tobytes(), random.getstate()  # noqa: NPY002
    imitate("CartPole-v1", policy="linear", learner="adaftrl", beta=0.5, noise=0.1, **LEAN)
    assert (np.random.get_state()[1].tobytes(), random.getstate()) == before  # noqa: NPY002


def test_linear_runs_are_certified_and_networks_are_estimates():
    options = SIZE | {"episodes": 0, "expert_episodes": 0}
    linear = imitate("Pendulum-v1", policy="linear", learner="adaftrl", comparator="every", **options)
    assert linear.certificate.kind == "certificate" and linear.certificate.holds
    assert np.isfinite(linear.certificate.bound)
    # An independent account of the regret: least squares on all rounds' samples.
    X = linear.policy.normaliser(linear.samples("inputs")).astype(np.float64)
    X, Y = np.c_[X, np.ones(len(X))], linear.samples("targets").astype(np.float64)
    least = np.linalg.lstsq(X, Y, rcond=None)[1].sum() / 40
    assert np.isclose(linear.ledger["cumulative_loss"][-1] - least, linear.certificate.regret, rtol=1e-6)
    network = imitate("Pendulum-v1", widths=(8,), max_iterations=30, comparator_steps=30, **options)
    assert network.certificate.kind == "estimate" and np.isfinite(network.certificate.regret)


@pytest.mark.parametrize("learner", ["ftl", "ftrl", "alt_ftrl", "adaftrl", "bc"])
def test_every_learner_by_name_on_a_network(learner):
    run = imitate("Pendulum-v1", learner=learner, episodes=0, expert_episodes=0, **SIZE, **SHORT)
    weight = run.ledger["weight"]
    assert (weight[0] == 0) and ((weight[-1] > 0) == (learner not in ("ftl", "bc")))
    assert (run.ledger["by_expert"] == (1.0 if learner == "bc" else [1, 0, 0])).all()


def test_presets_differ_in_what_they_say():
    paper = imitate("Hopper-v5", preset="paper", **QUICK, **SHORT)
    practical = imitate("Hopper-v5", **QUICK, **SHORT)
    assert paper.ledger["beta"].tolist() == [0, 0, 0] and practical.ledger["beta"].tolist() == [1, 0, 0]
    assert paper.policy.normaliser.nothing and not practical.policy.normaliser.nothing
    assert (paper.policy.policy.head, practical.policy.policy.head) == ("identity", "tanh")
    assert paper.settings["resolved"]["noise"] == 0.1


def test_summary_has_exactly_the_fields_scripts_rely_on():
    run = imitate("CartPole-v1", policy="linear", **QUICK)
    names = "env learner seed rounds kept_round steps labels expert_evaluation_calls "
    names += "return_mean return_std return_low return_high return_least episodes "
    names += "expert_return_low expert_return_high difference difference_low difference_high "
    names += "expert_return_mean average_loss regret "
    names += "seconds_collect seconds_solve seconds_evaluate seconds_total run"
    assert list(run.summary()) == names.split()
    json.dumps(run.summary(), allow_nan=False)


BOX = {"expert": answering(half), "policy": "linear"}
WRONG = {
    "env misspelt": (("Hoper-v5",), {}, "did you mean 'Hopper-v5'"),
    "env not one": ((3,), {}, "env: 3 is not the id of an environment"),
    "env makes something else": ((lambda: 3,), BOX, "makes a int"),
    "env without a shipped expert": (("MountainCar-v0",), {}, "none is shipped"),
    "env kwargs": (("CartPole-v1",), {"env_kwargs": {"wings": 2}}, "cannot be made"),
    "learner misspelt": (("CartPole-v1",), {"learner": "ftll"}, "did you mean 'ftl'"),
    "policy misspelt": (("CartPole-v1",), {"policy": "mpl"}, "did you mean 'mlp'"),
    "tabular on numbers": (("CartPole-v1",), {"policy": "tabular"}, "needs Discrete observations"),
    "loss misspelt": (("CartPole-v1",), {"loss": "sqared"}, "did you mean 'squared'"),
    "loss for choices": (("Pendulum-v1",), {"loss": "cross-entropy"}, "these are Box"),
    "logits for numbers": (("Pendulum-v1",), {"loss": "binary"}, "these are Box"),
    "solver misspelt": (("CartPole-v1",), {"solver": "adan"}, "did you mean"),
    "solver option": (("Pendulum-v1",), {"solver_options": {"wings": 2}}, "does not take wings"),
    "preset": (("CartPole-v1",), {"preset": "papers"}, "did you mean 'paper'"),
    "beta": (("CartPole-v1",), {"beta": 1.5}, "number in \\[0, 1\\]"),
    "first round": (("CartPole-v1",), {"first_round": "nobody"}, "first_round"),
    "rounds": (("CartPole-v1",), {"rounds": 0}, "rounds: 0"),
    "steps_per_round": (("CartPole-v1",), {"steps_per_round": 2.5}, "steps_per_round: 2.5"),
    "seed": (("CartPole-v1",), {"seed": -1}, "seed: -1"),
    "budget": (("CartPole-v1",), {"budget": 0}, "budget: 0"),
    "noise": (("CartPole-v1",), {"noise": -1.0}, "noise: -1.0"),
    "comparator": (("CartPole-v1",), {"comparator": [9]}, "comparator"),
    "squash on linear": (("Pendulum-v1",), {"policy": "linear", "squash": True}, "tanh head|squash"),
    "resume nothing": (("CartPole-v1",), {"resume": True}, "no folder"),
    "expert misspelt": (("CartPole-v1",), {"expert": "lqr-CartPol-v1"}, "did you mean"),
    "expert for another env": (("CartPole-v1",), {"expert": "sac-Hopper-v5"}, "was made for"),
    "expert's shape": (
        (Counting,),
        {"expert": answering(lambda o: np.zeros((len(o), 2))), "policy": "linear"},
        "shape",
    ),
    "expert out of bounds": (
        (Counting,),
        {"expert": answering(lambda o: half(o) * 9), "policy": "linear"},
        "outside",
    ),
    "expert not finite": (
        (Counting,),
        {"expert": answering(lambda o: half(o) * np.nan), "policy": "linear"},
        "finite",
    ),
    "actions": ((lambda: Counting(action_space=gym.spaces.Text(3)),), BOX, "not supported"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_everything_is_one_sentence(case):
    args, options, words = WRONG[case]
    with pytest.raises(UserError, match=words) as told:
        imitate(*args, **{**QUICK, **options})
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("who", ["expert", "environment"])
def test_nan_in_round_three_keeps_the_first_two(tmp_path, who):
    """Rounds of 20: in the third, something breaks; ledger, policy and samples of two rounds stay."""
    calls = [0]

    def ask(observations):
        calls[0] += len(observations)
        return half(observations) * (np.nan if who == "expert" and calls[0] > 45 else 1)

    poison = 45 if who == "environment" else None
    with pytest.raises(UserError, match=r"round 3: .*finite"):
        imitate(
            lambda: Counting(poison=poison),
            expert=answering(ask),
            policy="linear",
            rounds=5,
            steps_per_round=20,
            episodes=0,
            expert_episodes=0,
            out=tmp_path / "run",
        )
    assert len((tmp_path / "run" / "ledger.csv").read_text().splitlines()) == 1 + 2
    understudy.TrainedPolicy.load(tmp_path / "run")
    assert (tmp_path / "run" / "samples" / "flags.bin").stat().st_size == 40


def test_the_certificate_is_that_of_the_judged_round():
    """With the comparator of round 2 alone, its constants are those of the run that ends there."""
    options = {"policy": "linear", "learner": understudy.ftrl(eta=0.1), "steps_per_round": 40, "episodes": 0}
    judged = imitate("Pendulum-v1", rounds=4, comparator=[2], **options).certificate
    ended = imitate("Pendulum-v1", rounds=2, **options).certificate
    assert judged == ended and judged.constants["distance"] > 0
    whole = imitate("Pendulum-v1", rounds=4, **options).certificate
    assert whole.constants["stability"] > judged.constants["stability"]


def test_its_signature_has_every_setting_for_editors_and_type_checkers():
    named, own = inspect.signature(imitate).parameters, imitate.__kwdefaults__
    assert set(named) == {*FIELDS, *own}
    assert {name: named[name].default for name in own} == own
    assert [name for name, one in named.items() if one.kind is one.POSITIONAL_OR_KEYWORD] == ["env"]
