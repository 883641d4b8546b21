"""One run, one result: `imitate`, the command line and studies give the same ledger, byte for byte."""

import functools
import json

import jax
import numpy as np
import pytest

import understudy
from quick import SIZE
from understudy import UserError, adaftrl, alt_ftrl, cli, ftrl, ogd
from understudy.cli import main
from understudy.cli.train import asked
from understudy.defaults import Decisions
from understudy.defaults import learner as resolve_learner
from understudy.learners import linearised
from understudy.parts import make_parts
from understudy.policies import MLP, Linear
from understudy.runs import spaces_of
from understudy.spec import RunSpec
from understudy.studies import play, read

SMALL = SIZE | {"episodes": 0, "comparator_steps": 5}


def first(learner, policy, name="practical"):
    """The first round that the learner's schedule counts in a run."""
    spec = RunSpec(env="CartPole-v1", learner=learner, preset=name)
    return int(resolve_learner(Decisions(spec), policy)[0].schedule.start)


@pytest.mark.parametrize("learner", [adaftrl(alpha=1.0), ftrl(eta=0.1), alt_ftrl(eta=1.0), "adaftrl", "ftrl"])
def test_the_schedule_of_a_linear_policy_starts_in_round_one(learner):
    assert first(learner, Linear()) == 1


@pytest.mark.parametrize(
    ("learner", "start"), [(adaftrl(alpha=1.0), 2), (ftrl(eta=0.1), 2), ("adaftrl", 2), ("ftrl", 3)]
)
def test_the_schedule_of_a_network_starts_after_a_round_without_penalty(learner, start):
    assert first(learner, MLP()) == start


@pytest.mark.parametrize("policy", [MLP(), Linear()])
def test_an_explicit_start_is_respected_everywhere(policy):
    assert first(adaftrl(alpha=1.0, start=1), policy) == 1
    assert first(ftrl(eta=1.0, start=7), policy) == 7
    assert first(adaftrl(alpha=1.0), policy, "paper") == 1


def test_linearised_learners_start_in_round_one_on_networks_too():
    assert first(linearised(adaftrl(alpha=1.0)), MLP()) == 1
    assert first(ogd(eta=0.1), MLP()) == 1


def test_a_name_on_a_linear_policy_has_a_scale_of_one():
    same = {"adaftrl": adaftrl(alpha=1.0), "ftrl": ftrl(eta=1.0), "alt-ftrl": alt_ftrl(eta=1.0)}
    for name, wanted in same.items():
        made, automatic = resolve_learner(Decisions(RunSpec(env="CartPole-v1", learner=name)), Linear())
        assert automatic is None
        for part in ("root", "adaptive", "constant"):
            assert np.array_equal(getattr(made.schedule, part), getattr(wanted.schedule, part))


# Settings as they are typed; the many are built, a handful is played.
LEARNERS = {
    "ftl": {},
    "bc": {},
    "ftrl": {"eta": 0.1},
    "alt_ftrl": {"eta": 2.0, "start": 2},
    "adaftrl": {"alpha": 1.0},
    "ogd": {"eta": 0.1},
    "adagrad": {"alpha": 0.5, "diagonal": True},
}
LOSSES = {"Pendulum-v1": ("auto", "squared", "absolute", "huber"), "CartPole-v1": ("auto", "cross-entropy")}
POLICIES = {"linear": {}, "mlp": {"max_iterations": 3, "widths": [8]}}
MAKERS = {"ftrl": ftrl, "alt_ftrl": alt_ftrl, "adaftrl": adaftrl, "ogd": ogd, "adagrad": understudy.adagrad}


def settings(env, learner, loss, preset, policy):
    given = LEARNERS[learner] | (POLICIES[policy] if learner not in ("ogd", "adagrad") else {})
    return {"env": env, "learner": learner, "loss": loss, "preset": preset, "policy": policy} | SMALL | given


def typed(run):
    """The settings as arguments of `understudy train`."""
    found = ["train", run["env"]]
    for name, value in run.items():
        if name != "env":
            found.append(f"--{name.replace('_', '-')}")
            found += [] if value is True else map(str, value) if isinstance(value, list) else [str(value)]
    return found


def toml(run):
    """The settings as a study file, the learner an axis."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in run.items() if name != "learner"]
    return "\n".join([*lines, "[grid]", f"learner = [{json.dumps(run['learner'])}]"])


def from_python(run, monkeypatch):
    """The spec that `imitate` plays."""
    seen = []

    def stop(world, spec, before):
        seen.append(spec)
        raise UserError("seen")

    with monkeypatch.context() as patched:
        patched.setattr("understudy.runs.run.make_parts", stop)
        with pytest.raises(UserError, match="seen"):
            understudy.imitate(**run)
    return seen[0]


def from_line(run):
    command, rest = cli._find(typed(run))
    assert command is not None
    return asked(cli.parse(command, rest))


def from_file(run, path):
    (path / "study.toml").write_text(toml(run))
    study, _ = read(path / "study.toml")
    assert len(study.runs) == 1
    # A worker gets this, as JSON.
    return RunSpec.of(json.loads(json.dumps(study.runs[0].settings)))


@functools.cache
def world(env):
    return spaces_of(RunSpec(env=env))


def built(spec):
    """Everything that a run is before it begins: its plan and the parts of its game, numbers included."""
    made = make_parts(world(spec.env), spec)
    plan = made.resolved.plan, made.resolved.standardise, made.resolved.ordinary
    return plan, made.settings["resolved"], [leaf.tolist() for leaf in jax.tree.leaves(made.params)]


CASES = [
    (env, learner, loss, preset, policy)
    for env, losses in LOSSES.items()
    for learner in LEARNERS
    for loss in losses
    for preset in ("practical", "paper")
    for policy in POLICIES
]
# A third of them has every pair of settings; the others are slow.
SOME = [
    pytest.param(case, id="-".join(case), marks=pytest.mark.slow if i % 3 else ())
    for i, case in enumerate(CASES)
]


def test_a_third_of_the_cases_has_every_pair_of_settings():
    def pairs(cases):
        return {(i, j, case[i], case[j]) for case in cases for i in range(5) for j in range(i)}

    assert pairs(CASES[::3]) == pairs(CASES) != pairs(CASES[::4])


@pytest.mark.parametrize("case", SOME)
def test_every_door_builds_the_same_run(case, tmp_path, monkeypatch):
    run = settings(*case)
    spec = RunSpec.of(run)
    assert from_python(run, monkeypatch) == from_line(run) == from_file(run, tmp_path) == spec
    learner = case[1]
    if learner in MAKERS:
        free = {name: value for name, value in run.items() if name not in LEARNERS[learner]}
        object_ = from_python(free | {"learner": MAKERS[learner](**LEARNERS[learner])}, monkeypatch)
        assert built(object_) == built(spec)


def test_another_setting_is_another_run(tmp_path):
    """The negative control: the comparison above can fail."""
    run = settings("Pendulum-v1", "adaftrl", "huber", "practical", "mlp")
    for changed in ({"alpha": 2.0}, {"start": 1}, {"preset": "paper"}, {"rounds": 2}, {"loss": "squared"}):
        assert from_file(run | changed, tmp_path) != RunSpec.of(run)
        assert built(RunSpec.of(run | changed)) != built(RunSpec.of(run))


PLAYED = [
    ("CartPole-v1", "adaftrl", "auto", "practical", "linear"),
    ("Pendulum-v1", "ftrl", "huber", "paper", "linear"),
    ("Pendulum-v1", "adagrad", "squared", "practical", "linear"),
    ("Pendulum-v1", "adaftrl", "squared", "practical", "mlp"),
]


@pytest.mark.parametrize("case", PLAYED, ids="-".join)
def test_every_door_writes_the_same_ledger(case, tmp_path):
    run, learner = settings(*case), case[1]
    free = {name: value for name, value in run.items() if name not in LEARNERS[learner]}
    made = understudy.imitate(**free | {"learner": MAKERS[learner](**LEARNERS[learner])})
    asked_for = made.ledger.to_csv()
    assert understudy.imitate(**run).ledger.to_csv() == asked_for
    assert main([*typed(run), "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "ledger.csv").read_text() == asked_for
    (tmp_path / "study.toml").write_text(toml(run))
    studied = read(tmp_path / "study.toml")[0].run(engine="inline").results
    for result in (studied[0], play([run])[0]):
        assert result.error is None
        columns = {name: [row[name] for row in result.rows] for name in result.rows[0]}
        assert understudy.Ledger(columns).to_csv() == asked_for
    if case[4] == "linear":
        assert np.isfinite(made.certificate.bound), "a run on a linear policy has a finite certificate"
