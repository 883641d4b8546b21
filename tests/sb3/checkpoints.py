"""Makes the small checkpoints of tests/fixtures/teachers: rsl_rl's three layouts, with torch's own outputs.

Run with torch installed: python tests/sb3/checkpoints.py [FOLDER]. The same function makes fresh ones for the
tests that compare against the installed torch. Where brax is installed, its PPO parameters are written too.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path

import numpy as np

ROWS = np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32) * 3
LAYOUTS = ("rsl_rl-2", "rsl_rl-3", "rsl_rl-3-distillation", "rsl_rl-5")


def _network(torch, out: int):
    make, nn = torch.nn.Linear, torch.nn
    return nn.Sequential(make(5, 8), nn.ELU(), make(8, 6), nn.ELU(), make(6, out))


class _Normalisation:
    """The buffers of rsl_rl's EmpiricalNormalization, by name, and what it does with them."""

    def __init__(self, torch):
        self.mean, self.std = torch.randn(1, 5), torch.rand(1, 5) + 0.3
        self.count = torch.tensor(7)

    def buffers(self, prefix: str):
        parts = {"_mean": self.mean, "_var": self.std**2, "_std": self.std, "count": self.count}
        return {prefix + name: value for name, value in parts.items()}

    def __call__(self, x):
        return (x - self.mean) / (self.std + 1e-2)


def rsl_rl(folder: Path, layout: str) -> None:
    """A checkpoint as that version's runner saves one, and `act_inference` for ROWS."""
    import torch

    torch.manual_seed(LAYOUTS.index(layout))
    twice = layout == "rsl_rl-5"  # a deviation that depends on the state
    actor, critic, shift = _network(torch, 4 if twice else 2), _network(torch, 1), _Normalisation(torch)
    adam = torch.optim.Adam(actor.parameters())
    actor(torch.zeros(1, 5)).sum().backward()
    adam.step()
    beside = {"optimizer_state_dict": adam.state_dict(), "iter": 1500, "infos": {"note": "x"}}

    def named(network, prefix):
        return {f"{prefix}.{name}": value for name, value in network.state_dict().items()}

    both = {"std": torch.ones(2)} | named(actor, "actor") | named(critic, "critic")
    if layout == "rsl_rl-2":
        kept = {"model_state_dict": both, "obs_norm_state_dict": shift.buffers("")}
    elif layout == "rsl_rl-3":
        both |= shift.buffers("actor_obs_normalizer.") | _Normalisation(torch).buffers(
            "critic_obs_normalizer."
        )
        kept = {"model_state_dict": both}
    elif layout == "rsl_rl-3-distillation":
        both = {"log_std": torch.ones(2)} | named(actor, "student") | named(critic, "teacher")
        kept = {"model_state_dict": both | shift.buffers("student_obs_normalizer.")}
    else:
        own = (
            named(actor, "mlp") | shift.buffers("obs_normalizer.") | {"distribution.std_param": torch.ones(2)}
        )
        kept = {"actor_state_dict": own, "critic_state_dict": named(critic, "mlp")}
    kept = {name: collections.OrderedDict(part) for name, part in kept.items()}
    torch.save({**kept, **beside}, folder / f"{layout}.pt")
    with torch.no_grad():
        outputs = actor(shift(torch.from_numpy(ROWS)))[:, :2]
    np.savez(folder / f"{layout}-outputs.npz", observations=ROWS, actions=outputs.numpy())


def brax(folder: Path) -> None:
    """PPO parameters of brax as flax writes them, and its own deterministic policy for ROWS."""
    import jax
    from brax.training.acme import running_statistics, specs
    from brax.training.agents.ppo import networks
    from flax import serialization

    made = networks.make_ppo_networks(
        5, 2, running_statistics.normalize, policy_hidden_layer_sizes=(8, 6), value_hidden_layer_sizes=(4,)
    )
    keys = jax.random.split(jax.random.key(0), 2)
    statistics = running_statistics.init_state(specs.Array((5,), np.dtype("float32")))
    statistics = running_statistics.update(statistics, 2 * jax.random.normal(keys[0], (50, 5)) + 1)
    params = statistics, made.policy_network.init(keys[0]), made.value_network.init(keys[1])
    act = networks.make_inference_fn(made)(params, deterministic=True)
    actions, _ = act(ROWS, keys[1])
    (folder / "brax.msgpack").write_bytes(serialization.to_bytes(params))
    np.savez(folder / "brax-outputs.npz", observations=ROWS, actions=np.asarray(actions))


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/teachers")
    target.mkdir(parents=True, exist_ok=True)
    for kind, make in (
        ("torch", lambda: [rsl_rl(target, one) for one in LAYOUTS]),
        ("brax", lambda: brax(target)),
    ):
        try:
            make()
        except ImportError as error:
            print(f"without {kind}: {error}")
