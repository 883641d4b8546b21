"""Modules of torch and estimators of scikit-learn as students: in an environment of their own."""

from __future__ import annotations

import filecmp

import numpy as np
import pytest

import understudy
from understudy import UserError
from understudy.students import sklearn as of_sklearn
from understudy.students import torch as of_torch

torch = pytest.importorskip("torch")
tree = pytest.importorskip("sklearn.tree")
ensemble = pytest.importorskip("sklearn.ensemble")
neighbors = pytest.importorskip("sklearn.neighbors")
multioutput = pytest.importorskip("sklearn.multioutput")
pytestmark = pytest.mark.students
nn = torch.nn
torch.set_num_threads(1)

SIZE = {"rounds": 4, "steps_per_round": 40, "episodes": 1, "expert_episodes": 0, "comparator": "none"}
SHORT = SIZE | {"max_iterations": 60}


def net(features=4, outputs=2):
    """With parts that draw numbers and parts that keep buffers."""
    body = nn.Linear(features, 16), nn.Tanh(), nn.Dropout(0.1), nn.BatchNorm1d(16), nn.Linear(16, outputs)
    return nn.Sequential(*body)


def swing():
    return net(3, 1)


def same(folder):
    names = ["ledger.csv", "policy.safetensors", "policy.json"]
    return filecmp.cmpfiles(folder / "whole", folder / "half", names, shallow=False)[0] == names


def resumed(folder, env, make, **settings):
    """Whether a run that was left after two rounds and resumed has the bytes of one that was not."""
    understudy.imitate(env, policy=make(), out=folder / "whole", **settings)
    with understudy.Run(env, policy=make(), out=folder / "half", **settings) as run:
        run.step(), run.step()
    understudy.imitate(out=folder / "half", resume=True, policy=make())
    return same(folder)


@pytest.mark.parametrize(
    "settings",
    [
        {"learner": "ftl", "ensemble": 2},
        {"learner": "adaftrl", "ask": "distance:10"},
        {"learner": "ftrl", "keep_best": True, "episodes": 2},
        {"memory": "window:2"},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_a_module_is_resumed_to_the_byte(tmp_path, settings):
    assert resumed(tmp_path, "CartPole-v1", lambda: of_torch(net), **SHORT | settings)


def test_with_an_optimiser_of_its_own_it_is_resumed_to_the_byte(tmp_path):
    def make():
        return of_torch(swing, optimiser=lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9))

    assert resumed(tmp_path, "Pendulum-v1", make, learner="adaftrl", **SHORT)
    with pytest.raises(UserError, match="learning_rate: the student 'swing' learns by its own fit; it takes"):
        understudy.imitate("Pendulum-v1", policy=make(), learning_rate=1e-3, **SHORT)


@pytest.mark.parametrize(
    "env, make",
    [
        ("CartPole-v1", lambda: tree.DecisionTreeClassifier(max_features=2, max_leaf_nodes=20)),
        ("CartPole-v1", lambda: ensemble.RandomForestClassifier(5)),
        ("Pendulum-v1", lambda: ensemble.GradientBoostingRegressor(n_estimators=5, subsample=0.5)),
        (
            "Pendulum-v1",
            lambda: multioutput.MultiOutputRegressor(ensemble.ExtraTreesRegressor(3, max_features=1)),
        ),
        ("Pendulum-v1", lambda: neighbors.KNeighborsRegressor(2)),
    ],
    ids=["tree", "forest", "boosting", "multioutput", "neighbours"],
)
def test_an_estimator_is_fitted_again_to_the_byte(tmp_path, env, make):
    assert resumed(tmp_path, env, lambda: of_sklearn(make()), keep_best=True, **SIZE)
    kept = understudy.load(tmp_path / "half", policy=of_sklearn(make())).policy
    seen = kept.observations.space().sample()
    first = understudy.load(tmp_path / "whole", policy=of_sklearn(make())).policy
    assert np.array_equal(
        kept.outputs(kept.observations.row(seen)), first.outputs(first.observations.row(seen))
    )


def test_the_seed_decides_the_first_weights_and_all_that_is_drawn():
    runs = [understudy.imitate("CartPole-v1", policy=of_torch(net), seed=s, **SHORT) for s in (0, 0, 1)]
    losses = [run.ledger["loss"].tolist() for run in runs]
    assert losses[0] == losses[1] != losses[2]
    state = torch.get_rng_state()
    understudy.imitate("CartPole-v1", policy=of_torch(net), **SHORT)
    assert torch.equal(state, torch.get_rng_state())  # torch's own is left as it was


def test_a_module_that_is_given_keeps_its_weights_and_is_not_touched():
    module = nn.Linear(4, 2)
    before = module.weight.detach().clone()
    understudy.imitate("CartPole-v1", policy=of_torch(module), ensemble=2, **SHORT)
    assert torch.equal(before, module.weight)
    student = understudy.Understudy(
        *spaces("CartPole-v1"), policy=of_torch(module), rounds=1, steps_per_round=9
    )
    assert np.array_equal(student.params["module.weight"], before.numpy())


def spaces(env):
    import gymnasium

    with gymnasium.make(env) as made:
        return made.observation_space, made.action_space


LOSSES = {
    "squared": understudy.losses.Squared(half=True),
    "absolute": understudy.losses.Absolute(),
    "huber": understudy.losses.Huber(delta=0.3),
    "cross-entropy": understudy.losses.CrossEntropy(),
    "groups": understudy.losses.CrossEntropy(groups=(2, 3)),
    "binary": understudy.losses.BinaryCrossEntropy(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients_are_those_of_the_package(name):
    import jax

    from understudy.policies import Job
    from understudy.solvers import adam

    loss, rng = LOSSES[name], np.random.default_rng(0)
    rows, weights = rng.normal(size=(7, 4)).astype(np.float32), rng.uniform(size=7).astype(np.float32)
    labels = rng.dirichlet(np.ones(5), 7).astype(np.float32)
    if name == "groups":
        labels = np.concatenate([rng.dirichlet(np.ones(k), 7) for k in (2, 3)], axis=1).astype(np.float32)
    student = of_torch(nn.Linear(4, 5, bias=False))
    student.begin(Job(features=4, outputs=5, loss=loss, solver=adam(), seed=0))
    matrix = student.state()["module.weight"].T

    def total(matrix):
        return (weights * jax.vmap(loss)(rows @ matrix, labels)).sum()

    value, gradient = jax.value_and_grad(total)(matrix)
    ours = student.gradient(rows, labels, weights)["module.weight"].T
    np.testing.assert_allclose(ours, gradient, rtol=2e-4, atol=1e-5)
    each = student._each(torch.as_tensor(rows @ matrix), torch.as_tensor(labels)).numpy()
    assert float((weights * each).sum()) == pytest.approx(float(value), rel=1e-5)


@pytest.mark.parametrize("own", [False, True], ids=["proximal steps", "a term"])
def test_a_penalty_holds_the_parameters_at_its_minimiser(own):
    """Full batches on a linear module, whose minimiser with the penalty is known in closed form."""
    from understudy.policies import Job
    from understudy.solvers import adam

    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=(50, 2)).astype(np.float32)
    weights, centre, strength = np.full(50, 3 / 50, np.float32), np.ones((2, 3), np.float32), 4.0
    optimiser = (lambda parameters: torch.optim.SGD(parameters, 0.05)) if own else None
    student = of_torch(nn.Linear(3, 2, bias=False), optimiser=optimiser)
    solver = adam(proximal=True, decay="cosine", max_iterations=3000, learning_rate=1e-2)
    student.begin(Job(features=3, outputs=2, loss=understudy.losses.Squared(), solver=solver, seed=0))
    student.fit(rows, labels, weights, proximal=({"module.weight": centre}, strength))
    matrix = 2 * (rows * weights[:, None]).T @ rows + strength * np.eye(3)
    right = 2 * (rows * weights[:, None]).T @ labels + strength * centre.T
    np.testing.assert_allclose(student.state()["module.weight"].T, np.linalg.solve(matrix, right), atol=2e-3)


def test_arrays_that_are_on_a_device_come_by_dlpack():
    import jax.numpy as jnp

    from understudy.policies import Job
    from understudy.solvers import adam

    students = [of_torch(lambda: nn.Linear(3, 2)) for _ in range(2)]
    rows, labels, weights = np.ones((5, 3), np.float32), np.ones((5, 2), np.float32), np.full(5, 0.2, "f4")
    for student, given in zip(students, (np.asarray, jnp.asarray), strict=True):
        solver = adam(max_iterations=10, batch_size=4)
        student.begin(Job(features=3, outputs=2, loss=understudy.losses.Squared(), solver=solver, seed=0))
        student.fit(given(rows), given(labels), given(weights))
    one, other = (student.state() for student in students)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_module_is_written_as_onnx_with_what_it_sees_and_plays(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    run = understudy.imitate("CartPole-v1", policy=of_torch(net), out=tmp_path / "run", ensemble=2, **SHORT)
    found = understudy.export(tmp_path / "run", "onnx", tmp_path / "net.onnx", policy=of_torch(net))
    assert found.difference < 1e-5
    session = runtime.InferenceSession((tmp_path / "net.onnx").read_bytes())
    seen = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    actions = session.run(["action"], {"observation": seen})[0]
    assert actions.tolist() == [int(run.policy(row)) for row in seen]
    trees = of_sklearn(tree.DecisionTreeClassifier())
    with pytest.raises(UserError, match=r"'DecisionTreeClassifier' has no onnx\(features\)"):
        understudy.export(
            understudy.imitate("CartPole-v1", policy=trees, **SIZE), "onnx", tmp_path / "no.onnx"
        )


def test_images_reach_a_module_as_fractions():
    seen = of_torch(nn.Sequential(nn.Linear(4, 1)))
    from understudy.policies import Job

    seen.begin(Job(features=4, outputs=1, loss=None, solver=None, seed=0))
    rows = np.array([[0, 51, 102, 255]], np.uint8)
    assert np.allclose(seen.act(rows), seen.act((rows / 255).astype(np.float32)))


WRONG = {
    "a bare module": (nn.Linear(4, 2), {}, "Linear is no student yet; understudy.students.torch"),
    "a bare tree": (tree.DecisionTreeClassifier(), {}, "no student yet; understudy.students.sklearn"),
    "three outputs": (of_torch(lambda: nn.Linear(4, 3)), {}, r"act returned \(2, 3\) for rows of shape"),
    "other inputs": (of_torch(nn.Linear(5, 2)), {}, "student 'Linear': its act failed .*shapes"),
    "no module": (of_torch(lambda: 3), {}, "the function given to students.torch made int"),
    "ogd": (of_torch(net), {"learner": "ogd", "eta": 0.1}, "'ogd' steps or solves by itself"),
    "lasso": (of_torch(net), {"solver_options": {"lasso": 0.1}}, "lasso: the student 'net' learns by"),
    "a loss of JAX": (
        of_torch(net),
        {"loss": type("Mine", (understudy.losses.Squared,), {})()},
        "Mine is not written in torch; give students.torch a loss of its own",
    ),
    "a regressor": (
        of_sklearn(tree.DecisionTreeRegressor()),
        {},
        "is a regressor and the actions are choices",
    ),
    "a penalty": (
        of_sklearn(tree.DecisionTreeClassifier()),
        {"learner": "adaftrl"},
        "'adaftrl' penalises parameters, and the student 'DecisionTreeClassifier' has none; ftl and bc",
    ),
    "steps": (
        of_sklearn(tree.DecisionTreeClassifier()),
        {"max_iterations": 9},
        "max_iterations: the student",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_refused_in_one_sentence(case):
    student, settings, sentence = WRONG[case]
    with pytest.raises(UserError, match=sentence) as refused:
        understudy.imitate("CartPole-v1", policy=student, **SIZE | settings)
    assert "\n" not in str(refused.value)


def test_what_is_neither_is_refused_at_once():
    with pytest.raises(UserError, match=r"takes an nn\.Module or a function that makes one, got int"):
        of_torch(3)
    with pytest.raises(UserError, match="takes an estimator of scikit-learn, got int"):
        of_sklearn(3)
    with pytest.raises(UserError, match="neither a classifier nor a regressor"):
        from sklearn.preprocessing import StandardScaler

        of_sklearn(StandardScaler())


def test_a_folder_of_another_module_is_refused(tmp_path):
    understudy.imitate("CartPole-v1", policy=of_torch(net), out=tmp_path / "run", **SHORT)
    with pytest.raises(UserError, match=r"student '<lambda>'|'module': its load failed .*Missing key"):
        understudy.load(tmp_path / "run", policy=of_torch(lambda: nn.Linear(4, 2)))


def test_a_distribution_teaches_a_tree_every_choice_with_its_share():
    student = of_sklearn(tree.DecisionTreeClassifier())
    from understudy.policies import Job

    student.begin(Job(features=1, outputs=3, loss=understudy.losses.CrossEntropy(), solver=None, seed=0))
    rows, labels = np.array([[0.0], [1.0]], "f4"), np.array([[0.2, 0.0, 0.8], [0.0, 0.5, 0.5]], "f4")
    student.fit(rows, labels, np.ones(2, "f4"))
    found = np.exp(student.act(rows))
    np.testing.assert_allclose(found, labels, atol=1e-6)
