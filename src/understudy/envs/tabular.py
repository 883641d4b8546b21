"""Small Markov decision processes where every expectation is a matrix product: nothing is sampled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class MDP(NamedTuple):
    """A tabular MDP with an expert.

    transitions (S, A, S): probability of the next state; start (S,): where episodes begin; gamma: the
    discount; expert (S, A): the expert's action distribution in every state.
    """

    transitions: np.ndarray
    start: np.ndarray
    gamma: float
    expert: np.ndarray

    def occupancy(self, policy: np.ndarray) -> np.ndarray:
        """d^π(s) = (1 − γ) Σ_τ γ^τ Pr(s_τ = s), of a policy (S, A); solves ``d = (1 − γ) ρ + γ P_πᵀ d``.

        >>> mdp = MDP(np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), np.array([1.0, 0.0]), 0.5, np.ones((2, 1)))
        >>> mdp.occupancy(mdp.expert).tolist()
        [0.5, 0.5]
        """
        moves = np.einsum("sa,sax->sx", policy, self.transitions)
        return np.linalg.solve(np.eye(len(self.start)) - self.gamma * moves.T, (1 - self.gamma) * self.start)


def cliff_walk(length: int, gamma: float) -> MDP:
    """A path of `length` states with a pit beside each: action 0 walks on, action 1 falls into the pit.

    The expert walks, and plays 0 in the pits too. A policy that falls for the first time has not seen that
    pit before, so FTL errs for ever after its first mistake: its bound is attained.
    """
    states = 2 * length
    transitions = np.zeros((states, 2, states))
    for s in range(length):
        transitions[s, 0, min(s + 1, length - 1)] = 1.0
        transitions[s, 1, length + s] = 1.0
        transitions[length + s, :, length + s] = 1.0
    expert = np.tile([1.0, 0.0], (states, 1))
    return MDP(transitions, np.eye(states)[0], gamma, expert)


def random_mdp(states: int, actions: int, gamma: float, seed: int) -> MDP:
    """Each state and action leads to two random states; the expert's actions are drawn once."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            to = rng.choice(states, size=2, replace=False)
            transitions[s, a, to] = rng.dirichlet(np.ones(2))
    expert = np.eye(actions)[rng.integers(actions, size=states)]
    return MDP(transitions, np.eye(states)[0], gamma, expert)


def fork(gamma: float) -> tuple[MDP, np.ndarray]:
    """Three states that look alike, where whatever the policy does, the expert will say it was wrong.

    Action 0 leads from the start to state 1 for ever, where the expert plays 1; action 1 leads to state 2,
    where it plays 0. A policy that sees the same thing everywhere (the clusters returned beside the MDP)
    cannot hold this expert.
    """
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[0, 1, 2] = 1.0
    transitions[1, :, 1] = transitions[2, :, 2] = 1.0
    expert = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return MDP(transitions, np.eye(3)[0], gamma, expert), np.zeros(3, dtype=np.int64)
