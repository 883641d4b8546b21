"""How Stable-Baselines3 lays out its policies: from named tensors to the network that its `predict` plays.

The names of the tensors say which family a policy belongs to, and their shapes say the widths:

    PPO, A2C     mlp_extractor.shared_net.* (old), mlp_extractor.policy_net.*, action_net
    SAC          actor.latent_pi.*, actor.mu      tanh, stretched to the bounds
    TD3, DDPG    actor.mu.*                       tanh, stretched to the bounds
    DQN          q_net.q_net.*                    the largest value

NatureCNN's convolutions are features_extractor.* of the policy, of its actor or of its q_net.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from ...errors import UserError
from .. import network as net

Tensors = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the tensors do not say."""

    observation_space: Any
    action_space: Any
    activation: str | None = None
    normalize_images: bool = True
    squash_output: bool = False
    clip_mean: float = 2.0


def build(tensors: Tensors, settings: Settings, what: str, normaliser: net.Row | None = None) -> net.Network:
    """The network that answers as the policy's deterministic `predict` does."""
    family = _family(tensors, what)
    if family == "SAC":
        prefix, stacks = "actor.", ["actor.latent_pi", "actor.mu"]
    elif family == "TD3":
        prefix, stacks = "actor.", ["actor.mu"]
    elif family == "DQN":
        prefix, stacks = "q_net.", ["q_net.q_net"]
    else:
        prefix, stacks = "", ["mlp_extractor.shared_net", "mlp_extractor.policy_net", "action_net"]
    layers = [layer for stack in stacks for layer in _stack(tensors, stack, what)]
    if len(layers) > 1 and settings.activation is None:
        raise UserError(
            f"{what}: does not say which activation its network has; give activation=, one of "
            f"{', '.join(net.ACTIVATIONS)}."
        )
    mlp = net.Mlp([w for w, _ in layers], [b for _, b in layers], settings.activation or "relu")
    seen = settings.observation_space
    flat = flat_size(seen, what)
    scale = 1 / 255 if settings.normalize_images and _is_image(seen) else 1.0
    cnn = _nature_cnn(tensors, f"{prefix}features_extractor.", seen.shape, scale, what)
    inputs = cnn.features if cnn else flat
    if mlp.widths[0] != inputs:
        raise UserError(f"{what}: its network takes {mlp.widths[0]} numbers, its observations have {inputs}.")
    prepare = _preparation(seen, scale if cnn is None else 1.0, normaliser, what)
    # With state-dependent exploration the mean is bounded before the tanh, which makes it a stack of two.
    bounded = family == "SAC" and "actor.mu.0.weight" in tensors
    head = _head(family, mlp.widths[-1], settings, settings.clip_mean if bounded else None, what)
    return net.Network(mlp, head, prepare, cnn)


def _family(tensors: Tensors, what: str) -> str:
    if any(name.startswith("actor.latent_pi.") for name in tensors) or "actor.mu.weight" in tensors:
        return "SAC"
    if any(name.startswith("actor.mu.") for name in tensors):
        return "TD3"
    if any(name.startswith("q_net.q_net.") for name in tensors):
        return "DQN"
    if "action_net.weight" in tensors:
        return "PPO or A2C"
    shown = ", ".join(sorted(tensors)[:3])
    raise UserError(f"{what}: is not a policy of PPO, A2C, SAC, TD3 or DQN (its tensors are {shown}, …).")


def _stack(tensors: Tensors, prefix: str, what: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """The dense layers under a name: `prefix.weight` alone, or `prefix.0.weight`, `prefix.2.weight`, …"""
    if f"{prefix}.weight" in tensors:
        return [(tensors[f"{prefix}.weight"].T, tensors[f"{prefix}.bias"])]
    names = sorted(name for name in tensors if name.startswith(f"{prefix}."))
    numbers = sorted(
        {int(m[1]) for name in names if (m := re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.weight", name))}
    )
    expected = {f"{prefix}.{i}.{part}" for i in numbers for part in ("weight", "bias")}
    # Linear and activation alternate, so linear layers have even numbers; anything else is a layer not known
    # here.
    odd = [name for name in names if name not in expected] or [
        f"{prefix}.{i}"
        for place, i in enumerate(numbers)
        if i != 2 * place or tensors[f"{prefix}.{i}.weight"].ndim != 2
    ]
    if odd or expected - set(names):
        where = odd[0] if odd else sorted(expected - set(names))[0]
        raise UserError(
            f"{what}: {where!r} is not part of a plain network of dense layers, which is what can be read."
        )
    return [(tensors[f"{prefix}.{i}.weight"].T, tensors[f"{prefix}.{i}.bias"]) for i in numbers]


def _nature_cnn(tensors: Tensors, prefix: str, image: Any, scale: float, what: str) -> net.NatureCnn | None:
    names = {name.removeprefix(prefix) for name in tensors if name.startswith(prefix)}
    if not names:
        return None
    known = {
        f"{layer}.{part}" for layer in ("cnn.0", "cnn.2", "cnn.4", "linear.0") for part in ("weight", "bias")
    }
    if names != known or len(image) != 3:
        odd = sorted(names - known or names)[0]
        raise UserError(
            f"{what}: its feature extractor ({odd}) is not NatureCNN, the only one that can be read."
        )
    kernels = [tensors[f"{prefix}cnn.{i}.weight"].transpose(2, 3, 1, 0) for i in (0, 2, 4)]  # OIHW to HWIO
    biases = [tensors[f"{prefix}cnn.{i}.bias"] for i in (0, 2, 4)]
    height, width = image[1:]
    for kernel, stride in zip(kernels, net.STRIDES, strict=True):
        height, width = (height - kernel.shape[0]) // stride + 1, (width - kernel.shape[1]) // stride + 1
    dense = tensors[f"{prefix}linear.0.weight"]
    if kernels[0].shape[2] != image[0] or dense.shape[1] != kernels[2].shape[3] * height * width:
        raise UserError(f"{what}: its convolutions do not fit images of shape {image}.")
    # It flattens (channels, height, width); here channels come last.
    dense = (
        dense.reshape(-1, kernels[2].shape[3], height, width)
        .transpose(2, 3, 1, 0)
        .reshape(-1, dense.shape[0])
    )
    return net.NatureCnn(kernels, biases, dense, tensors[f"{prefix}linear.0.bias"], scale=scale)


def _is_image(space: Any) -> bool:
    if not isinstance(space, spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return False
    return bool((space.low == 0).all() and (space.high == 255).all())


def flat_size(space: Any, what: str) -> int:
    """How many numbers an observation becomes: Discrete ones one-hot, others flattened."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape))
    raise UserError(
        f"{what}: sees {type(space).__name__} observations; Box, Discrete and MultiDiscrete can be read."
    )


def _preparation(space: Any, scale: float, normaliser: net.Row | None, what: str) -> net.Row | None:
    if isinstance(space, spaces.Discrete):
        eye, first = np.eye(int(space.n), dtype=np.float32), int(space.start)
        return lambda x: eye[int(x) - first]
    if isinstance(space, spaces.MultiDiscrete):
        eyes = [np.eye(int(n), dtype=np.float32) for n in np.ravel(space.nvec)]
        return lambda x: np.concatenate([eye[int(i)] for eye, i in zip(eyes, np.ravel(x), strict=True)])
    shape = tuple(space.shape)

    def prepare(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        if x.shape != shape:
            if len(shape) != 3 or x.shape != (*shape[1:], shape[0]):
                raise UserError(f"{what}: was given an observation of shape {x.shape}; {shape} is expected.")
            x = x.transpose(2, 0, 1)  # channels last, as cameras and screens give them
        if normaliser is not None:
            x = normaliser(x)
        return x if scale == 1.0 else np.asarray(x, np.float32) * np.float32(scale)

    return prepare


def _head(family: str, outputs: int, settings: Settings, limit: float | None, what: str) -> net.Row:
    space = settings.action_space
    if isinstance(space, spaces.Box):
        wanted = int(np.prod(space.shape))
        squashes = family in ("SAC", "TD3") or settings.squash_output
        inner = (net.squash if squashes else net.clip)(space.low.reshape(-1), space.high.reshape(-1))

        def box(x: np.ndarray) -> np.ndarray:
            if limit is not None:
                x = np.minimum(np.maximum(x, np.float32(-limit)), np.float32(limit))
            return inner(x).reshape(space.shape)

        head: net.Row = box
    elif isinstance(space, spaces.Discrete):
        wanted, head = int(space.n), net.argmax(int(space.start)) if family == "DQN" else net.softmax
    elif isinstance(space, spaces.MultiDiscrete):
        wanted, head = int(space.nvec.sum()), net.argmax_groups(space.nvec, space.start)
    else:
        raise UserError(
            f"{what}: was trained for actions {space}; Box, Discrete and MultiDiscrete can be read."
        )
    if outputs != wanted:
        raise UserError(f"{what}: its network gives {outputs} numbers, its actions {space} need {wanted}.")
    return head
