"""A committee answers with the mean of its members, to the same bits in a batch and alone."""

from __future__ import annotations

import jax
import numpy as np

from understudy.policies import MLP, Actions, Committee, Normaliser, Observations, TrainedPolicy
from understudy.policies.acting import forward, forward_rows

ROWS = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


def made():
    one = MLP(widths=(8, 5), head="tanh", low=(-2.0, -1.0), high=(2.0, 3.0))
    params = [one.init(jax.random.key(i), 3, 2) for i in range(3)]
    return one, params, *Committee.of(one, params)


def test_it_is_the_mean_after_the_head():
    one, params, policy, stacked = made()
    params[0][-1]["bias"] = params[0][-1]["bias"] - 40.0  # a saturated member is one voice among three
    policy, stacked = Committee.of(one, params)
    wanted = np.mean([one.apply(own, ROWS) for own in params], axis=0)
    bare = np.mean([MLP(widths=(8, 5)).apply(own, ROWS) for own in params], axis=0)
    assert np.abs(np.array([0.0, 1.0]) + 2.0 * np.tanh(bare) - wanted).max() > 0.5
    assert np.allclose(policy.apply(stacked, ROWS), wanted, atol=1e-6)
    rows = forward_rows(policy, stacked)(ROWS)
    assert np.allclose(rows, wanted, atol=1e-6)
    single = forward(policy, stacked)
    assert all((single(row) == answer).all() for row, answer in zip(ROWS, rows, strict=True))
    last, own = policy.last(stacked)
    assert last == one and np.array_equal(own[0]["weight"], params[-1][0]["weight"])


def test_it_is_kept_in_a_file(tmp_path):
    from gymnasium.spaces import Box

    _, _, policy, stacked = made()
    box = Box(np.array([-2, -1], np.float32), np.array([2, 3], np.float32))
    seen, acts = Observations.of(Box(-1, 1, (3,))), Actions.of(box)
    kept = TrainedPolicy(policy, stacked, seen, acts, Normaliser.identity(3))
    kept.save(tmp_path / "policy")
    again = TrainedPolicy.load(tmp_path / "policy")
    assert again.policy == policy and (again.act(ROWS[0]) == kept.act(ROWS[0])).all()
