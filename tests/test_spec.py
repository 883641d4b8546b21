"""The spec of a run: one spelling for one run, every setting checked, nothing lost on the way to a file."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from understudy import UserError, ftrl
from understudy.defaults import plan_of
from understudy.policies import MLP
from understudy.spec import FIELDS, RunSpec, describe

PENDULUM = {"env": "Pendulum-v1"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"rounds": 5}, {"rounds": 5.0}),
        ({"rounds": 5}, {"rounds": np.int64(5)}),
        ({"learner": "ftrl", "eta": 1}, {"learner": "ftrl", "learner_options": {"eta": np.float32(1.0)}}),
        ({"max_iterations": 7}, {"solver_options": {"max_iterations": 7}}),
        ({"solver_options": {"decay": "cosine"}}, {"solver_options": '{"decay": "cosine"}'}),
        ({"beta": 1}, {"beta": "1"}),
        ({"standardise": True}, {"standardise": "yes"}),
        ({"comparator": [2, 1]}, {"comparator": "1,2"}),
        ({"comparator": [2, 1]}, {"comparator": np.array([1, 2])}),
        ({"comparator": 2}, {"comparator": "2"}),
        ({"widths": [8, 8]}, {"widths": (8, 8)}),
        ({"widths": [8, 8]}, {"widths": np.array([8, 8])}),
        ({"widths": (8,)}, {"widths": [np.int64(8)]}),
        ({"learner": "ftrl", "eta": 1}, {"learner": "ftrl", "eta": 1, "learner_options": {"eta": None}}),
        ({"encoder": None}, {"encoder": "none"}),
        ({"env_kwargs": {"g": 5.0}}, {"env_kwargs": '{"g": 5.0}'}),
        ({"budget": None}, {}),
    ],
)
def test_a_run_has_one_spelling(one, other):
    assert RunSpec.of(PENDULUM | one) == RunSpec.of(PENDULUM | other)
    assert RunSpec.of(PENDULUM | one).changes() == RunSpec.of(PENDULUM | other).changes()
    assert hash(RunSpec.of(PENDULUM | one)) == hash(RunSpec.of(PENDULUM | other))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"env": 3}, "env: 3 is not the id of an environment"),
        ({"env": None}, "env: none was named; give the id of an environment"),
        ({"round": 3}, "run: unknown value 'round', did you mean 'rounds'?"),
        ({"rounds": 0}, "rounds: 0 is not accepted without demonstrations (demos) to learn from."),
        ({"rounds": 2.5}, "rounds: 2.5 is not a whole number ≥ 0."),
        ({"rounds": True}, "rounds: True is not a whole number ≥ 0."),
        ({"rounds": "five"}, "rounds: 'five' is not a whole number ≥ 0."),
        ({"noise": 10**400}, "is not a finite number"),
        ({"rounds": 10**400}, "is not a whole number ≤ 1,000,000."),
        ({"seed": float("inf")}, "seed: inf is not a whole number ≥ 0."),
        (
            {"keep_best": True, "episodes": 0},
            "keep_best: yes needs evaluations to choose by, and episodes is 0",
        ),
        ({"noise": -1}, "noise: -1 is not a finite number ≥ 0."),
        ({"noise": float("nan")}, "noise: nan is not a finite number ≥ 0."),
        ({"label_kind": "actions"}, "label_kind: unknown value 'actions', did you mean 'action'?"),
        ({"first_round": "nobody"}, "first_round: unknown value 'nobody'"),
        ({"preset": "papr"}, "did you mean 'paper'?"),
        ({"squash": "maybe"}, "squash: 'maybe' is not accepted; say yes or no."),
        ({"widths": (0,)}, "widths: (0,) must be positive whole numbers"),
        ({"label_kind": np.array([1, 2])}, "label_kind: unknown value [1, 2]"),
        ({"keep_best": np.array([])}, "keep_best: [] is not accepted; say yes or no."),
        ({"learner": np.array([1, 2]), "budget": 40}, "learner: expected a name"),
        ({"beta": 10**400}, "is not accepted; β is a probability"),
        ({"env_kwargs": "g=5"}, "env_kwargs: 'g=5' is not a JSON object"),
        ({"beta": 7}, "number in [0, 1]"),
        ({"comparator": [30]}, "comparator: [30] is not 'every', 'last', 'none' or rounds among 1 … 25."),
        ({"comparator": "never"}, "comparator: 'never' is not"),
        ({"comparator": [1.5]}, "comparator: [1.5] is not"),
        ({"comparator": True}, "comparator: True is not"),
        ({"comparator": float("inf")}, "comparator: inf is not"),
        ({"expert_workers": "²"}, "expert_workers: '²' is not a whole number ≥ 1"),
        ({"learner": "ftrll"}, "learner: unknown value 'ftrll', did you mean 'ftrl'?"),
        ({"learner": "nobody"}, "Accepted: adaftrl, adagrad, alt_ftrl, bc, ftl, ftrl, ogd."),
        ({"learner": 3}, "learner: expected a name"),
        (
            {"steps_per_round": 99999999999999},
            "99999999999999 is not a whole number ≤ 1,000,000,000.",
        ),
        ({"learner": "bc", "eta": 1}, "learner: 'bc' takes no options"),
        ({"learner": "ftrl", "eta": -1}, "eta: -1.0 is not a positive finite number."),
        (
            {"learner": ftrl(eta=1.0), "eta": 2.0},
            "learner: it is an object, so eta cannot be passed on to it.",
        ),
        (
            {"eta": 1, "learner": "ftrl", "learner_options": {"eta": 2}},
            "eta: it is 1.0 and, in learner_options",
        ),
        ({"loss": "sqared"}, "did you mean 'squared'?"),
        ({"policy": "linear", "widths": (8,)}, "policy: 'linear' does not take widths; it takes bias."),
        ({"solver": "adamm"}, "did you mean 'adam'?"),
        ({"solver": "newton", "learning_rate": 0.1}, "solver: 'newton' does not take learning_rate"),
    ],
)
def test_what_does_not_fit_is_one_sentence(settings, sentence):
    with pytest.raises(UserError) as error:
        plan_of(RunSpec.of(PENDULUM | settings))
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_an_environment_gets_the_none_that_was_meant_for_it():
    assert RunSpec(env="FrozenLake-v1", env_kwargs='{"map_name": null}').env_kwargs == {"map_name": None}


def test_it_is_frozen_and_can_be_changed_by_a_copy():
    spec = RunSpec(**PENDULUM, rounds=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.rounds = 4  # type: ignore[misc]
    assert spec.replace(rounds=4) == RunSpec(**PENDULUM, rounds=4) != spec


def test_what_was_changed_is_enough_to_make_it_again():
    settings = PENDULUM | {"learner": "alt_ftrl", "eta": 0.3, "comparator": (1, 3), "env_kwargs": {"g": 5.0}}
    spec = RunSpec(**settings, widths=(8, 8), policy="mlp", solver_options={"decay": "linear"})
    assert RunSpec.of(json.loads(json.dumps(spec.changes()))) == spec
    assert RunSpec.of(json.loads(json.dumps(spec.plain()))) == spec
    person = RunSpec(env="CartPole-v1", expert="person", steps_per_round=1000)
    assert RunSpec.of(person.changes()) == person
    assert RunSpec(**PENDULUM).changes() == {"env": "Pendulum-v1", "learner": "ftl", "seed": 0}
    assert set(spec.plain()) == set(FIELDS)


def test_objects_are_described_and_cannot_be_sent_to_a_worker():
    spec = RunSpec(**PENDULUM, learner=ftrl(eta=0.5), policy=MLP(widths=(4,)), expert=act)
    told = spec.plain()
    assert (told["learner"]["name"], told["policy"]["widths"]) == ("ftrl", [4])
    assert told["expert"] == f"{__name__}:act" and spec.name == "ftrl"
    json.dumps(told)
    with pytest.raises(UserError, match="which a study cannot keep or send to a worker"):
        spec.changes()
    assert describe(ftrl(eta=0.5)) != describe(ftrl(eta=0.25))


def act(observation):
    return [0.0]


def test_a_file_holds_it(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('env = "Pendulum-v1"\nlearner = "ftrl"\neta = 1\n[solver_options]\ntolerance = 1e-6\n')
    assert RunSpec.read(path, rounds=3) == RunSpec(
        **PENDULUM, learner="ftrl", eta=1.0, tolerance=1e-6, rounds=3
    )
    text = path.read_text()
    path.write_bytes(b"\xef\xbb\xbf" + f"# \u00e9\n{text}".encode())  # as some editors write it
    assert RunSpec.read(path) == RunSpec(**PENDULUM, learner="ftrl", eta=1.0, tolerance=1e-6)
    with pytest.raises(UserError, match="config: cannot read"):
        RunSpec.read(tmp_path / "nothing.toml")
