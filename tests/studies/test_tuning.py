"""The tuning protocol: who is kept, who is chosen, what lies at the edge; a tuned study from end to end."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from rooms import EXPERT, ROOM
from understudy import Study, UserError, tune
from understudy.studies import Result, Results, plans
from understudy.studies.folder import to_csv
from understudy.studies.tuning import Tuned, _choices, choose, coarse_study, full_study, means

STEPS = (0.01, 0.1, 1.0, 10.0, 100.0)
SMALL = {"expert": EXPERT, "policy": "linear", "rounds": 4, "steps_per_round": 30, "episodes": 0}


def study(**more) -> Study:
    return Study(ROOM, grid={"learner": ["ftl", "ftrl", "ogd"], "step": STEPS, **more}, seeds=2, **SMALL)


def played(one: Study, loss) -> Results:
    """Results in which every run's average loss is ``loss(labels)``; None is a failed run."""
    results = []
    for entry in one.runs:
        value = loss(entry.labels)
        summary = {"average_loss": 0.0 if value is None else value}
        results.append(Result([], summary, "it broke." if value is None else None, {}))
    return Results(one.runs, results, None)


def steps_of(one: Study, learner: str) -> list[float]:
    return list(dict.fromkeys(e.labels["step"] for e in one.runs if e.labels["learner"] == learner))


def test_the_coarse_pass_is_short_and_leaves_out_who_has_nothing_to_tune():
    rough = coarse_study(study(), ("step",), {}, (0,))
    assert rough is not None
    assert {entry.labels["learner"] for entry in rough.runs} == {"ftrl", "ogd"}
    assert len(rough.runs) == 2 * 5
    settings = rough.runs[0].settings
    assert settings["rounds"] * settings["steps_per_round"] == 2000 and settings["steps_per_round"] == 100
    assert coarse_study(Study(ROOM, grid={"learner": ["ftl"]}, **SMALL), (), {}, (0,)) is None


def test_three_best_are_kept_failures_are_worst_and_ties_go_to_the_smaller_step():
    def loss(labels):
        if labels["learner"] == "ogd":
            # The smallest step failed for one seed; all others are equal.
            return None if labels["step"] == 0.01 and labels["seed"] == 1 else 1.0
        return {0.01: math.nan, 0.1: 3.0, 1.0: 2.0, 10.0: 0.5, 100.0: 4.0 - 3.9 * labels["seed"]}[
            labels["step"]
        ]

    rough = coarse_study(study(), ("step",), {}, (0, 1))
    assert rough is not None
    full = full_study(study(), ("step",), played(rough, loss), 3)
    assert steps_of(full, "ogd") == [0.1, 1.0, 10.0]
    assert steps_of(full, "ftrl") == [1.0, 10.0, 100.0]  # the mean over seeds of the last is 2.05
    assert steps_of(full, "ftl") == [None]
    assert len(full.runs) == 2 * (3 + 3 + 1)


def test_the_best_in_full_is_chosen_and_the_edge_is_told():
    def coarse(labels):
        return abs(math.log10(labels["step"]) - (2 if labels["learner"] == "ogd" else 0))

    def full(labels):  # in full the order differs from the coarse pass
        return 1.0 if labels["step"] is None else labels["step"]

    whole = study()
    tried = played(coarse_study(whole, ("step",), {}, (0, 1)), coarse)
    kept = full_study(whole, ("step",), tried, 3)
    done = played(kept, full)
    choices = {one.setting["learner"]: one for one in _choices(whole, ("step",), tried, done)}
    assert (choices["ftrl"].values, choices["ftrl"].edge) == ({"step": 0.1}, {})
    assert (choices["ogd"].values, choices["ogd"].edge) == ({"step": 1.0}, {})
    assert (choices["ftl"].values, choices["ftl"].tried, choices["ftl"].edge) == ({"step": None}, 1, {})
    assert choices["ogd"].score == 1.0 and choices["ogd"].tried == 5
    high = played(kept, lambda labels: 0.0 if labels["step"] is None else -labels["step"])
    edges = {one.setting["learner"]: one.edge for one in _choices(whole, ("step",), tried, high)}
    assert edges == {"ftl": {}, "ftrl": {}, "ogd": {"step": "high"}}
    tuned = Tuned(list(choices.values()), tried, done)
    assert {e.labels["step"] for e in done.entries if e.id in tuned.chosen} == {None, 0.1, 1.0}
    assert sum(tuned.summary["chosen"]) == 2 * 3


def test_axes_that_the_coarse_pass_fixes_share_its_candidates():
    """Rounds of 100 in the coarse pass, whatever the study has."""
    shared = {name: value for name, value in SMALL.items() if name != "steps_per_round"}
    whole = Study(ROOM, grid={"learner": ["ogd"], "step": STEPS, "steps_per_round": [20, 40]}, **shared)
    rough = coarse_study(whole, ("step",), {}, (0,))
    assert rough is not None and len(rough.runs) == 5
    full = full_study(whole, ("step",), played(rough, lambda labels: labels["step"]), 2)
    assert [(e.labels["step"], e.labels["steps_per_round"]) for e in full.runs] == [
        (0.01, 20),
        (0.01, 40),
        (0.1, 20),
        (0.1, 40),
    ]
    choices = _choices(
        whole, ("step",), played(rough, lambda labels: labels["step"]), played(full, lambda _: 1.0)
    )
    assert [(one.setting["steps_per_round"], one.values["step"], one.edge) for one in choices] == [
        (20, 0.01, {"step": "low"}),
        (40, 0.01, {"step": "low"}),
    ]


def test_a_tuned_study_goes_on_where_it_was_and_ends_in_one_table(tmp_path):
    class Stop(Exception):
        pass

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "full":
            raise Stop

    log = tmp_path / "log"
    one = Study(ROOM, grid={"learner": ["ftl", "ogd"], "step": STEPS}, env_kwargs={"log": str(log)}, **SMALL)
    how = {"engine": "inline", "coarse": {"rounds": 2, "steps_per_round": 20}}
    with pytest.raises(Stop):
        tune(one, "step", tmp_path / "a", progress=stop, shard=1, **how)
    tuned = tune(one, "step", tmp_path / "a", **how)
    # Five in the coarse pass, four in the full one, and the one that was stopped in its first round.
    assert len(log.read_text().splitlines()) == 5 + 4 + 1
    assert sorted(set(tuned.rounds["stage"])) == ["coarse", "full"]
    again = tune(one, "step", tmp_path / "b", **how)
    for name in ("results.csv", "summary.csv", "choices.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    # The choice, found again from the table by hand.
    losses = {
        step: loss
        for stage, learner, step, loss in zip(
            *(again.summary[name] for name in ("stage", "learner", "step", "average_loss")), strict=True
        )
        if stage == "full" and learner == "ogd"
    }
    assert len(losses) == 3
    assert again.choices[1].values["step"] == min(losses, key=losses.__getitem__)
    # A longer grid keeps what was played.
    before = len(log.read_text().splitlines())
    longer = Study(
        ROOM, grid={"learner": ["ftl", "ogd"], "step": (*STEPS, 1e3)}, env_kwargs={"log": str(log)}, **SMALL
    )
    tune(longer, "step", tmp_path / "a", **how)
    assert len(log.read_text().splitlines()) <= before + 1 + 1


def test_of_a_part_of_a_study_no_other_candidates_are_tried():
    few = study().only(lambda entry: entry.labels["step"] in (None, 0.1, 1.0))
    rough = coarse_study(few, ("step",), {}, (0,))
    assert rough is not None and {entry.labels["step"] for entry in rough.runs} == {0.1, 1.0}
    best = full_study(few, ("step",), played(rough, lambda labels: -labels["step"]), 1)
    assert steps_of(best, "ftrl") == steps_of(best, "ogd") == [1.0]


def test_truth_values_have_no_edge():
    runs = [({"standardise": one}, float(one)) for one in (True, False)]
    (found,) = choose(runs, ("standardise",))
    assert (found.values, found.edge) == ({"standardise": False}, {})


def test_scores_too_large_to_add_are_infinitely_bad():
    runs = [
        ({"step": step, "seed": seed}, 1e308 if step > 1 else 5.0) for step in (0.1, 10.0) for seed in (0, 1)
    ]
    assert means(runs, ("step",)) == {"{}": {(0.1,): 5.0, (10.0,): math.inf}}
    assert choose(runs, ("step",))[0].values == {"step": 0.1}


def test_the_coarse_pass_may_have_seeds_of_its_own():
    found = plans(study(), "step", coarse={"seeds": 1}, calibrate=False)
    assert (found["coarse"].runs, found["full"].runs) == (2 * 5, 2 * (3 + 3 + 1))


def test_plans_of_both_passes():
    found = plans(study(), "step", calibrate=False, workers=2)
    assert (found["coarse"].runs, found["full"].runs) == (2 * 2 * 5, 2 * (3 + 3 + 1))
    assert found["coarse"].steps == 20 * 2000


def test_a_study_without_axes_says_that_none_can_be_tuned():
    with pytest.raises(UserError, match="tune: the study has no axis to tune; a grid has them"):
        tune(Study("CartPole-v1"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"over": "eta"}, "tune: unknown value 'eta'"),
        ({"over": 3}, "tune: unknown value 3"),
        ({"over": [["step"]]}, "tune: unknown value"),
        ({"candidates": 0}, "candidates"),
        (
            {"over": ("step", "comparator_steps")},
            "tune: comparator_steps is the same for all runs of the coarse pass",
        ),
        ({"coarse": 5}, "coarse: 5 is not a table of settings"),
        ({"over": "env_kwargs"}, "tune: env_kwargs has tables for values"),
    ],
)
@pytest.mark.parametrize("door", [tune, plans])
def test_what_cannot_be_tuned(tmp_path: Path, arguments, said, door):
    how = {"over": "step", "out": tmp_path / "a", "coarse": {"comparator_steps": 5}, **arguments}
    with pytest.raises(UserError, match=said):
        door(study(comparator_steps=[5, 10], env_kwargs=[{}, {"breaks": 99}]), **how)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("door", [tune, plans])
def test_a_folder_of_other_things_is_left_alone(tmp_path: Path, door):
    (tmp_path / "results.csv").write_text("mine")
    with pytest.raises(UserError, match="holds other things than a tuned study"):
        door(study(), "step", tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(UserError, match="holds a study that was not tuned"):
        door(study(), "step", tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"results.csv", "study.json"}


def test_lists_are_tuned():
    one = Study(ROOM, grid={"widths": [[4], [8, 8]]}, **SMALL | {"policy": "mlp"})
    rough = coarse_study(one, ("widths",), {}, (0,))
    assert rough is not None
    tried = played(rough, lambda labels: len(labels["widths"]))
    done = played(full_study(one, ("widths",), tried, 2), lambda labels: -len(labels["widths"]))
    tuned = Tuned(_choices(one, ("widths",), tried, done), tried, done)
    (choice,) = tuned.choices
    assert choice.values["widths"] == (8, 8) and choice.tried == 2 and len(tuned.chosen) == 1
    assert to_csv(tuned.table()).splitlines()[1].split(",", 2)[2] == '"[8, 8]",,-2.0,2'


def test_without_a_folder_none_is_named():
    one = Study(ROOM, grid={"learner": ["ogd"], "step": STEPS[:2]}, **SMALL)
    tuned = tune(one, engine="inline", candidates=1, coarse={"rounds": 2, "steps_per_round": 20})
    assert tuned.full.folder is None and tuned.coarse is not None and tuned.coarse.folder is None


def test_a_coarse_pass_in_one_environment_stands_for_all():
    grid = {"env": ["CartPole-v1", "Acrobot-v1"], "learner": ["ftl", "ftrl"], "step": STEPS}
    two = Study(grid=grid, policy="linear", rounds=4, steps_per_round=30, episodes=0)
    rough = coarse_study(two, ("step",), {"env": "CartPole-v1"}, (0,))
    assert rough is not None and {entry.labels["env"] for entry in rough.runs} == {"CartPole-v1"}
    tried = played(rough, lambda labels: abs(math.log10(labels["step"])))
    full = full_study(two, ("step",), tried, 1)
    # The step found there is played in both, and only it.
    assert [(e.labels["env"], e.labels["learner"], e.labels["step"]) for e in full.runs] == [
        ("CartPole-v1", "ftl", None),
        ("CartPole-v1", "ftrl", 1.0),
        ("Acrobot-v1", "ftl", None),
        ("Acrobot-v1", "ftrl", 1.0),
    ]
    done = played(full, lambda labels: 1.0)
    assert [one.tried for one in _choices(two, ("step",), tried, done)] == [1, 5, 1, 5]
