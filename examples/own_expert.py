"""Your own environment, your own expert: a linear policy learns to steer a cart from a rule of thumb.

    python examples/own_expert.py

The expert is any function of an observation. The policy acts, the expert labels the states that the policy
visits, and after a few rounds both play the same actions. The ledger has one row a round.
"""

import numpy as np

import understudy


def expert(observation: np.ndarray) -> int:
    """Push to the side to which the pole falls."""
    place, speed, angle, turning = observation
    return int(0.1 * place + 0.2 * speed + 3 * angle + turning > 0)


def main() -> None:
    run = understudy.imitate("CartPole-v1", expert=expert, policy="linear", rounds=4, steps_per_round=200)
    print("round  labels  loss before the update  agreement  return")
    ledger = run.ledger
    for i in range(ledger.rounds):
        cells = (ledger["labels"][i], ledger["loss"][i], ledger["agreement"][i], ledger["return_mean"][i])
        print("{:5}  {:6}  {:22.3f}  {:9.2f}  {:6.0f}".format(ledger["round"][i], *cells))

    # The policy is a function, too, and has Stable-Baselines3's predict.
    found = understudy.evaluate(run.policy, "CartPole-v1", episodes=5)
    theirs = understudy.evaluate(expert, "CartPole-v1", episodes=5)
    print(f"five episodes: {found.mean:.0f} by the policy, {theirs.mean:.0f} by the expert")


if __name__ == "__main__":
    main()
