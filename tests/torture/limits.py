"""Long runs in bounded memory, and numbers that make solvers suffer."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path

import numpy as np

import understudy
from torture.worst import Outcome
from understudy import imitate
from understudy.studies import play


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rounds(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """A run of many rounds: what it holds after the first fifth is all it needs, but for its ledger."""
    seen: dict[int, float] = {}

    def look(t: int, row: dict) -> None:
        if t in (cases // 5, cases):
            seen[t] = _megabytes()

    few = {"policy": "linear", "steps_per_round": 2, "episodes": 0, "expert_episodes": 0}
    run = imitate("Pendulum-v1", rounds=cases, comparator="none", progress=look, **few)
    grown = (seen[cases] - seen[cases // 5]) / (cases * 0.8) * 1024
    lost = [] if run.ledger.rounds == cases else [f"{run.ledger.rounds} rounds"]
    lost += [f"{grown:.1f} kB a round"] if grown > 20 else []
    return Outcome(cases, lost, f"{seen[cases]:.0f} MB in all, {max(grown, 0):.1f} kB a round")


def day(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """24 hours by simulation: a round every ten seconds, in a folder, with a window of memory, evaluations,
    and a restart every six hours. Neither memory nor the time of a round grows, but for the ledger.
    """
    seen: dict[int, tuple[float, float]] = {}
    marks = [round(share * cases) for share in (0.2, 0.4, 0.8, 1.0)]

    def look(t: int, row: dict) -> None:
        if t in marks:
            seen[t] = _megabytes(), time.perf_counter()

    few = {"policy": "linear", "steps_per_round": 2, "episodes": 1, "evaluate_every": max(1, cases // 50)}
    few |= {"memory": "window:200", "comparator": "none", "expert_episodes": 0}
    place = folder / "run"
    for quarter in range(1, 5):
        run = imitate(
            "Pendulum-v1", out=place, resume=quarter > 1, rounds=quarter * cases // 4, progress=look, **few
        )
    (early, began), (_, ended), (_, again), (late, over) = (seen[mark] for mark in marks)
    grown, slower = (late - early) / (cases * 0.8) * 1024, (over - again) / (ended - began)
    lost = [] if run.ledger.rounds == cases // 4 * 4 else [f"{run.ledger.rounds} rounds"]
    lost += [f"{grown:.1f} kB a round"] if grown * cases > 20 * max(cases, 5000) else []
    lost += [f"rounds take {slower:.1f} times as long in the end"] if slower > 3 else []
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1e6
    return Outcome(
        cases,
        lost,
        f"{late:.0f} MB in all, {max(grown, 0):.1f} kB a round, {size:.1f} MB of files, {slower:.1f} x",
    )


def runs(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Many runs one after another, in shards: memory stays where it was after the first fifth."""
    spec = {"env": "CartPole-v1", "policy": "linear", "rounds": 2, "steps_per_round": 20, "episodes": 0}
    lost, first, done = [], 0.0, 0
    for begin in range(0, cases, 50):
        found = play([spec | {"seed": seed} for seed in range(begin, min(begin + 50, cases))])
        done += len(found)
        lost += [str(one.error) for one in found if one.error]
        if done <= max(50, cases // 5):
            first = _megabytes()
    grown = _megabytes() - first
    lost += [f"{grown:.0f} MB more"] if grown > 200 else []
    return Outcome(done, lost, f"{_megabytes():.0f} MB in all, {grown:.0f} MB since the first fifth")


def numbers(folder: Path, cases: int, rng: random.Random) -> Outcome:
    """Condition 1e12, constant features, duplicate rows, one class, scales 1e-12 and 1e12: the least loss, or
    a status that says that it was not reached.
    """
    lost, solved = [], 0
    for case in range(cases):
        luck = np.random.default_rng(rng.randrange(1 << 30))
        kind = ("condition", "constant", "duplicates", "one class", "small", "large")[case % 6]
        loss = ("squared", "huber", "cross-entropy")[case // 6 % 3]
        n, d = 40, 4
        X, Y = luck.standard_normal((n, d)), luck.standard_normal((n, 1))
        if kind == "condition":
            left, right = (
                np.linalg.qr(luck.standard_normal((n, d)))[0],
                np.linalg.qr(luck.standard_normal((d, d)))[0],
            )
            X = left * np.logspace(0, -12, d) @ right
        elif kind == "constant":
            X[:, 1:] = 1.0
        elif kind == "duplicates":
            X, Y = np.repeat(X[:4], 10, axis=0), np.repeat(Y[:4], 10, axis=0)
        elif kind in ("small", "large"):
            X = X * (1e-12 if kind == "small" else 1e12)
        y = np.zeros(n, int) if kind == "one class" else (Y[:, 0] > 0).astype(int)
        stream = [
            (X[at : at + 8], (y if loss == "cross-entropy" else Y)[at : at + 8]) for at in range(0, n, 8)
        ]
        try:
            row = understudy.replay(stream, loss=loss, learner="ftl", comparator="last").ledger
        except understudy.UserError as error:
            lost.append(f"{kind}, {loss}: {error}")
            continue
        status, least = row["comparator_status"][-1], float(row["comparator"][-1])
        low, high = float(row["regret_low"][-1]), float(row["regret_high"][-1])
        if status != "converged":
            solved += status == "no_minimiser"
            continue
        solved += 1
        if loss == "squared":
            # Of the sum over rounds; a singular value below 1e-15 of the largest is rounding.
            best = np.linalg.lstsq(X, Y, rcond=1e-15)[0]
            truth = 5 * float(np.mean((X @ best - Y) ** 2))
            scale = 5 * float(np.mean(Y**2))
            if least > truth + 1e-6 * scale and not low <= float(row["cumulative_loss"][-1]) - truth <= high:
                lost.append(f"{kind}, {loss}: {least} where {truth} is possible, and {status}")
            continue
        # The policy that is zero everywhere is among those that the best is the best of.
        size = np.abs(Y)
        huber = float(np.mean(np.where(size <= 1, size**2 / 2, size - 0.5)))
        zero = 5 * (huber if loss == "huber" else np.log(2))
        if not 0 <= least <= zero * (1 + 1e-9):
            lost.append(f"{kind}, {loss}: {least} where {zero} is possible, and {status}")
    return Outcome(cases, lost, f"{solved} solved, the others say that they are not")
