"""A study on disk: what it takes up, what it refuses, and what is kept of runs that fail or stop."""

from __future__ import annotations

import math
import shutil
import threading

import numpy as np
import pytest

from rooms import EXPERT, ROOM
from studies.pieces import SMALL, lines, small
from understudy import RunSpec, Study, UserError, disk
from understudy.runs import folder
from understudy.runs import run as running
from understudy.runs.collect import HostCollector
from understudy.sinks import SINKS, Sink
from understudy.studies import plan, run, shard
from understudy.studies.study import digest


def test_a_study_may_grow_and_may_not_change(tmp_path):
    log, out = tmp_path / "log", tmp_path / "study"
    run(small(log, seeds=1), out, engine="inline")
    run(small(log, seeds=2), out, engine="inline")
    assert lines(log) == 6
    with pytest.raises(
        UserError, match=r"holds another study: 6 of its 6 runs are not in this one \(tolerance"
    ):
        run(small(log, seeds=2, tolerance=0.1), out, engine="inline")
    with pytest.raises(UserError, match="holds another study"):
        run(small(log, seeds=2, max_iterations=np.int64(7)), out, engine="inline")
    with pytest.raises(UserError, match="3 of its 6 runs"):
        run(small(log, seeds=1), out, engine="inline")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    for door in (run, plan):
        with pytest.raises(UserError, match="holds other things"):
            door(small(log), tmp_path / "other", engine="inline")
    assert [one.name for one in (tmp_path / "other").iterdir()] == ["letter.txt"]
    with pytest.raises(UserError, match="is a file"):
        run(small(log), log, engine="inline")


def test_a_run_that_fails_leaves_its_sentence_and_the_others_go_on(tmp_path):
    study = Study(ROOM, grid={"env_kwargs": [{"breaks": 45}, {}]}, **SMALL)
    done = run(study, tmp_path / "study", engine="inline")
    assert [bool(one) for one in done.summary["error"]] == [True, False]
    assert "the floor gave way" in done.summary["error"][0]
    assert done.rounds["round"] == [1, 1, 2]
    assert list(done.failed) == [study.runs[0].id]


def test_a_run_that_failed_is_finished_until_it_is_to_be_played_again(tmp_path):
    """The floor is mended between two runs; what the others have written is left alone."""
    log, token, out = tmp_path / "log", tmp_path / "mended", tmp_path / "study"
    grid = {"env_kwargs": [{"log": str(log), "breaks": 45, "mended": str(token)}, {"log": str(log)}]}
    study = Study(ROOM, grid=grid, **SMALL)
    assert len(run(study, out, engine="inline").failed) == 1 and lines(log) == 2
    token.touch()
    assert len(run(study, out, engine="inline").failed) == 1 and lines(log) == 2
    assert plan(study, out, calibrate=False).finished == 2
    assert plan(study, out, calibrate=False, retry_failed=True).finished == 1
    done = run(study, out, engine="inline", retry_failed=True)
    assert not done.failed and lines(log) == 3
    assert done.rounds["round"] == [1, 2, 1, 2]


def test_a_run_whose_folder_another_process_holds_is_refused_and_loses_nothing(tmp_path, monkeypatch):
    """Negative control: let go of, it goes on from what is there. A worker of a study that was killed takes a
    moment to let go.
    """
    pytest.importorskip("fcntl")
    monkeypatch.setattr(shard, "LEAVING", 0.0)
    settings = RunSpec(env=ROOM, **SMALL).changes()
    kept = shard.partial(tmp_path, shard.digest(settings))
    assert shard.play([settings], keep=tmp_path)[0].error is None
    before = {one: one.read_bytes() for one in kept.rglob("*") if one.is_file()}
    with disk.lock(kept):
        assert "another process is writing" in str(shard.play([settings], keep=tmp_path)[0].error)
    assert before == {one: one.read_bytes() for one in kept.rglob("*") if one.is_file()}
    assert any("rounds" in one.parts for one in before)
    monkeypatch.setattr(shard, "LEAVING", 60.0)
    held = disk.lock(kept)
    assert held is not None
    threading.Timer(0.3, held.close).start()
    assert shard.play([settings], keep=tmp_path)[0].error is None


@pytest.mark.filterwarnings("ignore:resume")
def test_labels_of_a_slow_expert_outlive_a_failed_run_and_settings_that_are_others(tmp_path, monkeypatch):
    token, asked, out = tmp_path / "mended", tmp_path / "asked", tmp_path / "study"
    monkeypatch.setenv("ROOM_ASKED", str(asked))
    room = {"breaks": 45, "mended": str(token)}
    slow = SMALL | {"expert": "rooms:counted", "expert_workers": 2, "expert_episodes": 0}
    study = Study(ROOM, env_kwargs=room, **slow)
    assert run(study, out, engine="inline").failed
    paid = lines(asked)
    assert paid >= 30
    assert run(study, out, engine="inline").failed  # not to be played again: nothing is thrown away
    config = next(out.glob("runs/*.partial")) / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"seed": 0', '"seed": 7'))
    shutil.rmtree(config.parent / "rounds")
    wrong = run(study, out, engine="inline", retry_failed=True)
    assert "seed was 7" in next(iter(wrong.failed.values())) and lines(asked) == paid
    config.write_text(text)
    token.touch()
    assert not run(study, out, engine="inline", retry_failed=True).failed
    assert lines(asked) == 60
    assert not list(out.glob("runs/*.partial"))


def test_runs_that_do_not_replay_begin_anew_with_the_labels_that_were_paid_for(tmp_path, monkeypatch):
    for module, name, value in (
        (shard, "EVERY", 1e-9),
        (shard, "SPEED", math.inf),
        (folder, "SPACING", 0),
    ):
        monkeypatch.setattr(module, name, value)
    asked = tmp_path / "asked"
    monkeypatch.setenv("ROOM_ASKED", str(asked))
    slow = SMALL | {"expert": "rooms:counted", "expert_workers": 2, "expert_episodes": 0}
    settings = RunSpec(env=ROOM, **slow).changes()
    first = shard.play([settings], keep=tmp_path)[0]
    assert lines(asked) == 60

    def other(self, slots):
        if slots:
            raise UserError("resume: the environment does not replay.")
        return 0

    monkeypatch.setattr(HostCollector, "restore", other)
    again = shard.play([settings], keep=tmp_path)[0]
    assert repr(again.rows) == repr(first.rows) and lines(asked) == 60


@pytest.mark.parametrize("place", [(running, "Folder"), (folder.Folder, "begin")])
def test_a_slow_expert_is_not_asked_where_its_labels_cannot_be_kept(tmp_path, monkeypatch, place):
    """Negative control: a quick one is, and its run is not kept."""

    def full(*_, **__):
        raise UserError("out: cannot write it (no space).") from OSError(28, "no space")

    asked = tmp_path / "asked"
    monkeypatch.setenv("ROOM_ASKED", str(asked))
    monkeypatch.setattr(*place, full)
    quick = SMALL | {"expert": "rooms:counted", "expert_episodes": 0}
    errors = [
        shard.play([RunSpec(env=ROOM, **quick, **more).changes()], keep=tmp_path)[0].error
        for more in ({"expert_workers": 2}, {})
    ]
    assert errors == ["out: cannot write it (no space).", None] and lines(asked) == 60


def test_a_kept_folder_that_the_disk_refuses_costs_no_run_of_a_quick_expert(tmp_path):
    settings = RunSpec(env=ROOM, **SMALL).changes()
    (shard.partial(tmp_path, digest(settings)) / "lock").mkdir(parents=True)  # it cannot be opened to write
    assert shard.play([settings], keep=tmp_path)[0].error is None


def test_a_sink_that_refuses_costs_no_run(tmp_path, monkeypatch):
    """All runs of the shard count before the first is told, so the second time none is played."""

    class Refusing(Sink):
        def begin(self, started):
            assert len(started.folder.name) < 255
            raise UserError("sink: it cannot be written.")

    monkeypatch.setattr(SINKS, "makers", SINKS.makers | {"refusing": Refusing})
    log, out = tmp_path / "log", tmp_path / "study"
    room = {"log": str(log), "mended": "/".join("a" * 40 for _ in range(8))}
    study = Study(ROOM, grid={"env_kwargs": [room]}, seeds=3, **SMALL)
    with pytest.raises(UserError, match="cannot be written"):
        run(study, out, engine="inline", workers=1, shard=3, sinks=["refusing"])
    assert len(list((out / "runs").glob("*.json"))) == 3
    played = lines(log)
    assert len(run(study, out, engine="inline")) == 3 and lines(log) == played


def test_two_processes_do_not_share_a_folder(tmp_path):
    entered, leave = threading.Event(), threading.Event()

    def wait(done: int, total: int) -> None:
        entered.set()
        leave.wait(60)

    study = Study(ROOM, **SMALL)
    other = threading.Thread(target=lambda: run(study, tmp_path / "s", engine="inline", progress=wait))
    other.start()
    entered.wait(60)
    try:
        with pytest.raises(UserError, match="another process is writing"):
            run(study, tmp_path / "s", engine="inline")
    finally:
        leave.set()
        other.join()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"env": "Hoper-v5"}, "Hopper"),
        ({"env": ROOM, "expert": EXPERT, "beta": "often"}, "beta"),
        ({"env": ROOM, "expert": EXPERT, "rounds": -1}, "rounds: -1 is not a whole number"),
        ({"env": ROOM, "expert": EXPERT, "loss": "cross-entropy"}, "these are Box"),
        ({"env": ROOM, "expert": EXPERT, "preset": "papr"}, "did you mean 'paper'"),
        ({"env": ROOM, "expert": EXPERT, "preset": "paper", "learner": "ftrl"}, "needs eta"),
        ({"env": ROOM, "expert": "nowhere:act"}, "nowhere"),
        ({"env": ROOM}, "expert"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(tmp_path, arguments, said):
    with pytest.raises(UserError, match=said):
        run(Study(**arguments), tmp_path / "study", engine="inline")
    assert not (tmp_path / "study").exists()
