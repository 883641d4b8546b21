"""From axes to runs: what is typed, what a learner does not take, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from understudy import RunSpec, Study, UserError
from understudy.studies import read, running
from understudy.studies.running import divide
from understudy.studies.study import axis_values, digest, parse_axis

SMALL = {"policy": "linear", "rounds": 2, "steps_per_round": 10, "episodes": 0}


def test_ranges_hold_the_numbers_that_one_would_type():
    assert axis_values("step", "1e-5:1e5:log11") == tuple(float(f"1e{power}") for power in range(-5, 6))
    assert axis_values("noise", "0:1:lin5") == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert parse_axis("max-iterations=10,20") == ("max_iterations", (10, 20))
    assert axis_values("comparator", "none,last") == ("none", "last")
    assert [type(one) for one in axis_values("step", np.float64(0.5))] == [float]
    assert axis_values("widths", [[8], [8, 8]]) == ((8,), (8, 8))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1:2:log0", "between 2 and"),
        ("2:1:lin3", "lo < hi"),
        ("0:1:log3", "lo must be > 0"),
        ("a:b:log3", "neither a list"),
        ("1,,2", "neither a list"),
        ("1:2:lg3", "neither a list"),
        ("1e-3:1e3", "neither a list"),
        ("1,2,1", "twice"),
        ("nan", "not finite"),
    ],
)
def test_axes_that_cannot_be_meant(text, said):
    with pytest.raises(UserError, match=said):
        axis_values("step", text)


def test_step_is_eta_or_alpha_and_ftl_runs_once():
    learners = ["ftl", "bc", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad"]
    study = Study("CartPole-v1", grid={"learner": learners, "step": [0.1, 1.0]}, seeds=3, **SMALL)
    assert (study.asked, len(study.runs)) == (42, 3 * (2 + 2 * 5))
    assert study.left_out == {"step": ["ftl", "bc"]}
    for entry in study.runs:
        step = entry.labels["step"]
        field = {"ftl": None, "bc": None, "adaftrl": "alpha", "adagrad": "alpha"}.get(
            entry.labels["learner"], "eta"
        )
        assert {name: entry.settings[name] for name in ("eta", "alpha") if name in entry.settings} == (
            {} if field is None else {field: step}
        )
        assert (step is None) == (field is None)
    assert len({entry.id for entry in study.runs}) == len(study.runs)


def test_options_of_solvers_say_nothing_to_linearised_learners():
    study = Study("CartPole-v1", grid={"learner": ["ftl", "ogd"], "learning_rate": [0.1, 1.0]}, eta=1.0)
    assert [entry.labels["learning_rate"] for entry in study.runs] == [0.1, 1.0, None]


def test_a_run_is_named_by_what_it_is():
    one = Study("CartPole-v1", eta=1, learner="ftrl", rounds=2.0).runs[0]
    other = Study("CartPole-v1", grid={"learner": ["ftl", "ftrl"], "step": [1.0]}, rounds=2).runs[1]
    assert one.id == other.id == digest(one.settings)
    assert one.id != Study("CartPole-v1", eta=2, learner="ftrl", rounds=2).runs[0].id


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"grid": {"stepp": [1]}}, "did you mean 'step'"),
        ({"grid": ["step"]}, "grid: .'step'. is not a table of axes"),
        ({"grid": {"env_kwargs": [{"g": np.float32(9.0)}]}}, "env_kwargs: .* is not plain"),
        ({"env_kwargs": {"gains": {1: 0.5}}}, "env_kwargs: .* has keys that are not text"),
        ({"round": 3}, "did you mean 'rounds'"),
        ({"grid": {"learner": ["ftrll"]}}, "did you mean 'ftrl'"),
        ({"grid": {"step": [1.0]}}, "no learner of this study takes it"),
        ({"eta": 1.0}, "no learner of this study takes it"),
        ({"grid": {"rounds": [1, 2]}, "rounds": 3}, "an axis and a setting"),
        ({"grid": {"step": [1.0]}, "learner": "ftrl", "eta": 1.0}, "another word for eta"),
        ({"grid": {"learner": ["ftrl"], "step": [-1.0]}}, "eta"),
        ({"grid": {"learner": ["ftrl"], "step": ["big"]}}, "not a finite number"),
        ({"rounds": 1.5}, "not a whole number"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [1, 1]}, "seeds"),
        ({"seed": 1}, "seeds says how many"),
        ({"grid": {"seeds": [1]}}, "grid: seeds is not set so; seeds says how many"),
        ({"solver": "adamm"}, "did you mean 'adam'"),
    ],
)
def test_what_is_refused_before_there_is_a_study(arguments, said):
    with pytest.raises(UserError, match=said):
        Study("CartPole-v1", **arguments)


@pytest.mark.parametrize(("name", "value"), [("comparator", [3, 5]), ("encoder", None), ("encoder", "none")])
def test_a_setting_means_in_a_study_what_it_means_in_a_run(name, value):
    study = Study("CartPole-v1", rounds=5, **{name: value})
    alone = RunSpec.of({"env": "CartPole-v1", "rounds": 5, name: value})
    assert study.runs[0].spec == alone


def test_seeds_may_be_numbers_of_numpy():
    for seeds, wanted in ((np.int64(2), (0, 1)), (np.arange(3, 5), (3, 4)), ([np.int32(7)], (7,))):
        found = Study("CartPole-v1", seeds=seeds).seeds
        assert found == wanted and {type(one) for one in found} == {int}
    with pytest.raises(UserError, match="neither a whole number"):
        Study("CartPole-v1", seeds=np.array([0.5]))


def test_a_file_says_the_same_and_what_is_typed_wins(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'env = "CartPole-v1"\nrounds = 2\nseeds = [3, 5]\n'
        '[grid]\nlearner = ["ftl", "ftrl"]\nstep = "0.1:10:log3"\n[tune]\ncandidates = 2\n'
    )
    study, tuning = read(path)
    typed = Study(
        "CartPole-v1", rounds=2, seeds=[3, 5], grid={"learner": ["ftl", "ftrl"], "step": [0.1, 1.0, 10.0]}
    )
    assert study.runs == typed.runs
    assert tuning == {"over": ["step"], "candidates": 2}
    path.write_text(path.read_text().replace("candidates = 2", ""))
    assert read(path)[1] == {"over": ["step"]}  # an empty table tunes too
    changed, _ = read(path, {"rounds": 4, "grid": {"step": (7.0,)}})
    assert {entry.settings["rounds"] for entry in changed.runs} == {4}
    assert {entry.labels["step"] for entry in changed.runs} == {None, 7.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env = ", "not TOML"),
        ('grid = 3\nenv = "CartPole-v1"', "not a table"),
        ("envv = 1", "did you mean 'env'"),
    ],
)
def test_files_that_cannot_be_meant(tmp_path, text, said):
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read(path)
    with pytest.raises(UserError, match="cannot read"):
        read(tmp_path / "nothing.toml")


def test_shards_hold_one_environment_and_size_and_every_run_once(monkeypatch):
    study = Study(
        grid={"env": ["CartPole-v1", "Acrobot-v1"], "steps_per_round": [10, 20]}, seeds=7, policy="linear"
    )
    shards = divide(study.runs, workers=3, most=5)
    assert sorted(entry.id for shard in shards for entry in shard) == sorted(entry.id for entry in study.runs)
    for shard in shards:
        assert len({(e.settings["env"], e.settings["steps_per_round"]) for e in shard}) == 1
    assert sorted(len(shard) for shard in shards) == [2] * 8 + [3] * 4
    assert max(len(shard) for shard in divide(study.runs, workers=1, most=2)) == 2
    assert {len(shard) for shard in divide(study.runs, workers=3)} == {1}  # on a CPU one after another
    monkeypatch.setattr(running, "has_accelerator", lambda: True)
    many = Study("CartPole-v1", seeds=7, policy="linear", num_envs=20_000, steps_per_round=40_000)
    assert [len(shard) for shard in divide(many.runs, workers=1)] == [3, 2, 2]
