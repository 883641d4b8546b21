"""Planners and feedback laws: optimal where that can be proved by other means, and as good as their cards."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
import scipy.linalg

from playing import play
from understudy import experts
from understudy.errors import UserError
from understudy.experts import shipped


def random_table(seed, states=4, actions=3):
    rng = np.random.default_rng(seed)
    return {
        s: {
            a: [
                (p, int(t), float(rng.standard_normal()), bool(rng.random() < 0.2))
                for p, t in zip(rng.dirichlet(np.ones(3)), rng.choice(states, 3), strict=True)
            ]
            for a in range(actions)
        }
        for s in range(states)
    }


def value_of(table, policy, discount):
    """The value of a fixed policy, by solving its linear equations."""
    n = len(table)
    transition, reward = np.zeros((n, n)), np.zeros(n)
    for s in range(n):
        for p, t, r, over in table[s][policy[s]]:
            reward[s] += p * r
            transition[s, t] += p * (not over)
    return np.linalg.solve(np.eye(n) - discount * transition, reward)


@pytest.mark.parametrize("seed", range(5))
def test_value_iteration_beats_every_policy_there_is(seed):
    table, discount = random_table(seed), 0.9
    q = experts.value_iteration(table, discount=discount)
    best = np.max(
        [value_of(table, policy, discount) for policy in itertools.product(range(3), repeat=4)], axis=0
    )
    np.testing.assert_allclose(q.max(axis=1), best, atol=1e-9)
    np.testing.assert_allclose(value_of(table, q.argmax(axis=1), discount), best, atol=1e-9)
    worst = value_of(table, q.argmin(axis=1), discount)
    assert (worst < best - 1e-3).any()


@pytest.mark.parametrize("discount", [0.0, 1.0, -0.5, float("nan")])
def test_discounts_that_do_not_converge_are_refused(discount):
    with pytest.raises(UserError, match="discount"):
        experts.value_iteration(random_table(0), discount=discount)


@pytest.mark.parametrize(
    "table",
    [
        {0: {0: [(1.0, 0, float("nan"), False)]}},  # which no iteration would end
        {0: {0: [(2.0, 0, 1.0, False)]}},
        {0: {0: [(1.0, 7, 1.0, False)]}},
        {0: {0: [(1.0, -1, 1.0, False)]}},
        {0: {0: []}},
        {},
    ],
)
def test_a_table_that_is_none_is_refused(table):
    with pytest.raises(UserError, match=r"^table"):
        experts.value_iteration(table)


def test_frozen_lake_without_slipping_takes_the_shortest_way():
    expert = experts.for_env("FrozenLake-v1", env_kwargs={"is_slippery": False})
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    state, _ = env.reset(seed=0)
    rewards, over = [], False
    while not over:
        state, reward, over, _, _ = env.step(int(expert.predict(state)[0]))
        rewards.append(reward)
    assert rewards == [0, 0, 0, 0, 0, 1]
    assert expert.card["settings"] == {"is_slippery": False}
    slippery = experts.for_env("FrozenLake-v1")
    everywhere = np.arange(16)
    assert (slippery.label(everywhere) != expert.label(everywhere)).any()  # another table, another plan


@pytest.mark.parametrize(
    ("name", "env_id", "episodes"),
    [
        ("dp-FrozenLake-v1", "FrozenLake-v1", 300),
        ("dp-Taxi-v4", None, 50),
        ("lqr-CartPole-v1", "CartPole-v1", 10),
        ("swingup-Pendulum-v1", "Pendulum-v1", 40),
        ("swingup-Acrobot-v1", "Acrobot-v1", 40),
    ],
)
def test_returns_are_those_of_the_card(name, env_id, episodes):
    env_id = env_id or next(i for i in experts.card(name)["environments"] if i in gymnasium.registry)
    (claimed,) = experts.card(name)["returns"].values()
    returns = play(experts.get(name), env_id, episodes)
    assert abs(returns.mean() - claimed["mean"]) <= 4 * claimed["std"] / np.sqrt(episodes) + 1e-9, (
        returns.mean()
    )


def test_the_cartpole_gain_is_the_regulators():
    cart, pole, half, gravity, step = 1.0, 0.1, 0.5, 9.8, 0.02  # the constants of CartPole-v1
    total = cart + pole
    inertia = half * (4 / 3 - pole / total)
    a, b = np.zeros((4, 4)), np.zeros((4, 1))
    a[0, 1] = a[2, 3] = 1
    a[3, 2], b[3, 0] = gravity / inertia, -1 / (total * inertia)
    a[1, 2], b[1, 0] = -pole * half / total * a[3, 2], 1 / total - pole * half / total * b[3, 0]
    a, b, cost = np.eye(4) + step * a, step * b, np.diag([1.0, 1.0, 10.0, 1.0])
    p = scipy.linalg.solve_discrete_are(a, b, cost, np.array([[0.01]]))
    gain = np.linalg.solve(0.01 + b.T @ p @ b, b.T @ p @ a)[0]
    states = np.random.default_rng(0).standard_normal((1000, 4))
    pushes = experts.get("lqr-CartPole-v1").label(states)
    assert (pushes == (-(states @ gain) > 0)).mean() > 0.995  # three digits of the gain are kept


@pytest.mark.parametrize("name", shipped.LAWS)
def test_a_feedback_law_answers_the_same_in_any_batch(name):
    expert = experts.get(name)
    x = np.random.default_rng(0).standard_normal((50, *expert.observation_space.shape)).astype(np.float32)
    alone = np.concatenate([expert.label(x[i : i + 1]) for i in range(50)])
    np.testing.assert_array_equal(expert.label(x), alone)
    np.testing.assert_array_equal(expert.label(np.asfortranarray(x)), alone)
    experts.checked(expert).label(x)


def test_a_hanging_pendulum_at_rest_is_pushed():
    assert experts.get("swingup-Pendulum-v1").label(np.array([[-1.0, 0.0, 0.0]]))[0, 0] == 2


def test_planning_needs_a_table():
    with pytest.raises(UserError, match=r"transition table; 'CartPole-v1' has none"):
        experts.dynamic_programming("CartPole-v1")
    with pytest.raises(UserError, match="cannot be made"):
        experts.dynamic_programming("FrozenLake-v99")
    with pytest.raises(UserError, match="cannot be made"):
        experts.dynamic_programming("FrozenLake-v1", env_kwargs={"slipery": True})
