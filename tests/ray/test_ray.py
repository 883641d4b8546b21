"""The engine ray on a real cluster of two nodes on this machine, one of which is killed midway."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from rooms import EXPERT, ROOM
from understudy import Study, UserError
from understudy.studies import run

ray = pytest.importorskip("ray")

TABLES = ("results.csv", "summary.csv")


def slow(log: Path) -> Study:
    """Eight runs of three seconds and more each."""
    room = {"pause": 0.02, "log": str(log)}
    return Study(
        ROOM,
        seeds=8,
        env_kwargs=room,
        expert=EXPERT,
        policy="linear",
        rounds=3,
        steps_per_round=50,
        episodes=0,
    )


def test_a_node_killed_midway_loses_nothing_that_was_finished(tmp_path, cluster):
    log, out = tmp_path / "log", tmp_path / "ray"
    study = slow(log)
    at_kill: dict[str, int] = {}

    def kill() -> None:
        """As soon as two runs are finished, while both nodes are at work on others."""
        while len(list(out.glob("runs/*.json"))) < 2:
            time.sleep(0.05)
        time.sleep(1.0)
        at_kill.update({path.name: path.stat().st_mtime_ns for path in out.glob("runs/*.json")})
        cluster.remove_node(cluster.other, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    done = run(study, out, engine="ray", address=cluster.address, shard=1)
    killer.join()
    assert 2 <= len(at_kill) < 8
    assert len(done) == 8 and not done.failed
    # Nothing finished was written again, and the shard that the node had was played again.
    assert all((out / "runs" / name).stat().st_mtime_ns == when for name, when in at_kill.items())
    played = len(log.read_text().splitlines())
    assert played == 8 + 1
    assert len([node for node in ray.nodes() if node["Alive"]]) == 1
    run(study, tmp_path / "local", workers=2)
    for name in TABLES:
        assert (out / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_a_shard_that_always_kills_its_worker_is_given_up_and_the_rest_is_kept(tmp_path, cluster):
    small = {"expert": EXPERT, "policy": "linear", "rounds": 2, "steps_per_round": 30, "episodes": 0}
    study = Study(ROOM, grid={"env_kwargs": [{"dies": "always"}, {}]}, **small)
    with pytest.raises(UserError, match=r"ray: a shard of 1 runs failed .*finished runs are kept"):
        run(study, tmp_path / "study", engine="ray", address=cluster.address, retries=1)
    assert len(list((tmp_path / "study" / "runs").glob("*.json"))) == 1


def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path):
    study = slow(tmp_path / "log")
    with pytest.raises(UserError, match=r"address: no Ray cluster at '127\.0\.0\.1:1'"):
        run(study, tmp_path / "study", engine="ray", address="127.0.0.1:1")
