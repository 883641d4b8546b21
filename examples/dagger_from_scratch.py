"""DAgger, with nothing hidden: a policy, a loss, the sum of the rounds' losses, a solver, and your loop.

    python examples/dagger_from_scratch.py

In every round the policy acts, the expert says what it would have done in the states visited, and the next
policy is the minimiser of the sum of all rounds so far (follow the leader). `understudy.imitate` does this
with an environment's name alone, and keeps the account.
"""

import gymnasium as gym
import jax
import numpy as np

from understudy.losses import Squared
from understudy.objectives import batch, empty_samples, plain
from understudy.policies import Linear
from understudy.solvers import Status, newton

ROUNDS, STEPS = 6, 60


def expert(states: np.ndarray) -> np.ndarray:
    """Push the cart to the side to which the pole falls."""
    return (states @ [0.1, 0.2, 3.0, 1.0] > 0).astype(int)


def dagger() -> None:
    env, policy, loss, solve = gym.make("CartPole-v1"), Linear(bias=True), Squared(), newton()
    params = policy.init(jax.random.key(0), 4, 2)
    empty = batch(np.zeros((STEPS, 4)), np.zeros((STEPS, 2)))
    past = empty_samples(policy, loss, empty, capacity=ROUNDS * STEPS)
    state, _ = env.reset(seed=0)
    for t in range(1, ROUNDS + 1):
        visited, falls = [], 0
        for _ in range(STEPS):  # the expert acts in the first round, the policy in all others
            visited.append(state)
            action = expert(state) if t == 1 else int(policy.apply(params, state[None])[0].argmax())
            state, _, fell, late, _ = env.step(int(action))
            if fell or late:
                falls, (state, _) = falls + fell, env.reset()
        states = np.array(visited, np.float64)
        labels = np.eye(2)[expert(states)]  # its choices, as rows of a table
        agreement = (policy.apply(params, states).argmax(axis=1) == labels.argmax(axis=1)).mean()
        past = past.add(batch(states, labels))  # a round's loss is the mean over its samples
        solution = solve(plain(past, params), params, jax.random.key(t))  # the sum of all rounds
        params = solution.params
        status = Status(int(solution.status)).name.lower()
        print(f"round {t}: {falls} falls, agreement {agreement:.2f} before it was learnt; {status}")


def main() -> None:
    with jax.enable_x64(True):  # linear policies are solved to rounding
        dagger()


if __name__ == "__main__":
    main()
