"""What version 1.0 wrote, kept in tests/fixtures/written-by-1.0: `python tests/written.py FOLDER` writes such
a folder with the version that is there.

A later version reads these files. The folder is written once, for a release, and not again: a change that
cannot read it is a new format, with a sentence for whoever has the old one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import understudy

FOLDER = Path(__file__).parent / "fixtures" / "written-by-1.0"
RUN: dict[str, Any] = {"policy": "linear", "learner": "ftrl", "eta": 0.1, "rounds": 3, "steps_per_round": 30}
RUN |= {"episodes": 3, "seed": 4}
SEEN = np.random.default_rng(0).normal(size=(8, 4)) * 0.1
"""Observations on which the policy's actions are kept."""


def write(folder: Path) -> None:
    """A run with all its files, one that was cut off, a study, a policy alone, a student without a run."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    done = understudy.imitate("CartPole-v1", out="run", **RUN)
    with understudy.Run("CartPole-v1", out="cut", **RUN) as cut:
        cut.step()
    study = understudy.Study("CartPole-v1", grid={"learner": ("ftl", "bc")}, policy="linear", rounds=2,
                             steps_per_round=20, episodes=2)  # fmt: skip
    understudy.studies.run(study, "study", engine="inline")
    done.policy.save("policy")
    student = understudy.Understudy(*spaces(), policy="linear", steps_per_round=20)
    student.learn(student.choose(SEEN.astype(np.float32)), [0, 1] * 4)
    student.save("student")
    known = {
        "version": understudy.__version__,
        "actions": [int(action) for action in done.policy(SEEN.astype(np.float32))],
        "ledger": done.ledger.to_csv(),
        "returns": done.evaluation.returns.tolist() if done.evaluation else [],
        "average_loss": understudy.load("study").results[0].summary["average_loss"],
        "student": student.ledger.to_csv(),
    }
    Path("known.json").write_text(json.dumps(known, indent=1) + "\n")


def spaces() -> tuple[Any, Any]:
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    return env.observation_space, env.action_space


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
