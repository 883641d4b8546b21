"""`understudy replay` from a file to a folder, and all it must refuse without leaving anything behind."""

from __future__ import annotations

import importlib
import json
import pickle
import sys

import numpy as np
import pytest

import understudy
from understudy.cli import main
from understudy.cli.replay import read_stream
from understudy.errors import UserError


@pytest.fixture
def stream(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 5, 3))
    Y = X @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(6, 5, 2))
    np.savez(tmp_path / "stream.npz", X=X, Y=Y)
    return tmp_path / "stream.npz"


def replay(*args) -> int:
    return main(["replay", *map(str, args)])


def read_folder(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_folder_holds_what_the_library_says(stream, tmp_path, capsys):
    out = tmp_path / "runs" / "one"
    code = replay(stream, "--learner", "ftrl", "--eta", "0.3", "--out", out, "--keep-iterates", "--json")
    assert code == 0
    rounds = read_stream(stream)
    expected = understudy.replay(rounds, learner=understudy.ftrl(eta=0.3), keep_iterates=True)
    assert (out / "ledger.csv").read_text() == expected.ledger.to_csv()
    with np.load(out / "iterates.npz", allow_pickle=False) as kept:
        np.testing.assert_array_equal(kept["w"], np.stack(expected.iterates))
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["regret"] == expected.certificate.regret
    assert certificate["bound"] == expected.certificate.bound
    assert certificate["eta"] == 0.3
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    times = (out / "times.csv").read_text().splitlines()
    assert times[0] == "round,seconds" and len(times) == 7
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["regret"] == expected.certificate.regret
    assert last["rounds"] == 6 and last["samples"] == 30 and last["out"] == str(out)
    assert sorted(path.name for path in out.parent.iterdir()) == ["one"]


def test_the_same_seed_gives_the_same_bytes(stream, tmp_path):
    for name in ("a", "b"):
        assert replay(stream, "--learner", "adaftrl", "--keep-iterates", "--out", tmp_path / name) == 0
    first, second = read_folder(tmp_path / "a"), read_folder(tmp_path / "b")
    assert first.pop("times.csv") and second.pop("times.csv")
    assert first == second


def test_options_reach_the_learner(stream, capsys):
    def regret(*args):
        assert replay(stream, "--json", "--learner", "ftrl", *args) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])["regret"]

    plain = regret("--eta", "0.3")
    others = [
        regret("--eta", "0.4"),
        regret("--eta", "0.3", "--schedule", "constant"),
        regret("--eta", "0.3", "--start", "3"),
    ]
    assert len({plain, *others}) == 4


def test_options_that_are_other_programs_are_those_of_the_call(stream, monkeypatch):
    seen = []

    def asked(*args):
        assert replay(stream, *args) == 2  # refused by the spy, before anything is compiled
        return {name: seen[-1].get(name) for name in plain}

    def spy(rounds, **options):
        seen.append(options)
        raise UserError("seen: enough.")

    monkeypatch.setattr(importlib.import_module("understudy.replay"), "replay", spy)
    ftrl = "--learner", "ftrl", "--eta", "0.3"
    plain = {"policy": "linear", "loss": "squared", "learner": understudy.ftrl(eta=0.3), "solver": "auto"}
    plain |= {"max_iterations": None}
    assert asked(*ftrl) == plain
    assert asked(*ftrl, "--radius", "0.5") == plain | {"learner": understudy.ftrl(eta=0.3, radius=0.5)}
    assert asked(*ftrl, "--bias") == plain | {"policy": understudy.policies.Linear(bias=True)}
    assert asked(*ftrl, "--loss", "huber") == plain | {"loss": "huber"}
    gd = {"solver": "gd", "max_iterations": 1}
    assert asked(*ftrl, "--solver", "gd", "--max-iterations", "1") == plain | gd
    steep = "--learner", "adagrad", "--alpha", "0.3"
    for given, learner in (
        ((), understudy.adagrad(alpha=0.3)),
        (("--diagonal",), understudy.adagrad(alpha=0.3, diagonal=True)),
    ):
        assert asked(*steep, *given) == plain | {"learner": learner}


def test_labels_and_rounds_of_unequal_size(tmp_path):
    rng = np.random.default_rng(1)
    X, Y, sizes = rng.normal(size=(9, 2)), rng.integers(0, 3, size=9), np.array([2, 4, 3])
    np.savez(tmp_path / "labels.npz", X=X, Y=Y, sizes=sizes)
    rounds = read_stream(tmp_path / "labels.npz")
    assert [len(x) for x, _ in rounds] == [2, 4, 3]
    np.testing.assert_array_equal(np.concatenate([y for _, y in rounds]), Y)
    assert replay(tmp_path / "labels.npz", "--loss", "cross-entropy", "--learner", "ogd", "--eta", "1") == 0


def test_a_learner_of_the_users_own(stream, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_learners_for_a_test.py").write_text(
        "import understudy as u\n\ndef mine(*, eta):\n    return u.ftrl(eta=2 * eta)\n\nready = u.ftl()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the current folder
    regrets = []
    for args in (["my_learners_for_a_test:mine", "--eta", "0.1"], ["ftrl", "--eta", "0.2"]):
        assert replay(stream, "--json", "--learner", *args) == 0
        regrets.append(json.loads(capsys.readouterr().out.splitlines()[-1])["regret"])
    assert regrets[0] == regrets[1]
    assert replay(stream, "--learner", "my_learners_for_a_test:ready") == 0
    for args, sentence in [
        (["my_learners_for_a_test:mine"], "needs eta"),
        (
            ["my_learners_for_a_test:mine", "--eta", "1", "--alpha", "1"],
            "does not take alpha; it takes eta.",
        ),
        (["my_learners_for_a_test:mime", "--eta", "1"], "did you mean 'mine'?"),
        (["my_learners_for_a_test:ready", "--eta", "1"], "is an object"),
        (["no_such_module_at_all:mine"], "no module 'no_such_module_at_all'"),
        (["my_learners_for_a_test:"], "not of the form module:function"),
    ]:
        assert replay(stream, "--learner", *args) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--eta", "0.1"], "learner: 'ftl' does not take eta; it takes radius."),
        (["--learner", "ftrl"], "learner: 'ftrl' needs eta."),
        (["--learner", "ftrl", "--eta", "0"], "eta: 0.0 is not a positive finite number."),
        (["--learner", "ftrl", "--eta", "nan"], "eta: nan is not a positive finite number."),
        (["--learner", "ftlr"], "did you mean 'ftl'?"),
        (["--learner", "adagrad", "--alpha", "1", "--start", "2"], "does not take start"),
        (["--learner", "ftrl", "--eta", "1", "--schedule", "sqrrt"], "did you mean 'sqrt'?"),
        (["--loss", "sqared"], "did you mean 'squared'?"),
        (["--solver", "newtn"], "did you mean 'newton'?"),
        (["--policy", "linaer"], "did you mean 'linear'?"),
        (["--policy", "mlp", "--bias"], "does not take --bias"),
        (["--seed", "-1"], "seed: -1"),
        (["--keep-iterates"], "add --out"),
    ],
)
def test_bad_options_leave_nothing_behind(args, sentence, stream, tmp_path, capsys):
    extra = [] if args == ["--keep-iterates"] else ["--out", tmp_path / "out"]
    assert replay(stream, *args, *extra) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert sentence in err
    assert [path.name for path in tmp_path.iterdir()] == ["stream.npz"]


def bad_streams():
    good = {"X": np.ones((2, 3, 4)), "Y": np.ones((2, 3, 1))}
    nan = np.ones((2, 3, 4))
    nan[1, 0, 2] = np.nan
    flat = {"X": np.ones((6, 4)), "Y": np.ones((6, 1))}
    return {
        "missing Y": ({"X": good["X"]}, "X and Y are needed"),
        "rounds differ": (good | {"Y": np.ones((3, 3, 1))}, "first axes must agree"),
        "samples differ": (good | {"Y": np.ones((2, 4, 1))}, "rounds and samples must agree"),
        "flat without sizes": (flat, "'sizes'"),
        "sizes too few": (flat | {"sizes": np.array([2, 3])}, "add up to 5, but X has 6 rows"),
        "sizes with a zero": (flat | {"sizes": np.array([6, 0])}, "whole numbers ≥ 1"),
        "sizes not whole": (flat | {"sizes": np.array([3.0, 3.0])}, "whole numbers ≥ 1"),
        "no rounds": ({"X": np.ones((0, 3, 4)), "Y": np.ones((0, 3, 1))}, "rounds"),
        "an empty round": ({"X": np.ones((2, 0, 4)), "Y": np.ones((2, 0, 1))}, "round 1"),
        "nan": (good | {"X": nan}, "round 2"),
        "objects": (good | {"Y": np.array([{}, {}], dtype=object)}, "is no .npz archive of plain arrays"),
    }


@pytest.mark.parametrize("case", bad_streams())
def test_bad_streams_are_refused(case, tmp_path, capsys):
    arrays, sentence = bad_streams()[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    assert replay(tmp_path / "bad.npz", "--out", tmp_path / "out") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert sentence in err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]


def test_a_file_that_is_no_stream_is_refused_and_not_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Trap()))
    (tmp_path / "text.npz").write_text("round,loss\n")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    np.save(tmp_path / "one.npy", np.ones(3))
    for name in ("pickle.npz", "text.npz", "cut.npz", "one.npy", "absent.npz"):
        with pytest.raises(UserError, match="stream: "):
            read_stream(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_a_folder_that_holds_something_is_left_alone(stream, tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.mkdir()
    assert replay(stream, "--out", taken) == 0  # an empty folder is as good as none
    before = read_folder(taken)
    assert replay(stream, "--out", taken) == 2
    assert "is not empty" in capsys.readouterr().err
    assert read_folder(taken) == before
    assert replay(stream, "--out", stream) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_failure_while_writing_leaves_nothing(stream, tmp_path, monkeypatch, capsys):
    from understudy.report import plots

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plots, "save", full)
    assert replay(stream, "--out", tmp_path / "out") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["stream.npz"]
