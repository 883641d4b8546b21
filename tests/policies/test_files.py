"""A policy on disk comes back bit for bit, or is refused."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from gymnasium import spaces

from understudy import TrainedPolicy, UserError, disk
from understudy.policies import MLP, Actions, Linear, Normaliser, Observations, Tabular

POLICIES = {
    "linear": Linear(),
    "bias": Linear(bias=True),
    "tabular": Tabular(states=5),
    "mlp": MLP(widths=(7, 4), activation="tanh", head="tanh"),
}


def made(policy, params) -> TrainedPolicy:
    tabular = isinstance(policy, Tabular)
    space = spaces.Discrete(5) if tabular else spaces.Box(-1, 1, (3,))
    seen = Observations.of(space, tabular=tabular)
    acts = Actions.of(spaces.Box(np.array([-np.inf, -2], np.float32), np.array([1, np.inf], np.float32)))
    return TrainedPolicy(policy, params, seen, acts, Normaliser.identity(seen.width))


def load(path):
    return TrainedPolicy.read(path)


@pytest.mark.parametrize("name", POLICIES)
def test_round_trip(tmp_path, name):
    policy = POLICIES[name]
    params = policy.init(jax.random.key(3), 3, 2)
    params = jax.tree.map(lambda leaf: np.asarray(leaf) + np.float32(1 / 3), params)
    made(policy, params).save(tmp_path / "deep" / "one", env="Toy-v0", score=12.5)
    back, card = load(tmp_path / "deep" / "one")
    assert back.policy == policy and card["env"] == "Toy-v0" and card["score"] == 12.5
    assert jax.tree.structure(back.params) == jax.tree.structure(params)
    for a, b in zip(jax.tree.leaves(back.params), jax.tree.leaves(params), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    outputs = np.array([-7.0, 7.0], np.float32)
    assert back.actions.play(outputs).tolist() == [-7.0, 7.0], "these sides have no bound"
    assert back.actions.play(-outputs).tolist() == [1.0, -2.0]
    # Saved again, the files are the same bytes; nothing temporary is left.
    back.save(tmp_path / "two", env="Toy-v0", score=12.5)
    for suffix in (".json", ".safetensors"):
        one, two = (tmp_path / "deep" / "one").with_suffix(suffix), (tmp_path / "two").with_suffix(suffix)
        assert one.read_bytes() == two.read_bytes()
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["one.json", "one.safetensors"]


@pytest.fixture
def saved(tmp_path):
    policy = MLP(widths=(4,))
    made(policy, policy.init(jax.random.key(0), 3, 2)).save(tmp_path / "p")
    return tmp_path / "p"


def test_a_name_with_a_dot_is_kept_whole(tmp_path):
    import understudy

    for rate in (0.25, 0.5):
        made(Linear(), np.full((3, 2), rate)).save(tmp_path / f"rate-{rate}")
    assert len(list(tmp_path.iterdir())) == 4
    for read in (TrainedPolicy.load, understudy.load):
        assert read(tmp_path / "rate-0.25").params[0, 0] == 0.25
        assert read(tmp_path / "rate-0.5.safetensors").params[0, 0] == 0.5


def test_a_newer_format_is_refused(saved):
    card = json.loads(saved.with_suffix(".json").read_text())
    saved.with_suffix(".json").write_text(json.dumps(card | {"format": 99}))
    with pytest.raises(UserError, match="format 99, newer"):
        load(saved)


def test_the_header_will_do_where_there_is_no_card(saved, tmp_path):
    kept, card = load(saved)
    saved.with_suffix(".json").unlink()
    again, header = load(saved)
    assert again.policy == kept.policy and header == card
    pairs = zip(jax.tree.leaves(again.params), jax.tree.leaves(kept.params), strict=True)
    assert all((a == b).all() for a, b in pairs)
    bare = tmp_path / "bare.safetensors"
    disk.write_tensors(bare, disk.read_tensors(saved.with_suffix(".safetensors"), "policy")[0])
    with pytest.raises(UserError, match=r"no card bare.json beside it and no 'card' in its header"):
        load(bare)


@pytest.mark.parametrize(
    ("suffix", "how"),
    [(".json", "cut"), (".json", "garbage"), *((".safetensors", how) for how in ("cut", "garbage", "gone"))],
)
def test_a_damaged_file_is_refused(saved, suffix, how):
    file = saved.with_suffix(suffix)
    if how == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    elif how == "garbage":
        file.write_bytes(b"\x80\x04garbage")
    else:
        file.unlink()
    with pytest.raises(UserError, match=r"^policy: "):
        load(saved)


@pytest.mark.parametrize(
    "change",
    [
        {"params": "params['other']"},
        {"format": "one"},
        {"policy": "lniear"},
        {"widths": [0]},
        {"policy": None},
        {"observations": None},
        {"actions": {}},
    ],
)
def test_a_card_that_does_not_fit_is_refused(saved, change):
    card = json.loads(saved.with_suffix(".json").read_text())
    saved.with_suffix(".json").write_text(json.dumps(card | change))
    with pytest.raises(UserError):
        load(saved)


@pytest.mark.parametrize("unsaid", ["observations", "actions"])
def test_a_card_that_says_too_little_is_not_called_damaged(saved, unsaid):
    card = json.loads(saved.with_suffix(".json").read_text())
    del card[unsaid]
    saved.with_suffix(".json").write_text(json.dumps(card))
    with pytest.raises(
        UserError, match=f"does not say what the policy sees and does \\('{unsaid}' is missing"
    ):
        load(saved)
