"""FTL's theorem on an MDP, with exact expectations."""

from __future__ import annotations

import numpy as np
import pytest

from paper.theorem import exhibits, play
from understudy.envs.tabular import cliff_walk, fork, random_mdp
from understudy.errors import UserError
from understudy.losses import Absolute


def test_occupancy_is_the_discounted_sum_of_state_distributions():
    mdp = random_mdp(7, 3, 0.8, seed=3)
    policy = np.random.default_rng(0).dirichlet(np.ones(3), size=7)
    moves = np.einsum("sa,sax->sx", policy, mdp.transitions)
    total, now = np.zeros(7), mdp.start.copy()
    for step in range(400):
        total += 0.2 * 0.8**step * now
        now = now @ moves
    np.testing.assert_allclose(mdp.occupancy(policy), total, atol=1e-12)


def test_the_bound_is_attained_on_the_path_and_holds_on_random_mdps():
    rounds, gamma = 12, 0.8
    path = cliff_walk(rounds + 1, gamma)
    wrong = np.tile([0.0, 1.0], (len(path.start), 1))
    tight = play(path, wrong, rounds, name="path")
    # By hand: in round t the first t − 1 steps are right and all later ones wrong, so l_t = 2 γ^(t−1).
    np.testing.assert_allclose(tight.losses, 2 * gamma ** np.arange(rounds), atol=1e-12)
    np.testing.assert_allclose(tight.regret, tight.bound, rtol=1e-10)
    chance = random_mdp(15, 3, gamma, seed=1)
    assert play(chance, np.roll(chance.expert, 1, axis=1), rounds, name="random").holds


def on_the_fork(*, blind: bool):
    """The absolute loss; blind, it cannot tell some states from others."""
    crossing, clusters = fork(0.8)
    first = np.tile([1.0, 0.0], (3, 1))
    return play(crossing, first, 30, name="fork", loss=Absolute(), clusters=clusters if blind else None)


@pytest.mark.slow
def test_the_bound_fails_where_the_class_cannot_hold_the_expert():
    lost = on_the_fork(blind=True)
    assert not lost.holds
    # The regret grows by about as much in every further round: it is linear.
    growth = np.diff(lost.regret)[9:]
    assert growth.mean() > 0.5
    np.testing.assert_allclose(lost.regret[:8], list(by_hand_on_the_fork()), rtol=1e-9)


def by_hand_on_the_fork():
    """In fifths: what has been said for action 0 and for action 1. FTL plays the larger, and pays twice what
    is then said for the other; the best in hindsight pays twice the smaller. After round 8 they are equal,
    and FTL may go on with anything.
    """
    said, paid, playing = np.zeros(2), 0.0, 0
    while playing is not None:
        new = np.array([1.0, 4.0]) if playing == 0 else np.array([5.0, 0.0])
        said, paid = said + new, paid + 2 * new[1 - playing]
        playing = None if said[0] == said[1] else int(np.argmax(said))
        yield (paid - 2 * said.min()) / 5


@pytest.mark.slow
def test_with_states_told_apart_it_holds_on_the_same_mdp():
    assert on_the_fork(blind=False).holds


def test_expected_loss_is_the_occupancy_weighted_divergence():
    mdp = random_mdp(6, 2, 0.7, seed=5)
    first = np.random.default_rng(1).dirichlet(np.ones(2), size=6)
    played = play(mdp, first, 1, name="one round")
    by_hand = np.sum(mdp.occupancy(first) * ((first - mdp.expert) ** 2).sum(axis=1))
    assert played.losses[0] == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("options", [{"gamma": 1 - 1e-12}, {"gamma": -0.1}, {"rounds": 0}, {"seed": -1}])
def test_bad_options_get_one_sentence(options):
    with pytest.raises(UserError, match=next(iter(options))):
        exhibits(**options)
