"""A stream of single samples: seconds for all rounds, beside plain loops and river's SGD.

    python benchmarks/bench_replay.py

1,250 rounds of one sample with 9 features and a label 0 or 1 (the shape of river's Phishing; the data are
drawn here). Everybody plays logistic regression with steps 0.5/√t (AdaGrad: 0.5/√Σ‖g‖²), one logit, no
intercept. The plain loops are NumPy's and a compiled scan, in float64, and find what ours find: the logits,
and with it the best in hindsight, after the last round or after every one, by Newton from the one before. The
quicker one is the reference of its row; that the answers agree is asserted. They have no ledger and no
certificate. river is measured where it is installed. Seconds are medians of five runs after one that
compiles.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import plain_loop
from rich.console import Console
from rich.table import Table

import understudy

ROUNDS, FEATURES, ETA = 1250, 9, 0.5


def stream() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    truth, X = rng.normal(size=FEATURES), rng.normal(size=(ROUNDS, 1, FEATURES))
    y = rng.random((ROUNDS, 1)) < 1 / (1 + np.exp(-X @ truth))
    return list(zip(X, y.astype(int), strict=True))


def river(rounds: list[tuple[dict[int, float], bool]]) -> np.ndarray:
    from river import linear_model, optim  # pyright: ignore[reportMissingImports] # not among our extras

    steps = optim.schedulers.InverseScaling(learning_rate=ETA, power=0.5)
    model = linear_model.LogisticRegression(optimizer=optim.SGD(steps), intercept_lr=0.0)
    said = []
    for row, answer in rounds:
        said.append(model._raw_dot_one(row))
        model.learn_one(row, answer)
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
    X, y = np.concatenate([X for X, _ in rounds]), np.concatenate([y for _, y in rounds])
    table = Table(title=f"{ROUNDS:,} rounds of one sample, {FEATURES} features, one logit (seconds)")
    for heading in ("", "first run", "after it", "plain", "ratio", "away"):
        table.add_column(heading, justify="left" if not heading else "right")
    scan = jax.jit(plain_loop.stream_scan, static_argnums=(2, 3))
    least: dict[tuple[str, str], tuple[float, np.ndarray, float]] = {}
    for name in ("ogd", "adagrad"):
        loops: list[Callable[..., Any]] = [plain_loop.stream, lambda *given: np.asarray(scan(*given))]
        for comparator, judged in (("last", [ROUNDS]), ("every", range(1, ROUNDS + 1))):
            for who, loop in zip(("NumPy", "a scan"), loops, strict=True):

                def both(loop: Any = loop, judged: Any = judged, name: str = name) -> Any:
                    said = loop(X, y, ETA, name == "adagrad")
                    return said, plain_loop.best_logistic(X, y, judged)[-1]

                with jax.enable_x64(True):
                    first, later, (said, best) = seconds(both)
                table.add_row(f"{who}, {name}, {comparator!r}", f"{first:.4f}", f"{later:.4f}")
                if (name, comparator) not in least or later < least[name, comparator][0]:
                    least[name, comparator] = later, said, best
    if importlib.util.find_spec("river"):
        rows = [(dict(enumerate(x.tolist())), bool(answer)) for x, answer in zip(X, y, strict=True)]
        first, later, said = seconds(lambda: river(rows))
        away = f"{np.abs(said - least['ogd', 'last'][1]).max():.0e}"
        table.add_row("river, SGD", f"{first:.4f}", f"{later:.4f}", "", "", away)
    learners = {"ogd": understudy.ogd(eta=ETA), "adagrad": understudy.adagrad(alpha=ETA)}
    for (name, comparator), (plain, said, best) in least.items():
        options: Any = {"learner": learners[name], "comparator": comparator}
        run = functools.partial(understudy.replay, rounds, loss="binary-cross-entropy", **options)
        first, later, result = seconds(run)
        away = np.abs(result.predictions[:, 0] - said).max(), abs(result.ledger["comparator"][-1] - best)
        assert max(away) < 1e-7, f"{name}, {comparator}: {away} from the plain loop"
        cells = f"{first:.4f}", f"{later:.4f}", f"{plain:.4f}", f"{later / plain:.1f}", f"{max(away):.0e}"
        table.add_row(f"replay, {name}, {comparator!r}", *cells)
    Console().print(table)
    print("The first run compiles. With 'every' a round also finds the best parameters in hindsight.")


if __name__ == "__main__":
    main()
