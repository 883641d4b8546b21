"""Where shards are played: workers that die, shards that fail, engines that cannot be had."""

from __future__ import annotations

import sys

import pytest

from rooms import ROOM
from studies.pieces import SMALL, lines, small
from understudy import Study, UserError
from understudy.studies import engines, plan, run


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

    monkeypatch.setattr(engines, "Worker", Failing)
    with pytest.raises(UserError) as refused:
        engines.play_local([[{"env": ROOM}]], engines.Work(done=lambda *_: None))
    assert (
        str(refused.value) == f"local: a shard of 1 runs failed ({said['failed']}); {engines.FINISHED_STAY}."
    )


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


@pytest.mark.parametrize("door", [run, plan])
def test_a_person_is_not_asked_by_a_worker_whose_words_no_one_sees(door):
    study = Study("CartPole-v1", expert="person", seeds=40, policy="linear")
    with pytest.raises(UserError, match="a person cannot answer a worker process; say engine inline"):
        door(study, workers=2)
    assert plan(study, engine="inline").rate is None  # and no one is asked for a measurement


def test_ray_that_is_not_installed_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"needs the extra 'ray': pip install 'understudy\[ray\]'"):
        run(small(), tmp_path / "study", engine="ray")
