"""Rounds that stay on the device: the numbers of the host, whatever is collected, kept and resumed."""

import os
import subprocess
import sys

import numpy as np
import pytest

from drift import Drift, back
from understudy import imitate
from understudy.runs import runner
from understudy.runs.device import Device
from understudy.studies import play

SMALL = {"policy": "linear", "rounds": 3, "interactions": 50, "envs": 16, "episodes": 3, "search": 0}
COLUMNS = ("loss", "cumulative_loss", "queries", "interactions", "episodes", "by_expert", "handovers")


def on_host(monkeypatch):
    monkeypatch.setattr(runner, "possible", lambda *_: False)


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


GRU = {"policy": "gru", "max_iterations": 20, "comparator": "none"}
GRU |= {"policy_options": {"width": 4, "widths": (4,), "length": 3, "burn": 2}}


@pytest.mark.parametrize(
    "settings",
    [{}, {"beta": 0.5, "noise": 0.3}, {"ask": "random:9"}, {"stack": 3}, GRU],
    ids=["plain", "mixed", "asking", "stack", "gru"],
)
def test_the_device_has_the_numbers_of_the_host(monkeypatch, settings):
    settings = SMALL | settings | {"expert": back}
    made = []
    monkeypatch.setattr(Device, "close", lambda self: made.append(self))
    there = imitate(Drift(), **settings)
    other = imitate(Drift(), **settings, seed=1)
    assert len(made) == 2
    on_host(monkeypatch)
    here = imitate(Drift(), **settings)
    alike(there, here)
    assert there.ledger["episodes"].sum() > 0
    with pytest.raises(AssertionError):  # and nobody else's
        alike(other, here)


@pytest.mark.parametrize("changes", [{"memory": "reservoir:30", "stack": 3}, GRU], ids=["reservoir", "gru"])
def test_a_resumed_run_ends_with_the_same_bytes(tmp_path, changes):
    settings = SMALL | {"expert": back, "evaluate_every": 1, "comparator": "every"} | changes
    whole = imitate(Drift(), out=tmp_path / "whole", **settings)
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


def test_seeds_in_one_program_are_the_runs_alone():
    runs = [SMALL | {"env": "drift:make", "expert": "drift:back", "seed": seed} for seed in (0, 1)]
    alone, together = play(runs), play(runs, together=True)
    for one, other in zip(alone, together, strict=True):
        assert one.error is None and other.error is None
        for name in ("loss", "queries", "episodes", "return_mean"):
            values = [[row[name] for row in result.rows] for result in (one, other)]
            np.testing.assert_allclose(*values, rtol=1e-4, err_msg=name)
    assert alone[0].rows[1]["loss"] != alone[1].rows[1]["loss"]


SPREAD = """
import jax, numpy as np
from drift import Drift, back
from understudy import imitate
from understudy.runs.spread import over_devices
assert len(jax.devices()) == 2
assert len(over_devices(jax.numpy.zeros((4, 3))).sharding.device_set) == 2
run = imitate(Drift(), expert=back, policy="linear", rounds=3, interactions=50, envs=16, episodes=3, search=0)
np.save(OUT, np.stack([run.ledger[name] for name in ("loss", "episodes", "return_mean")]))
"""


def test_environments_spread_over_two_devices_change_nothing(tmp_path):
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    places = [os.path.dirname(__file__) + "/..", os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(places), "JAX_PLATFORMS": "cpu"}
    out = tmp_path / "rows.npy"
    subprocess.run([sys.executable, "-c", f"OUT = {str(out)!r}\n{SPREAD}"], env=env, check=True)
    alone = imitate(Drift(), expert=back, **SMALL)
    wanted = np.stack([alone.ledger[name] for name in ("loss", "episodes", "return_mean")])
    np.testing.assert_allclose(np.load(out), wanted, rtol=2e-4)


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

    settings = SMALL | {"expert": "lqr-CartPole-v1", "interactions": 160, "beta": 0.3, "loss": "squared"}
    there, here = imitate("gymnax:CartPole-v1", **settings), imitate(Twin, **settings)
    alike(there, here)
