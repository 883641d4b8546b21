"""What a plan says: what is left to do, and how long that takes on this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rooms import ROOM
from studies.pieces import SMALL, small
from understudy import RunSpec, Study
from understudy.studies import plan, run, running


def test_the_plan_says_what_will_be_done(tmp_path):
    study = small()
    told = dict(plan(study, workers=2, calibrate=False).rows())
    assert told["runs"] == "6"
    assert told["joined"] == "8 combinations were asked for (ftl: no step)"
    assert told["steps"].startswith("360")
    assert "shards" not in told and len(plan(study, workers=2, calibrate=False).shards) == 6
    assert dict(plan(study, workers=2, shard=3, calibrate=False).rows())["shards"] == "2 of 3 runs"
    assert told["estimated time"] == "not measured"
    run(small(seeds=1), tmp_path / "study", engine="inline", workers=1)
    later = plan(study, tmp_path / "study", workers=1)
    told = dict(later.rows())
    assert told["runs"] == "6, 3 of them finished"
    assert "finished shards" in told["estimated time"]
    kept = [json.loads(path.read_text())["shard"] for path in (tmp_path / "study").glob("runs/*.json")]
    seconds, steps = (sum(one[name] for one in kept) for name in ("seconds", "steps"))
    assert later.seconds is not None and later.seconds[0] == pytest.approx(180 * seconds / steps)


def test_a_calibration_takes_the_time_of_what_is_compiled(monkeypatch):
    """Four plays on two workers, of which one is much slower to compile."""

    def local(shards, work):
        assert len(shards) == 4 and work.workers == 2
        for number, seconds in ((0, 10.0), (2, 1.0), (1, 30.0), (3, 1.0)):
            work.done(number, [], seconds)

    monkeypatch.setattr(running, "play_local", local)
    study = Study(ROOM, seeds=40, **SMALL | {"rounds": 40})
    rate = running.calibrate_rate(running.divide(study.runs, 2), 2)
    assert rate is not None and rate.seconds == pytest.approx(1.0 / (6 * 2 * 30))


@pytest.mark.parametrize("expensive", [{"expert_workers": 2}, {}])
def test_no_label_is_paid_for_to_measure_the_time(monkeypatch, expensive):
    """Negative control: an expert that answers at once is asked."""
    asked = []

    def local(shards, work):
        asked.append(len(shards))
        for number in range(len(shards)):
            work.done(number, [], 1.0)

    monkeypatch.setattr(running, "play_local", local)
    study = Study(ROOM, seeds=40, **SMALL | {"rounds": 40} | expensive)
    assert (plan(study, workers=2).rate is None) == bool(expensive) and asked == ([] if expensive else [4])


@pytest.mark.parametrize(
    ("env", "limit", "steps"), [("CartPole-v1", None, 500), ("CartPole-v1", 90, 90), (ROOM, 70, 70)]
)
def test_a_plan_knows_how_long_evaluation_episodes_may_be(env, limit, steps):
    spec = RunSpec(env=env, rounds=4, episodes=3, evaluate_every=2, expert_episodes=1, episode_limit=limit)
    assert running.evaluation_steps(spec) == steps * (2 * 3 + 1)
    longer = spec.replace(episodes=None, expert_episodes=None)  # a look of 10, and twice 20
    assert running.evaluation_steps(longer) == steps * (10 + 20 + 20)


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
