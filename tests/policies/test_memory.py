"""Policies that remember: the recurrent unit against loops, stacks against naive ones, and the memory of a
policy that is called.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import TrainedPolicy, UserError
from understudy.policies import GRU, MLP, Actions, History, Normaliser, Observations, Recalled
from understudy.policies.acting import forward_step

POLICY = GRU(width=5, widths=(7,), length=4, burn=2)
BOX, ACTIONS = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))


def parameters(policy, features: int):
    rng, shapes = np.random.default_rng(0), policy.init(jax.random.key(0), features, 2)
    return jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape).astype(np.float32), shapes)


def by_hand(params, rows: np.ndarray) -> np.ndarray:
    """PyTorch's equations for one sequence (l, features), gate by gate, in float64."""
    A, a, B, b = (
        params[part][name].astype(float) for part in ("inputs", "state") for name in ("weight", "bias")
    )
    h, found = np.zeros(len(B)), []
    for row in rows:
        x, h = row[:-1].astype(float), 0 * h if row[-1] else h
        (ir, iz, i_n), (hr, hz, hn) = np.split(x @ A + a, 3), np.split(h @ B + b, 3)
        r, z = 1 / (1 + np.exp(-(ir + hr))), 1 / (1 + np.exp(-(iz + hz)))
        h = (1 - z) * np.tanh(i_n + r * hn) + z * h
        y = np.concatenate([h, x])
        for i, layer in enumerate(params["mlp"]):
            y = y @ layer["weight"] + layer["bias"]
            y = np.maximum(y, 0) if i + 1 < len(params["mlp"]) else y
        found.append(y)
    return np.stack(found)


def test_sequences_are_those_of_a_loop_and_a_mark_forgets():
    rng, params = np.random.default_rng(1), parameters(POLICY, 4)
    rows = rng.standard_normal((3, 6, 4)).astype(np.float32)
    rows[..., -1] = 0
    rows[1, 3, -1] = 1
    found = np.asarray(POLICY.apply(params, rows))
    wanted = np.stack([by_hand(params, one) for one in rows])
    assert np.abs(found - wanted).max() < 1e-5
    kept = rows.copy()
    kept[..., -1] = 0  # without the mark another answer, from there on and not before
    apart = np.abs(np.asarray(POLICY.apply(params, kept)) - found).max(axis=(0, 2))
    assert (apart[:3] == 0).all() and (apart[3:] > 1e-3).all()


def test_steps_are_the_sequences_and_a_row_has_its_bits_in_any_batch():
    rng, params = np.random.default_rng(2), parameters(POLICY, 4)
    rows = rng.standard_normal((9, 6, 4)).astype(np.float32)
    rows[..., -1] = rng.random((9, 6)) < 0.3
    step, state, found = forward_step(POLICY, params), np.zeros((9, 5), np.float32), []
    for j in range(6):
        alone = [step(state[i : i + 1], rows[i : i + 1, j]) for i in range(9)]
        state, outputs = step(state, rows[:, j])
        assert np.concatenate([one[0] for one in alone]).tobytes() == state.tobytes()
        assert np.concatenate([one[1] for one in alone]).tobytes() == outputs.tobytes()
        found.append(outputs)
    assert np.abs(np.stack(found, axis=1) - np.asarray(POLICY.apply(params, rows))).max() < 1e-5


@settings(max_examples=30)
@given(depth=st.integers(1, 4), mark=st.booleans(), seed=st.integers(0, 99))
def test_a_history_is_the_last_rows_of_each_episode(depth, mark, seed):
    rng, seen = np.random.default_rng(seed), Recalled(Observations.of(BOX), depth, mark=mark)
    history, episodes = History(seen, 3, keep=2), [[], [], []]
    for _ in range(12):
        slots = np.flatnonzero(rng.random(3) < 0.8)
        begins = slots[rng.random(len(slots)) < 0.3]
        history.begin(begins)
        for slot in slots.tolist():
            if slot in begins:
                episodes[slot] = []
            episodes[slot].append(rng.standard_normal(2).astype(np.float32))
        if not len(slots):
            continue
        now = np.stack([episodes[slot][-1] for slot in slots])
        rows = history.see(slots, now)
        assert rows.tobytes() == history.see(slots, now).tobytes()  # looking twice changes nothing
        history.advance(slots, rows)
        for row, slot in zip(rows, slots.tolist(), strict=True):
            mine = episodes[slot]
            past = [mine[max(len(mine) - depth + i, 0)] for i in range(depth)]
            changes = np.diff(past, axis=0).ravel()  # 0 before the episode began
            assert row.tolist() == [*changes, *past[-1], *([float(len(mine) == 1)] if mark else [])]
            assert history.kept[slot, -1].tobytes() == row.tobytes()


@pytest.mark.parametrize("policy", [POLICY, MLP(widths=(8,))])
def test_a_policy_that_remembers_acts_as_its_rows_say(policy, tmp_path):
    seen = Recalled(Observations.of(BOX), 3, mark=policy.memory > 0)
    params, shift = parameters(policy, seen.width), np.linspace(-1, 1, seen.width)
    shift[-1] = 0 if policy.memory else shift[-1]
    made = TrainedPolicy(policy, params, seen, Actions.of(ACTIONS), Normaliser(shift, np.ones(seen.width)))
    made.save(tmp_path / "policy")
    kept = TrainedPolicy.load(tmp_path / "policy")
    episodes = np.random.default_rng(3).uniform(-1, 1, (2, 5, 2)).astype(np.float32)
    rows = seen.along(episodes.reshape(-1, 2), np.tile(np.arange(5) == 0, 2)).reshape(2, 5, -1)
    outputs = policy.apply(params, rows - shift.astype(np.float32)) if policy.memory else None
    if outputs is None:
        outputs = policy.apply(params, rows.reshape(10, -1) - shift.astype(np.float32)).reshape(2, 5, 2)
    wanted = np.clip(np.asarray(outputs), -1, 1)
    state = None
    for j in range(5):  # two episodes at once
        actions, state = kept.predict(episodes[:, j], state, episode_start=np.full(2, j == 0))
        assert np.abs(actions - wanted[:, j]).max() < 1e-5
    for i in range(2):  # one after the other
        made.reset()
        assert np.abs(np.stack([made(one) for one in episodes[i]]) - wanted[i]).max() < 1e-5
    again = np.stack([made(one) for one in episodes[0]])  # not reset: the memory of the last episode
    assert np.abs(again - wanted[0]).max() > 1e-3
    mixed, slots = (
        rows.transpose(1, 0, 2).reshape(10, -1),
        np.tile([0, 1], 5),
    )  # by turns, as a run stores them
    assert (
        np.abs(made.along(mixed, slots).reshape(5, 2, 2).transpose(1, 0, 2) - np.asarray(outputs)).max()
        < 1e-5
    )
    with pytest.raises(UserError, match="call predict with the state"):
        made(episodes[0])
    for other in (state, 3, (1, 2, 3), (state[0], state[1][:, :1])):
        with pytest.raises(UserError, match=r"state: it is not what predict of this .* for 5 observations"):
            made.predict(episodes[0], other)
    with pytest.raises(UserError, match="episode_start: there are 3 marks for 2 observations"):
        made.predict(episodes[:, 0], state, episode_start=np.ones(3))


def test_what_has_no_memory_is_refused():
    with pytest.raises(UserError, match=r"^frame_stack: bytes"):
        Recalled(Observations.of(spaces.Box(0, 255, (4, 4), np.uint8)), 2)
    with pytest.raises(UserError, match=r"^length: 0 is not a whole number ≥ 1"):
        GRU(length=0)
