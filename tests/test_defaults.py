"""What a run means: every rule in one place, with its reason, and nobody else who decides."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

import understudy
from quick import SIZE
from understudy import RunSpec, imitate
from understudy.cli import main
from understudy.defaults import BEGUN, SAID, Choice, plan_of, resolve
from understudy.policies import Actions
from understudy.runs import spaces_of
from understudy.spec import FIELDS

SRC = Path(understudy.__file__).parent
PENDULUM = {"env": "Pendulum-v1"}
HOME = ("spec.py", "defaults.py")


def choices(**settings) -> dict[str, Choice]:
    return {choice.setting: choice for choice in understudy.explain(**settings)}


def test_rounds_follow_from_the_settings():
    spec = RunSpec(**PENDULUM, rounds=4, steps_per_round=30, budget=100, evaluate_every=3, comparator="every")
    plan = plan_of(spec)
    assert plan.sizes == (30, 30, 30, 10) and plan.total == 100
    assert (sorted(plan.comparator_rounds), sorted(plan.evaluated)) == ([1, 2, 3, 4], [3, 4])
    assert plan_of(spec.replace(episodes=0)).evaluated == frozenset()
    more = plan_of(spec.replace(expert_episodes=2))
    assert (plan.expert_episodes, more.expert_episodes) == (20, 2)
    assert (plan.measures(expensive=True), more.measures(expensive=True)) == (0, 2)
    assert [plan_of(RunSpec(**PENDULUM, learner="bc")).mixing.beta(t) for t in (1, 9)] == [1.0, 1.0]


def test_a_round_of_pure_environments_has_steps_for_each_of_them():
    pure = {"env": "gymnax:CartPole-v1", "num_envs": 64}
    assert plan_of(RunSpec(**pure)).steps_per_round == 3200
    assert RunSpec(**pure).steps_per_round is None, "what was said stays as it was said"
    for env in (PENDULUM | {"num_envs": 64}, {"env": pure["env"]}):
        assert plan_of(RunSpec(**env)).steps_per_round == 1000
    said = RunSpec(**pure, steps_per_round=1000)
    for again in (RunSpec.of(said.changes()), RunSpec.of(said.plain()), said.replace(rounds=3)):
        assert plan_of(again).steps_per_round == 1000


def test_the_preset_decides_what_was_not_given():
    practical, paper = (choices(**PENDULUM, preset=name) for name in ("practical", "paper"))
    assert [one["standardise"].value for one in (practical, paper)] == [True, False]
    assert [one["first_round"].value for one in (practical, paper)] == ["expert", "agent"]
    said = choices(**PENDULUM, preset="paper", standardise="yes", noise=0.3)
    assert (said["standardise"].value, said["noise"].value) == (True, 0.3)
    assert said["standardise"].reason == said["noise"].reason == SAID


def test_every_choice_has_a_reason_and_the_moment_of_what_only_data_decide():
    made = choices(env="Pendulum-v1", budget=400, learner="adaftrl")
    assert all(choice.reason and len(choice.reason) < 100 for choice in made.values())
    assert {name for name, one in made.items() if one.reason == SAID} == {"budget"}
    later = {name: one.when for name, one in made.items() if one.when != "now"}
    assert later == {
        "alpha": "after round 1",
        "standardise": "after round 1",
        "looks": "in every evaluation on the way",
    }
    few = choices(env="Pendulum-v1", budget=400)["ensemble"]
    assert (few.value, few.when) == (5, "until the best is as good as the expert")
    assert choices(env="Pendulum-v1", budget=400, keep_best="no")["ensemble"].when == "now"
    exact = choices(env="CartPole-v1", policy="linear")["solver"]
    assert exact.candidates == ("newton", "block-lbfgs")


def test_a_goal_that_may_take_few_labels_trains_wide_networks_for_as_few_steps_as_a_small_budget():
    few, many, goal = (choices(**PENDULUM, **said) for said in ({"budget": 400}, {"budget": 5000}, {}))
    steps = [found["max_iterations"].value for found in (few, many, goal)]
    widths = [found["widths"].value for found in (few, many, goal)]
    assert goal["until"].value == "0.95" and goal["budget"].value == 5000
    assert steps == [1500, 5000, 1500] and widths == [(128, 128), (256, 256), (256, 256)]


def test_a_run_that_is_extended_goes_on_with_the_portions_it_was_begun_with():
    spec = RunSpec(env="Pendulum-v1", budget=403)
    world = spaces_of(spec)
    about = world.shown, Actions.of(world.action_space), world.expert
    begun = resolve(spec, *about)
    before = json.loads(json.dumps(begun.record()))
    longer = resolve(spec.replace(budget=803), *about, before)
    assert longer.plan.rounds[:11] == begun.plan.rounds[:11] and longer.plan.budget == 803
    assert {choice.setting for choice in longer.choices if choice.reason == BEGUN} == {
        *("ask", "first_steps", "steps_per_round", "evaluate_every", "keep_best", "widths")
    }
    wide = resolve(spec.replace(budget=5000), *about, before)
    assert wide.policy.widths == begun.policy.widths == (128, 128), "a network goes on as wide as it is"
    assert resolve(spec.replace(budget=5000), *about).policy.widths == (256, 256)
    assert plan_of(spec.replace(budget=803)).ask == "distance:40", "one that is begun now has others"
    assert resolve(spec, *about, before).record() == begun.record()


def test_a_folder_keeps_what_was_said_and_what_it_means(tmp_path):
    small = {"policy": "linear", "steps_per_round": 20, "episodes": 0}
    imitate("CartPole-v1", out=tmp_path / "run", budget=20, **small)
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert (kept["ask"], kept["resolved"]["ask"], kept["resolved"]["budget"]) == (None, "distance:1", 20)
    more = imitate(out=tmp_path / "run", budget=40, resume=True)  # of twice as many a round would have two
    assert set(more.ledger["labels"][1:] - more.ledger["labels"][:-1]) == {1}
    again = imitate(out=tmp_path / "run", resume=True, ask="distance:1")  # the same in other words
    assert again.ledger["labels"][-1] == 40


def decided() -> set[str]:
    """The settings that `defaults` decides, by its calls of `decide`."""
    names = set()
    for node in ast.walk(ast.parse((SRC / "defaults.py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("decide"):
            names |= {one.value for one in node.args[:1] if isinstance(one, ast.Constant)}
    return {name for name in names if name in FIELDS} | {"preset", "unsaid"}


def read(source: str, names: set[str]) -> list[str]:
    """Where a program reads one of these settings of a spec: of what is called, annotated or made so."""
    tree, specs = ast.parse(source), {"spec"}

    def is_spec(node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            text = ast.unparse(node.func)
            return text.startswith("RunSpec") or (
                isinstance(node.func, ast.Attribute) and is_spec(node.func.value)
            )
        text = node.value if isinstance(node, ast.Subscript) else node
        name = text.attr if isinstance(text, ast.Attribute) else getattr(text, "id", "")
        return name in specs or name.endswith(("spec", "specs"))

    for node in ast.walk(tree):
        if (
            isinstance(node, ast.arg)
            and node.annotation is not None
            and "RunSpec" in ast.unparse(node.annotation)
        ):
            specs.add(node.arg)
        if isinstance(node, ast.Assign) and is_spec(node.value):
            specs |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names and is_spec(node.value):
            found.append(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and is_spec(node.args[0]):
            found += [
                one.value for one in node.args[1:2] if isinstance(one, ast.Constant) and one.value in names
            ]
    return found


def test_nobody_else_reads_what_stands_for_something_else():
    names, found = decided(), {}
    assert {"ask", "policy", "loss", "solver", "ensemble", "noise", "steps_per_round", "keep_best"} <= names
    for file in sorted(SRC.rglob("*.py")):
        if file.name not in HOME and (settings := read(file.read_text(), names)):
            found[str(file.relative_to(SRC))] = settings
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "if spec.noise is None: pass",
        "def f(run): return run.spec.ask or 'all'",
        "def f(asked: RunSpec): return asked.ensemble",
        "one = entry.spec\nif one.policy == 'auto': pass",
        "rounds = RunSpec.of(settings).rounds",
        "first = specs[0].steps_per_round",
        "value = getattr(self.spec, 'loss')",
        "automatic = spec.preset == 'practical'",
        "short = spec.replace(rounds=2).budget",
    ],
)
def test_one_who_does_is_seen(line):
    assert len(read(line, decided())) == 1
    assert read(line.replace("RunSpec", "Plan").replace("spec", "plan"), decided()) == []


def test_a_run_reads_them_in_one_place_whatever_the_names(monkeypatch):
    names, files = decided(), set()

    def spy(self, name):
        if name in names:
            files.add(sys._getframe(1).f_code.co_filename)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(RunSpec, "__getattribute__", spy, raising=False)
    small = SIZE | {"policy": "linear", "episodes": 1}
    imitate("CartPole-v1", **small)
    understudy.Study("CartPole-v1", seeds=2, **small | {"ask": "random:5"}).run(engine="inline")
    ours = {Path(file).name for file in files if Path(file).is_relative_to(SRC)}
    assert ours == {*HOME}


def test_an_explanation_plays_asks_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moody.py").write_text("def act(observation):\n    raise RuntimeError('I was asked')\n")
    sys.modules.pop("moody", None)
    before = sorted(tmp_path.iterdir())
    typed = ["train", "CartPole-v1", "--expert", "moody:act", "--budget", "60", "--out", "run", "--explain"]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(typed) == 0
    shown = capsys.readouterr().out
    assert "distance:3" in shown and "as you said" in shown and "cross-entropy" in shown
    assert main([*typed, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["choices"]
    ask = next(row for row in rows if row["setting"] == "ask")
    assert (ask["value"], ask["when"]) == ("distance:3", "now") and "twentieth" in ask["reason"]
    assert sorted(tmp_path.iterdir()) == before
    assert main(["train", "CartPole-v1", "--expert", "person", "--explain", "--json"]) == 0
    rows = {row["setting"]: row["value"] for row in json.loads(capsys.readouterr().out)["choices"]}
    assert (rows["policy"], rows["ask"], rows["budget"], rows["noise"]) == ("linear", "distance:10", 50, 1.0)
