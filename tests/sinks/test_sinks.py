"""A sink gets every round, cannot disturb the run, and cannot mix with what it prints."""

from __future__ import annotations

import json
import math
import sys
import warnings
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import understudy
from runs.counting import Counting, answering, half
from runs.pieces import Stop, stopping
from understudy import Study, UserError, cli, imitate, register
from understudy.errors import MissingExtra
from understudy.sinks import SINKS, Sink, Started, make_sinks, sink

SMALL = {"policy": "linear", "rounds": 2, "steps_per_round": 20, "episodes": 1, "expert_episodes": 0}


class Diary(Sink):
    def __init__(self):
        self.pages = []

    def begin(self, started):
        self.pages.append(("begin", started.title, started.round, started.folder))

    def row(self, number, row):
        self.pages.append((number, row["loss"], row["labels"]))

    def end(self, summary):
        self.pages.append(("end", summary and summary["labels"]))


def go(*watching, **more):
    return imitate(Counting, expert=answering(half), sinks=list(watching), **SMALL | more)


def test_a_sink_is_told_every_round_and_changes_nothing(tmp_path):
    diary, called = Diary(), []
    plain, run = go(), go(diary, lambda number, row: called.append((number, row["loss"])), out=tmp_path / "a")
    assert run.ledger.to_csv() == plain.ledger.to_csv()
    losses = run.ledger["loss"].tolist()
    assert diary.pages == [
        ("begin", "ftl on runs.counting:Counting", 0, tmp_path / "a"),
        (1, losses[0], 20),
        (2, losses[1], 40),
        ("end", 40),
    ]
    assert called == [(1, losses[0]), (2, losses[1])]
    diary = Diary()
    with pytest.raises(Stop):
        go(diary, progress=stopping(1), out=tmp_path / "b")
    assert diary.pages[-1] == ("end", None)  # it was interrupted
    diary = Diary()
    go(diary, out=tmp_path / "b", resume=True)
    assert diary.pages[0][2] == 1 and [one[0] for one in diary.pages[1:]] == [2, "end"]


@pytest.mark.parametrize("method", ["begin", "row", "end"])
def test_a_sink_that_fails_is_told_once_and_the_run_goes_on(method, capsys):
    def fail(self, *_):
        print("on my way")
        raise ConnectionError("no network")

    broken = type("Broken", (Diary,), {method: fail})()
    with pytest.warns(UserWarning, match="sink: Broken failed and is left out .ConnectionError: no network"):
        run = go(broken)
    assert run.ledger.rounds == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("on my way") == 1


def test_what_is_no_sink_is_refused_in_one_sentence(monkeypatch):
    with pytest.raises(UserError, match="sink: unknown value 'tensorbord', did you mean 'tensorboard'"):
        sink("tensorbord")
    with pytest.raises(UserError, match="sink: expected a name"):
        sink(3)
    with pytest.raises(UserError, match="sinks: 'wandb' is not a list"):
        make_sinks("wandb")
    with pytest.raises(UserError, match="'notebook' does not take place"):
        sink("notebook:here")
    wanted = {"tensorboard": "tensorboard", "wandb": "wandb", "notebook": "IPython"}
    for name, package in wanted.items():
        missing = [one for one in sys.modules if one.split(".")[0] == package]
        for one in {package, *missing}:
            monkeypatch.setitem(sys.modules, one, None)
        with pytest.raises(MissingExtra, match=f"sink: '{name}' needs the extra '{name}'"):
            sink(name)
    monkeypatch.setattr(SINKS, "makers", dict(SINKS.makers))
    understudy.register("sink", "diary", Diary)
    assert isinstance(sink("diary"), Diary)


def test_on_the_command_line_nothing_mixes_with_json(tmp_path, monkeypatch, capsys):
    (tmp_path / "noisy_sink.py").write_text(
        "from understudy.sinks import Sink\n"
        "class Noisy(Sink):\n"
        "    def row(self, number, row): print('it is round', number)\n"
        "def act(observation): return [0.5]\n"
    )
    monkeypatch.chdir(tmp_path)
    line = ["train", "runs.counting:Counting", "--expert", "noisy_sink:act", "--policy", "linear"]
    line += [
        "--rounds",
        "2",
        "--steps-per-round",
        "20",
        "--episodes",
        "0",
        "--json",
        "--sink",
        "noisy_sink:Noisy",
    ]
    assert cli.main(line) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["rounds"] == 2 and "it is" not in printed.out
    assert printed.err.count("it is round") == 2 and "20 labels" in printed.err  # and progress
    assert cli.main([*line[:-2], "--quiet"]) == 0
    assert "20 labels" not in capsys.readouterr().err  # the table is there, the progress is not


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytest.raises(Stop):
        go("tensorboard", out=tmp_path / "run", progress=stopping(1))
    run = go("tensorboard", f"tensorboard:{tmp_path / 'other'}", out=tmp_path / "run", resume=True)
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    for name in ("loss", "labels", "average_loss", "return_mean"):
        has = [(i + 1, one) for i, one in enumerate(run.ledger[name].tolist()) if math.isfinite(one)]
        told = [(one.step, one.value) for one in found.Scalars(name)]
        assert told == [(step, pytest.approx(value, rel=1e-6)) for step, value in has], name
    text = found.Tensors(found.Tags()["tensors"][0])[0].tensor_proto.string_val[0].decode()
    assert '"rounds": 2' in text
    assert [one.step for one in EventAccumulator(str(tmp_path / "other")).Reload().Scalars("loss")] == [2]
    with pytest.raises(UserError, match="'tensorboard' has no folder to write to; give the run one"):
        go("tensorboard")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="'tensorboard' cannot write"):
        go(f"tensorboard:{tmp_path / 'file'}")


def test_weights_and_biases_is_told_through_its_client(tmp_path, monkeypatch):
    """A client that stands in for theirs, with the calls that theirs has."""
    seen: list = []
    run = SimpleNamespace(
        log=lambda values, step: seen.append((step, values)),
        summary=SimpleNamespace(update=lambda values: seen.append(values)),
        finish=lambda exit_code: seen.append(exit_code),
    )

    def init(**options):
        seen.append(options)
        return run

    client = SimpleNamespace(init=init, Settings=lambda **options: options)
    monkeypatch.setitem(sys.modules, "wandb", client)
    done = go("wandb:mine", out=tmp_path / "run")
    begun, first, second, summary, code = seen
    assert begun["project"] == "mine" and begun["config"]["rounds"] == 2
    assert begun["settings"] == {"console": "off", "silent": True} and begun["dir"] == str(tmp_path / "run")
    assert (first[0], second[0], code) == (1, 2, 0) and first[1]["loss"] == done.ledger["loss"][0]
    assert "return_mean" not in first[1] and summary["final/labels"] == 40

    def refuse(**options):
        raise RuntimeError("not logged in")

    client.init = refuse
    with pytest.raises(UserError, match=r"sink: 'wandb' does not begin .RuntimeError: not logged in"):
        go("wandb")


def test_a_notebook_has_one_plot_that_grows(monkeypatch):
    shown: list = []

    def display(picture, display_id):
        shown.append(picture)
        return SimpleNamespace(update=shown.append)

    python = SimpleNamespace(version_info=(9, 0), get_ipython=lambda: None)  # which matplotlib looks for
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = go("notebook")
        assert len(shown) == 2
        shown[-1].canvas.draw()
    lines = {axes.get_title(): axes.lines for axes in shown[-1].axes}
    assert lines["loss"][0].get_ydata().tolist() == run.ledger["loss"].tolist()
    assert lines["return"][0].get_xdata().tolist() == [2]  # it was evaluated after the last round
    assert Started("t", {}).folder is None


class Pages(Diary):
    """A diary that a study makes for each of its runs."""

    books: ClassVar[list[Any]] = []

    def begin(self, started):
        super().begin(started)
        self.books.append(self.pages)


def test_every_run_of_a_study_has_sinks_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(Pages, "books", [])
    monkeypatch.setattr(SINKS, "makers", dict(SINKS.makers))
    register("sink", "pages", Pages)
    small = {"policy": "linear", "loss": "squared", "rounds": 2, "steps_per_round": 20, "episodes": 0}
    study = Study("CartPole-v1", **small, comparator="none", seeds=2)
    done = study.run(tmp_path / "study", engine="inline", sinks=["pages"])
    assert len(Pages.books) == 2
    for pages, result in zip(Pages.books, done.results, strict=True):
        assert [one[:2] for one in pages[1:-1]] == [(row["round"], row["loss"]) for row in result.rows]
        assert pages[-1] == ("end", 40) and pages[0][3].parent == tmp_path / "study" / "sinks"
    assert len({pages[0][1] for pages in Pages.books}) == 2
    study.run(tmp_path / "study", engine="inline", sinks=["pages"])
    assert len(Pages.books) == 2  # those that were there are not told again
    with pytest.raises(UserError, match="is one object, and every run of a study has sinks of its own"):
        study.run(engine="inline", sinks=[Diary()])
    with pytest.raises(UserError, match="did you mean 'tensorboard'"):
        study.run(engine="inline", sinks=["tensorbord"])
