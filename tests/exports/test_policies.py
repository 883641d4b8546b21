"""Exported policies: ONNX and plain arrays give the outputs and the actions of the policy itself."""

from __future__ import annotations

import ast
import importlib.util
import sys

import jax
import numpy as np
import pytest
from gymnasium import spaces

import understudy
from understudy import TrainedPolicy, UserError
from understudy.exports import arrays, graph, to_onnx
from understudy.nested import part_at, stack
from understudy.policies import (
    MLP,
    Actions,
    Camera,
    Committee,
    Encoded,
    Encoder,
    Linear,
    NatureCNN,
    Normaliser,
    Observations,
    Policy,
    Tabular,
)
from understudy.policies.codecs import Recalled
from understudy.policies.mlp import ACTIVATIONS

VECTOR = spaces.Box(-np.inf, np.inf, (5,))
BOX = spaces.Box(np.array([-1, -3], np.float32), np.array([1, 5], np.float32))
BOUNDS = {"low": (-1.0, -3.0), "high": (1.0, 5.0)}
MIXED = spaces.Dict(
    joints=spaces.Box(-1, 1, (3, 2)),
    mode=spaces.Discrete(3, start=2),
    camera=spaces.Box(0, 255, (9, 8, 3), np.uint8),
    keys=spaces.Tuple([spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)]),
)
ROWS = Observations.of(MIXED).width
CASES = {
    "linear": (Linear(), VECTOR, BOX),
    "bias": (Linear(bias=True), VECTOR, spaces.Discrete(3, start=-1)),
    "tabular": (Tabular(states=6), spaces.Discrete(6, start=1), spaces.Discrete(2)),
    "head": (MLP(widths=(8,), head="tanh", **BOUNDS), VECTOR, BOX),
    "sb3-head": (MLP(widths=(8,), head="sb3-tanh", **BOUNDS), VECTOR, BOX),
    "multi": (MLP(widths=(8,)), MIXED, spaces.MultiDiscrete([2, 3])),
    "binary": (MLP(widths=(8,)), VECTOR, spaces.MultiBinary((2, 2))),
    "committee": (Committee(widths=(8, 4), members=3, head="tanh", **BOUNDS), VECTOR, BOX),
    "image": (MLP(widths=(4,)), spaces.Box(0, 255, (6, 6), np.uint8), spaces.Discrete(2)),
    "pixels": (NatureCNN(size=36, stack=2, width=16), spaces.Box(0, 255, (2, 36, 36), np.uint8), BOX),
    "camera": (Camera(shape=(9, 8, 3), width=8, widths=(4,)), MIXED, spaces.Discrete(4)),
    "camera-alone": (Camera(shape=(9, 8, 3), width=8, widths=(4,)), MIXED["camera"], spaces.Discrete(4)),
    **{name: (MLP(widths=(6, 4), activation=name), VECTOR, BOX) for name in ACTIVATIONS},
}


def made(policy: Policy, space: spaces.Space, action_space: spaces.Space, dtype=np.float32) -> TrainedPolicy:
    seen, acts = Observations.of(space, tabular=policy.name == "tabular"), Actions.of(action_space)
    if isinstance(policy, Camera) and seen.width > 216:
        place = sum(leaf.width for leaf in seen.leaves[: [leaf.kind for leaf in seen.leaves].index("byte")])
        policy = Camera(shape=policy.shape, place=place, width=policy.width, widths=policy.widths)
    shapes = jax.eval_shape(lambda: policy.init(jax.random.key(0), seen.width, acts.outputs))
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: (rng.standard_normal(leaf.shape) * np.prod(leaf.shape[:-1]) ** -0.5).astype(dtype),
        shapes,
    )
    shift = Normaliser.identity(seen.width)
    if seen.dtype == np.float32:
        shift = Normaliser(rng.standard_normal(seen.width), rng.uniform(0.5, 2, seen.width), limit=3.0)
    return TrainedPolicy(policy, params, seen, acts, shift)


def drawn(trained: TrainedPolicy, count: int = 9) -> list:
    space = trained.observations.space()
    space.seed(1)
    return [space.sample() for _ in range(count)]


def reader(folder):
    """The reader that lies beside an archive."""
    spec = importlib.util.spec_from_file_location("beside", folder / arrays.READER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_plain_arrays_give_the_policy_s_outputs_and_actions(tmp_path, name):
    trained = made(*CASES[name])
    found = understudy.export(trained, "numpy", tmp_path / "p.npz")
    act, seen = reader(tmp_path).load(found.out), drawn(trained)
    ours = np.stack([trained.outputs(trained.observations.row(one)) for one in seen])
    np.testing.assert_allclose(act(stack(seen), "outputs"), ours, rtol=1e-5, atol=1e-5)
    for one in seen[:3]:
        action = act(one)
        np.testing.assert_allclose(action, trained.act(one), rtol=1e-5, atol=1e-5)
        assert np.asarray(action).dtype == trained.actions.dtype
    again = understudy.load(found.out)
    assert again.predict(seen[0])[0].tobytes() == np.asarray(trained.act(seen[0])).tobytes()


@pytest.mark.parametrize("name", CASES)
def test_onnx_gives_the_policy_s_outputs_and_actions(tmp_path, name):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    trained = made(*CASES[name])
    found = understudy.export(trained, "onnx", tmp_path / "p.onnx")
    assert found.difference is not None and found.difference <= 1e-5
    session = runtime.InferenceSession(found.out, providers=["CPUExecutionProvider"])
    seen = drawn(trained)
    inputs = graph.graph(trained).inputs
    batch = {one.name: np.asarray(part_at(stack(seen), one.path), one.dtype) for one in inputs}
    outputs, actions = session.run(["outputs", "action"], batch)
    ours = np.stack([trained.outputs(trained.observations.row(one)) for one in seen])
    np.testing.assert_allclose(outputs, ours, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(actions, trained(stack(seen)), rtol=1e-5, atol=1e-5)
    assert actions.dtype == trained.actions.dtype and actions.shape[1:] == trained.actions.shape


def test_a_linear_policy_on_frozen_features(tmp_path):
    network = NatureCNN(stack=2, size=36, width=8, method="single")
    params = network.init(jax.random.key(0), 2 * 36 * 36, 3)
    encoder = Encoder(network, {name: params[name] for name in ("conv", "dense")}, "somebody")
    space = spaces.Dict(image=spaces.Box(0, 255, (2, 36, 36), np.uint8), speed=spaces.Box(-1, 1, (2,)))
    seen = Encoded(Observations.of(space), encoder)
    weights = np.random.default_rng(0).standard_normal((11, 3)).astype(np.float32)
    how = Actions.of(spaces.Discrete(3)), Normaliser.identity(10)
    trained = TrainedPolicy(Linear(bias=True), weights, seen, *how)
    understudy.export(trained, "numpy", tmp_path / "p.npz")
    act = reader(tmp_path).load(tmp_path / "p.npz")
    for one in drawn(trained, 3):
        np.testing.assert_allclose(act(one, "outputs"), trained.outputs(seen.row(one)), rtol=1e-4, atol=1e-5)
    # One that sees otherwise is not what it was made from, and not to be had from what that remembers.
    dark = Encoded(Observations.of(space), Encoder(Dark(2, 36, 8, "single"), encoder.params, "nobody"))
    assert not dark.row(one)[:8].any() and seen.row(one)[:8].any()
    with pytest.raises(UserError, match="policy: 'Dark' cannot be written as a graph"):
        understudy.export(TrainedPolicy(Linear(bias=True), weights, dark, *how), "numpy", tmp_path / "p.npz")


class Dark(NatureCNN):
    """Sees nothing."""

    def features(self, params, inputs):
        return 0 * super().features(params, inputs)


def test_double_precision_stays(tmp_path):
    trained = made(Linear(), VECTOR, spaces.Discrete(3), np.float64)
    understudy.export(trained, "numpy", tmp_path / "p.npz")
    assert reader(tmp_path).load(tmp_path / "p.npz")(np.ones(5), "outputs").dtype == np.float64


def test_the_same_policy_has_the_same_bytes_and_the_reader_needs_numpy_only(tmp_path):
    trained = made(*CASES["head"])
    files = [tmp_path / "a" / "p.npz", tmp_path / "b" / "p.npz"]
    for file in files:
        understudy.export(trained, "numpy", file)
    assert files[0].read_bytes() == files[1].read_bytes()
    tree = ast.parse(files[0].with_name(arrays.READER).read_text())
    used = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert used == {"json", "numpy"} and not [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]


def test_a_graph_that_errs_is_refused(tmp_path):
    """The negative control of the comparison in the command."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    trained = made(*CASES["linear"])
    to_onnx.write(trained, tmp_path / "p.onnx")
    wrong = TrainedPolicy(
        trained.policy, trained.params * 1.001, trained.observations, trained.actions, trained.normaliser
    )
    with pytest.raises(UserError, match="are not the policy's"):
        to_onnx.difference(wrong, tmp_path / "p.onnx")


class Own(Linear):
    """Somebody's own architecture, which nobody here knows."""

    name = "own"


def test_what_cannot_be_exported_is_refused(tmp_path, monkeypatch):
    trained = made(*CASES["linear"])
    own = TrainedPolicy(Own(), trained.params, trained.observations, trained.actions, trained.normaliser)
    recalled = Recalled(Observations.of(spaces.Box(-1, 1, (2,))), 2)
    weights = np.ones((4, 2), np.float32)
    recalls = TrainedPolicy(Linear(), weights, recalled, Actions.of(BOX), Normaliser.identity(4))
    for what, to, words in (
        (recalls, "numpy", "policy: one that remembers"),
        (own, "numpy", "policy: 'own' cannot be written as a graph"),
        (trained, "keras", "to: unknown value 'keras'"),
        (trained, "minari", "keeps episodes"),
        (tmp_path, "onnx", "is not the folder of a run"),
        (tmp_path / "no.safetensors", "onnx", "there is no file"),
    ):
        with pytest.raises(UserError, match=words):
            understudy.export(what, to, tmp_path / ("x.onnx" if to == "onnx" else "x.npz"))
    (tmp_path / "study.json").touch()
    with pytest.raises(UserError, match=r"study\.json"):
        understudy.export(tmp_path, "numpy", tmp_path / "x.npz")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="out: cannot write"):
        understudy.export(trained, "numpy", tmp_path / "file" / "x.npz")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match="needs the extra 'onnx'"):
        understudy.export(trained, "onnx", tmp_path / "x.onnx")
    assert not (tmp_path / "x").exists()
