"""What a round of the core costs, early and late, beside a plain NumPy reference that keeps everything.

    python benchmarks/bench_core.py

Linear policy, squared loss, rounds the size of a MuJoCo run (1000 samples, 11 features, 3 outputs). The
reference does what a textbook says: keep all data and all iterates, and solve anew in every round.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import understudy
from understudy.data import batch
from understudy.losses import Squared
from understudy.making import make_game
from understudy.policies import Linear
from understudy.programs import compiled

SAMPLES, FEATURES, OUTPUTS, ROUNDS = 1000, 11, 3, 1000
WINDOWS = {"rounds 6–15": slice(5, 15), "rounds 96–105": slice(95, 105), "rounds 991–1000": slice(990, 1000)}
SHORT = 105  # the reference grows with t and would take minutes for all 1000


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


def reference(eta: float, rounds: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, int, np.ndarray]:
    """Naive FTRL, ``(2 Σ XᵀX/M + Λ) w = 2 Σ XᵀY/M + Σ σ_i w_i``, from scratch in each round."""
    iterates, seconds = [np.zeros((FEATURES, OUTPUTS))], []
    for t in range(1, len(rounds) + 1):
        began = time.perf_counter()
        X = np.concatenate([X for X, _ in rounds[:t]])
        Y = np.concatenate([Y for _, Y in rounds[:t]])
        sigma = np.diff(np.sqrt(np.arange(t + 1)), prepend=0.0)[1:] / eta
        pull = sum(s * w for s, w in zip(sigma, iterates, strict=True))
        left = 2 * X.T @ X / SAMPLES + np.sqrt(t) / eta * np.eye(FEATURES)
        iterates.append(np.linalg.solve(left, 2 * X.T @ Y / SAMPLES + pull))
        seconds.append(time.perf_counter() - began)
    kept = sum(X.nbytes + Y.nbytes for X, Y in rounds) + sum(w.nbytes for w in iterates)
    return np.array(seconds), kept, iterates[-1]


def main() -> None:
    rounds = stream(ROUNDS)
    plain, kept, last = reference(0.1, rounds[:SHORT])
    table = Table(title=f"One round: {SAMPLES} samples, {FEATURES} features, {OUTPUTS} outputs (median ms)")
    for heading in ("learner", *WINDOWS, "bytes kept", "against the reference at t ≈ 100"):
        table.add_column(heading, justify="left" if heading == "learner" else "right")

    def row(name: str, seconds: np.ndarray, size: int) -> None:
        cells = [
            f"{1e3 * np.median(seconds[w]):.3f}" if len(seconds) > w.start else "–" for w in WINDOWS.values()
        ]
        late = WINDOWS["rounds 96–105"]
        table.add_row(name, *cells, f"{size:,}", f"{np.median(plain[late]) / np.median(seconds[late]):.1f} ×")

    row(f"NumPy reference, naive FTRL ({SHORT} rounds)", plain, kept)
    for learner in (
        understudy.ftl(),
        understudy.ftrl(eta=0.1),
        understudy.alt_ftrl(eta=0.1),
        understudy.adaftrl(),
    ):
        seconds, size, _ = ours(learner, rounds)
        row(learner.name, seconds, size)
    _, _, same = ours(understudy.ftrl(eta=0.1), rounds[:SHORT])
    console = Console()
    console.print(table)
    console.print(f"FTRL and the reference agree after {SHORT} rounds to {np.abs(same - last).max():.1e}.")
    flops = 2 * (SAMPLES + FEATURES + OUTPUTS) * (FEATURES + OUTPUTS) ** 2
    console.print(
        f"A round's QR is {flops / 1e6:.2f} Mflop on {SAMPLES * (FEATURES + OUTPUTS) * 8 / 1e3:.0f} kB: "
        "tens of microseconds. What remains is LAPACK's and the dispatch's latency, not bytes or flops."
    )


if __name__ == "__main__":
    main()
