"""A vector environment steps as Gymnasium does, bit for bit: observations, rewards, ends and resets."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from understudy.envs.gymnasium import GymnasiumVector, maker, vector
from understudy.envs.mujoco import RULES, MujocoVector, rules_of
from understudy.errors import UserError

KEYWORDS = [
    ("Hopper-v5", {}),
    ("Hopper-v5", {"max_episode_steps": 7, "terminate_when_unhealthy": False, "frame_skip": 2}),
    ("Hopper-v5", {"healthy_state_range": (-2.0, 2.0)}),
    ("Hopper-v4", {"max_episode_steps": 50}),
    ("Walker2d-v5", {}),
    ("Walker2d-v5", {"exclude_current_positions_from_observation": False, "ctrl_cost_weight": 0.5}),
    ("Walker2d-v4", {"terminate_when_unhealthy": False, "max_episode_steps": 50}),
    ("HalfCheetah-v5", {"max_episode_steps": 50}),
    ("HalfCheetah-v4", {"max_episode_steps": 50, "exclude_current_positions_from_observation": False}),
    ("HalfCheetah-v5", {"max_episode_steps": 30, "forward_reward_weight": 3, "ctrl_cost_weight": 2.0}),
    ("Swimmer-v5", {"max_episode_steps": 50}),
    ("Swimmer-v4", {"max_episode_steps": 50, "exclude_current_positions_from_observation": False}),
    ("Ant-v5", {"max_episode_steps": 60}),
    ("Ant-v5", {"healthy_z_range": (0.5, 0.8), "contact_cost_weight": 0.1, "main_body": "front_left_leg"}),
    ("Ant-v5", {"max_episode_steps": 40, "include_cfrc_ext_in_observation": False, "frame_skip": 3}),
    (
        "Ant-v5",
        {"max_episode_steps": 40, "contact_force_range": (-0.1, 9), "terminate_when_unhealthy": False},
    ),
    ("Humanoid-v5", {}),
    ("Humanoid-v5", {"include_cinert_in_observation": False, "contact_cost_weight": 1e-3}),
    ("Humanoid-v5", {"include_cvel_in_observation": False, "include_qfrc_actuator_in_observation": False}),
    ("Humanoid-v5", {"include_cfrc_ext_in_observation": False, "contact_cost_range": (0.5, 0.7)}),
    ("HumanoidStandup-v5", {"max_episode_steps": 50}),
    ("HumanoidStandup-v5", {"max_episode_steps": 40, "exclude_current_positions_from_observation": False}),
    (
        "HumanoidStandup-v5",
        {"max_episode_steps": 40, "impact_cost_weight": 1e-3, "impact_cost_range": (1, 2)},
    ),
    ("Reacher-v5", {}),
    ("Reacher-v5", {"max_episode_steps": 20, "reward_dist_weight": 3, "reward_control_weight": 0.3}),
    ("Pusher-v5", {"max_episode_steps": 30}),
    ("Pusher-v5", {"max_episode_steps": 20, "reward_near_weight": 2, "reward_control_weight": 7}),
    ("InvertedPendulum-v5", {}),
    ("InvertedPendulum-v5", {"reset_noise_scale": 0.1, "frame_skip": 4}),
    ("InvertedDoublePendulum-v5", {}),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 1.5, "reset_noise_scale": 0.3}),
]


def _play(make, bodies, steps, seed):
    """The same actions in three slots and in three plain environments; yields both sides' outcome."""
    plain = [make() for _ in range(3)]
    slots, rng, episodes = np.arange(3), np.random.default_rng(seed), [0, 0, 0]
    seen = []
    for slot in slots:
        bodies.begin([slot], [10 * slot])
        seen.append(plain[slot].reset(seed=10 * int(slot))[0])
    for step in range(steps):
        which = (slots[::-1][:2], slots, slots[1:2])[step % 3]  # any choice, in any order; one alone, too
        # Strong pushes, so that bodies fall, meet the ground and are reset many times.
        space = plain[0].action_space
        actions = space.high * np.clip(rng.normal(size=(len(which), *space.shape)), -1, 1)
        actions = actions.astype(np.float32)
        rewards, terminated, truncated = bodies.step(which, actions)
        ours = bodies.observe(which).batch
        theirs = [plain[slot].step(action)[:4] for slot, action in zip(which, actions, strict=True)]
        yield (ours, rewards, terminated, truncated), theirs
        for i, slot in enumerate(which):
            if terminated[i] or truncated[i]:
                episodes[slot] += 1
                bodies.begin([slot], [10 * slot + episodes[slot]])
                observation, _ = plain[slot].reset(seed=10 * int(slot) + episodes[slot])
                assert bodies.observe(np.array([slot])).batch[0].tobytes() == observation.tobytes()
    for env in plain:
        env.close()
    assert sum(episodes) > 3


@pytest.mark.parametrize(("name", "keywords"), KEYWORDS)
def test_mujoco_equals_gymnasium_bit_for_bit(name, keywords):
    make = maker(name, keywords)
    bodies = vector(make, 3)
    assert isinstance(bodies, MujocoVector)
    for (seen, rewards, terminated, truncated), theirs in _play(make, bodies, 300, 0):
        for i, (observation, reward, over, cut) in enumerate(theirs):
            assert seen[i].tobytes() == observation.tobytes()
            assert rewards[i] == reward and terminated[i] == over and truncated[i] == cut
    bodies.close()


def test_every_row_of_rules_is_compared_with_gymnasium():
    rows = {gym.spec(name).entry_point.rpartition(".")[2] for name, _ in KEYWORDS}
    assert rows == {f"{module}:{name}" for module, name in RULES}


def test_threads_step_to_the_same_bits():
    name, keywords = "Ant-v5", {"max_episode_steps": 20}
    alone, threaded = (vector(maker(name, keywords), 20, threads=n) for n in (1, 2))
    slots, rng = np.arange(20), np.random.default_rng(0)
    for env in (alone, threaded):
        env.begin(slots, slots)
    for _ in range(20):
        actions = rng.uniform(-1, 1, (20, 8)).astype(np.float32)
        for ours, theirs in zip(alone.step(slots, actions), threaded.step(slots, actions), strict=True):
            assert ours.tobytes() == theirs.tobytes()
        assert alone.observe(slots).batch.tobytes() == threaded.observe(slots).batch.tobytes()
    for env in (alone, threaded):
        env.close()


def test_without_the_warm_start_the_bits_differ():
    """Why each slot keeps a simulation of its own: position and velocity alone are not the whole state."""
    make, differ = maker("Hopper-v5"), False
    bodies = vector(make, 3)
    for (seen, *_), theirs in _play(make, bodies, 200, 1):
        for data in bodies._data:
            data.qacc_warmstart[:] = 0
        differ |= any(seen[i].tobytes() != one[0].tobytes() for i, one in enumerate(theirs))
    assert differ
    bodies.close()


def test_what_is_not_known_is_left_to_gymnasium():
    assert isinstance(vector(maker("Pendulum-v1"), 1), GymnasiumVector)
    for env in (
        gym.wrappers.RescaleAction(gym.make("Hopper-v5"), -2, 2),
        gym.make("Hopper-v5", max_episode_steps=-1),
        gym.make("Humanoid-v4"),
        gym.make("Humanoid-v5", include_cvel_in_observation=1),  # Gymnasium leaves it out of what it shows
    ):
        assert rules_of(env) is None
    assert isinstance(vector(maker(gym.make("Hopper-v5")), 1), MujocoVector)


def test_gymnasiums_equal_single_environments():
    make = maker("CartPole-v1")
    group, alone = vector(make, 2), make()
    group.begin([0, 1], [5, 6])
    seen, _ = alone.reset(seed=6)
    for action in (0, 1, 1, 0, 1):
        rewards, terminated, truncated = group.step(np.array([1]), [action])
        seen, reward, over, cut, _ = alone.step(action)
        assert group.observe(np.array([1])).batch[0].tobytes() == seen.tobytes()
        assert (rewards[0], terminated[0], truncated[0]) == (reward, over, cut)
    group.close()


class Reusing(gym.Env):
    """Gives one array again and again, with other numbers in it."""

    observation_space = gym.spaces.Dict({"count": gym.spaces.Box(-1, 100, (1,), np.float32)})
    action_space = gym.spaces.Discrete(2)
    seen: np.ndarray = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        self.seen = np.zeros(1, np.float32)
        return {"count": self.seen}, {}

    def step(self, action):
        self.seen += 1
        return {"count": self.seen}, 1.0, False, False, {}


@pytest.mark.parametrize("slots", [1, 2])
def test_what_was_seen_stays_where_an_environment_writes_to_its_array(slots):
    some = vector(maker(Reusing), slots)
    some.begin([*range(slots)], [0] * slots)
    seen = []
    for _ in range(3):
        seen.append(some.observe(np.array([0])).batch)
        some.step(np.array([0]), np.zeros(1, int))
    assert [one["count"].item() for one in seen] == [0, 1, 2]
    some.close()


class Faulty(gym.Env):
    """Raises in its third step, or where it is reset with an odd seed."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    made, closed = 0, 0

    def __init__(self, limit=9):
        if Faulty.made - Faulty.closed >= limit:
            raise ValueError("too many")
        Faulty.made += 1

    def reset(self, *, seed=None, options=None):
        if seed % 2:
            raise ValueError("odd")
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        if self.count == 3:
            raise ZeroDivisionError("three")
        return np.full(2, self.count / 10, np.float32), 1.0, False, False, {}

    def close(self):
        Faulty.closed += 1


def test_an_environment_that_raises_is_remembered_and_the_others_go_on():
    three = vector(maker(Faulty), 3)
    three.begin([0, 1, 2], [0, 1, 2])
    assert list(three.broken) == [1] and str(three.broken[1]) == "odd"
    for which in (np.array([0]), np.array([0, 2]), np.array([0, 2])):
        rewards, terminated, truncated = three.step(which, np.zeros(len(which), int))
    assert np.isnan(rewards[0]) and rewards[1] == 1 and not (terminated | truncated).any()
    assert isinstance(three.broken[0], ZeroDivisionError) and 2 not in three.broken
    assert three.observe(np.array([0, 2])).batch[:, 0].tolist() == pytest.approx([0.2, 0.2])
    three.close()
    assert Faulty.made == Faulty.closed == 3


@pytest.mark.parametrize(
    ("space", "wrong", "told"),
    [
        (Faulty.observation_space, np.zeros(3), "has 3 numbers, and its space is Box"),
        (Faulty.observation_space, [[0], [1, 2]], "inhomogeneous"),
        (gym.spaces.Discrete(2, start=5), 7, "7 is none of Discrete"),
        (gym.spaces.Dict(a=gym.spaces.Tuple((Faulty.observation_space,))), {"a": ()}, "has no part 0"),
    ],
)
def test_what_cannot_be_stacked_is_the_error_of_its_own_environment(space, wrong, told):
    class Odd(Faulty):
        observation_space = space

        def reset(self, *, seed=None, options=None):
            return wrong if seed % 2 else space.sample(), {}

    two = vector(maker(Odd), 2)
    two.begin([0, 1], [2, 3])
    assert list(two.broken) == [1] and told in str(two.broken[1])
    assert two.observe(np.array([0])).infos == [{}]
    two.close()


def test_observations_may_be_tensors_whose_size_is_a_method():
    class Tensor:
        shape = Faulty.observation_space.shape

        def size(self):
            raise AssertionError

        def __array__(self, dtype=None, copy=None):
            return np.zeros(self.shape, dtype)

    class Odd(Faulty):
        def reset(self, *, seed=None, options=None):
            return Tensor(), {}

    one = vector(maker(Odd), 1)
    one.begin([0], [2])
    assert not one.broken and not one.observe(np.array([0])).batch.any()
    one.close()


def test_an_environment_without_spaces_is_refused():
    class Bare(Faulty):
        observation_space = None

    with pytest.raises(UserError, match="makes an environment without observation_space"):
        maker(Bare)()


def test_environments_are_closed_where_one_of_them_cannot_be_made():
    Faulty.made = Faulty.closed = 0
    with pytest.raises(UserError, match="cannot be made"):
        vector(maker(lambda: Faulty(limit=2)), 3)
    assert Faulty.made == Faulty.closed == 2


def test_mujoco_writes_no_file_of_its_own(tmp_path, monkeypatch, capfd):
    """Its model of HalfCheetah has an attribute that is deprecated, which it would tell in MUJOCO_LOG.TXT."""
    import mujoco

    monkeypatch.chdir(tmp_path)
    env = maker("HalfCheetah-v5")().unwrapped
    assert not list(tmp_path.iterdir()) and capfd.readouterr().err == ""
    env.data.qpos[:] = np.nan
    with pytest.warns(UserWarning, match="MuJoCo: Nan, Inf or huge value in QPOS"):
        mujoco.mj_step(env.model, env.data)
    assert not list(tmp_path.iterdir())


def test_infos_of_mujoco_are_gymnasiums():
    make = maker("Hopper-v5")
    plain, group = make(), vector(make, 2, infos=True)
    assert isinstance(group, GymnasiumVector)
    group.begin([1], [4])
    _, info = plain.reset(seed=4)
    assert group.observe(np.array([1])).infos[0] == info and info
    group.close()
