"""Pure environments: seeds, adapters, and slots that the host steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from drift import Drift, DriftState
from understudy import spec
from understudy.envs.gymnasium import derive, maker
from understudy.envs.pure import LIBRARIES, PureVector, as_pure, chosen, derived, key_of, words
from understudy.errors import UserError
from understudy.policies import Actions, Normaliser, Observations


@pytest.mark.parametrize("seed", [0, 7, 2**31 + 5, 2**32 - 1, 2**40 + 3])
def test_seeds_on_the_device_are_numpys(seed):
    where, episode = np.array([0, 3, 4095]), np.array([0, 9, 77])
    wanted = [derive(seed, "collect", int(j), int(k)) for j, k in zip(where, episode, strict=True)]
    assert derived(words(seed), "collect", where, episode).tolist() == wanted
    assert derived(words(seed), "evaluate", where, episode).tolist() != wanted


def test_an_object_of_brax_shape_is_an_environment():
    env = maker(Drift())()
    assert env.observation_space.shape == (2,) and env.action_space == Box(-1, 1, (1,))
    state = env.reset(key_of(3))
    for step in range(1, 6):
        state = env.step(state, jnp.zeros(1) - state.observation[:1])
        assert bool(state.truncated) == (step == 5), step
    assert not bool(state.terminated)
    beyond = state._replace(inner=DriftState(jnp.array([1.9, 1.0]), jnp.zeros(()), jnp.zeros(())))
    assert bool(env.step(beyond, jnp.ones(1)).terminated)


def test_slots_are_episodes_of_their_own():
    env = as_pure(Drift())
    slots = PureVector(env, 3)
    slots.begin([0, 2], [5, 5])
    slots.begin([1], [6])
    before = slots.observe(np.arange(3)).batch
    assert (before[0] == before[2]).all() and (before[0] != before[1]).all()
    rewards, terminated, truncated = slots.step(np.array([2]), np.array([[0.5]]))
    after = slots.observe(np.arange(3)).batch
    alone = env.step(env.reset(key_of(5)), jnp.array([0.5]))
    assert (after[:2] == before[:2]).all()
    np.testing.assert_allclose(after[2], alone.observation, rtol=1e-6)
    np.testing.assert_allclose(rewards, [alone.reward], rtol=1e-6)
    assert not terminated[0] and not truncated[0]


def test_an_object_without_states_is_refused():
    class Wrong:
        action_size = 1

        def reset(self, key):
            return jnp.zeros(2)

        def step(self, state, action):
            return state

    with pytest.raises(UserError, match="must give a state with obs, reward and done"):
        maker(Wrong())


def test_every_name_that_the_spec_calls_pure_can_be_made():
    assert set(LIBRARIES) == set(spec.LIBRARIES)


def test_an_unknown_model_is_refused():
    pytest.importorskip("mujoco")
    with pytest.raises(UserError, match=r"extra 'mjx'|mjx has no such model"):
        maker("mjx:Hoper")()


def test_codecs_on_the_device_are_those_of_the_host():
    rng = np.random.default_rng(0)
    space = Dict(a=Box(-1, 1, (2, 2)), b=Discrete(3, start=1), c=MultiDiscrete([2, 3]))
    seen = Observations.of(space)
    batch = {
        "a": rng.standard_normal((5, 2, 2)).astype(np.float32),
        "b": rng.integers(1, 4, 5),
        "c": np.stack([rng.integers(0, 2, 5), rng.integers(0, 3, 5)], axis=1),
    }
    assert (seen.rows(jax.tree.map(jnp.asarray, batch)) == seen.rows(batch)).all()
    for actions in (Box(-1, 1, (2,)), Discrete(4, start=2), MultiDiscrete([2, 3])):
        acts = Actions.of(actions)
        outputs = rng.standard_normal((6, acts.outputs)).astype(np.float32)
        played = acts.plays(outputs)
        assert (np.asarray(acts.plays(jnp.asarray(outputs))) == played).all()
        assert (acts.targets(jnp.asarray(played), "action") == acts.targets(played)).all()
    norm = Normaliser(np.array([1.0, 2.0]), np.array([0.5, 4.0]), 1.5)
    rows = rng.standard_normal((4, 2)).astype(np.float32)
    np.testing.assert_allclose(norm(jnp.asarray(rows)), norm(rows), rtol=1e-6)


def test_a_choice_is_made_slot_by_slot():
    found = chosen(jnp.array([True, False]), {"a": jnp.ones((2, 3))}, {"a": jnp.zeros((2, 3))})
    assert found["a"].tolist() == [[1, 1, 1], [0, 0, 0]]
