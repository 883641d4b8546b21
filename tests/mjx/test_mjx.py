"""MJX, Brax and Playground themselves: minutes of compiling, so `make test-mjx`."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from understudy import experts, imitate
from understudy.envs.gymnasium import maker
from understudy.envs.pure import key_of
from understudy.samples import TERMINATED

pytestmark = pytest.mark.mjx


class Gymnasiums:
    """One action in the state that an observation shows, of which it lacks the place along the track alone:
    the next observation, the reward and whether the episode ends.
    """

    def __init__(self, name, **keywords):
        import gymnasium as gym

        self.env = gym.make(f"{name}-v5", **keywords).unwrapped
        self.env.reset(seed=0)

    def __call__(self, seen, action):
        middle = len(seen) // 2
        self.env.set_state(np.concatenate([[0.0], seen[:middle]]), seen[middle:].astype(float))
        return self.env.step(action)[:3]


def test_hopper_is_learned_on_the_device_in_gymnasiums_physics():
    """One compiled program for both: every step of a run, its falls included, is one of Gymnasium's."""
    pytest.importorskip("mujoco.mjx")
    small = {"widths": (32, 32), "max_iterations": 300, "comparator": "none", "episodes": 0}
    run = imitate("mjx:Hopper", num_envs=8, steps_per_round=320, rounds=3, **small)
    names = "inputs", "targets", "executed", "rewards", "flags", "slots"
    seen, wanted, played, rewards, flags, slots = (np.asarray(run.samples(name)) for name in names)
    missed = np.mean(np.sum((run.policy(seen) - wanted) ** 2, axis=1))
    assert missed < 0.5 * run.ledger["loss"][0]
    theirs, falls = Gymnasiums("Hopper"), 0
    for slot in range(8):
        mine = np.flatnonzero(slots == slot)
        for now, later in itertools.pairwise(mine):
            if np.abs(seen[now]).max() > 9.9:  # speeds are shown clipped
                continue
            after, reward, ended = theirs(seen[now], played[now])
            assert bool(flags[now] & TERMINATED) == ended
            np.testing.assert_allclose(rewards[now], reward, atol=5e-3)
            falls += ended
            if not ended:
                np.testing.assert_allclose(seen[later], after, atol=5e-3)
    assert falls


@pytest.mark.parametrize("integrator", ["RK4", "Euler"])
def test_walker_steps_as_gymnasiums_does(integrator, tmp_path):
    """Our own stages of Runge and Kutta, and the methods that are left to MJX."""
    pytest.importorskip("mujoco.mjx")
    from gymnasium.envs import mujoco

    text = (Path(mujoco.__file__).parent / "assets" / "walker2d_v5.xml").read_text()
    assert 'integrator="RK4"' in text
    (tmp_path / "walker.xml").write_text(text.replace("RK4", integrator))
    model = {"xml_file": str(tmp_path / "walker.xml")}
    env, theirs = maker("mjx:Walker2d", model)(), Gymnasiums("Walker2d", **model)
    state, step = jax.jit(env.reset)(key_of(3)), jax.jit(env.step)
    rng = np.random.default_rng(0)
    for _ in range(10):
        action = rng.uniform(-0.3, 0.3, env.action_space.shape).astype(np.float32)
        after, reward, ended = theirs(np.asarray(state.observation), action)
        state = step(state, jnp.asarray(action))
        np.testing.assert_allclose(state.observation, after, atol=2e-3)
        np.testing.assert_allclose(state.reward, reward, atol=5e-3)
        assert bool(state.terminated) == ended


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
        num_envs=4,
        steps_per_round=80,
        rounds=2,
        episodes=0,
    )
    assert run.ledger["episodes"].tolist() == [4, 4]
    assert np.unique(np.asarray(run.samples("inputs")), axis=0).shape[0] > 100
    assert (np.asarray(run.samples("rewards")) > 0).all()  # upright, or nearly
