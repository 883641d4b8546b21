"""What a round of the core costs, early and late, beside the same learner as a plain NumPy loop.

    python benchmarks/bench_core.py

Linear policy, squared loss, rounds the size of a MuJoCo run (1000 samples, 11 features, 3 outputs). The plain
loop keeps running sums too, as a Gram matrix; for FTL also as a triangular factor, which is what the package
keeps. It has no ledger and no certificate. Both come to the same parameters, which is asserted.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import plain_loop
from rich.console import Console
from rich.table import Table

import understudy
from understudy.losses import Squared
from understudy.objectives import batch
from understudy.online import make_game
from understudy.policies import Linear
from understudy.programs import compiled

SAMPLES, FEATURES, OUTPUTS, ROUNDS = 1000, 11, 3, 1000
WINDOWS = {"rounds 6–15": slice(5, 15), "rounds 96–105": slice(95, 105), "rounds 991–1000": slice(990, 1000)}


def stream(rounds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    expert = rng.normal(size=(FEATURES, OUTPUTS))
    inputs = [rng.normal(size=(SAMPLES, FEATURES)) for _ in range(rounds)]
    return [(X, np.tanh(X @ expert)) for X in inputs]


def ours(learner: object, rounds: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, int, np.ndarray]:
    """Seconds per round (learner's update alone, no comparator), bytes of state, last params."""
    with jax.enable_x64(True):
        params = jnp.zeros((FEATURES, OUTPUTS))
        game = make_game(Linear(), Squared(), learner, "auto", params)  # type: ignore[arg-type]
        batches = [batch(X, Y) for X, Y in rounds[:8]]
        state = game.init(params, game.empty(params, batches[0], 0))
        play, seconds, quiet = compiled(game), [], jnp.asarray(False)
        for t, (X, Y) in enumerate(rounds):
            one, key = batch(X, Y), jax.random.key(t)
            began = time.perf_counter()
            state, record = play(state, one, key, quiet)
            jax.block_until_ready(record)
            seconds.append(time.perf_counter() - began)
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        return np.array(seconds), size, np.asarray(state.learner.params)


def plain(learner: object, rounds: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, int, np.ndarray]:
    """The same of one of the plain learners."""
    seconds, made = [], learner
    for X, Y in rounds:
        began = time.perf_counter()
        made.update(X, Y)  # type: ignore[attr-defined]
        seconds.append(time.perf_counter() - began)
    size = sum(one.nbytes for one in vars(made).values() if isinstance(one, np.ndarray))
    return np.array(seconds), size, made.w  # type: ignore[attr-defined]


def main() -> None:
    rounds = stream(ROUNDS)
    table = Table(title=f"One round: {SAMPLES} samples, {FEATURES} features, {OUTPUTS} outputs (median ms)")
    for heading in ("learner", *WINDOWS, "bytes", "× plain", "away"):
        table.add_column(heading, justify="left" if heading == "learner" else "right")

    def row(name: str, seconds: np.ndarray, size: int, *more: str) -> None:
        cells = [f"{1e3 * np.median(seconds[w]):.3f}" for w in WINDOWS.values()]
        table.add_row(name, *cells, f"{size:,}", *more)

    late = WINDOWS["rounds 991–1000"]
    for name, learner in (
        ("ftl", understudy.ftl()),
        ("ftrl", understudy.ftrl(eta=0.1)),
        ("alt_ftrl", understudy.alt_ftrl(eta=0.1)),
        ("adaftrl", understudy.adaftrl(alpha=0.1)),
    ):
        alone = "ftrl" if name == "alt_ftrl" else name  # the same where solves are exact
        least, kept, wanted = plain(plain_loop.Learner(alone, 0.1, FEATURES, OUTPUTS), rounds)
        row(f"{name}, plain", least, kept)
        if name == "ftl":
            row("ftl, plain QR", *plain(plain_loop.Factor(FEATURES, OUTPUTS), rounds)[:2])
        seconds, size, found = ours(learner, rounds)
        away = float(np.abs(found - wanted).max())
        assert away < 1e-8, f"{name}: {away:.1e} from the plain loop"
        row(name, seconds, size, f"{np.median(seconds[late]) / np.median(least[late]):.1f}", f"{away:.0e}")
    console = Console()
    console.print(table)
    flops = 2 * (SAMPLES + FEATURES + OUTPUTS) * (FEATURES + OUTPUTS) ** 2
    console.print(
        f"A round's QR is {flops / 1e6:.2f} Mflop on {SAMPLES * (FEATURES + OUTPUTS) * 8 / 1e3:.0f} kB: "
        "tens of microseconds. What remains is LAPACK's and the dispatch's latency, the ledger's row and the "
        "certificate."
    )


if __name__ == "__main__":
    main()
