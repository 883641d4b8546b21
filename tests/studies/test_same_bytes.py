"""A study has the same bytes whatever happened on the way, and nothing finished is played again."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import understudy
from rooms import ROOM
from studies.pieces import SMALL, lines, small, tables
from understudy import Study
from understudy.report import sources
from understudy.runs import Run, folder
from understudy.studies import run, shard


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
    assert done.summary["labels"] == [60] * 6
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
    for module, name, value in (
        (shard, "EVERY", 1e-9),
        (shard, "SPEED", math.inf),
        (folder, "SPACING", 0),
    ):
        monkeypatch.setattr(module, name, value)
    played, step = [], Run.step
    monkeypatch.setattr(
        Run, "step", lambda one: (played.append((one.spec.seed, one.student.round + 1)), step(one))[1]
    )
    settings = SMALL | {"rounds": 4, "learner": "ogd", "eta": 0.1, "loss": loss, "comparator": "none"}
    study = Study(ROOM, seeds=2, **settings)

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 7:
            raise Stop

    def again(out: Path, where: str = "", damaged: bool = False) -> list[tuple[int, int]]:
        """The rounds that are played, of which seed, after a stop in the second run and damage to it."""
        with pytest.raises(Stop):
            run(study, out, engine="inline", workers=1, progress=stop)
        first, second = (out / "runs" / f"{entry.id}.partial" for entry in study.runs)
        under_way = next(one for one in sources.read_folder(out) if one.state == "unfinished")
        assert (under_way.state, under_way.rounds, under_way.study) == ("unfinished", 3, out)
        assert (second / "rounds" / "000003.json").is_file() and not first.exists()
        for file in second.glob(where) if damaged else ():
            file.write_bytes(b"")
        played.clear()
        run(study, out, engine="inline", workers=1)
        assert not list(out.glob("runs/*.partial"))
        return played.copy()

    run(study, tmp_path / "alone", engine="inline", workers=1)
    assert played == [(seed, number) for seed in (0, 1) for number in (1, 2, 3, 4)]
    assert again(tmp_path / "a") == [(1, 4)]
    # The round before the last is there too; where nothing is whole, a run begins anew.
    assert again(tmp_path / "b", "rounds/*3.safetensors", True) == [(1, 3), (1, 4)]
    if loss == "squared":
        anew = [(1, 1), (1, 2), (1, 3), (1, 4)]
        assert again(tmp_path / "c", "rounds/*", True) == anew
        assert again(tmp_path / "d", "**/*.json", True) == anew
    for place in tmp_path.iterdir():
        assert tables(place) == tables(tmp_path / "alone")


SCRIPT = """
import sys
from rooms import EXPERT, ROOM
from understudy import Study
study = Study(ROOM, grid={"learner": ["ftl", "ftrl"], "step": [0.1, 1.0]}, seeds=2, env_kwargs={},
              expert=EXPERT, policy="linear", rounds=2, steps_per_round=30, episodes=0)
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
