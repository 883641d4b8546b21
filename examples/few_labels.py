"""The same number of labels, spent in three ways: on every state, on far ones, on the expert's own.

    python examples/few_labels.py

A label costs money or patience. `ask` says which states of a round the expert is asked about, and `budget`
when the run ends. Behavioural cloning (`learner="bc"`) spends its labels on what the expert itself visits.
"""

import understudy

LABELS = 120
WAYS = {
    "every state": {"rounds": 3, "steps_per_round": LABELS // 3},
    "far states": {"ask": "distance:20", "budget": LABELS, "first_steps": 40, "steps_per_round": 200},
    "cloning": {"learner": "bc", "rounds": 1, "steps_per_round": LABELS},
}


def main() -> None:
    for name, settings in WAYS.items():
        run = understudy.imitate("CartPole-v1", policy="linear", episodes=5, seed=0, **settings)
        labels, steps = run.ledger["labels"][-1], run.ledger["steps"][-1]
        print(f"{name:12} {labels:4} labels  {steps:5} steps  return {run.evaluation.mean:5.0f}")


if __name__ == "__main__":
    main()
