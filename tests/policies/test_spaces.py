"""Spaces: Tuple observations, MultiBinary actions, images beside numbers; what is no number is refused."""

from __future__ import annotations

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from understudy import UserError, imitate
from understudy.defaults import Decisions, policy
from understudy.experts import Expert, is_single
from understudy.experts.answers import checked
from understudy.nested import batch_size, stack, take
from understudy.policies import Actions, Camera, Encoded, Encoder, NatureCNN, Observations
from understudy.policies.nature_cnn import by_matmul
from understudy.policies.sight import Sight
from understudy.spec import RunSpec

SMALL = {"policy": "linear", "rounds": 2, "steps_per_round": 60, "episodes": 2}


class Lamps(gym.Env):
    """Tuple observations; the expert lights the lamps whose numbers are above zero."""

    observation_space = spaces.Tuple((spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)))
    action_space = spaces.MultiBinary(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 10
        return self._look(), {}

    def _look(self):
        self.shown = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown, np.int64(self.np_random.integers(3))

    def step(self, action):
        assert self.action_space.contains(action)
        reward = float((action == (self.shown > 0)).mean())
        self.left -= 1
        return self._look(), reward, self.left == 0, False, {}


def lit(observation):
    assert isinstance(observation, tuple)
    return observation[0] > 0


def test_tuple_observations_and_binary_actions_are_learnt(tmp_path):
    run = imitate(Lamps, expert=lit, out=tmp_path / "a", comparator="none", **SMALL)
    assert run.policy.observations.width == 5 and run.evaluation.mean > 8.5 < run.expert_evaluation.mean
    action = run.policy((np.array([0.9, -0.9], np.float32), np.int64(1)))
    assert action.dtype == np.int8 and action.tolist() == [1, 0]
    again = type(run).load(tmp_path / "a").policy
    assert again((np.array([0.9, -0.9], np.float32), np.int64(1))).tolist() == [1, 0]
    assert again.actions.space() == Lamps.action_space


def test_a_tuple_is_a_batch_like_any_other():
    space = Lamps.observation_space
    one = (np.zeros(2), np.int64(2))
    batch = stack([one])
    assert batch_size(batch) == 1 and is_single(one, space) and not is_single(batch, space)
    assert take(batch, 0)[1] == 2


@pytest.mark.parametrize("shape", [3, (2, 2)])
def test_binary_actions_are_choices_of_two(shape):
    space = spaces.MultiBinary(shape)
    actions = Actions.of(space)
    assert actions.categorical and actions.outputs == 2 * np.prod(shape) and actions.space() == space
    space.seed(0)
    label = space.sample()
    targets = actions.targets(label[None].astype(np.int64))
    played = actions.play(targets[0])
    assert played.tolist() == label.tolist() and space.contains(played)
    assert actions.plays(targets).shape == (1, *label.shape)
    assert Actions.from_config(actions.config()).space() == space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(4),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Text(4)),
    ],
)
def test_what_is_no_number_is_refused_in_words(space):
    class Words(Lamps):
        observation_space = space

    with pytest.raises(UserError, match=r"env: the observations .* are not supported; accepted: Box"):
        imitate(Words, expert=lambda observation: [0, 0], **SMALL)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (0,)), spaces.Dict({}), spaces.Tuple(())])
def test_what_holds_no_number_is_refused_in_words(space):
    with pytest.raises(UserError, match="hold no number: there is nothing to see"):
        Observations.of(space)
    with pytest.raises(UserError, match=r"are no numbers|are not supported"):
        Actions.of(space)


def test_double_bounds_are_not_left_by_rounding():
    """The nearest number of single precision to 0.1 is above it."""
    space = spaces.Box(-0.1, 0.1, (2,), np.float64)
    actions = Actions.of(space)
    assert space.contains(actions.play(np.array([9.0, -9.0], np.float32)))
    assert space.contains(actions.play(np.array([0.1, -0.1], np.float32)))
    again = Actions.from_config(actions.config())
    assert again.space() == space and again.high.tolist() == actions.high.tolist()
    given = checked(Expert("edge", ask=lambda seen, infos: np.array([[0.1, np.nextafter(0.1, 0)]])), space)
    label = given.act(np.zeros((1, 3)), [{}])[0]
    assert label.dtype == np.float32 and space.contains(label.astype(np.float64))


def test_choices_that_begin_at_another_number_are_played_alike_one_by_one_in_a_batch_and_on_the_device():
    actions, outputs = Actions.of(spaces.Discrete(3, start=5)), np.eye(3)[[1, 0, 2]]
    assert [int(actions.play(row)) for row in outputs] == [6, 5, 7]
    assert actions.plays(outputs).tolist() == actions.plays(jnp.asarray(outputs)).tolist() == [6, 5, 7]


def test_choices_of_any_shape_are_actions():
    space = spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]), start=np.array([[0, 1], [-1, 5]]))
    actions = Actions.of(space)
    label = np.array([[[1, 3], [-1, 6]]])
    assert actions.plays(actions.targets(label)).tolist() == label.tolist()
    assert Actions.from_config(actions.config()).space() == space


@pytest.mark.parametrize(
    ("space", "seen", "told"),
    [
        (spaces.Box(0, 255, (2,), np.uint8), np.array([0.5, 1.0]), r"0\.5 is no byte from 0 to 255"),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([3, 300]), "300 is no byte"),
        (spaces.Discrete(3), np.array(1.5), r"1\.5 is no whole number"),
        (spaces.Dict(a=spaces.Discrete(3)), {"a": np.array([0, 0, 1])}, "3 numbers at a, .* made for 1"),
        (
            spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(-1, 1, (2,))),
            {"a": np.zeros(3), "b": np.zeros(1)},  # four in all, as there should be
            "3 numbers at a, .* made for 2",
        ),
    ],
)
def test_an_observation_is_not_taken_for_another(space, seen, told):
    codec = Observations.of(space)
    with pytest.raises(UserError, match=told):
        codec.row(seen)
    with pytest.raises(UserError, match=told):
        codec.rows(stack([seen]))


def test_what_a_student_and_an_expert_see_of_a_vector_is_the_same_cut():
    sight = Sight.of("[1:3]", "student_sees")
    assert sight.space(spaces.MultiBinary(4)) == spaces.MultiBinary(2)
    assert sight.observations(spaces.MultiBinary(4)).row(np.array([1, 0, 1, 0])).tolist() == [0, 1]
    for space, told in ((spaces.Discrete(4), "slices are of"), (Shown.action_space, "takes none of 1")):
        for read in (sight.space, sight.observations):
            with pytest.raises(UserError, match=told):
                read(space)
    with pytest.raises(UserError, match="cuts bytes"):
        sight.observations(spaces.Box(0, 255, (4,), np.uint8))


def test_the_parts_of_a_batch_hold_as_many_observations():
    codec = Observations.of(spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,))))
    for read in (codec.rows, codec.split):
        with pytest.raises(UserError, match=r"hold \[2, 3\] observations"):
            read({"a": np.zeros(2, int), "b": np.zeros((3, 2))})
    with pytest.raises(UserError, match="2 is no batch"):
        codec.split({"a": 2, "b": np.zeros((3, 2))})


def test_what_is_hidden_from_the_policy_may_be_anything():
    class Worded(Lamps):
        observation_space = spaces.Dict(
            word=spaces.Text(4), lamps=spaces.Box(-1, 1, (2,), np.float32), side=spaces.Discrete(3)
        )

        def _look(self):
            lamps, side = super()._look()
            return {"word": "lamp", "lamps": lamps, "side": side}

    # Without a judge, as the run on tuples above: the two have one program.
    how = SMALL | {"student_sees": "lamps,side", "comparator": "none"}
    run = imitate(Worded, expert=lambda seen: seen["lamps"] > 0, **how)
    assert run.evaluation.mean > 8.5


PICTURE = spaces.Dict(
    picture=spaces.Box(0, 255, (8, 8, 3), np.uint8), pose=spaces.Box(-1, 1, (2,), np.float32)
)


class Shown(gym.Env):
    """The action is the brightness of the picture, times the pose."""

    observation_space, action_space = PICTURE, spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._look(), {}

    def _look(self):
        pose = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"picture": np.full((8, 8, 3), self.np_random.integers(256), np.uint8), "pose": pose}

    def step(self, action):
        return self._look(), 0.0, self.np_random.random() < 0.1, False, {}


def test_an_image_beside_numbers_is_convolved_and_the_numbers_are_not():
    decisions, actions = Decisions(RunSpec(env=Shown)), Actions.of(Shown.action_space)
    chosen = policy(decisions, PICTURE, actions, Expert("x", ask=print))
    assert isinstance(chosen, Camera) and (chosen.shape, chosen.place) == ((8, 8, 3), 0)
    assert chosen.head == "tanh" and chosen.last and chosen.sides == (8, 8)


@pytest.mark.slow
def test_an_image_beside_numbers_is_learnt():
    def act(observation):
        return observation["pose"][:1] * observation["picture"].mean() / 255

    how = {"rounds": 2, "steps_per_round": 150, "episodes": 1, "expert_episodes": 0, "comparator": "none"}
    how |= {"policy": "camera", "widths": (16,), "policy_options": {"width": 8}, "max_iterations": 800}
    run = imitate(Shown, expert=act, **how)
    assert (
        run.policy.observations.width == 8 * 8 * 3 + 2 and run.ledger["loss"][1] < run.ledger["loss"][0] / 2
    )
    # Which part of the picture is bright matters to convolutions, and not to a mean of it.
    pose, dark = np.ones(2, np.float32), np.zeros((8, 8, 3), np.uint8)
    corner = dark.copy()
    corner[:3, :3] = 255
    moved = np.roll(corner, 4, axis=(0, 1))
    answers = [float(run.policy({"picture": one, "pose": pose})[0]) for one in (dark, corner, moved)]
    assert len(set(answers)) == 3


def test_channels_may_come_first_and_the_image_anywhere():
    first, last = Camera(shape=(3, 9, 10), place=1), Camera(shape=(9, 10, 3), place=1)
    params = last.init(jax.random.key(0), features=272, outputs=2)
    image, beside = np.random.default_rng(0).random((1, 9, 10, 3), np.float32), np.array([[0.1]], np.float32)
    rows = [
        np.concatenate([beside, one.reshape(1, -1), -beside], axis=1)
        for one in (image, image.transpose(0, 3, 1, 2))
    ]
    np.testing.assert_allclose(
        jax.jit(last.apply)(params, rows[0]), jax.jit(first.apply)(params, rows[1]), rtol=1e-5
    )
    with pytest.raises(UserError, match="is no image"):
        Camera(shape=(4, 4, 3))


def test_an_image_alone_is_read_as_fractions_of_255_too():
    policy = Camera(shape=(8, 8, 3), width=4, widths=())
    params = policy.init(jax.random.key(0), features=192, outputs=2)
    image = np.random.default_rng(0).integers(0, 256, (3, 192), np.uint8)
    both = [jax.jit(policy.apply)(params, rows) for rows in (image, image.astype(np.float32) / 255)]
    np.testing.assert_allclose(*both, rtol=1e-5)


def test_a_linear_policy_on_features_has_the_numbers_beside_them():
    network = NatureCNN(size=36, stack=2, width=8, method="single")
    params = jax.tree.map(np.asarray, network.init(jax.random.key(0), features=2 * 36 * 36, outputs=2))
    whole = spaces.Dict(frames=spaces.Box(0, 255, (2, 36, 36), np.uint8), pose=spaces.Box(-1, 1, (3,)))
    seen = Encoded(Observations.of(whole), Encoder(network, params, "frozen"))
    whole.seed(0)
    one = whole.sample()
    alone = Encoded(Observations.of(whole["frames"]), Encoder(network, params, "frozen"))
    assert seen.width == 11 and seen.measured.all()
    np.testing.assert_array_equal(seen.row(one), [*alone.row(one["frames"]), *one["pose"]])
    touch = {"frames": one["frames"], "touch": np.array([0, 51], np.uint8)}
    whole = spaces.Dict(frames=whole["frames"], touch=spaces.Box(0, 255, (2,), np.uint8))
    beside = Encoded(Observations.of(whole), Encoder(network, params, "frozen"))
    np.testing.assert_allclose(beside.row(touch)[8:], [0.0, 0.2])  # a byte is a fraction here too


def test_bytes_in_a_dict_stay_bytes():
    seen = Observations.of(spaces.Dict(frames=spaces.Box(0, 255, (2, 2, 1), np.uint8)))
    one = {"frames": np.array([[[0], [1]], [[128], [255]]], np.uint8)}
    assert seen.dtype == np.uint8 and seen.row(one).tolist() == [0, 1, 128, 255]
    assert seen.rows({"frames": one["frames"][None]}).tolist() == [[0, 1, 128, 255]]


@pytest.mark.parametrize(("kernel", "stride"), [(4, 2), (3, 1)])
def test_products_are_xlas_own_convolution_where_images_are_not_square(kernel, stride):
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, 9, 12, 3)), rng.normal(size=(kernel, kernel, 3, 4))
    form, steps = ("NHWC", "HWIO", "NHWC"), (stride, stride)
    with jax.enable_x64(True):
        theirs = jax.lax.conv_general_dilated(x, weight, steps, "VALID", dimension_numbers=form)
        ours = by_matmul(jax.numpy.asarray(x), jax.numpy.asarray(weight), stride)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
