"""A study on disk: the same bytes whatever happened on the way, and nothing finished is played again."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import understudy
from rooms import EXPERT, ROOM
from understudy import RunSpec, Study, UserError, disk
from understudy.report import sources
from understudy.runs import runner
from understudy.runs.host import Host
from understudy.studies import engines, plan, planning, run, shard

SMALL = {"expert": EXPERT, "policy": "linear", "rounds": 2, "interactions": 30, "episodes": 0}
TABLES = ("results.csv", "summary.csv")


def small(log: Path | None = None, seeds: int = 2, **more) -> Study:
    room = {"log": str(log)} if log else {}
    grid = {"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}
    return Study(ROOM, grid=grid, seeds=seeds, env_kwargs=room | more.pop("room", {}), **SMALL, **more)


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES}


def lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, bytes]:
    """The tables of a study that nothing happened to."""
    folder = tmp_path_factory.mktemp("alone")
    run(small(), folder / "study", engine="inline")
    return tables(folder / "study")


def test_workers_and_shards_do_not_change_a_byte(tmp_path, alone):
    done = run(small(), tmp_path / "a", workers=2, shard=2)
    assert tables(tmp_path / "a") == alone
    assert len(done) == 6 and not done.failed
    assert done.summary["queries"] == [60] * 6
    rows = done.to_pandas()
    assert rows["step"].isna().sum() == 4 and len(rows) == 12
    again = understudy.load(tmp_path / "a")
    assert again.to_pandas().equals(rows) and again.summary["run"] == done.summary["run"]
    next((tmp_path / "a" / "runs").glob("*.json")).unlink()  # one that is not finished yet
    assert len(understudy.load(tmp_path / "a")) == 5


def test_stopped_after_every_shard_it_ends_the_same_and_repeats_nothing(tmp_path, alone):
    """Negative control: with the finished files taken away everything is played again."""

    class Stop(Exception):
        pass

    log, out = tmp_path / "log", tmp_path / "study"
    stops = 0

    def stop(done: int, total: int) -> None:
        if len(list((out / "runs").glob("*.json"))) > stops:
            raise Stop

    while True:
        try:
            run(small(log), out, engine="inline", shard=1, progress=stop)
        except Stop:
            stops += 1
            continue
        break
    assert stops == 6
    assert lines(log) == 6
    # The log is a setting, so ids differ from the undisturbed study's; everything else must not.
    without = [line.split(",", 1)[1] for line in (out / "results.csv").read_text().splitlines()]
    assert without == [line.split(",", 1)[1] for line in alone["results.csv"].decode().splitlines()]
    run(small(log), out, engine="inline")
    assert lines(log) == 6
    next((out / "runs").glob("*.json")).write_text('{"columns": ')  # half a file is not a finished run
    run(small(log), out, engine="inline")
    assert lines(log) == 7


@pytest.mark.filterwarnings("ignore:.* is damaged")
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_stopped_in_the_middle_of_a_shard_its_runs_go_on_where_they_were(tmp_path, monkeypatch, loss):
    """Statistics are in a snapshot, and samples that the learner alone keeps. Negative control: without
    snapshots, or with a damaged one, the rounds are played again.
    """
    for module, name, value in ((shard, "EVERY", 1e-9), (shard, "SPEED", math.inf), (runner, "SHARE", 0)):
        monkeypatch.setattr(module, name, value)
    played, advance = [], runner.Runner.advance
    monkeypatch.setattr(
        runner.Runner, "advance", lambda one: (played.append((one.round + 1, len(one.going))), advance(one))
    )
    settings = SMALL | {"rounds": 4, "learner": "ogd", "eta": 0.1, "loss": loss, "comparator": "none"}
    study = Study(ROOM, seeds=2, **settings)

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 6:
            raise Stop

    def again(out: Path, where: str = "", *damaged: int) -> list[tuple[int, int]]:
        """The rounds that are played, and of how many runs, after a stop and damage to some snapshots."""
        with pytest.raises(Stop):
            run(study, out, engine="inline", workers=1, progress=stop)
        kept = [out / "runs" / f"{entry.id}.partial" for entry in study.runs]
        under_way = sources.read(out)
        assert {(one.state, one.rounds, one.study) for one in under_way} == {("unfinished", 3, out)}
        assert all((one / "rounds" / "000003.json").is_file() for one in kept)
        for i in damaged:
            for file in kept[i].glob(where):
                file.write_bytes(b"")
        played.clear()
        run(study, out, engine="inline", workers=1)
        assert not list(out.glob("runs/*.partial"))
        return played.copy()

    run(study, tmp_path / "alone", engine="inline", workers=1)
    assert played == [(1, 2), (2, 2), (3, 2), (4, 2)]
    assert again(tmp_path / "a") == [(4, 2)]
    # The round before the last is there too; where nothing is whole, a run begins anew.
    assert again(tmp_path / "b", "rounds/*3.safetensors", 1) == [(4, 1), (3, 1), (4, 1)]
    if loss == "squared":
        assert again(tmp_path / "c", "rounds/*", 0, 1) == [(1, 2), (2, 2), (3, 2), (4, 2)]
        assert again(tmp_path / "d", "**/*.json", 1) == [(4, 1), (1, 1), (2, 1), (3, 1), (4, 1)]
    for folder in tmp_path.iterdir():
        assert tables(folder) == tables(tmp_path / "alone")


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
    with pytest.raises(UserError, match="holds other things"):
        run(small(log), tmp_path / "other", engine="inline")
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


def test_a_run_whose_folder_another_process_holds_is_refused_and_loses_nothing(tmp_path):
    """Negative control: let go of, it goes on from what is there."""
    pytest.importorskip("fcntl")
    settings = RunSpec(env=ROOM, **SMALL).changes()
    kept = shard.partial(tmp_path, shard.digest(settings))
    assert shard.play([settings], keep=tmp_path)[0].error is None
    before = {one: one.read_bytes() for one in kept.rglob("*") if one.is_file()}
    with disk.lock(kept):
        assert "another process is writing" in str(shard.play([settings], keep=tmp_path)[0].error)
    assert before == {one: one.read_bytes() for one in kept.rglob("*") if one.is_file()}
    assert any("rounds" in one.parts for one in before)
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
    for module, name, value in ((shard, "EVERY", 1e-9), (shard, "SPEED", math.inf), (runner, "SHARE", 0)):
        monkeypatch.setattr(module, name, value)
    asked = tmp_path / "asked"
    monkeypatch.setenv("ROOM_ASKED", str(asked))
    slow = SMALL | {"expert": "rooms:counted", "expert_workers": 2, "expert_episodes": 0}
    settings = RunSpec(env=ROOM, **slow).changes()
    first = shard.play([settings], keep=tmp_path)[0]
    assert lines(asked) == 60

    def other(self, run, slots):
        if slots:
            raise UserError("resume: the environment does not replay.")
        return 0

    monkeypatch.setattr(Host, "restore", other)
    again = shard.play([settings], keep=tmp_path)[0]
    assert repr(again.rows) == repr(first.rows) and lines(asked) == 60


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_shard_played_again(tmp_path):
    log, token = tmp_path / "log", tmp_path / "token"
    study = small(log, room={"dies": str(token)})
    done = run(study, tmp_path / "study", workers=1)
    assert token.exists() and not done.failed
    assert len(done) == 6
    assert lines(log) > 6
    summary = run(study, tmp_path / "inline", engine="inline").summary
    assert done.summary["average_loss"] == summary["average_loss"]


@pytest.mark.slow
def test_a_shard_that_always_kills_its_worker_is_given_up_and_the_rest_is_kept(tmp_path):
    grid = {"env_kwargs": [{"dies": "always"}, {}]}
    study = Study(ROOM, grid=grid, **SMALL)
    with pytest.raises(
        UserError, match=r"a shard of 1 runs lost its worker \(signal 9\).*finished runs are kept"
    ):
        run(study, tmp_path / "study", workers=1, retries=0)
    assert len(list((tmp_path / "study" / "runs").glob("*.json"))) == 1


def test_a_shard_that_fails_by_itself_is_played_once_and_says_so(monkeypatch):
    said = {"failed": "KeyError: 'torso'"}

    class Failing:
        def __init__(self, events, threads):
            self.events, self.shard = events, None

        def give(self, number, shard, keep):
            self.shard = number
            self.events.put((self, said))

        def dismiss(self):
            self.shard = None
            self.events.put((self, None))

        def end(self):
            return "(exit code 0)"

    monkeypatch.setattr(engines, "_Process", Failing)
    with pytest.raises(UserError) as refused:
        engines.local([[{"env": ROOM}]], engines.Work(done=lambda *_: None))
    assert str(refused.value) == f"local: a shard of 1 runs failed ({said['failed']}); {engines.FEW}."


SCRIPT = """
import sys
from rooms import EXPERT, ROOM
from understudy import Study
study = Study(ROOM, grid={"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}, seeds=2, env_kwargs={},
              expert=EXPERT, policy="linear", rounds=2, interactions=30, episodes=0)
study.run(sys.argv[1], workers=1, shard=1)
print("done", flush=True)
"""


def start(out: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def killed_when(out: Path, finished: int, extra: float = 0.0) -> bool:
    """Starts the study and kills it as soon as so many runs are finished; False where it was faster."""
    process = start(out)
    while process.poll() is None and len(list(out.glob("runs/*.json"))) < finished:
        time.sleep(0.002)
    time.sleep(extra)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


def ended(out: Path) -> None:
    process = start(out)
    said, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert said == "done\n"


def test_killed_midway_it_ends_with_the_same_bytes(tmp_path, alone):
    out = tmp_path / "study"
    assert killed_when(out, 2)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.json")}
    assert 2 <= len(kept) < 6
    run(small(), out, engine="inline")  # the rest; in a process of its own it is slow
    assert tables(out) == alone
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


@pytest.mark.slow
def test_many_kills_change_nothing(tmp_path, alone):
    import random

    rng, hits, number = random.Random(0), 0, 0
    while hits < 30:
        out = tmp_path / f"study{number}"
        for finished in sorted(rng.choices(range(7), k=4)):
            hits += killed_when(out, finished, extra=rng.random() * 0.2)
        ended(out)
        assert tables(out) == alone
        number += 1


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


def test_the_plan_says_what_will_be_done(tmp_path):
    study = small()
    told = dict(plan(study, workers=2, calibrate=False).rows())
    assert told["runs"] == "6"
    assert told["joined"] == "8 combinations were asked for (ftl: no step)"
    assert told["interactions"].startswith("360")
    assert told["shards"] == "2 of 3 runs"
    assert told["estimated time"] == "not measured"
    run(small(seeds=1), tmp_path / "study", engine="inline", workers=1)
    later = plan(study, tmp_path / "study", workers=1)
    told = dict(later.rows())
    assert told["runs"] == "6, 3 of them finished"
    assert "finished shards" in told["estimated time"]
    kept = [json.loads(path.read_text())["shard"] for path in (tmp_path / "study").glob("runs/*.json")]
    seconds, steps = kept[0]["seconds"], kept[0]["interactions"]
    assert later.seconds is not None and later.seconds[0] == pytest.approx(180 * seconds / steps)


def test_a_calibration_takes_the_time_of_what_is_compiled(monkeypatch):
    """Four plays on two workers, of which one is much slower to compile."""

    def local(shards, work):
        assert len(shards) == 4 and work.workers == 2
        for number, seconds in ((0, 10.0), (2, 1.0), (1, 30.0), (3, 1.0)):
            work.done(number, [], seconds)

    monkeypatch.setattr(planning, "local", local)
    study = Study(ROOM, seeds=40, **SMALL | {"rounds": 40})
    rate = planning.calibrate(planning.divide(study.runs, 2), 2)
    assert rate is not None and rate.seconds == pytest.approx(1.0 / (6 * 2 * 30))


@pytest.mark.parametrize(
    ("env", "limit", "steps"), [("CartPole-v1", None, 500), ("CartPole-v1", 90, 90), (ROOM, 70, 70)]
)
def test_a_plan_knows_how_long_evaluation_episodes_may_be(env, limit, steps):
    spec = RunSpec(env=env, rounds=4, episodes=3, evaluate_every=2, expert_episodes=1, episode_limit=limit)
    assert planning.evaluation(spec) == steps * (2 * 3 + 1)


def test_planning_does_not_start_jax():
    """On an accelerator the planner would take the memory that a worker needs."""
    script = (
        "from jax._src import xla_bridge\n"
        "from understudy import Study\n"
        "from understudy.studies import plan\n"
        "grid = {'learner': ['ftl', 'ftrl', 'bc'], 'step': [0.1, 1.0]}\n"
        "study = Study('Hopper-v5', grid=grid, policy='mlp')\n"
        "assert len(plan(study, calibrate=False).shards) >= 1\n"
        "assert not xla_bridge.backends_are_initialized()\n"
        "import jax\n"
        "jax.numpy.zeros(1)\n"
        "assert xla_bridge.backends_are_initialized()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"engine": "locl"}, "did you mean 'local'"),
        ({"workers": 0}, "workers"),
        ({"retries": -1}, "retries"),
        ({"shard": 0}, "shard"),
        ({"address": "auto"}, "for the engine ray"),
    ],
)
def test_engines_that_cannot_be_meant(tmp_path, arguments, said):
    with pytest.raises(UserError, match=said):
        run(small(), tmp_path / "study", **arguments)


def test_ray_that_is_not_installed_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"needs the extra 'ray': pip install 'understudy\[ray\]'"):
        run(small(), tmp_path / "study", engine="ray")
