"""Python functions as experts: single and batched, actions and distributions, by object and by name."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from understudy import experts
from understudy.errors import UserError

BOX, TWO = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)


def test_a_function_of_one_observation_is_called_once_for_each():
    seen = []

    def act(observation):
        seen.append(observation.shape)
        return observation.sum(keepdims=True)

    expert = experts.from_callable(act)
    np.testing.assert_allclose(expert.label(np.ones((4, 3))), np.full((4, 1), 3.0))
    assert seen == [(3,)] * 4
    assert expert.name.endswith("act")


def test_an_expert_may_write_to_what_it_is_given():
    def act(observation, **options):
        observation -= 1.0
        return observation[:1]

    def many(observations):
        observations -= 1.0
        return observations[:, :1]

    fails = [True]

    def far(observation):
        act(observation)
        if fails.pop() if fails else False:
            raise OSError("line cut")
        return observation[:1]

    class Model:
        def predict(self, observations, deterministic):
            return many(observations), None

    makers = (experts.from_callable, experts.from_callable, experts.from_predictor, experts.from_remote)
    for make, given in zip(makers, (act, experts.batched(many), Model(), far), strict=True):
        seen = np.ones((4, 3), np.float32)
        options = {"backoff": 0.0} if make is experts.from_remote else {}
        assert (make(given, **options).label(seen) == 0).all() and (seen == 1).all()


@pytest.mark.parametrize("how", ["argument", "mark"])
def test_a_batched_function_is_called_once(how):
    seen = []

    def act(observations):
        seen.append(observations.shape)
        return observations[:, :1]

    expert = (
        experts.from_callable(act, batched=True)
        if how == "argument"
        else experts.from_callable(experts.batched(act))
    )
    assert expert.label(np.ones((4, 3))).shape == (4, 1)
    assert seen == [(4, 3)]


def test_the_argument_wins_over_the_mark():
    act = experts.batched(lambda observation: observation[:1])
    assert experts.from_callable(act, batched=False).label(np.ones((4, 3))).shape == (4, 1)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda o: 1, "action"),
        (lambda o: np.int64(1), "action"),
        (lambda o: [0.25, 0.75], "distribution"),
        (lambda o: np.array([1, 0]), "action"),  # whole numbers are no probabilities; the check will say so
    ],
)
def test_the_kind_is_found_by_asking_once(function, kind):
    assert experts.from_callable(function, observation_space=BOX, action_space=TWO).kind == kind


def test_nobody_is_asked_who_need_not_be():
    def never(observation):
        raise AssertionError("asked")

    experts.from_callable(never, observation_space=BOX, action_space=TWO, kind="action")
    experts.from_callable(never, observation_space=BOX, action_space=spaces.Box(-1, 1, (1,)))
    experts.from_callable(never, action_space=TWO)
    never.kind = "distribution"
    assert experts.from_callable(never, observation_space=BOX, action_space=TWO).kind == "distribution"


def test_asking_leaves_the_space_where_it_was():
    space = spaces.Box(-1, 1, (3,), seed=5)
    experts.from_callable(lambda o: 0, observation_space=space, action_space=TWO)
    np.testing.assert_array_equal(space.sample(), spaces.Box(-1, 1, (3,), seed=5).sample())


def test_dict_observations_arrive_as_dicts():
    expert = experts.from_callable(lambda o: o["a"] + o["b"][0])
    answers = expert.label({"a": np.array([1.0, 2.0]), "b": np.array([[10.0], [20.0]])})
    np.testing.assert_array_equal(answers, [11.0, 22.0])


def test_infos_are_given_to_those_who_take_them():
    single = experts.from_callable(lambda o, info: info["best"])
    infos = [{"best": 3}, {"best": 4}]
    assert single.needs_infos
    np.testing.assert_array_equal(single.label(np.zeros((2, 1)), infos), [3, 4])
    vector = {"best": np.array([3, 4]), "_best": np.array([True, True])}
    np.testing.assert_array_equal(single.label(np.zeros((2, 1)), vector), [3, 4])
    many = experts.from_callable(lambda o, infos: [i["best"] for i in infos], batched=True)
    np.testing.assert_array_equal(many.label(np.zeros((2, 1)), infos), [3, 4])
    with pytest.raises(UserError, match="takes the environment's info"):
        single.label(np.zeros((2, 1)))


def test_a_function_that_fails_is_told_as_the_experts_fault():
    expert = experts.from_callable(lambda o: 1 / 0, name="broken")
    with pytest.raises(UserError, match=r"expert 'broken': failed .* \(3,\) \(ZeroDivisionError: ") as caught:
        expert.label(np.zeros((2, 3)))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(UserError, match=r"observations {'0': \(3,\), '1.a': \(\)} \(ZeroDivisionError: "):
        expert.label((np.zeros((2, 3)), {"a": np.zeros(2)}))
    uneven = experts.from_callable(lambda o: np.zeros(int(o[0])))
    with pytest.raises(UserError, match="same shape"):
        uneven.label(np.array([[1.0], [2.0]]))


class Model:
    """Something with SB3's predict."""

    observation_space, action_space = BOX, TWO

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        return (observation[:, 0] > 0).astype(int), state


def test_an_object_with_predict_is_asked_in_batches():
    expert = experts.resolve(Model(), observation_space=BOX, action_space=TWO)
    np.testing.assert_array_equal(expert.label(np.array([[1.0, 0, 0], [-1.0, 0, 0]])), [1, 0])
    assert expert.name == "Model"
    with pytest.raises(UserError, match="made for actions"):
        experts.resolve(Model(), action_space=spaces.Discrete(3))
    wrong = experts.from_predictor(type("Wrong", (), {"predict": lambda self, o, deterministic: o})())
    with pytest.raises(UserError, match="not a pair"):
        wrong.label(np.zeros((1, 3)))


@pytest.mark.parametrize("space", [TWO, None])
def test_an_object_whose_predict_takes_one_observation_is_asked_one_at_a_time(space):
    calls = []

    def predict(observation, deterministic):
        calls.append(observation.shape)
        return int(observation[1] + observation[2] > 0), None

    expert = experts.from_predictor(
        SimpleNamespace(predict=predict), observation_space=BOX, action_space=space
    )
    seen = np.array([[9.0, 1.0, 0.0], [9.0, -1.0, 0.0], [-9.0, 0.0, 1.0]])
    for some in (seen[:1], seen):
        np.testing.assert_array_equal(expert.label(some), [1, 0, 1][: len(some)])
    assert calls == [(1, 3), (3,), (3,), (3,), (3,)]  # tried once with a batch

    def fails(observation, deterministic):
        raise ZeroDivisionError(len(observation))

    broken = experts.from_predictor(SimpleNamespace(predict=fails))
    with pytest.raises(UserError, match=r"failed on observations \(2, 3\) \(ZeroDivisionError: 2,"):
        broken.label(seen[:2])


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the current directory."""
    (tmp_path / "my_expert.py").write_text(
        "def act(observation):\n    return observation[:1]\n"
        "class Nested:\n    @staticmethod\n    def act(observation):\n        return observation[1:2]\n"
        "class Model:\n    def predict(self, o, deterministic=False):\n        return o[:, :1], None\n"
        "model = Model()\nnumber = 3\n"
    )
    (tmp_path / "my_broken.py").write_text("raise RuntimeError('at home')\n")
    (tmp_path / "my_needy.py").write_text("import a_module_nobody_has\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    yield tmp_path
    for name in ("my_expert", "my_broken", "my_needy"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [("my_expert:act", 1.0), ("my_expert:Nested.act", 2.0), ("my_expert:model", 1.0)],
)
def test_a_reference_is_imported_from_the_current_directory(module, reference, expected):
    expert = experts.resolve(reference, action_space=spaces.Box(-9, 9, (1,)))
    np.testing.assert_array_equal(expert.label(np.array([[1.0, 2.0]])), [[expected]])
    assert expert.name == (reference if "model" not in reference else "Model")


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("my_exprt:act", "no module 'my_exprt' is installed or in"),
        ("my_expert:atc", "no such attribute: unknown value 'atc', did you mean 'act'"),
        ("my_expert:Nested.cat", "unknown value 'cat', did you mean 'act'"),
        ("my_broken:act", r"fails on import \(RuntimeError: at home, at my_broken.py:1 in <module>\)"),
        ("my_needy:act", "needs 'a_module_nobody_has', which is not installed"),
        ("my_expert:", "not of the form module:function"),
        ("my_expert:number", "int is not accepted"),
        ("my_expert:Model", "Model is a class"),
    ],
)
def test_a_wrong_reference_is_one_sentence(module, reference, sentence):
    with pytest.raises(UserError, match=sentence):
        experts.resolve(reference)


async def later(observation):
    return int(observation[0] > 0)


def test_a_coroutine_function_is_told_what_awaits_it():
    with pytest.raises(UserError, match=r"expert 'later': is a coroutine function.*from_remote\(later\)"):
        experts.resolve(later, observation_space=BOX, action_space=TWO)


class Direct:
    """As many write it: the action, and nothing else."""

    def predict(self, observation):
        return int(observation[0] > 0)


class Alone(Direct):
    def predict(self, observation, **options):
        return observation[..., 0] > 0


def test_a_predict_that_gives_the_action_alone_is_told_how_it_is_an_expert():
    made = {"observation_space": BOX, "action_space": TWO}
    with pytest.raises(UserError, match=r"'Direct': its predict takes no deterministic.*module:model"):
        experts.resolve(Direct(), **made)
    with pytest.raises(UserError, match=r"'Alone': its predict gave ndarray, not a pair.*module:model"):
        experts.resolve(Alone(), **made).label(np.ones((1, 3)))
    assert experts.resolve(Direct().predict, **made).label(np.ones((2, 3))).tolist() == [1, 1]


class Recurrent(Model):
    """A model that gives a state, as sb3-contrib's RecurrentPPO does."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        seen = observation[:, 0] if state is None else observation[:, 0] + state[0]
        return (seen > 0).astype(int), (seen,)


def test_a_model_that_gives_a_state_is_refused_and_not_asked_as_if_every_episode_began():
    expert = experts.resolve(Recurrent(), observation_space=BOX, action_space=TWO)
    with pytest.raises(UserError, match=r"expert 'Recurrent': its predict gave a state.*on_reset"):
        expert.label(np.ones((1, 3)))
