"""One Adam step of NatureCNN, batch 64: our formulations against PyTorch's, on the same cores.

    python benchmarks/bench_cnn.py                  # makes a virtual environment for PyTorch beside this file
    python benchmarks/bench_cnn.py --peer PYTHON    # another interpreter that has PyTorch

Formulations: XLA's convolution (some images at a time), and sums of matrix products; the loop over steps
outside the compiled program, and inside it, on other images in every step. PyTorch runs
in a process of its own, in the same minute; the better of its memory formats counts,
with Adam as one fused operation or not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from understudy.policies import NatureCNN

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"


def peer(given: str | None) -> str:
    if given:
        return given
    folder = HERE / ".venv-torch"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", TORCH, "numpy"], check=True)
    return str(python)


def laps(method: str, batch: int, repeats: int, inside: bool) -> list[float]:
    """Seconds of each step; with `inside`, of ten steps in one compiled loop, divided by ten."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (10, batch, 4, 84, 84), dtype=np.uint8)
    labels = np.eye(6, dtype=np.float32)[rng.integers(0, 6, batch)]
    policy = NatureCNN(method=method)
    params = policy.init(jax.random.key(0), 4 * 84 * 84, 6)
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-3, 1000))

    def step(now, images, labels):
        params, moments = now

        def loss(w):
            return -jnp.mean(jnp.sum(labels * jax.nn.log_softmax(policy.apply(w, images)), axis=-1))

        changes, moments = optimiser.update(jax.grad(loss)(params), moments)
        return optax.apply_updates(params, changes), moments

    def many(now, images, labels):
        return jax.lax.fori_loop(0, 10, lambda i, now: step(now, images[i], labels), now)

    program = jax.jit(many if inside else step, donate_argnums=0)
    now, found = (params, optimiser.init(params)), []
    for i in range(max(3, repeats // 10) + 1 if inside else repeats + 3):
        given = images if inside else images[i % 10]
        began = time.perf_counter()
        now = jax.block_until_ready(program(now, given, labels))
        found.append((time.perf_counter() - began) / (10 if inside else 1))
    return found[1:] if inside else found[3:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--turns", type=int, default=3, help="how often ours and theirs take turns")
    parser.add_argument("--peer")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    table: dict[str, list[float]] = {}
    command = [peer(options.peer), str(HERE / "peers" / "torch_cnn.py")]
    # By turns: what else the machine does, and how warm it is, then weighs on both alike.
    for turn in range(options.turns):
        for method in ("conv", "matmul"):
            for inside in (False, True) if turn == 0 else (False,):
                name = f"jax {jax.__version__}, {method}, loop {'inside' if inside else 'outside'}"
                table.setdefault(name, []).extend(laps(method, options.batch, options.repeats, inside))
        told = subprocess.run(
            [*command, str(options.batch), str(options.repeats), str(cores)],
            check=True,
            capture_output=True,
            text=True,
        )
        theirs = json.loads(told.stdout.splitlines()[-1])
        for name, found in theirs["seconds"].items():
            table.setdefault(f"torch {theirs['version']}, {name}", []).extend(found)

    def ratio(measure: Callable[[list[float]], float]) -> float:
        ours, other = (
            min(measure(found) for name, found in table.items() if name.startswith(who))
            for who in ("jax", "torch")
        )
        return ours / other

    print(f"{cores} cores, batch {options.batch}, backend {jax.default_backend()}; milliseconds a step")
    for name, found in table.items():
        print(f"  {name:<42} median {1e3 * np.median(found):7.2f}   least {1e3 * min(found):7.2f}")
    print(f"ratio of the best medians, ours to PyTorch's: {ratio(np.median):.2f}", end="")
    print(f"; of the quickest steps: {ratio(min):.2f}")


if __name__ == "__main__":
    main()
