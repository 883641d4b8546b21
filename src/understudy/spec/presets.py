"""Presets: what is decided where the user does not."""

from __future__ import annotations

import dataclasses
from typing import Any, final


@final
@dataclasses.dataclass(frozen=True)
class Preset:
    """What a preset decides where the user does not.

    first_round: who acts in round 1. standardise: fix mean and scale of observations from round 1. squash:
    a tanh head stretched to the action bounds (networks). bias: linear policies get one. noise: what the
    agent adds to its actions. automatic: on networks schedules start in round 2, and regularised learners
    given by name find their own scale (see `runs.choose`). average: how many of the last linear policies the
    kept one is the mean of. best: keep the best policy that was evaluated, not the last.
    """

    first_round: str
    standardise: bool
    squash: bool
    bias: bool
    noise: float
    automatic: bool
    average: int = 1
    best: bool = False
    ask: str = "all"
    first_interactions: None = None


def spread(budget: int, *, vectors: bool) -> dict[str, Any]:
    """How the practical preset spends a budget of labels where nothing else is said: a quarter of it, but at
    least 200 or half, on a first, expert-driven round, the rest in twentieths. With so few labels a policy
    may stumble again in a later round: all are evaluated, which costs no labels, and the best one is kept.

    `vectors`: whether distances between the policy's inputs mean something.

    >>> spread(400, vectors=True)["ask"], spread(400, vectors=True)["first_interactions"]
    ('distance:20', 200)
    """
    each = max(1, budget // 20)
    return {
        "ask": f"distance:{each}" if vectors else f"random:{each}",
        "first_interactions": max(1, min(budget // 2, max(200, budget // 4))),
        "best": True,
        "evaluate_every": 1,
    }


FEW = {
    "max_iterations": 5000,
    "passes": 200.0,
    "most_passes": 1600.0,
    "learning_rate": 3e-3,
    "batch_size": 64,
    "weight_decay": 0.3,
}
"""How the practical preset trains networks on vectors where labels are few, that is with a budget: with
1,500 labels the score on Ant was 0.46 before (3,000 steps of 256, no weight decay) and is 0.79 so, with
5,000 on HalfCheetah 0.64 and 0.87. The passes matter from 1,600 labels on: without them one seed of five did
not reach 0.9 on HalfCheetah in evaluations of 20 episodes, with them all did (docs/studies/queries.md). At
most 1,600 passes are fewer steps below 200 labels: small problems took minutes. Half as
many passes made no difference on Hopper and Walker2d.
"""


MEMBERS = 5
"""Networks of the committee that is kept where labels are few. Scores of what is kept with one and with five,
means of seeds 20 to 24: Hopper 0.952 and 0.995, Walker2d 1.010 and 1.004; and of seeds 5 to 9, with rounds
weighing alike: HalfCheetah 0.908 and 0.929, Ant 0.845 and 0.931. One of them acts: where the committee did,
Hopper needed more labels in three seeds of four (docs/studies/queries.md).
"""


MANY = 64
SPARSE = {"weight_decay": 0.1, "lasso": 0.1}
"""And what changes where inputs are more than `MANY`, most of which may say little. Ant has 105, 78 of them
forces of contact: on states in which a student runs, the squared error with 1,500 labels is 0.18 without the
lasso and 0.14 with it. Robots with 11 and 17 inputs, all of which say something, lose by it
(docs/studies/queries.md).
"""


EDGE = 0.1
"""Where the Huber loss, which `auto` is where labels are few, turns from a square to a line: a share of the
range of the actions. Labels to 90 % in the median of five seeds with the squared loss, 0.1 and 0.05, while
the mean of five policies acted: Hopper 360, 340, 320; Walker2d 700, 650, 850; HalfCheetah above 5,000, 4,500,
4,500 (docs/studies/queries.md).
"""


def for_person(budget: int | None, rounds: int | None, *, spot: bool, vectors: bool) -> dict[str, Any]:
    """What is decided where the expert is a person and nothing is said: few labels, short rounds that are
    learnt from at once, and no round that the person drives from its first step on.

    Fifty labels, ten a round, are spread by `distance` over 200 steps of a policy that samples its actions. A
    rule of the thumb in the place of a person (push the cart to where the pole falls) made a linear policy
    hold CartPole's pole for 454 of 500 steps with them, 361 with thirty (means of four seeds, ten episodes
    each); the rule `random` gave 401 and 253, a network of 64 × 64 428 and 287. On the spot a person drives
    up to 300 steps in ten rounds.

    >>> for_person(30, None, spot=False, vectors=True)["ask"]
    'distance:10'
    """
    if spot:
        made: dict[str, Any] = {"ask": "driven", "rounds": 10, "budget": 300}
    else:
        each = 10 if budget is None else max(1, min(10, budget // 3))
        made = {"ask": f"{'distance' if vectors else 'random'}:{each}"}
        if rounds is None:
            made["budget"] = 50
    return made | {"interactions": 200, "evaluate_every": 1}


PRESETS = {
    "practical": Preset("expert", standardise=True, squash=True, bias=True, noise=0.0, automatic=True),
    "paper": Preset("agent", standardise=False, squash=False, bias=False, noise=0.1, automatic=False),
}
