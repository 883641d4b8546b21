"""One run has one ledger: through `imitate`, the command line, a study's file and `studies.play`."""

from __future__ import annotations

import json

import pytest

from quick import SIZE
from studies.teachers import Endless
from understudy import UserError, imitate
from understudy.cli import main
from understudy.disk import to_csv
from understudy.runs import NAMES
from understudy.studies import play, read, run

HERE = "studies.teachers"
ENDLESS = f"{HERE}:Endless-v0"
SMALL = SIZE | {"episodes": 1, "expert_episodes": 1}
CASES = [
    {
        "env": "CartPole-v1",
        "policy": "linear",
        "label_kind": "action",
        "expert": f"{HERE}:soft",
        "num_envs": 3,
    },
    {"env": "CartPole-v1", "policy": "linear", "expert": f"{HERE}:informed", "learner": "bc"},
    {"env": "Hopper-v5", "policy": "linear", "learner": "ogd", "eta": 0.1, "seed": 4, "episode_limit": 90},
]


def csv(columns) -> bytes:
    return to_csv({name: columns[name] for name in NAMES}).encode()


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, [*case.values()][:3])))
def test_one_run_has_one_ledger_through_every_door(tmp_path, case):
    settings = SMALL | case
    imitate(**settings, out=tmp_path / "api")
    ledger = (tmp_path / "api" / "ledger.csv").read_bytes()
    beside = play([settings, settings | {"seed": 9}])
    assert [one.error for one in beside] == [None, None]
    assert csv({name: [row[name] for row in beside[0].rows] for name in NAMES}) == ledger
    typed = []
    for name, value in settings.items():
        if name != "env":
            listed = value if isinstance(value, list) else [value]
            typed += [f"--{name.replace('_', '-')}", *map(str, listed)]
    assert main(["train", settings["env"], *typed, "--out", str(tmp_path / "typed")]) == 0
    assert (tmp_path / "typed" / "ledger.csv").read_bytes() == ledger
    seed = settings.pop("seed", 0)
    lines = [f"env = {json.dumps(settings.pop('env'))}", f"seeds = [{seed}]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (tmp_path / "study.toml").write_text("\n".join(lines) + "\n")
    study, _ = read(tmp_path / "study.toml")
    done = run(study, engine="inline")
    assert csv(done.rounds) == ledger


def test_what_was_collected_beside_others_is_what_was_evaluated():
    """Runs of 1 and 3 episodes, of two codings of one space, and one that cannot be made, in one call."""
    base = {"env": "FrozenLake-v1", "expert": f"{HERE}:down", "rounds": 1, "steps_per_round": 30}
    base |= {"loss": "squared"}
    runs = [
        base | {"policy": policy, "episodes": episodes, "learner": "ftl"}
        for policy in ("linear", "tabular")
        for episodes in (1, 3)
    ]
    found = play([*runs, base | {"policy": "nature_cnn"}])
    assert "nature_cnn" in found[-1].error and found[-1].rows == []
    for settings, one in zip(runs, found, strict=False):
        alone = imitate(**settings)
        assert len(alone.evaluation.returns) == settings["episodes"]
        assert one.error is None and one.summary["return_mean"] == alone.evaluation.mean
        assert one.summary["return_std"] == alone.evaluation.std
        assert [row["loss"] for row in one.rows] == alone.ledger["loss"].tolist()


def test_the_limit_of_memory_holds_in_studies():
    base = {"env": "CartPole-v1", "policy": "linear", "loss": "cross-entropy", "memory_limit": 10}
    with pytest.raises(UserError) as alone:
        imitate(**base, **SMALL)
    assert str(alone.value).startswith("memory_limit: 120 samples need")
    beside = play([base | SMALL, base | SMALL | {"memory_limit": 10_000}])
    assert beside[0].error == str(alone.value)
    assert beside[1].error is None and len(beside[1].rows) == 3


@pytest.mark.slow
def test_runs_whose_budget_takes_other_rounds_are_played_beside_each_other():
    base = {"env": "CartPole-v1", "policy": "linear", "ask": "random:10", "budget": 60, "steps_per_round": 30}
    base |= {"episodes": 0, "comparator": "none"}
    runs = [base, base | {"learner": "bc"}, base | {"preset": "paper"}]
    found = play(runs)
    assert [one.error for one in found] == [None] * 3
    for one, settings in zip(found, runs, strict=True):
        assert [row["labels"] for row in one.rows] == imitate(**settings).ledger["labels"].tolist()
    assert [len(one.rows) for one in found] == [4, 2, 6]


def test_samples_beyond_the_limit_are_read_from_files_to_the_same_ledger():
    network = {"env": "CartPole-v1", "widths": [8], "max_iterations": 5, "comparator": "none", **SMALL}
    there, mapped = play([network, network | {"memory_limit": 0}])
    assert (there.error, mapped.error) == (None, None)
    assert [row["loss"] for row in there.rows] == [row["loss"] for row in mapped.rows]


def test_an_endless_episode_is_one_sentence_everywhere(monkeypatch):
    monkeypatch.setattr("understudy.runs.evaluate.STEP_LIMIT", 60)
    settings = {"env": ENDLESS, "expert": f"{HERE}:half", "policy": "linear", **SMALL}
    with pytest.raises(
        UserError, match=r"an evaluation episode of .*Endless-v0 has lasted 60 steps"
    ) as alone:
        imitate(**settings)
    for one in play([settings, settings | {"seed": 1}]):
        assert one.error == str(alone.value)


@pytest.mark.parametrize("fault", [{"expert": "nosuchmodule:act"}, {"policy": "tabular"}])
def test_environments_are_closed_where_a_run_cannot_be_made(fault):
    settings = {"env": ENDLESS, "expert": f"{HERE}:half", "policy": "linear", **SMALL, "num_envs": 3} | fault
    Endless.made = Endless.closed = 0
    with pytest.raises(UserError) as alone:
        imitate(**settings)
    assert play([settings])[0].error == str(alone.value)
    assert Endless.made == Endless.closed == 2
