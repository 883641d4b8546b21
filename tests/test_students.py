"""A student of one's own, an object with four methods, in runs, loops, folders and reports; without torch."""

from __future__ import annotations

import filecmp
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.spaces import Box

import understudy
from understudy import UserError
from understudy.policies import Job
from understudy.report.page import write_report

SIZE = {"rounds": 4, "steps_per_round": 40, "episodes": 2, "expert_episodes": 0}


class Ridge:
    """Least squares on the squared loss, solved exactly, also with a penalty."""

    def __init__(self, features=4, outputs=2):
        self.weight = np.zeros((features, outputs))
        self.fits = np.zeros((), np.int64)

    def act(self, rows):
        return rows @ self.weight

    def fit(self, rows, labels, weights, *, proximal=None):
        rows, shared = rows.astype(float), rows * weights[:, None].astype(float)
        matrix = 2 * shared.T @ rows + 1e-9 * np.eye(rows.shape[1])
        right = 2 * shared.T @ labels
        if proximal is not None:
            centre, weight = proximal
            matrix, right = matrix + weight * np.eye(len(matrix)), right + weight * centre["weight"]
        self.weight, self.fits = np.linalg.solve(matrix, right), self.fits + 1

    def state(self):
        return {"weight": self.weight, "fits": self.fits}

    def load(self, arrays):
        self.weight, self.fits = arrays["weight"], arrays["fits"]


class Sloped(Ridge):
    def gradient(self, rows, labels, weights):
        return {"weight": 2 * (rows * weights[:, None]).T @ (rows @ self.weight - labels)}


class Beginning(Ridge):
    """One of an ensemble: every member starts and ends elsewhere."""

    def begin(self, job):
        assert isinstance(job, Job) and (job.features, job.outputs) == (4, 2)
        self.shift = np.random.default_rng(job.seed).normal(size=2)

    def act(self, rows):
        return super().act(rows) + self.shift

    def state(self):
        return super().state() | {"shift": self.shift}

    def load(self, arrays):
        super().load(arrays)
        self.shift = arrays["shift"]


def play(student, **settings):
    given = {"loss": "squared", **SIZE} | settings
    return understudy.imitate("CartPole-v1", policy=student, **given)


@pytest.mark.parametrize("learner", ["ftl", "alt_ftrl", "adaftrl"])
def test_its_rounds_are_those_of_our_own_linear_policy(learner):
    """The same fit in two doors: loss, weight and policy agree to rounding of float32."""
    options = {"preset": "paper", "learner": learner} | ({"eta": 0.5} if learner == "alt_ftrl" else {})
    ours = play("linear", **options, start=1) if learner != "ftl" else play("linear", **options)
    theirs = play(Sloped(), **options, start=1) if learner != "ftl" else play(Sloped(), **options)
    for column in ("loss", "labels", "weight", "steps"):
        np.testing.assert_allclose(theirs.ledger[column], ours.ledger[column], rtol=2e-4, err_msg=column)
    np.testing.assert_allclose(theirs.policy.params["weight"], ours.policy.params, rtol=2e-3, atol=1e-4)
    assert learner == "ftl" or theirs.ledger["weight"][-1] > 0


def test_regret_is_an_estimate_and_says_so():
    run = play(Ridge())
    assert run.certificate.kind == "estimate" and np.isfinite(run.certificate.regret)
    assert run.certificate.reason.startswith("the student 'Ridge' is computed elsewhere")
    total = run.ledger["cumulative_loss"][-1]
    inputs = run.policy.normaliser(np.asarray(run.samples("inputs")))
    best = Ridge()
    best.fit(inputs, np.asarray(run.samples("targets")), np.asarray(run.samples("weights")))
    errors = ((best.act(inputs) - run.samples("targets")) ** 2).sum(axis=1)
    least = float(np.sum(run.samples("weights") * errors))
    assert run.certificate.regret == pytest.approx(total - least, rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"learner": "adaftrl", "ask": "distance:10"},
        {"memory": "window:2", "keep_best": True},
        {"memory": "reservoir:50", "ask": "disagreement:10"},
        {"budget": 80, "ask": "random:10", "rounds": None, "evaluate_every": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_killed_and_resumed_it_is_the_same_to_the_byte(tmp_path, settings):
    play(Sloped(), out=tmp_path / "whole", **settings)
    given = {"loss": "squared", **SIZE} | settings
    with understudy.Run("CartPole-v1", policy=Sloped(), out=tmp_path / "half", **given) as run:
        run.step(), run.step()
    understudy.imitate(out=tmp_path / "half", resume=True, policy=Sloped())
    names = ["ledger.csv", "policy.safetensors", "policy.json", "samples/targets.bin"]
    assert filecmp.cmpfiles(tmp_path / "whole", tmp_path / "half", names, shallow=False)[0] == names


def test_a_folder_needs_the_student_again(tmp_path):
    run = play(Ridge(), out=tmp_path / "run")
    with pytest.raises(UserError, match=r"student of your own \(Ridge\), which no file can keep; give it"):
        understudy.load(tmp_path / "run")
    with pytest.raises(UserError, match=r"is of a student of your own \(Ridge\)"):
        understudy.load(tmp_path / "run" / "policy")
    with pytest.raises(UserError, match="policy was an object"):
        understudy.imitate(out=tmp_path / "run", resume=True)
    found = understudy.load(tmp_path / "run", policy=Ridge())
    seen = np.array([0.01, 0.5, -0.02, 0.1], np.float32)
    assert np.array_equal(found.policy.outputs(seen), run.policy.outputs(seen))
    assert understudy.evaluate(found.policy, "CartPole-v1", episodes=2).mean == pytest.approx(
        understudy.evaluate(run.policy, "CartPole-v1", episodes=2).mean
    )
    # What does not act works without it: the record, and a page.
    page = write_report(tmp_path / "run", out=tmp_path / "page.html")
    assert "Ridge" in page.read_text() and "give it again" in page.read_text()
    assert understudy.imitate(out=tmp_path / "run", resume=True, policy=Ridge()).ledger.rounds == 4


def test_two_runs_of_one_object_do_not_touch_it():
    student = Ridge()
    assert play(student).ledger["loss"].tolist() == play(student).ledger["loss"].tolist()
    assert student.fits == 0


def test_an_ensemble_is_the_mean_of_members_with_their_own_starts():
    run = play(Beginning(), ensemble=3)
    members = run.policy.params
    assert len({one["shift"].tobytes() for one in members}) == 3
    row = np.zeros(4, np.float32)
    mean = np.mean([run.policy.policy.host.says(one)(row[None])[0] for one in members], axis=0)
    np.testing.assert_allclose(run.policy._forward(row), mean)
    with pytest.raises(UserError, match=r"students that begin\(job\)"):
        play(Ridge(), ensemble=3)


def test_in_a_loop_of_ones_own_open_questions_are_kept(tmp_path):
    spaces = Box(-1, 1, (3,)), Box(-1, 1, (1,))
    settings = {"ask": "random:5", "rounds": 3, "steps_per_round": 20, "learner": "adaftrl"}
    student = understudy.Understudy(*spaces, policy=Sloped(3, 1), **settings)
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (2, 20, 3))
    labels = states[..., :1] - states[..., 1:2]
    question = student.choose(states[0])
    student.learn(question, labels[0][question.index])
    question = student.choose(states[1])
    student.save(tmp_path / "student")
    with pytest.raises(UserError, match=r"student of your own \(Sloped\)"):
        understudy.Understudy.load(tmp_path / "student", *spaces)
    again = understudy.Understudy.load(tmp_path / "student", *spaces, policy=Sloped(3, 1))
    rows = [one.learn(one.open[question.id], labels[1][question.index]) for one in (student, again)]
    np.testing.assert_equal(rows[0], rows[1])
    assert np.array_equal(student.act(states[0][0]), again.act(states[0][0]))


def test_module_and_function_from_a_shell(tmp_path, monkeypatch, capsys):
    from understudy import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "robots.py").write_text(
        "from test_students import Ridge\n\ndef ridge():\n    return Ridge()\n"
    )
    monkeypatch.setitem(sys.modules, "test_students", sys.modules[__name__])
    short = "--rounds 2 --steps-per-round 40 --episodes 1 --loss squared --expert-episodes 0"
    assert cli.main(f"train CartPole-v1 --policy robots:ridge {short} --out run".split()) == 0
    assert cli.main(["evaluate", "run", "--episodes", "1", "--policy", "robots:ridge"]) == 0
    assert "1 of 1 episodes" in capsys.readouterr().err
    assert cli.main(["evaluate", "run", "--episodes", "1"]) != 0
    assert "give it again" in capsys.readouterr().err


def test_a_study_takes_it_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "robots", sys.modules[__name__])
    study = understudy.Study("CartPole-v1", policy="robots:Ridge", loss="squared", seeds=2, **SIZE)
    results = study.run(tmp_path / "study", engine="inline")
    assert len(results) == 2 and not results.failed
    with pytest.raises(UserError, match=r"'Ridge'.* is an object, which a study cannot keep"):
        understudy.Study("CartPole-v1", policy=Ridge(), **SIZE)


class Short(Ridge):
    def act(self, rows):
        return super().act(rows)[:, :1]


class Silent(Ridge):
    def state(self):
        return [1, 2]


class Growing(Ridge):
    def state(self):
        return super().state() | ({"more": np.ones(2)} if self.fits else {})


class Breaking(Ridge):
    def fit(self, rows, labels, weights, *, proximal=None):
        raise ValueError("no memory left")


class Exploding(Ridge):
    def fit(self, rows, labels, weights, *, proximal=None):
        self.weight = self.weight * np.nan


class Tree(Ridge):
    parametric = False


WRONG = {
    "one output": (Short(), {}, r"'Short': its act returned \(2, 1\) .* outputs of shape \(2, 2\) are"),
    "no dict": (Silent(), {}, r"'Silent': its state returned list; arrays by name are expected"),
    "new names": (Growing(), {}, "'Growing': its state returned the names .*'more'.* always by the same"),
    "an error": (Breaking(), {}, r"'Breaking': its fit failed \(ValueError: no memory left, at .*fit"),
    "not finite": (Exploding(), {}, "round 1: the solver left the finite numbers"),
    "no gradient": (
        Ridge(),
        {"learner": "adaftrl"},
        r"has no gradient\(rows, labels, weights\); ftl, and ftrl",
    ),
    "no eta": (Ridge(), {"learner": "ftrl"}, "'ftrl' is scaled by gradients"),
    "no parameters": (Tree(), {"learner": "ftrl", "eta": 1.0}, "'Tree' has none; ftl and bc are accepted"),
    "steps itself": (Ridge(), {"learner": "ogd", "eta": 0.1}, "'ogd' steps or solves by itself"),
    "a radius": (Ridge(), {"radius": 1.0}, "'ftl' with a radius steps"),
    "a solver": (Ridge(), {"solver": "newton"}, "solver: the student 'Ridge' learns by its own fit"),
    "an option": (Ridge(), {"max_iterations": 5}, "max_iterations: the student 'Ridge' learns by its own"),
    "a start": (Ridge(), {"init": "sac-Hopper-v5"}, "init: the student 'Ridge' starts from where it is"),
    "half of one": (object(), {}, "got object, which is no subclass of understudy.policies.Policy"),
    "a class": (Ridge, {}, r"got the class Ridge; make an object of it, as in Ridge\(\)"),
    "little memory": (
        Ridge(),
        {"memory_limit": 0, "rounds": 40, "steps_per_round": 1000},
        "fitted to all of them at once; raise it",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_refused_in_one_sentence(case):
    student, settings, sentence = WRONG[case]
    with pytest.raises(UserError, match=sentence) as refused:
        play(student, **settings)
    assert "\n" not in str(refused.value)


def test_of_a_file_with_our_own_policy_no_student_is_taken(tmp_path):
    play("linear", out=tmp_path / "run")
    with pytest.raises(UserError, match=r"holds a policy of this package \(linear\)"):
        understudy.load(tmp_path / "run", policy=Ridge())


def test_numpy_and_onnx_refuse_what_they_cannot_write(tmp_path):
    run = play(Ridge())
    with pytest.raises(UserError, match="numpy holds plain operations, and the student 'Ridge'"):
        understudy.export(run, "numpy", tmp_path / "policy.npz")


def test_neither_torch_nor_sklearn_is_imported():
    code = "import understudy, sys; understudy.students.torch; understudy.Run; "
    code += "print(sorted({'torch', 'sklearn'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_not_installed_is_said():
    if any(name in sys.modules for name in ("torch", "sklearn")):
        pytest.skip("they are installed here")
    for name, extra in (("torch", "torch"), ("sklearn", "sklearn")):
        with pytest.raises(UserError, match=rf"\[{extra}\]"):
            getattr(understudy.students, name)(object())
