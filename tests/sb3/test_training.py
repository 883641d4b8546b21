"""Training with the real SBX, a few hundred steps at a time."""

from __future__ import annotations

import json
import signal

import gymnasium
import jax
import numpy as np
import pytest

from understudy import cli, experts
from understudy.envs.gymnasium import maker
from understudy.errors import UserError
from understudy.experts import networks, training
from understudy.experts.training import recipe

QUICK = {
    "learning_starts": 64,
    "update_every": 16,
    "updates_per_step": 0.5,
    "batch_size": 16,
    "widths": [8, 8],
}
CASES = [
    ("sac", "Pendulum-v1", QUICK),
    ("td3", "Pendulum-v1", QUICK),
    ("ppo", "Pendulum-v1", {"rollout": 32, "envs": 2, "widths": [8]}),
    ("ppo", "CartPole-v1", {"rollout": 32, "envs": 2, "standardise": False}),
    ("dqn", "CartPole-v1", {"learning_starts": 64, "update_every": 32}),
]


def observations(env_id, count=32):
    env = gymnasium.make(env_id)
    env.action_space.seed(0)
    rows = [env.reset(seed=0)[0]]
    while len(rows) < count:
        row, _, terminated, truncated, _ = env.step(env.action_space.sample())
        rows.append(env.reset()[0] if terminated or truncated else row)
    return np.stack(rows)


@pytest.mark.parametrize(("algo", "env_id", "changes"), CASES)
def test_what_is_written_answers_as_sbx_does(tmp_path, algo, env_id, changes):
    make = maker(env_id)
    model = training.build(algo, recipe(algo, env_id, changes), make, seed=0)
    model.learn(256)
    policy, card = training.extract(model, algo, make)
    expert = networks.load(networks.save(tmp_path / "a", policy, card))
    seen = observations(env_id)
    statistics = model.get_vec_normalize_env()
    assert (statistics is not None) == bool(changes.get("standardise", algo == "ppo"))
    theirs = model.predict(statistics.normalize_obs(seen) if statistics else seen, deterministic=True)[0]
    np.testing.assert_allclose(expert.act(seen), theirs, rtol=0, atol=1e-5)
    if algo == "ppo" and env_id == "CartPole-v1":
        rows = model.policy.actor.apply(model.policy.actor_state.params, seen).probs_parameter()
        np.testing.assert_allclose(expert.label(seen), rows, rtol=0, atol=1e-5)


def quick(path, **options):
    options = {"steps": 300, "episodes": 2, "evaluate_every": 100, "settings": QUICK, **options}
    return experts.train("Pendulum-v1", out=path, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One finished run with seed 0, shared by what reads it."""
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    finished = quick(tmp_path_factory.mktemp("run") / "mine")
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    return finished


def test_a_run_leaves_an_expert_its_card_and_nothing_else(done):
    assert {file.name for file in done.path.parent.iterdir()} == {"mine.safetensors", "mine.json"}
    assert done.ended == "steps"
    assert [one.steps for one in done.curve] == [100, 200, 300]
    expert = experts.resolve(str(done.path), env_id="Pendulum-v1")
    returns = training.play_episodes(expert, maker("Pendulum-v1"), episodes=20, seed=0, number=1_000_000)
    measured = expert.card["returns"]["Pendulum-v1"]
    assert measured["mean"] == round(float(returns.mean()), 1)
    assert measured["episodes"] == 20
    assert len(expert.card["training"]["curve"]) == 3
    with pytest.raises(UserError, match=r"mine\.safetensors or its checkpoint exists"):
        quick(done.path)


def test_the_seed_decides(done, tmp_path):
    again, other = (quick(tmp_path / str(seed), seed=seed).path for seed in (0, 1))
    assert done.path.read_bytes() == again.read_bytes() != other.read_bytes()


def test_it_learns_and_stops_at_the_target(tmp_path):
    """Random actions are worth about −1,200 here; untrained networks rarely more than −900."""
    done = experts.train("Pendulum-v1", steps=8000, evaluate_every=1000, target=-400.0, out=tmp_path / "a")
    assert done.ended == "target"
    assert done.curve[0].mean < -600 < -400 <= done.curve[-1].mean
    assert done.curve[-1].steps < 8000


def interrupted_at(step):
    return lambda done, total, curve: signal.raise_signal(signal.SIGINT) if done == step else None


def test_interrupted_it_keeps_the_best_and_goes_on_later(tmp_path):
    usual = signal.getsignal(signal.SIGINT)
    first = quick(tmp_path / "a", progress=interrupted_at(230))
    assert first.ended == "stopped"
    assert signal.getsignal(signal.SIGINT) is usual
    assert [one.steps for one in first.curve] == [100, 200]
    assert experts.resolve(str(first.path)).name == "sac-Pendulum-v1"
    with pytest.raises(UserError, match="made with seed 0, not 1"):
        quick(tmp_path / "a", resume=True, seed=1)
    with pytest.raises(UserError, match="made with recipe"):
        quick(tmp_path / "a", resume=True, settings={**QUICK, "gamma": 0.9})
    seen = []
    done = quick(tmp_path / "a", resume=True, progress=lambda done, total, curve: seen.append(done))
    assert seen[0] == 231
    assert [one.steps for one in done.curve] == [100, 200, 300]
    assert done.curve[:2] == first.curve
    assert not training.checkpoint_of(done.path).exists()
    with pytest.raises(UserError, match="there is no checkpoint"):
        quick(tmp_path / "a", resume=True)


def test_interrupted_before_any_look_there_is_still_an_expert(tmp_path):
    assert quick(tmp_path / "a", progress=interrupted_at(20)).path.is_file()


@pytest.fixture
def listening():
    """Whoever runs the tests in the background hands down an interrupt that is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_interrupts(tmp_path, listening):
    def twice(done, total, curve):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path / "a", progress=twice)


@pytest.mark.parametrize(("algo", "env_id", "changes"), [CASES[0], CASES[2], CASES[4]])
def test_a_checkpoint_holds_the_whole_model(tmp_path, algo, env_id, changes):
    make, chosen = maker(env_id), recipe(algo, env_id, {**changes, "steps": 1000})
    old, new = (training.build(algo, chosen, make, seed=seed) for seed in (0, 5))
    old.learn(256)
    record = {name: name for name in ("algo", "env", "env_kwargs", "recipe", "seed")}
    path = tmp_path / "a.safetensors"
    training.write_checkpoint(path, old, {**record, "curve": []})

    def everything(model):
        return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(training.trees(model))]

    assert any((a != b).any() for a, b in zip(everything(old), everything(new)))
    training.read_checkpoint(path, new, record)
    for a, b in zip(everything(old), everything(new), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (new.num_timesteps, new._n_updates) == (old.num_timesteps, old._n_updates)
    if algo == "ppo":
        np.testing.assert_array_equal(new.env.obs_rms.var, old.env.obs_rms.var)
    else:
        assert new.replay_buffer.pos == old.replay_buffer.pos > 0
        np.testing.assert_array_equal(new.replay_buffer.rewards, old.replay_buffer.rewards)
    new.learn(64, reset_num_timesteps=False)
    damaged = training.checkpoint_of(path)
    damaged.write_bytes(damaged.read_bytes()[:-400])
    with pytest.raises(UserError, match="is damaged"):
        training.read_checkpoint(path, new, record)


@pytest.mark.parametrize(
    ("env_id", "algo", "said"),
    [
        ("Pendulum-v1", "dqn", "'dqn' does not train for the Box actions of Pendulum-v1; accepted here: sac"),
        ("CartPole-v1", "sac", "'sac' does not train for the Discrete actions"),
        ("FrozenLake-v1", None, "FrozenLake-v1 shows Discrete"),
        ("Pendulum-v7", None, "Pendulum-v7"),
    ],
)
def test_what_cannot_be_trained_is_told(tmp_path, env_id, algo, said):
    with pytest.raises(UserError, match=said):
        experts.train(env_id, algo=algo, out=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path, capsys):
    file = tmp_path / "deep" / "p.safetensors"
    words = [
        "expert",
        "train",
        "--env",
        "Pendulum-v1",
        "--steps",
        "200",
        "--episodes",
        "1",
        "--out",
        str(file),
    ]
    settings = json.dumps(QUICK)
    assert cli.main([*words, "--settings", settings, "--evaluate-every", "100", "--json"]) == 0
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert last["algo"] == "sac"
    assert last["expert"] == str(file)
    assert last["return_mean"] == experts.resolve(str(file)).card["returns"]["Pendulum-v1"]["mean"]
    assert "step 100 of 200" in said.err
    for wrong, why in (
        (["expert", "train"], "env: there is none"),
        ([*words, "--settings", "gamma"], "settings: 'gamma' is not a JSON object"),
        ([*words, "--settings", '{"x": 1}'], "settings of sac: unknown value 'x'"),
        ([*words, "--evaluate-every", "0"], "evaluate_every: 0 is not a whole number ≥ 1"),
        (words, "exists; name another file"),
    ):
        assert cli.main(wrong) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ") and why in said and said.count("\n") == 1
