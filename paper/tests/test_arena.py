"""The arena, small: every rule plays, the judge accepts what is good and nothing else, files go on."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

from paper import __main__ as paper
from paper import arena, arena_report, arena_rules, arena_worlds
from paper.arena import Judge, Setting
from paper.arena_report import Curve
from paper.arena_rules import RULES, STUDENTS, Sizes, Stage
from paper.arena_worlds import WORLDS, Walk, World, teacher
from understudy import RunSpec, UserError, explain

TINY = World("CartPole-v1", 40, (0.0, 500.0), 20, steps=60)
"""Too few episodes for its exact test to accept anything."""
LONG = TINY._replace(most=200)
SMALL = Sizes("network", {"widths": (8,), "max_iterations": 20})


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(WORLDS, "cartpole", TINY)
    monkeypatch.setitem(WORLDS, "pendulum", World("Pendulum-v1", 40, steps=60))
    monkeypatch.setitem(STUDENTS, "network", SMALL)


def stage(part="cartpole", seed=3):
    world = WORLDS[part]
    return Stage(world, teacher(world, "clean", seed), Walk(world.env, seed), SMALL, seed)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_spends_its_portions(rule):
    made = arena.play(Setting("cartpole", rule, 3))
    labels = [row["labels"] for row in made["rounds"]]
    assert labels == sorted(labels) and made["labels_to"] == {"0.9": None, "0.95": None}
    warm = {
        "warm-stagger",
        "bootstrap",
        "thrifty",
        "crsail",
        "distance",
        "ours",
        "ftrl",
        "alt-ftrl",
        "adaftrl",
    }
    assert labels[0] == (20 if rule in warm else 4 if rule == "early" else 2)
    assert labels[-1] >= 40 or rule in ("thrifty", "crsail")


@pytest.mark.parametrize("rule", ["dart", "ensemble-dagger", "bootstrap", "thrifty", "stagger", "crsail"])
def test_rules_of_ours_here_play_box_actions_too(rule):
    one = RULES[rule].begin(stage("pendulum"))
    first = one.begin()
    one.round()
    assert first and one.student.labels >= first and np.shape(one.player(np.zeros(3, np.float32))) == (1,)


@pytest.mark.parametrize("rule", ["ours", "bootstrap", "alt-ftrl", "adaftrl"])
@pytest.mark.parametrize("part", ["cartpole", "pendulum"])
def test_a_linear_student_of_a_noisy_expert_plays(rule, part):
    made = arena.play(Setting(part, rule, 3, expert="noisy", student="linear"))
    assert made["error"] is None and made["rounds"][-1]["labels"] >= 40


def test_regularised_learners_play_otherwise_than_ftl():
    found = {
        rule: [row["score"] for row in arena.play(Setting("pendulum", rule, 3, student="linear"))["rounds"]]
        for rule in ("distance", "ftrl", "adaftrl")
    }
    assert found["distance"] != found["ftrl"] != found["adaftrl"]


def test_a_run_is_the_same_numbers_again():
    first, second = (arena.play(Setting("cartpole", "bootstrap", 5)) for _ in range(2))
    assert [row["score"] for row in first["rounds"]] == [row["score"] for row in second["rounds"]]
    other = arena.play(Setting("cartpole", "bootstrap", 6))
    assert [row["score"] for row in first["rounds"]] != [row["score"] for row in other["rounds"]]


def test_the_judge_accepts_the_expert_and_counts_no_later_labels(tmp_path):
    guide = teacher(TINY, "clean", 0)
    judge = Judge(LONG, Setting("cartpole", "ours", 1), guide, tmp_path, math.inf)
    assert judge.see(lambda observation: 0, 0, 10, 1.0) < 0.1 and judge.candidates == 0
    assert judge.see(guide.player, 1, 20, 2.0) == 1.0 and judge.over
    assert judge.done == {0.9: (20, 2.0), 0.95: (20, 2.0)}
    assert {(test["state"], test["exact"], test["candidate"]) for test in judge.tests} == {
        ("accepted", True, 1)
    }
    kept = sorted((tmp_path / "measured").glob("*.json"))
    assert kept and len(json.loads(kept[0].read_text())["expert"]) in (3, 10, 20)
    kept[0].write_text("[]")
    again = Judge(LONG, Setting("cartpole", "ours", 1), guide, tmp_path, math.inf)
    with pytest.raises(UserError, match=r"arena: .* is damaged"):
        for number in range(2):
            again.see(guide.player, number, 10, 1.0)
    assert {test["after"] for test in judge.tests} == {1.0}


def test_a_range_that_is_not_known_is_that_of_all_returns_so_far():
    guide = teacher(TINY, "clean", 0)
    judge = Judge(LONG._replace(limits=None), Setting("cartpole", "ours", 1), guide, None, math.inf)
    low, high = judge._limits
    assert 8.0 <= low < 20.0 and high == 500.0  # of random actions, and of the expert
    judge._seen.append(7.0)
    assert judge._limits == (7.0, 500.0)
    judge.see(guide.player, 1, 20, 2.0)
    assert judge.over and not judge.tests[0]["exact"] and judge.tests[0]["episodes"] > 70


def test_a_look_has_to_be_above_the_wanted_score_by_a_margin(monkeypatch):
    judge = Judge(LONG, Setting("cartpole", "ours", 1), teacher(TINY, "clean", 0), None, math.inf)
    tested = []
    monkeypatch.setattr(judge, "_test", lambda player, promised, labels: tested.append(promised) or [])
    for score in (0.92, 0.93, 0.96, 0.97):
        monkeypatch.setattr(judge, "_score", lambda *_, score=score: score)
        judge.see(None, 0, 0, 0.0)
    assert tested == [[], [0.9], [0.9], [0.9, 0.95]]


def test_processes_that_write_the_same_file_do_not_meet(tmp_path, monkeypatch):
    """One begins to write what another has written and not yet renamed."""
    write, place, drafts = arena.disk.write_file, tmp_path / "measured" / "a.json", []

    def interrupted(own, text):
        write(own, text)
        drafts.append(own)
        if os.getpid() == mine:
            monkeypatch.setattr(arena.os, "getpid", lambda: mine + 1)
            arena._write(place, {"expert": [1.0]})

    mine = os.getpid()
    monkeypatch.setattr(arena.disk, "write_file", interrupted)
    arena._write(place, {"expert": [1.0]})
    assert json.loads(place.read_text()) == {"expert": [1.0]} and list(place.parent.iterdir()) == [place]
    assert len(set(drafts)) == 2 and place not in drafts


def test_a_policy_that_is_lucky_in_a_look_is_not_accepted():
    """It falls in half of its episodes, by their first observation; a look of three may miss that."""
    guide = teacher(TINY, "clean", 0)
    now = {"falls": False}

    def half(observation):
        if abs(observation).max() < 0.05:  # an episode begins
            now["falls"] = observation[0] > 0
        return 0 if now["falls"] else guide.player(observation)

    judge = Judge(LONG, Setting("cartpole", "ours", 1), guide, None, math.inf)
    for number in range(12):
        judge.see(half, number, 10 * number, 1.0)
    assert not judge.done and all(test["state"] != "accepted" for test in judge.tests)


def test_each_candidate_has_a_level_of_its_own_and_fresh_episodes(monkeypatch):
    seen = []

    def made(score, **how):
        seen.append((score, how["candidate"]))
        return acceptance(score, **how)

    acceptance = arena.Acceptance
    monkeypatch.setattr(arena, "Acceptance", made)
    numbers = []
    guide = teacher(TINY, "clean", 0)
    judge = Judge(LONG, Setting("cartpole", "ours", 1), guide, None, math.inf)

    def play(player, seed, number, episodes):
        numbers.append((seed, number))
        good = seed != arena.TESTS or number >= 3000  # its third candidate is good, the others are not
        return [500.0 if good else 20.0] * episodes, [500.0] * episodes, [20.0] * episodes

    monkeypatch.setattr(judge, "_play", play)
    for number in range(3):
        judge.see(guide.player, number, 10 * number, 1.0)
    assert seen == [(0.9, 1), (0.95, 1), (0.9, 2), (0.95, 2), (0.9, 3), (0.95, 3)]
    numbers = [one for one in numbers if one[0] != arena.AFTER]
    assert len(set(numbers)) == len(numbers) and judge.done[0.9][0] == judge.done[0.95][0] == 20


def test_offline_states_cost_nothing_and_a_hundred_episodes_decide(monkeypatch):
    monkeypatch.setattr(arena, "OFFLINE", 30)
    made = arena.play(Setting("cartpole", "dagger", 3, protocol="offline"))
    assert made["rounds"][0]["labels"] == 0 and list(made["labels_to"]) == ["0.95"]
    guide = teacher(TINY, "clean", 0)
    judge = Judge(TINY, Setting("cartpole", "dagger", 1, protocol="offline"), guide, None, math.inf)
    judge.see(guide.player, 0, 0, 1.0)
    assert judge.done == {0.95: (0, 1.0)} and judge.tests[0]["episodes"] == 100


def test_a_hundred_episodes_end_early_only_where_they_could_not_pass(monkeypatch):
    judge = Judge(TINY, Setting("cartpole", "dagger", 1, protocol="offline"), None, None, math.inf)
    monkeypatch.setattr(judge, "_measured", lambda seed, number, episodes: ([100.0] * episodes, []))
    cases = {94.9: (100, "rejected"), 95.0: (100, "accepted"), 50.0: (30, "rejected")}
    for returns, (episodes, state) in cases.items():
        judge._seen = [106.5]
        monkeypatch.setattr(judge, "_play", lambda *_, mine=returns: ([mine] * 10, [100.0] * 10, []))
        judge._hundred(None, 7)
        assert (judge.tests[-1]["episodes"], judge.tests[-1]["state"]) == (episodes, state)
        assert judge.tests[-1]["score"] == pytest.approx(returns / 100)


def test_a_noisy_expert_is_measured_as_the_clean_one(tmp_path):
    for kind in ("clean", "noisy"):
        setting = Setting("cartpole", "ours", 1, expert=kind)
        judge = Judge(TINY, setting, teacher(TINY, kind, 0), tmp_path, math.inf)
        assert judge._measured(71, 0, 3)[0] == [500.0] * 3
    assert [place.name for place in (tmp_path / "measured").iterdir()] == ["cartpole-clean-71-0-3.json"]


def test_a_run_that_fails_is_a_run_that_is_not_done(monkeypatch):
    def fails(self):
        raise UserError("round 2: the solver left the finite numbers")

    monkeypatch.setattr(arena_rules.Dagger, "round", fails)
    made = arena.play(Setting("cartpole", "dagger", 3))
    assert made["error"].startswith("round 2") and made["labels_to"] == {"0.9": None, "0.95": None}
    assert len(made["rounds"]) == 1
    assert dict(arena_report.facts([made]))["runs that failed"].startswith("1, the first: round 2")


def test_a_run_whose_time_is_over_leaves_no_file(tmp_path):
    assert arena.play(Setting("cartpole", "bc", 1), tmp_path, until=0.0) is None
    assert not (tmp_path / "runs").exists()


def test_what_is_there_is_not_played_again(tmp_path, monkeypatch, capsys):
    settings = [Setting("cartpole", rule, 1) for rule in ("bc", "stagger")]
    made = [arena.play(one, tmp_path) for one in settings]
    assert arena.read(tmp_path) == made and [arena.id_of(run) for run in made] == [one.id for one in settings]
    monkeypatch.setattr(arena.concurrent.futures, "ProcessPoolExecutor", None)
    assert arena.study(settings, tmp_path) == 0
    names = ["--part", "cartpole", "--rule", "bc", "stagger", "--seeds", "1"]
    out = tmp_path / "out"
    assert paper.main(["arena", *names, "--tables", str(tmp_path), "--out", str(out)]) == 0
    assert {"labels.png", "profile.svg", "claims.md", "summary.md", "labels.csv"} <= {
        path.name for path in out.iterdir()
    }
    assert "| STAGGER | > 4" in (out / "summary.md").read_text() and "cartpole" in capsys.readouterr().out
    with pytest.raises(UserError, match="has no finished runs"):
        arena.read(out)


@pytest.mark.slow
def test_worker_processes_write_the_same_runs(tmp_path, monkeypatch):
    monkeypatch.undo()  # workers have the arena's own worlds
    settings = [Setting("cartpole", "warm-stagger", seed) for seed in (1, 2)]
    folders = [tmp_path / "one", tmp_path / "two"]
    assert [arena.study(settings, folder, jobs=jobs) for jobs, folder in enumerate(folders, 1)] == [2, 2]
    first, second = (arena.read(folder) for folder in folders)
    for run in (*first, *second):
        del run["seconds_to"], run["total_seconds"]
        run["rounds"] = [row["score"] for row in run["rounds"]]
    assert first == second
    assert arena.study([Setting("cartpole", "bc", 3)], folders[0], minutes=1e-9) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--rule", "oars"], "rule: unknown value 'oars', did you mean 'ours'"),
        (["--part", "pusher"], "part: unknown value 'pusher'"),
        (["--seeds", "1-x"], "seeds: '1-x' is no list of seeds"),
        (["--minutes", "0"], "minutes: 0 is not above 0"),
        (["--jobs", "0"], "jobs: 0 is not a whole number"),
        (["--keep", "new", "--out", "new"], "out: it must not be the folder of --keep"),
    ],
)
def test_bad_options_are_refused_before_any_work(options, sentence, capsys):
    assert paper.main(["arena", *options]) == 2
    assert capsys.readouterr().err.startswith(f"error: {sentence}")


def test_a_part_has_all_seeds_before_the_next_one():
    scale = arena.Scale(parts=("cartpole", "hopper"), rules=("bc", "ours"), seeds=(1, 2))
    assert [(one.part, one.seed, one.rule) for one in scale.settings()][:5] == [
        ("cartpole", 1, "bc"),
        ("cartpole", 1, "ours"),
        ("cartpole", 2, "bc"),
        ("cartpole", 2, "ours"),
        ("hopper", 1, "bc"),
    ]
    assert arena.SCALES["full"].seeds == tuple(range(101, 111))


# ------------------------------------------------------------------------------------------------ worlds


def test_a_walk_is_its_seed_and_its_actions():
    first, second = (Walk("CartPole-v1", 4).go(50, lambda state: (1, None)) for _ in range(2))
    assert (first.states == second.states).all() and first.first[0] and len(first.by) == 0
    assert len(first.episodes[0]) == int(np.flatnonzero(first.terminated)[0]) + 1
    walk = Walk("CartPole-v1", 4)
    begun = walk.go(5, lambda state: (1, None))
    rest = walk.go(45, lambda state: (1, 0))
    assert (np.append(begun.states, rest.states, axis=0) == first.states).all()
    assert len(rest.by) == 45 and not rest.first[0]
    ends = np.flatnonzero(rest.terminated)
    assert [steps[-1] for steps in rest.episodes][: len(ends)] == ends.tolist()
    assert len(walk.go(100, lambda state: (1, 0), labels=3).states) == 3


def test_the_regulator_balances():
    guide = teacher(WORLDS["double-pendulum"], "clean", 0)
    walk = Walk(arena_worlds.PENDULUM, 1)
    trace = walk.go(1000, lambda state: (guide.player(state), None))
    assert len(trace.episodes) == 1 and trace.rewards.min() > 9.0


def test_noise_is_right_in_the_mean_and_a_weak_expert_is_always_the_same():
    world = WORLDS["pendulum"]
    states = np.tile(np.array([[np.cos(0.1), np.sin(0.1), 0.3]], np.float32), (4000, 1))
    clean, noisy, weak = (teacher(world, kind, 0) for kind in ("clean", "noisy", "weak"))
    at = clean.label(states)[0, 0]
    found = noisy.label(states)
    assert abs(found.mean() - at) < 0.02 and abs(found.std() - 0.2) < 0.02
    assert np.allclose(weak.label(states), 0.9 * at) and noisy.player(states[0]) == pytest.approx(at)
    choices = np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)
    clean, noisy, weak = (teacher(TINY, kind, 0) for kind in ("clean", "noisy", "weak"))
    assert 0.03 < (noisy.label(choices) != clean.label(choices)).mean() < 0.07
    wrong = weak.label(choices) != clean.label(choices)
    assert 0.07 < wrong.mean() < 0.13 and (weak.label(choices) == weak.label(choices)).all()


# ------------------------------------------------------------------------------------------------- rules


def test_stagger_asks_about_one_state_of_each_episode():
    one = RULES["stagger"].begin(stage())
    asked, walked, go = [], [], one.walk.go
    one.teach = lambda states, labels: asked.append(states)
    one.walk.go = lambda *args, **how: walked.append(go(*args, **how)) or walked[-1]
    assert one.begin() == TINY.portion == 2
    (trace,) = walked
    where = [np.flatnonzero((trace.states == state).all(axis=1))[0] for state in asked[0]]
    assert [sum(i in steps for i in where) for steps in trace.episodes] == [1, 1]


def test_ours_begins_as_the_package_would():
    for part, budget in (("cartpole", 200), ("cartpole", 1200), ("pendulum", 400)):
        at = stage(part)
        world = at.world._replace(budget=budget)
        one = RULES["ours"].begin(at._replace(world=world))
        plan = explain(RunSpec(env=world.env, budget=budget)).plain()
        said = {row["setting"]: row["value"] for row in plan}
        assert (one.first, f"distance:{one.portion}") == (said["first_steps"], said["ask"])


def test_crsail_has_one_radius():
    one = RULES["crsail"].begin(stage())
    one.begin()
    one.round()
    radius = one.radius
    one.round()
    assert radius is not None and one.radius == radius
    away = one.away(one.known[:3])
    assert np.allclose(away, 0.0, atol=1e-3)
    far = one.away(one.known[:1] + 100.0 * one.student.normaliser.scale)
    assert far[0] > radius


def test_crsail_ends_where_nothing_is_new():
    one = RULES["crsail"].begin(stage())
    one.begin()
    one.radius = np.inf
    assert one.round() == 0 and one.done


def test_dart_sizes_its_noise_to_the_error():
    one = RULES["dart"].begin(stage("pendulum"))
    one.begin()
    states = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    acts = np.array([one.student.act(state) for state in states])
    labels = acts + 0.3
    assert one._error is None
    one.teach(states[:2], labels[:2])
    assert abs(float(one._error[0, 0])) == pytest.approx(0.3, rel=1e-3)
    near = np.array([np.cos(0.05), np.sin(0.05), 0.1], np.float32)  # its action is within the bounds
    pairs = [one.expert(near) for _ in range(400)]
    drawn = np.array([action - label for action, label in pairs])
    assert 0.2 < drawn.std() < 0.4


def test_the_mixture_draws_a_member_in_every_step():
    one = RULES["bootstrap"].begin(stage("pendulum"))
    one.begin()
    state = np.array([1.0, 0.0, 0.5], np.float32)
    members = {float(member.act(state)[0]) for member in one.members}
    assert len(members) == arena_rules.MEMBERS
    assert {float(one.act(state)[0][0]) for _ in range(200)} == members
    player = one.player
    assert {float(player(state)[0]) for _ in range(200)} == members


def test_risk_is_a_power_of_the_steps_to_the_fall():
    one = RULES["thrifty"].begin(stage())
    one.begin()
    shown = []
    one._risk = type("Seen", (), {"choose": lambda self, s: s, "learn": lambda self, s, y: shown.append(y)})()
    trace = one.walk.go(60, lambda state: (1, None))
    one._learn_risk(trace)
    values = shown[0][:, 0]
    ends = np.flatnonzero(trace.terminated)
    assert values[ends[0]] == 1.0 and values[ends[0] - 2] == pytest.approx(0.97**2)


# ------------------------------------------------------------------------------------------------ report


def run(rule, seed, labels, budget=100, part="hopper", **more):
    to = {"0.95": labels}
    spent = {"labels": labels or budget, "seconds": 1.0, "score": 0.5}
    made = Setting(part, rule, seed)._asdict() | {"labels_to": to, "seconds_to": to, "rounds": [spent]}
    return made | {"budget": budget, "tests": []} | more


def test_fewer_labels_are_told_by_the_ratios_of_seeds():
    runs = [run("ours", seed, 40 + seed) for seed in range(6)]
    runs += [run("dagger", seed, 80) for seed in range(6)]
    runs += [run("bc", seed, None) for seed in range(6)]
    found = {one.claim.rpartition(" ")[2]: one for one in arena_report.judged(runs)}
    assert found["DAgger"].verdict == "holds" and found["DAgger"].low == 0.5
    assert found["log-loss"].verdict == "holds" and "at most" in found["log-loss"].measure
    few = arena_report.judged([one for one in runs if one["seed"] < 5])
    assert {one.verdict for one in few} == {"cannot be told"}  # five seeds bound no median
    back = [one | {"rule": {"ours": "dagger", "dagger": "ours"}.get(one["rule"], "bc")} for one in runs]
    lost = {one.claim.rpartition(" ")[2]: one.verdict for one in arena_report.judged(back)}
    assert lost["DAgger"] == "does not hold"
    never = [one for one in runs if one["rule"] == "bc"]
    both = [*never, *(one | {"rule": "ours"} for one in never)]
    assert [one.verdict for one in arena_report.judged(both)] == ["cannot be told"]


def test_tables_say_again_what_they_were_made_of(tmp_path, monkeypatch):
    settings = [Setting("cartpole", rule, seed) for rule in ("bc", "stagger") for seed in (1, 2)]
    settings.append(Setting("cartpole", "dagger", 1, protocol="offline"))
    monkeypatch.setitem(WORLDS, "cartpole", LONG)
    monkeypatch.setattr(arena, "OFFLINE", 30)
    made = [arena.play(one, tmp_path / "keep") for one in settings]
    made[0]["tests"].append(
        {"candidate": 1, "labels": made[0]["rounds"][-1]["labels"], "wanted": 0.9, "state": "accepted"}
        | {"episodes": 60, "score": 0.99, "low": 0.91, "high": None, "after": 0.98}
    )
    last = made[0]["rounds"][-1]
    made[0]["labels_to"]["0.9"], made[0]["seconds_to"]["0.9"] = last["labels"], last["seconds"]
    for name in ("out", "again"):
        (tmp_path / name).mkdir()
    arena_report.write(tmp_path / "out", made, arena_report.judged(made))
    again = arena_report.read(tmp_path / "out")
    assert [arena.id_of(run) for run in again] == sorted(arena.id_of(run) for run in made)
    arena_report.write(tmp_path / "again", again, arena_report.judged(again))
    for name in ("labels.csv", "tests.csv", "rounds.csv", "summary.md", "claims.md"):
        found = [sorted((tmp_path / one / name).read_text().splitlines()) for one in ("out", "again")]
        assert found[0] == found[1], name
    more = arena_report.read(tmp_path / "keep", tmp_path / "out")
    assert len(more) == len(settings) and not any(
        run["labels_to"]["0.9"] for run in more if run["rule"] == "bc"
    )
    (tmp_path / "out" / "tests.csv").write_text("part,wanted\nx,y\n")
    with pytest.raises(UserError, match=r"tables: .* is damaged"):
        arena_report.read(tmp_path / "out")


def test_a_seed_without_a_partner_is_left_out():
    one, other = (
        Curve("g", rule, "0.95", seeds, labels, labels, labels)
        for rule, seeds, labels in (
            ("ours", (1, 2), np.array([10.0, 20.0])),
            ("bc", (2, 3), np.array([40.0, 5.0])),
        )
    )
    assert arena_report.fewer("c", one, other).value == 0.5


def test_tables_and_figures_have_every_rule_and_what_never_arrived(tmp_path):
    runs = [run("ours", seed, 40 + seed) for seed in range(6)] + [run("bc", seed, None) for seed in range(6)]
    runs += [run("ours", 1, 7, part="ant", expert="noisy")]
    every = arena_report.curves(runs)
    assert [one.group for one in every] == ["ant, noisy expert", "hopper", "hopper"]
    text = arena_report.summary(every)
    assert "| ours (distance, five networks) | 7 (1 of 1) | 42 [40, 45] (6 of 6) |" in text
    assert "| cloning, log-loss | – | > 100 (0 of 6) |" in text
    assert "bc not reached" in dict(arena_report.facts(runs))["hopper: labels to 0.95"]
    drawn = arena_report.draw(every).axes
    assert [axes.get_title(loc="left") for axes in drawn] == ["hopper", "ant, noisy expert"]
    share = arena_report.profile(every).axes[0].get_lines()
    by = {line.get_label(): line.get_ydata() for line in share}
    assert by["cloning, log-loss"].max() == 0.0 and by["ours (distance, five networks)"][-1] == 1.0
