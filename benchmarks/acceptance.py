"""How often the test of "good enough" is wrong, and how soon it decides, where the truth is known exactly.

    python benchmarks/acceptance.py                 the tables of docs/until.md, about two minutes on a core
    python benchmarks/acceptance.py --runs 500      the same from fewer runs
    python benchmarks/acceptance.py --candidates    a run that peeking would have stopped, a candidate a row

Returns are of a chain of four states, whose mean returns are computed and not estimated (`Walk`). In the
table of errors every policy that is offered has the wanted score, 0.9, and no more, so that every acceptance
is wrong:

edge         ten candidates one after another, each exactly at 0.9.
chosen       after every candidate that is not accepted the next one is of another kind, chosen by what came
             before: after one that was behind a policy with small differences, after one that was ahead a
             policy that fails seldom and then wholly.
luckiest     of thirty policies at 0.9 the one with the best mean of ten looks becomes the candidate; five
             times. Its test has fresh episodes, or, as a control, begins with the looks that chose it.
rare         one candidate that loses everything in a tenth of its episodes and else plays as the expert.

exact, approximate: as runs use them, with the known range of the returns or that of some episodes before.
as normal: the mixture of t-tests, which no run uses. same level: the exact test with 5 % for every candidate.
fixed: Student's test for a fixed number of episodes, looked at after every one.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from test_acceptance import HORIZON, Walk, exact, peeking
from understudy.acceptance import DELTA, bounded, guard, level_of, normal

WANTED, FIRST = 0.9, 4
"""The wanted score, and how many episodes the fixed test needs before it has a deviation."""
WALK = Walk()
EDGE = WALK.exactly(WANTED)

Test = Callable[[np.ndarray, int], np.ndarray]


def accepted_exact(differences: np.ndarray, candidate: int) -> np.ndarray:
    """Where (runs,) the exact test accepts at some look."""
    return (exact(differences) >= -math.log(level_of(candidate))).any(axis=1)


def accepted_approximately(differences: np.ndarray, candidate: int) -> np.ndarray:
    """The same of the approximate test: the range is that of 20 episodes of expert and random actions and of
    ten looks at the policy at the edge.
    """
    rng = np.random.default_rng(candidate)
    players = ((0.5, 20), (1.0, 20), (EDGE, 10))
    seen = [WALK.returns(x, rng.random((len(differences), count, HORIZON))) for x, count in players]
    returns = np.concatenate(seen, axis=1)
    least = (returns.min(axis=1) - returns.max(axis=1))[:, None]
    logs = bounded(np.maximum(differences / -least, -1.0), -1.0)
    return (logs >= -math.log(level_of(candidate))).any(axis=1)


def accepted_as_normal(differences: np.ndarray, candidate: int) -> np.ndarray:
    """The same of the test that takes differences for normal ones, and waits for rare failures."""
    level = level_of(candidate)
    return (normal(differences) >= -math.log(level))[:, int(guard(WANTED, level)) - 1 :].any(axis=1)


def accepted_by_peeking(differences: np.ndarray, candidate: int) -> np.ndarray:
    """The same of a test for a fixed number of episodes."""
    return (peeking(differences) >= -math.log(DELTA))[:, FIRST:].any(axis=1)


def accepted_at_one_level(differences: np.ndarray, candidate: int) -> np.ndarray:
    """The exact test without levels that add up."""
    return (exact(differences) >= -math.log(DELTA)).any(axis=1)


TESTS: dict[str, Test] = {
    "exact": accepted_exact,
    "approximate": accepted_approximately,
    "as normal": accepted_as_normal,
    "same level": accepted_at_one_level,
    "fixed": accepted_by_peeking,
}


def played(rng: np.random.Generator, runs: int, episodes: int) -> np.ndarray:
    """Differences (runs, episodes) of the policy at the edge on the chain."""
    return WALK.differences(EDGE, WANTED, rng.random((runs, episodes, HORIZON)))


def failing(rng: np.random.Generator, runs: int, episodes: int, depth: float = 1.0) -> np.ndarray:
    """Of a policy that loses `depth` of the expert's return, HORIZON at most, so often that its score is the
    wanted one.
    """
    loss = depth * HORIZON
    often = (1.0 - WANTED) / depth
    return (1.0 - WANTED) * HORIZON - loss * (rng.random((runs, episodes)) < often)


def small(rng: np.random.Generator, runs: int, episodes: int) -> np.ndarray:
    """Of a policy that is a little behind or a little ahead, in equal parts."""
    return 0.05 * HORIZON * rng.choice([-1.0, 1.0], size=(runs, episodes))


def edge(test: Test, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Which runs (runs,) accept any of ten candidates at the edge."""
    return np.any([test(played(rng, runs, 150), j) for j in range(1, 11)], axis=0)


def chosen(test: Test, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Which accept any of ten candidates that an adversary chooses by what came before."""
    wrong, ahead = np.zeros(runs, bool), np.ones(runs, bool)
    for j in range(1, 11):
        both = failing(rng, runs, 150), small(rng, runs, 150)
        differences = np.where(ahead[:, None], *both)
        wrong |= test(differences, j)
        ahead = differences[:, :20].mean(axis=1) > 0
    return wrong


def luckiest(test: Test, rng: np.random.Generator, runs: int, *, fresh: bool = True) -> np.ndarray:
    """Which accept any of five candidates, each the luckiest of thirty in ten looks."""
    wrong = np.zeros(runs, bool)
    for j in range(1, 6):
        looks = np.stack([played(rng, runs, 10) for _ in range(30)], axis=1)
        best = looks[np.arange(runs), looks.mean(axis=2).argmax(axis=1)]
        more = played(rng, runs, 140)
        wrong |= test(more if fresh else np.concatenate([best, more], axis=1), j)
    return wrong


def rare(test: Test, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Which accept one candidate that seldom fails."""
    return test(failing(rng, runs, 150), 1)


def errors(runs: int) -> None:
    """Prints how many runs accept a policy that is not good enough."""
    streams: dict[str, Callable[..., np.ndarray]] = {"edge": edge, "chosen": chosen, "luckiest": luckiest}
    streams |= {"luckiest, not fresh": lambda *given: luckiest(*given, fresh=False), "rare": rare}
    print(f"share of {runs:,} runs that accept a policy below the wanted score (allowed: {DELTA:.0%})\n")
    print("| stream | " + " | ".join(TESTS) + " |\n|---" + "|---" * len(TESTS) + "|")
    for name, stream in streams.items():
        shares = [stream(test, np.random.default_rng(7), runs).mean() for test in TESTS.values()]
        print(f"| {name} | " + " | ".join(f"{share:.2%}" for share in shares) + " |")


def fixed_normal(effect: float, level: float) -> int:
    """The episodes of Student's test at a level with 90 % power at an effect."""
    counts = np.arange(3, 5000)
    power = stats.nct.sf(stats.t.ppf(1 - level, counts - 1), counts - 1, effect * np.sqrt(counts))
    return int(counts[np.argmax(power >= 0.9)])


def fixed_bounded(differences: np.ndarray, least: float, level: float) -> float:
    """The episodes with 90 % power at a level of the strongest test for a fixed number of episodes that rests
    on the range alone: the product of 1 + κ D, with the κ that is best for this very policy. (Hoeffding's
    inequality needs more than 1,500.)
    """
    rates = np.linspace(0.005, 0.98, 80) / -least
    best = rates[int(np.argmax([np.log1p(rate * differences).mean() for rate in rates]))]
    wealth = np.cumsum(np.log1p(best * differences), axis=1)
    power = (wealth >= -math.log(level)).mean(axis=0)
    lasting = np.minimum.accumulate(power[::-1])[::-1] >= 0.9
    return float(np.argmax(lasting)) + 1.0 if lasting.any() else math.inf


def power(runs: int) -> None:
    """Prints the episodes to an acceptance against those of tests for a fixed number."""
    level, rng = level_of(1), np.random.default_rng(11)
    print("\nnormal differences: episodes, against Student's test at the same level with 90 % power\n")
    print("| effect (mean/deviation) | sequential, mean | fixed | ratio |\n|---|---|---|---|")
    for effect in (0.25, 0.5, 1.0):
        looks = normal(rng.normal(effect, 1.0, size=(runs, 1200))) >= -math.log(level)
        mean, fixed = (looks.argmax(axis=1) + 1).mean(), fixed_normal(effect, level)
        print(f"| {effect} | {mean:.0f} | {fixed} | {mean / fixed:.2f} |")
    print("\nreturns of known range: the same, the chain with a wanted score of 0.9\n")
    print("| true score | sequential, mean | fixed | ratio |\n|---|---|---|---|")
    for score in (0.95, 0.975, 1.0):
        x = min(WALK.exactly(score), 1.0)

        def draw(count: int, x: float = x) -> np.ndarray:
            return WALK.differences(x, WANTED, rng.random((count, 1500, HORIZON)))

        fixed = fixed_bounded(draw(min(runs, 1000)), -HORIZON, level)
        logs = np.concatenate([bounded(draw(250), -HORIZON) for _ in range(max(1, runs // 250))])
        looks = logs >= -math.log(level)
        mean = np.where(looks.any(axis=1), looks.argmax(axis=1) + 1, looks.shape[1]).mean()
        print(f"| {score} | {mean:.0f} | {fixed:.0f} | {mean / fixed:.2f} |")


def candidates() -> None:
    """Prints the candidates of a run whose scores are known exactly, and what two tests say of them."""
    from runs.test_proof import offered

    print("| labels | true score | looking at Student's interval | the run's test |\n|---|---|---|---|")
    for one in offered():
        taken = f"accepted after {one.peeking} episodes" if one.peeking else "not accepted"
        state = {"open": "given up"}.get(one.test.state, one.test.state)
        print(f"| {one.labels} | {one.score:.3f} | {taken} | {state} after {one.test.count} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--candidates", action="store_true")
    given: Any = parser.parse_args()
    if given.candidates:
        return candidates()
    errors(given.runs)
    power(min(given.runs, 2000))


if __name__ == "__main__":
    main()
