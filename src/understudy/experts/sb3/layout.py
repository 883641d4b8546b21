"""How Stable-Baselines3 lays out its policies: from named tensors to the network that its `predict` plays.

The names of the tensors say which family a policy belongs to, and their shapes say the widths:

    PPO, A2C     mlp_extractor.shared_net.* (old), mlp_extractor.policy_net.*, action_net
    SAC          actor.latent_pi.*, actor.mu      tanh, stretched to the bounds
    TD3, DDPG    actor.mu.*                       tanh, stretched to the bounds
    DQN          q_net.q_net.*                    the largest value

NatureCNN's convolutions are features_extractor.* of the policy, of its actor or of its q_net.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces

from ...errors import UserError
from ...policies import MLP, Actions, Encoder, NatureCNN, Network, Normaliser, require_fit, softmax
from ...policies.mlp import ACTIVATIONS
from ..networks import flat_size, rows_of, unexpected_shape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ...policies.acting import Forward
    from .. import Space
    from ..networks import See

ON_POLICY = "PPO or A2C"
STACKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SAC": ("actor.", ("actor.latent_pi", "actor.mu")),
    "TD3": ("actor.", ("actor.mu",)),
    "DQN": ("q_net.", ("q_net.q_net",)),
    ON_POLICY: ("", ("mlp_extractor.shared_net", "mlp_extractor.policy_net", "action_net")),
}
"""By family: what the names of its feature extractor begin with, and its dense layers, one after another."""
Tensors = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the tensors do not say."""

    observation_space: Space
    action_space: Space
    activation: str | None = None
    normalize_images: bool = True
    squash_output: bool = False
    clip_mean: float = 2.0


def build(tensors: Tensors, settings: Settings, what: str, normaliser: Normaliser | None = None) -> Network:
    """The network that answers as the policy's deterministic `predict` does."""
    algorithm = family(tensors, what)
    prefix, stacks = STACKS[algorithm]
    params = [layer for stack in stacks for layer in dense_layers(tensors, stack, what)]
    if len(params) > 1 and settings.activation is None:
        raise UserError(
            f"{what}: does not say which activation its network has; give activation=, one of "
            f"{', '.join(ACTIVATIONS)}."
        )
    seen = settings.observation_space
    flat = flat_size(seen, what)
    encoder = _nature_cnn(tensors, f"{prefix}features_extractor.", seen.shape, what)
    inputs, takes = encoder.network.width if encoder else flat, params[0]["weight"].shape[0]
    if takes != inputs:
        raise UserError(f"{what}: its network takes {takes} numbers, its observations have {inputs}.")
    # With state-dependent exploration the mean is bounded before the tanh, which makes it a stack of two.
    limited = algorithm == "SAC" and "actor.mu.0.weight" in tensors
    *widths, outputs = (layer["bias"].size for layer in params)
    policy, head = _policy(algorithm, widths, outputs, settings, limited, what)
    require_fit(what, policy, params, inputs, outputs)
    fractions = settings.normalize_images and _is_image(seen)
    if isinstance(seen, spaces.Box) and len(seen.shape) == 3:
        see = _pictures(seen, fractions, normaliser, encoder is None, what)
        return Network(policy, params, see, head, None, encoder)
    return Network(policy, params, rows_of(seen, normaliser is None, what), head, normaliser)


def family(tensors: Tensors, what: str) -> str:
    """Which of `STACKS` a policy belongs to."""
    # Without hidden layers and with state-dependent exploration, only the deviation tells SAC from TD3.
    deviates = any(name.startswith(("actor.latent_pi.", "actor.log_std")) for name in tensors)
    if deviates or "actor.mu.weight" in tensors:
        return "SAC"
    if any(name.startswith("actor.mu.") for name in tensors):
        return "TD3"
    if any(name.startswith("q_net.q_net.") for name in tensors):
        return "DQN"
    if "action_net.weight" in tensors:
        return ON_POLICY
    shown = ", ".join(sorted(tensors)[:3])
    raise UserError(f"{what}: is not a policy of PPO, A2C, SAC, TD3 or DQN (its tensors are {shown}, …).")


def dense_layers(tensors: Tensors, prefix: str, what: str) -> list[dict[str, np.ndarray]]:
    """The dense layers under a name: `prefix.weight` alone, or `prefix.0.weight`, `prefix.2.weight`, …"""
    if f"{prefix}.weight" in tensors:
        return [layer_of(tensors[f"{prefix}.weight"].T, tensors[f"{prefix}.bias"])]
    names = sorted(name for name in tensors if name.startswith(f"{prefix}."))
    numbered = re.compile(rf"{re.escape(prefix)}\.(\d+)\.weight")
    numbers = sorted({int(m[1]) for name in names if (m := numbered.fullmatch(name))})
    expected = {f"{prefix}.{i}.{part}" for i in numbers for part in ("weight", "bias")}
    # Linear and activation alternate, so linear layers have even numbers; anything else is not known here.
    odd = [name for name in names if name not in expected] or [
        f"{prefix}.{i}"
        for place, i in enumerate(numbers)
        if i != 2 * place or tensors[f"{prefix}.{i}.weight"].ndim != 2
    ]
    if odd or expected - set(names):
        where = odd[0] if odd else sorted(expected - set(names))[0]
        raise UserError(f"{what}: {where!r} is not part of a plain network of dense layers.")
    return [layer_of(tensors[f"{prefix}.{i}.weight"].T, tensors[f"{prefix}.{i}.bias"]) for i in numbers]


def _nature_cnn(tensors: Tensors, prefix: str, image: tuple[int, ...] | None, what: str) -> Encoder | None:
    names = {name.removeprefix(prefix) for name in tensors if name.startswith(prefix)}
    if not names:
        return None
    layers = ("cnn.0", "cnn.2", "cnn.4", "linear.0")
    known = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    if names != known or image is None or len(image) != 3:
        odd = sorted(names - known or names)[0]
        raise UserError(f"{what}: its feature extractor ({odd}) is not NatureCNN, which alone can be read.")
    kernels = [tensors[f"{prefix}cnn.{i}.weight"].transpose(2, 3, 1, 0) for i in (0, 2, 4)]  # OIHW to HWIO
    biases = [tensors[f"{prefix}cnn.{i}.bias"] for i in (0, 2, 4)]
    last = tensors[f"{prefix}linear.0.weight"]
    network = NatureCNN(stack=image[0], size=(image[1], image[2]), width=last.shape[0], method="single")
    channels, (height, width) = kernels[2].shape[3], network.places
    if kernels[0].shape[2] != image[0] or last.shape[1] != channels * height * width:
        raise UserError(f"{what}: its convolutions do not fit images of shape {image}.")
    # It flattens (channels, height, width); here channels come last.
    turned = last.reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(-1, last.shape[0])
    params = {
        "conv": [layer_of(kernel, bias) for kernel, bias in zip(kernels, biases, strict=True)],
        "dense": layer_of(turned, tensors[f"{prefix}linear.0.bias"]),
    }
    return Encoder(network, params, what)


def layer_of(weight: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "weight": np.ascontiguousarray(weight, np.float32),
        "bias": np.ascontiguousarray(bias, np.float32),
    }


def _is_image(space: Space) -> bool:
    if not isinstance(space, spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return False
    return bool((space.low == 0).all() and (space.high == 255).all())


def _pictures(
    space: spaces.Box, fractions: bool, normaliser: Normaliser | None, flat: bool, what: str
) -> See:
    """Images with their channels first, or as rows. Bytes that are read as fractions of 255 stay bytes."""
    shape = tuple(space.shape)

    def see(batch: ArrayLike) -> np.ndarray:
        x = np.asarray(batch)
        if x.shape[1:] != shape:
            if x.shape[1:] != (*shape[1:], shape[0]):
                raise unexpected_shape(x, shape, what)
            x = x.transpose(0, 3, 1, 2)  # channels last, as cameras and screens give them
        if normaliser is not None:
            x = normaliser(x.reshape(len(x), -1)).reshape(x.shape)
        if not fractions or x.dtype != np.uint8:
            x = np.asarray(x, np.float32) * np.float32(1 / 255 if fractions else 1)
        return x.reshape(len(x), -1) if flat else x

    return see


def _policy(
    algorithm: str, widths: Sequence[int], outputs: int, settings: Settings, limited: bool, what: str
) -> tuple[MLP, Forward]:
    """The policy, and how answers are made of its outputs (n, k)."""
    space, limit = settings.action_space, np.float32(settings.clip_mean)
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete):
        raise UserError(f"{what}: its actions are {space}; Box, Discrete and MultiDiscrete can be read.")
    actions = Actions.of(space)
    if outputs != actions.outputs:
        raise UserError(f"{what}: it gives {outputs} numbers, its actions {space} need {actions.outputs}.")
    plain = MLP(widths, settings.activation or "relu")
    if actions.kind == "discrete" and algorithm != "DQN":
        return plain, softmax
    squashed = algorithm in ("SAC", "TD3") or settings.squash_output
    if actions.low is None or actions.high is None or not squashed:
        return plain, actions.plays
    bounded = dataclasses.replace(plain, head="sb3-tanh", low=actions.low, high=actions.high)
    if not limited:
        return bounded, actions.plays
    squash = bounded.head_function(np, np.float32)

    def play(outputs: np.ndarray) -> np.ndarray:
        return actions.plays(squash(np.minimum(np.maximum(outputs, -limit), limit)))

    return plain, play
