"""A stream of single samples: seconds for all rounds, beside a plain NumPy loop and river's SGD.

    python benchmarks/bench_replay.py

1,250 rounds of one sample with 9 features and a label 0 or 1 (the shape of river's Phishing; the data are
drawn here). Everybody plays logistic regression with steps 0.5/√t, one logit, no intercept. river is measured
where it is installed. Seconds are medians of five runs after one that compiles.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import understudy

ROUNDS, FEATURES, ETA = 1250, 9, 0.5


def stream() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    truth, X = rng.normal(size=FEATURES), rng.normal(size=(ROUNDS, 1, FEATURES))
    y = rng.random((ROUNDS, 1)) < 1 / (1 + np.exp(-X @ truth))
    return list(zip(X, y.astype(int), strict=True))


def plain(rounds: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """OGD and nothing else: no ledger, no comparator, no certificate."""
    w, said = np.zeros(FEATURES), np.zeros(ROUNDS)
    for t, (X, y) in enumerate(rounds):
        z = said[t] = X[0] @ w
        w = w - ETA / np.sqrt(t + 1) * (1 / (1 + np.exp(-z)) - y[0]) * X[0]
    return said


def river(rounds: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    from river import linear_model, optim  # pyright: ignore[reportMissingImports] # not among our extras

    steps = optim.schedulers.InverseScaling(learning_rate=ETA, power=0.5)
    model = linear_model.LogisticRegression(optimizer=optim.SGD(steps), intercept_lr=0.0)
    said = []
    for X, y in rounds:
        row = dict(enumerate(X[0].tolist()))
        said.append(model._raw_dot_one(row))
        model.learn_one(row, bool(y[0]))
    return np.array(said)


def seconds(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Of the first run, the median of five more, and what it returned."""
    laps = []
    for _ in range(6):
        began = time.perf_counter()
        found = run()
        laps.append(time.perf_counter() - began)
    return laps[0], float(np.median(laps[1:])), found


def main() -> None:
    rounds = stream()
    table = Table(title=f"{ROUNDS:,} rounds of one sample, {FEATURES} features, one logit (seconds)")
    for heading in ("", "first run", "after it", "× NumPy", "largest difference of a logit"):
        table.add_column(heading, justify="left" if not heading else "right")
    _, least, wanted = seconds(lambda: plain(rounds))
    table.add_row("NumPy loop, OGD", "", f"{least:.3f}", "1.0", "")
    if importlib.util.find_spec("river"):
        first, later, said = seconds(lambda: river(rounds))
        away = f"{np.abs(said - wanted).max():.0e}"
        table.add_row("river, SGD", f"{first:.3f}", f"{later:.3f}", f"{later / least:.1f}", away)
    learners = {"ogd": understudy.ogd(eta=ETA), "adagrad": understudy.adagrad(alpha=ETA)}
    for comparator in ("last", "every"):
        for name, learner in learners.items():
            options: Any = {"learner": learner, "comparator": comparator}
            run = functools.partial(understudy.replay, rounds, loss="binary-cross-entropy", **options)
            first, later, result = seconds(run)
            away = f"{np.abs(result.predictions[:, 0] - wanted).max():.0e}" if name == "ogd" else ""
            label = f"replay, {name}, comparator {comparator!r}"
            table.add_row(label, f"{first:.3f}", f"{later:.3f}", f"{later / least:.1f}", away)
    Console().print(table)
    print("The first run compiles. With 'every' a round also finds the best parameters in hindsight.")


if __name__ == "__main__":
    main()
