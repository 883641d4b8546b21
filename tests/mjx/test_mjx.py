"""MJX, Brax and Playground themselves: minutes of compiling, so `make test-mjx`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy import experts, imitate
from understudy.envs.gymnasium import maker
from understudy.envs.pure import key_of

pytestmark = pytest.mark.mjx


@pytest.mark.parametrize("name", ["Hopper", "Walker2d"])
def test_mjx_steps_as_gymnasium_does(name):
    """The same start and actions: observations, rewards and ends agree to single precision."""
    pytest.importorskip("mujoco.mjx")
    import gymnasium as gym

    env, host = maker(f"mjx:{name}")(), gym.make(f"{name}-v5").unwrapped
    state, step = jax.jit(env.reset)(key_of(3)), jax.jit(env.step)
    place, speed, _ = (np.asarray(one, np.float64) for one in state.inner)
    host.reset(seed=0)
    host.set_state(place, speed)
    rng = np.random.default_rng(0)
    for turn in range(25):
        action = rng.uniform(-0.3, 0.3, env.action_space.shape).astype(np.float32)
        state = step(state, jnp.asarray(action))
        seen, reward, ended, *_ = host.step(action)
        np.testing.assert_allclose(state.observation, seen, atol=2e-3, err_msg=str(turn))
        np.testing.assert_allclose(state.reward, reward, atol=5e-3)
        assert bool(state.terminated) == ended
        if ended:
            break
    assert turn > 5


def test_hopper_is_learned_on_the_device():
    pytest.importorskip("mujoco.mjx")
    small = {"widths": (64, 64), "max_iterations": 300, "comparator": "none", "episodes": 0}
    # The expert drives, so that the losses of all rounds are on states of one kind.
    run = imitate("mjx:Hopper", envs=16, interactions=1600, rounds=3, beta=1.0, **small)
    assert run.ledger["loss"][-1] < 0.5 * run.ledger["loss"][0]


@pytest.mark.parametrize("name", ["brax:inverted_pendulum", "playground:CartpoleBalance"])
def test_environments_of_other_libraries(name):
    pytest.importorskip(name.partition(":")[0].replace("playground", "mujoco_playground"))
    settings = {"backend": "generalized"} if name.startswith("brax") else {}

    @experts.pure
    def law(observation):
        return jnp.tanh(-observation[:1])

    run = imitate(
        name,
        env_kwargs={"max_episode_steps": 20, **settings},
        expert=law,
        policy="linear",
        envs=4,
        interactions=80,
        rounds=2,
        episodes=2,
    )
    assert run.ledger["episodes"].tolist() == [4, 4] and np.isfinite(run.evaluation.mean)
