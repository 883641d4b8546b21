"""A pool of experts on a Ray cluster of two nodes, one of which is killed in the midst of a round."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from rooms import ROOM
from understudy import UserError, imitate
from understudy.runs import spaces_of
from understudy.spec import RunSpec

ray = pytest.importorskip("ray")

EXPERT = "ray:rooms:placed"
SMALL = {"policy": "linear", "rounds": 2, "steps_per_round": 120, "episodes": 0, "comparator": "none"}
SMALL["first_round"] = "agent"  # an expert that drives is asked about one state after another


@pytest.fixture
def pool(cluster, monkeypatch, tmp_path):
    """The cluster, at RAY_ADDRESS; the file that gets a line for every answer: the node, and the state."""
    log = tmp_path / "log"
    variables = {"ROOM_PLACED": str(log), "ROOM_NODES": "2"}
    ray.init(address=cluster.address, runtime_env={"env_vars": variables})
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    cluster.log = log
    return cluster


def answers(pool) -> list[list[str]]:
    return [line.split() for line in pool.log.read_text().splitlines()] if pool.log.exists() else []


def test_a_node_killed_in_a_round_loses_no_label(pool, tmp_path):
    at_kill: list[list[str]] = []
    gone: list[int] = []

    def kill() -> None:
        while len(answers(pool)) < 40:
            time.sleep(0.02)
        at_kill.extend(answers(pool))
        pool.remove_node(pool.other, allow_graceful=False)
        gone.append(len(answers(pool)))

    killer = threading.Thread(target=kill)
    killer.start()
    run = imitate(ROOM, expert=EXPERT, expert_workers=6, out=tmp_path / "ray", **SMALL)
    killer.join()
    assert len({node for node, _ in at_kill}) == 2, "both nodes answered before"
    assert 40 <= len(at_kill) < 120 and gone[0] < 240, "it was in the midst of a round"
    assert run.ledger["labels"].tolist() == [120, 240] and run.ledger["unanswered"].tolist() == [0, 0]
    assert len({state for _, state in answers(pool)}) == 240
    assert len([node for node in ray.nodes() if node["Alive"]]) == 1
    here = imitate(ROOM, expert="rooms:placed", expert_workers=2, **SMALL)
    assert here.ledger.to_csv() == run.ledger.to_csv()
    assert here.policy.params.tobytes() == run.policy.params.tobytes()


def test_what_was_answered_is_not_asked_again_when_the_run_goes_on(pool, tmp_path):
    """Interrupted in the midst of a round, and resumed with a pool of another size."""
    out = tmp_path / "run"

    def interrupt() -> None:
        while len(answers(pool)) < 30:
            time.sleep(0.02)
        raised.set()

    raised = threading.Event()
    threading.Thread(target=interrupt).start()
    from understudy import Run

    with Run(ROOM, expert=EXPERT, expert_workers=4, out=out, **SMALL) as run:

        def stop(done: int, *about) -> None:
            if raised.is_set():
                raise KeyboardInterrupt

        run.labelling._progress = stop
        with pytest.raises(KeyboardInterrupt):
            next(iter(run))
    time.sleep(1)
    before = len(answers(pool))
    assert 30 <= before < 120
    done = imitate(out=out, resume=True, expert_workers="ray:2")
    assert done.ledger["labels"].tolist() == [120, 240]
    states = [state for _, state in answers(pool)]
    # Those under way when it was interrupted may have been answered after the journal was closed.
    assert 240 <= len(states) <= 240 + 4 and len(set(states)) == 240


def test_an_expert_that_hangs_is_given_up_and_its_actor_replaced(pool):
    spec = RunSpec(env=ROOM, expert="ray:rooms:hangs", expert_workers=1, expert_timeout=8.0)
    expert = spaces_of(spec).expert
    assert expert.workers == 1
    seen = np.zeros((1, 3))
    with pytest.raises(TimeoutError, match="no answer within 8 s"):
        expert.label(seen + 0.9)
    np.testing.assert_array_equal(expert.label(seen), np.zeros((1, 2), np.float32))
    with pytest.raises(UserError, match="too far"):
        expert.label(seen - 0.9)


def test_a_cluster_that_is_not_there_is_one_sentence(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(UserError, match=r"^expert: no Ray cluster at '127\.0\.0\.1:1'"):
        imitate(ROOM, expert=EXPERT, expert_workers=2, **SMALL)
