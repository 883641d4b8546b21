"""The plug-in for rsl_rl, through rsl_rl's own runner: what is kept, who acts, who teaches."""

from __future__ import annotations

import csv

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("rsl_rl")

from rsl_rl.runners import DistillationRunner  # noqa: E402

from rsl_rl_pendulum import Pendulums, Swinger, score  # noqa: E402
from understudy import UserError  # noqa: E402
from understudy.rsl_rl import Memory  # noqa: E402

pytestmark = pytest.mark.rsl_rl
NOISE = {"class_name": "GaussianDistribution", "init_std": 0.1}
MLP = {"class_name": "MLPModel", "hidden_dims": [32, 32], "distribution_cfg": NOISE}
GRU = {
    "class_name": "RNNModel",
    "hidden_dims": [32],
    "rnn_type": "gru",
    "rnn_hidden_dim": 16,
    "rnn_num_layers": 1,
}
GRU |= {"distribution_cfg": NOISE}


def runner(
    seed=0,
    *,
    student=MLP,
    teacher=Swinger,
    teachers=None,
    tasks=1,
    name="understudy.rsl_rl:Distillation",
    **more,
):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    algorithm = {"class_name": name, "num_learning_epochs": 5, "gradient_length": 4, "learning_rate": 1e-3}
    config = {
        "num_steps_per_env": 8,
        "save_interval": 10**9,
        "obs_groups": {"student": ["student"], "teacher": ["teacher"]},
    }
    config |= {"algorithm": algorithm | more, "student": dict(student), "teacher": {"class_name": teacher}}
    if teachers is not None:
        config["teachers"] = teachers
    made = DistillationRunner(Pendulums(32, seed=seed, tasks=tasks), config)
    made.alg.teacher_loaded = True
    return made


def learnt(rounds, seed=0, **more):
    made = runner(seed, **more)
    made.learn(rounds)
    return made


def test_what_is_kept_is_not_forgotten_where_a_rollout_shows_one_phase():
    for seed in range(3):
        theirs, one, ours = (
            score(learnt(50, seed, **how).alg.get_policy())
            for how in ({"name": "Distillation"}, {"memory": "window:1"}, {})
        )
        # With as many steps on as many states each; and it is the memory: one rollout forgets as they do.
        assert ours > max(theirs, one) + 0.2, (theirs, one, ours)


def test_the_ledger_counts_labels_and_is_written_after_every_update(tmp_path):
    made = learnt(3, beta="linear:2", ledger=str(tmp_path / "ledger.csv"))
    ledger, rows = made.alg.ledger, list(csv.DictReader((tmp_path / "ledger.csv").open()))
    assert ledger["labels"].tolist() == [256, 512, 768] == [int(row["labels"]) for row in rows]
    assert ledger["by_expert"].tolist()[0] == 1.0 and 0.3 < ledger["by_expert"][1] < 0.7
    assert ledger["by_expert"][2] == 0.0 == ledger["beta"][2]
    assert ledger["average_loss"][-1] == pytest.approx(ledger["loss"].mean())


def test_the_teacher_acts_with_probability_beta():
    made, acted = runner(beta=1.0), []
    step = made.env.step
    made.env.step = lambda actions: acted.append(actions.clone()) or step(actions)
    made.learn(1)
    labels = made.alg.memory.take(torch.arange(32))["action"]
    assert torch.equal(acted[0], labels[0])


def test_a_checkpoint_holds_memory_and_ledger_and_goes_on_alike(tmp_path):
    first = learnt(4)
    first.save(str(tmp_path / "model.pt"))
    second = runner(seed=0)
    second.load(str(tmp_path / "model.pt"))
    assert second.alg.rows == first.alg.rows and second.alg.memory.states == first.alg.memory.states
    batches = [made.alg.memory.draw(64) for made in (first, second)]
    assert all(torch.equal(batches[0][name], batches[1][name]) for name in batches[0])
    assert first.alg._descend(batches[0]) == second.alg._descend(batches[1])


def test_each_environment_has_the_teacher_that_its_observation_names():
    teachers = {"plain": {"class_name": Swinger}, "reversed": {"class_name": Swinger, "sign": -1.0}}
    made = runner(teachers=teachers, tasks=2, route="task")
    obs = made.env.get_observations()
    labels, plain = made.alg.teacher(obs)[:, 0], Swinger(None, None, None, 1)(obs)[:, 0]
    assert torch.equal(labels, torch.where(obs["task"][:, 0] > 0, -plain, plain))
    made.learn(2)
    by_function = runner(teachers=teachers, tasks=2, route=lambda obs: 1 - obs["task"][:, 0])
    assert torch.equal(by_function.alg.teacher(obs)[:, 0], -labels)


def test_students_that_remember_learn_from_whole_sequences():
    made = learnt(1, student=GRU)
    batch = made.alg.memory.take(torch.arange(32))
    assert batch["action"].shape[:2] == (8, 32)
    losses = [made.alg._descend(batch) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_kl_needs_distributions_and_falls():
    with pytest.raises(UserError, match="loss_type: 'kl' needs"):
        runner(loss_type="kl")
    made = runner(loss_type="kl", teacher="rsl_rl_pendulum:Doubtful")
    made.learn(20)
    assert made.alg.rows[-1]["loss"] < 0.5 * made.alg.rows[0]["loss"]


def test_environments_may_begin_at_different_ages():
    assert runner(stagger=True).env.episode_length_buf.float().std() > 20
    assert runner().env.episode_length_buf.float().std() == 0


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"memory": "ring:3"}, "memory: 'ring:3' is not"),
        ({"beta": 2}, "beta: 2 is not accepted"),
        ({"loss_type": "l1"}, "loss_type"),
        ({"batch_size": 0}, "batch_size: 0 is not a whole number"),
        ({"route": "task"}, "teachers: several of them need"),
        ({"route": "tsk", "teachers": {"a": {"class_name": Swinger}}}, "did you mean 'task'"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_a_sentence(more, sentence):
    with pytest.raises(UserError, match=sentence):
        runner(**more)


def test_a_reservoir_is_a_uniform_sample_and_a_window_the_last_rollouts():
    counts = torch.zeros(40)
    for seed in range(400):
        memory = Memory("reservoir:10", length=1, generator=torch.Generator().manual_seed(seed))
        for first in range(0, 40, 8):
            memory.add({"n": torch.arange(first, first + 8)[None]})
        counts[memory.take(torch.arange(10))["n"][0]] += 1
    assert counts.sum() == 4000 and (counts - 100).abs().max() < 5 * 75**0.5
    window = Memory("window:2", length=1, generator=torch.Generator())
    for first in range(0, 40, 8):
        window.add({"n": torch.arange(first, first + 8)[None]})
    assert sorted(window.take(torch.arange(16))["n"][0].tolist()) == list(range(24, 40))
