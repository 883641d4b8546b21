"""How good was a learner? Its regret, the interval that contains it, and the bound that was proved for it.

    python examples/certified.py

A recorded stream of losses is played to three learners in float64. The certificate is made from running sums
alone, and it holds even where the solver stops early: what a solve left over is measured and charged.
"""

import numpy as np

import understudy


def stream(rounds: int = 40, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rounds of 20 samples; the expert's weights drift, and its labels have heavy tails."""
    rng = np.random.default_rng(seed)
    weights, found = rng.normal(size=(5, 2)), []
    for _ in range(rounds):
        weights = weights + 0.02 * rng.normal(size=weights.shape)
        x = rng.normal(size=(20, 5))
        found.append((x, x @ weights + 0.1 * rng.laplace(size=(20, 2))))
    return found


def main() -> None:
    learners = {"FTL": understudy.ftl(), "FTRL": understudy.ftrl(eta=0.1), "OGD": understudy.ogd(eta=0.1)}
    for name, learner in learners.items():
        made = understudy.replay(stream(), learner=learner).certificate
        held = "holds" if made.holds else "does not hold"
        print(f"{name:5} regret in [{made.low:.3f}, {made.high:.3f}]  bound {made.bound:.3f}  {held}")


if __name__ == "__main__":
    main()
