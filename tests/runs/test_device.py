"""Rounds that stay on the device: the numbers of the host, whatever is collected, kept and resumed."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drift import Drift, back
from runs.pieces import Stop, stopping
from understudy import RunSpec, Understudy, UserError, experts, explain, imitate
from understudy import together as meeting
from understudy.envs.gymnasium import derive
from understudy.policies import Linear
from understudy.runs import run as running
from understudy.runs.device import DeviceCollector, Kit
from understudy.samples import TRUNCATED
from understudy.studies import play

SMALL = {
    "policy": "linear",
    "rounds": 3,
    "steps_per_round": 50,
    "num_envs": 16,
    "episodes": 3,
    "comparator_steps": 0,
}
SMALL |= {"comparator": "none"}  # half of the compiling, and the host's solver all the same
COLUMNS = ("loss", "cumulative_loss", "labels", "steps", "episodes", "by_expert", "handovers")


def on_host(monkeypatch):
    monkeypatch.setattr(running, "possible", lambda *_: False)


def alike(one, other, tolerance=2e-4):
    for name in COLUMNS:
        np.testing.assert_allclose(one.ledger[name], other.ledger[name], rtol=tolerance, err_msg=name)
    for name in ("inputs", "targets", "executed", "rewards"):
        mine, theirs = (np.asarray(run.samples(name)) for run in (one, other))
        np.testing.assert_allclose(mine, theirs, atol=1e-4, err_msg=name)
    for name in ("flags", "slots", "weights"):
        assert (np.asarray(one.samples(name)) == other.samples(name)).all(), name
    np.testing.assert_allclose(one.evaluation.returns, other.evaluation.returns, rtol=1e-3)
    assert (one.evaluation.lengths == other.evaluation.lengths).all()


GRU = {"policy": "gru", "max_iterations": 20}
GRU |= {"policy_options": {"width": 4, "widths": (4,), "length": 3, "burn": 2}}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"comparator": "last"}, id="plain"),
        pytest.param({"beta": 0.5, "noise": 0.3}, id="mixed"),
        pytest.param({"ask": "random:9"}, id="asking"),
        pytest.param({"frame_stack": 3}, id="stack", marks=pytest.mark.slow),
        pytest.param(GRU, id="gru", marks=pytest.mark.slow),
    ],
)
def test_the_device_has_the_numbers_of_the_host(monkeypatch, settings):
    settings = SMALL | settings | {"expert": back}
    made, collect = [], DeviceCollector.collect
    monkeypatch.setattr(DeviceCollector, "collect", lambda *given: made.append(1) or collect(*given))
    there = imitate(Drift(), **settings)
    assert len(made) == 3
    on_host(monkeypatch)
    host = imitate(Drift(), **settings)
    alike(there, host)
    assert there.ledger["episodes"].sum() > 0
    if settings["comparator"] == "last":
        np.testing.assert_allclose(there.certificate.regret, host.certificate.regret, rtol=2e-4)
        with pytest.raises(AssertionError):  # and nobody else's
            alike(there, imitate(Drift(), **settings, seed=1))


@experts.pure
def away(observation):
    """Pushes on, so that an episode ends the sooner the farther out it began."""
    return jnp.sign(observation[:1])


def test_an_episode_that_has_ended_gains_nothing_while_others_go_on(monkeypatch):
    settings = SMALL | {"expert": away, "rounds": 1, "episodes": 8}
    there = imitate(Drift(), **settings)
    assert len(set(there.evaluation.lengths.tolist())) > 1
    on_host(monkeypatch)
    alike(there, imitate(Drift(), **settings))


def test_a_limit_of_episodes_may_be_larger_than_what_is_taken_for_endless(monkeypatch):
    monkeypatch.setattr("understudy.runs.device.STEP_LIMIT", 3)
    run = imitate(Drift(), **SMALL | {"expert": back, "episode_limit": 5})
    assert run.evaluation.lengths.max() == 5


class Groups(Drift):
    """Drift in two groups of observations: the student's, without the drift, and the teacher's."""

    def reset(self, key):
        return self._grouped(super().reset(key))

    def step(self, state, action):
        return self._grouped(super().step(state._replace(obs=state.obs["privileged_state"]), action))

    def _grouped(self, state):
        return state._replace(obs={"state": state.obs[:1], "privileged_state": state.obs})


def test_a_teacher_of_brax_sees_another_group_than_its_student_on_the_device(monkeypatch):
    layer = {"kernel": np.array([[-1.0, 0.0], [-0.8, 0.0]]), "bias": np.zeros(2)}
    teacher = {"mean": np.zeros(2), "std": np.ones(2)}, {"params": {"hidden_0": layer}}
    settings = SMALL | {"expert": teacher, "expert_sees": "privileged_state", "student_sees": "state"}
    made, collect = [], DeviceCollector.collect
    monkeypatch.setattr(DeviceCollector, "collect", lambda *given: made.append(1) or collect(*given))
    there = imitate(Groups(), **settings, frame_stack=2)
    assert made and there.samples("inputs").shape[1] == 2
    on_host(monkeypatch)
    alike(there, imitate(Groups(), **settings, frame_stack=2))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"memory": "reservoir:30", "frame_stack": 3}, id="reservoir", marks=pytest.mark.slow),
        pytest.param(GRU, id="gru"),
    ],
)
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, changes):
    settings = SMALL | {"expert": back, "evaluate_every": 1} | changes
    if changes is not GRU:
        settings["comparator"] = "every"
    whole = imitate(Drift(), out=tmp_path / "whole", **settings)
    if changes is GRU:  # stopped, or played to an end that is put off
        with pytest.raises(Stop):
            imitate(Drift(), out=tmp_path / "parts", progress=stopping(2), **settings)
    else:
        imitate(Drift(), out=tmp_path / "parts", **settings | {"rounds": 2})
    again = imitate(Drift(), out=tmp_path / "parts", resume=True, **settings)
    names = ["ledger.csv", "policy.safetensors", *(f"samples/{one}.bin" for one in ("inputs", "flags"))]
    assert {name: (tmp_path / "whole" / name).read_bytes() for name in names} == {
        name: (tmp_path / "parts" / name).read_bytes() for name in names
    }
    assert again.evaluation.returns.tolist() == whole.evaluation.returns.tolist()


def test_a_window_of_one_round_forgets_the_others():
    """The last policy is the least-squares fit of the last round alone."""
    run = imitate(Drift(), **SMALL, expert=back, memory="window:1")
    inputs, wanted = (run.samples(name).astype(float) for name in ("inputs", "targets"))

    def fitted(X, Y):
        rows = np.concatenate([run.policy.normaliser(X.astype(np.float32)), np.ones((len(X), 1))], axis=1)
        return np.linalg.lstsq(rows, Y, rcond=None)[0]

    np.testing.assert_allclose(run.policy.params, fitted(inputs[-50:], wanted[-50:]), atol=1e-6)
    assert np.abs(run.policy.params - fitted(inputs, wanted)).max() > 1e-3


MANY: list[dict] = [
    SMALL | {"env": "drift:make", "expert": "drift:back", "seed": 0},
    SMALL | {"env": "drift:make", "expert": "drift:back", "seed": 1},
    SMALL | {"env": "drift:make", "expert": "drift:back", "learner": "ftrl", "eta": 0.02},
    SMALL | {"env": "drift:make", "expert": "drift:back", "learner": "adaftrl", "alpha": 9.0},
]
TOLD = ("loss", "labels", "episodes", "return_mean")


def columns(results):
    assert [one.error for one in results] == [None] * len(results)
    return np.array([[[row[name] for row in one.rows] for name in TOLD] for one in results])


@pytest.fixture(scope="module")
def alone():
    """What came of `MANY`, each played by itself."""
    return columns(play(MANY))


def test_seeds_learners_and_step_sizes_in_one_program_are_the_runs_alone(monkeypatch, alone):
    mapped = []
    together = meeting.compiled_together
    monkeypatch.setattr(meeting, "compiled_together", lambda games: mapped.append(games) or together(games))
    traced, evaluate = [], Kit._evaluate
    monkeypatch.setattr(Kit, "_evaluate", lambda *given: traced.append(given) or evaluate(*given))
    results = play(MANY, together=True)
    found = columns(results)
    assert {len(games) for games in mapped} == {4} and len(traced) == 1  # the expert plays in it too
    assert len({one.summary["expert_return"] for one in results}) == 1  # all play the same episodes
    np.testing.assert_allclose(found, alone, rtol=1e-4)
    assert len(set(alone[:, 0, 2])) == 4  # four losses of the last round: none is another's


class Scaled(Linear):
    """A policy with an array inside, which its parameters do not tell."""

    scale: jax.Array

    def __init__(self, scale):
        self.bias, self.scale = False, jnp.asarray([1.0, scale])

    def design(self, inputs):
        return super().design(inputs) * self.scale


@pytest.mark.slow
def test_policies_with_other_arrays_inside_act_for_themselves():
    runs = [RunSpec(**MANY[0] | {"policy": Scaled(scale)}) for scale in (1.0, 3.0)]
    together, apart = (columns(play(runs, together=together)) for together in (True, False))
    np.testing.assert_allclose(together, apart, rtol=1e-4)


SPREAD = """
import jax, numpy as np
from test_device import MANY, columns
from understudy import together as meeting
from understudy.studies import play

seen = []
def spread(tree):
    found = over_devices(tree)
    seen.extend(len(leaf.sharding.device_set) for leaf in jax.tree.leaves(found))
    return found

over_devices, meeting.over_devices = meeting.over_devices, spread
together = columns(play(MANY, together=True))
assert len(jax.devices()) == 2 and set(seen) == {2}, seen
np.save(OUT, np.concatenate([together, columns(play(MANY[:1]))]))
"""


@pytest.mark.slow
def test_runs_and_environments_spread_over_two_devices_change_nothing(tmp_path, alone):
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    here = os.path.dirname(__file__)
    places = [here, here + "/..", os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(places), "JAX_PLATFORMS": "cpu"}
    out = tmp_path / "rows.npy"
    subprocess.run([sys.executable, "-c", f"OUT = {str(out)!r}\n{SPREAD}"], env=env, check=True)
    np.testing.assert_allclose(np.load(out), np.concatenate([alone, alone[:1]]), rtol=2e-4)


def test_gymnax_cartpole_is_gymnasiums(monkeypatch):
    """The same starts, Gymnasium's own arithmetic in float64, through the host's runner."""
    pytest.importorskip("gymnax")
    import gymnasium as gym

    from understudy.envs.gymnasium import maker
    from understudy.envs.pure import key_of

    pure = maker("gymnax:CartPole-v1")()

    class Twin(gym.Wrapper):
        def __init__(self):
            super().__init__(gym.make("CartPole-v1"))

        def reset(self, *, seed=None, options=None):
            self.env.reset(seed=seed)
            start = np.asarray(pure.reset(key_of(seed)).observation)
            self.env.unwrapped.state = start.astype(np.float64)
            return start, {}

    settings = SMALL | {"expert": "lqr-CartPole-v1", "steps_per_round": 160, "beta": 0.3, "loss": "squared"}
    there, here = imitate("gymnax:CartPole-v1", **settings), imitate(Twin, **settings)
    alike(there, here)


@pytest.mark.slow
def test_a_run_that_fails_in_a_program_of_several_fails_alone(monkeypatch):
    settings = {"env": "CartPole-v1", "policy": "linear", "rounds": 3, "steps_per_round": 40, "episodes": 0}
    runs = [settings | {"seed": seed} for seed in range(3)]
    straight = play(runs, together=True)
    real = Understudy.learn

    def learn(self, *given, **how):
        if self.spec.seed == 0 and self.round == 1:
            raise UserError("round 2: it has no question.")
        return real(self, *given, **how)

    monkeypatch.setattr(Understudy, "learn", learn)
    failed, *others = play(runs, together=True)
    assert failed.error == "round 2: it has no question." and len(failed.rows) == 1
    assert [one.error for one in others] == [None, None]
    assert [repr(one.rows) for one in others] == [repr(one.rows) for one in straight[1:]]


def test_environments_that_are_others_are_refused_with_advice_that_helps(tmp_path):
    """New episodes follow on those of before, so they are refused in the same way, and not advised."""
    settings = {"expert": back, "policy": Linear(), "rounds": 2, "steps_per_round": 8, "episodes": 0}
    imitate(Drift(), out=tmp_path / "run", **settings)
    real = DeviceCollector.restore
    for way in ("exact", "new-episode"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(DeviceCollector, "restore", lambda self, _: real(self, [{"episode": 0}]))
            with pytest.raises(UserError, match="are not those of now; begin a new run"):
                imitate(Drift(), out=tmp_path / "run", resume=way, **settings | {"rounds": 3})


@pytest.mark.parametrize("device", [True, False], ids=["device", "host"])
def test_environments_begin_at_different_ages_and_end_one_after_another(monkeypatch, device):
    if not device:
        on_host(monkeypatch)
    settings = SMALL | {"expert": back, "rounds": 2, "steps_per_round": 16 * 12, "beta": 1.0}

    def ends(**more):  # steps at which episodes end, (steps, envs)
        flags = np.asarray(imitate(Drift(), **settings | more).samples("flags")).reshape(-1, 16)
        return flags & TRUNCATED > 0

    staggered, together = ends(), ends(stagger="no")
    limit = Drift().limit
    assert together[limit - 1].all() and together.sum() == 16 * (24 // limit)  # all phases at once, then none
    assert (staggered.any(axis=1)[:limit]).sum() > limit / 2 and not staggered.all(axis=1).any()
    ages = [derive(0, "stagger", slot) % limit for slot in range(16)]
    assert [int(np.flatnonzero(column)[0]) for column in staggered.T] == [limit - 1 - age for age in ages]


def test_ages_are_the_practical_presets_and_of_pure_environments_alone():
    settings = {"env": Drift(), "expert": back, "policy": "linear", "num_envs": 16}
    for more, wanted in ({}, True), ({"preset": "paper"}, False), ({"num_envs": 1}, False):
        choices = {choice.setting: choice.value for choice in explain(RunSpec(**settings | more))}
        assert choices["stagger"] is wanted
    with pytest.raises(UserError, match="stagger: it is for pure environments"):
        RunSpec(env="CartPole-v1", stagger=True)
