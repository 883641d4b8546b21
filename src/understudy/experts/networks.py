"""Experts that are networks: a policy's file (`.safetensors` with its card beside it), a finished run, or the
dense layers of another library. What such a network makes of an image before it decides are frozen features
for a linear policy, and `start` begins a student with its parameters.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from .. import disk
from ..errors import UserError, check_name, damaged
from ..nested import batch_size, take
from ..policies import (
    MLP,
    Actions,
    Committee,
    Encoded,
    Encoder,
    NatureCNN,
    Network,
    Normaliser,
    Observations,
    Params,
    Policy,
    Seen,
    TrainedPolicy,
    require_fit,
    softmax,
)
from ..policies.mlp import ACTIVATIONS
from . import Expert, Kind, resolve

if TYPE_CHECKING:
    from jax import Array

    from ..disk import Json
    from . import Infos, Nested, Source, Space

    See = Callable[..., np.ndarray]


def load(path: str | os.PathLike[str], *, expert_card: str | os.PathLike[str] | None = None) -> Expert:
    """The expert in a file that `save`, `TrainedPolicy.save` or training wrote, or in the folder of a run.

    Its card is the .json beside it or, where there is none, the entry `card` of its header; what the file
    `expert_card` says goes first.

    Its observations, its normaliser and its actions are those of the policy. A run on choices that learned
    with the cross-entropy loss answers with distributions, and so does a file whose card says so.
    """
    path = Path(path)
    policy, card = TrainedPolicy.read(path, "expert", expert_card)
    return from_policy(policy, (_card_of_run(path) if path.is_dir() else {"name": path.stem}) | card)


def existing(path: str | os.PathLike[str], kind: str) -> tuple[Path, str]:
    """The path of a foreign file, which must be there, and what sentences about it call it."""
    if not os.path.isfile(path):
        raise UserError(f"expert: there is no {kind} {Path(path)}.")
    return Path(path), f"{kind} {Path(path).name!r}"


def from_policy(policy: TrainedPolicy, card: Mapping[str, Json]) -> Expert:
    """The expert that plays a policy; its labels are of the card's `kind`, "action" or "distribution"."""
    kind = str(card.get("kind", "action"))
    check_name("kind", kind, ("action", "distribution"))
    soft = kind == "distribution"
    if soft and policy.actions.kind != "discrete":
        raise UserError(f"kind: distributions are over Discrete actions, these are {policy.actions.space()}.")
    network = policy.network(distribution=soft)
    pure = network.traced(policy.observations, policy.actions, distribution=soft)
    expert = from_network(network, policy.observations.space(), policy.actions.space(), card, pure)
    if not policy.remembers:
        return expert

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        """One state after another of an episode."""
        if batch_size(observations) != 1:
            raise UserError(f"expert: the policy {policy.policy.name!r} remembers one episode at a time.")
        return np.stack([np.asarray(policy.act(take(observations, 0)))])

    card = {**card, "kind": "action"}
    return dataclasses.replace(
        expert, ask=ask, kind="action", card=card, on_reset=policy.reset, deterministic=False
    )


def from_network(
    network: Network, seen: Space, acts: Space, card: Mapping[str, Json], pure: Callable[..., Array] | None
) -> Expert:
    """The expert that answers with a network: with distributions where its head is a softmax."""
    kind: Kind = "distribution" if network.head is softmax else "action"

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        return network(observations)

    return Expert(
        str(card.get("name", "expert")),
        ask=ask,
        kind=kind,
        observation_space=seen,
        action_space=acts,
        card={**card, "kind": kind},
        network=network,
        pure=pure,
        deterministic=True,
    )


def from_layers(
    layers: Sequence[Mapping[str, np.ndarray]],
    what: str,
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    activation: str,
    card: Mapping[str, Json],
    normaliser: Normaliser | None = None,
    head: str = "identity",
) -> Expert:
    """The expert that answers with a network of these layers, ``{"weight": (in, out), "bias": (out,)}``.

    Spaces that are None are taken from the layers. Where the network gives twice as many numbers as an action
    has, the first half is the mean and the second the deviation, which is left out.
    """
    check_name("activation", activation, ACTIVATIONS)
    if not layers:
        raise UserError(f"{what}: holds no dense layer.")
    takes, gives = layers[0]["weight"].shape[0], layers[-1]["bias"].size
    seen = spaces.Box(-np.inf, np.inf, (takes,)) if observation_space is None else observation_space
    acts = spaces.Box(-np.inf, np.inf, (gives,)) if action_space is None else action_space
    if not isinstance(acts, spaces.Box):
        raise UserError(f"{what}: its actions are numbers (Box); the environment's are {acts}.")
    if flat_size(seen, what) != takes:
        raise UserError(
            f"{what}: its network takes {takes} numbers, the observations have {flat_size(seen, what)}; "
            "expert_sees says which of them it sees."
        )
    actions = Actions.of(acts)
    if gives not in (actions.outputs, 2 * actions.outputs):
        raise UserError(f"{what}: its network gives {gives} numbers, actions {acts} have {actions.outputs}.")
    if normaliser is not None:
        mean, scale = normaliser.mean, normaliser.scale
        if mean.size != takes or scale.size != takes:
            raise UserError(f"{what}: it normalises {mean.size} numbers, its network takes {takes}.")
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise UserError(f"{what}: its statistics of observations are not finite and positive.")
    params = [dict(layer) for layer in layers]
    params[-1] = {k: np.ascontiguousarray(part[..., : actions.outputs]) for k, part in params[-1].items()}
    policy = MLP(tuple(layer["bias"].size for layer in params[:-1]), activation, head)
    require_fit(what, policy, params, takes, actions.outputs)
    network = Network(policy, params, rows_of(seen, True, what), actions.plays, normaliser)
    return from_mlp(network, seen, acts, {**card, "normalised": normaliser is not None})


def from_mlp(network: Network, seen: Space, acts: Space, card: Mapping[str, Json]) -> Expert:
    """The expert that answers with a network whose policy is an MLP, on an image network or not."""
    params, policy, soft = network.params, network.policy, network.head is softmax
    assert isinstance(policy, MLP)
    architecture = {
        "network": "nature-cnn" if network.encoder else "mlp",
        "widths": [params[0]["weight"].shape[0], *(layer["bias"].size for layer in params)],
        "activation": policy.activation,
    }
    # A mean that is bounded before its tanh (state-dependent exploration) has a head of its own.
    plain = soft or getattr(network.head, "__func__", None) is Actions.plays
    pure = network.traced(as_rows(seen), Actions.of(acts), distribution=soft) if plain else None
    return from_network(network, seen, acts, {**card, "architecture": architecture}, pure)


def flat_size(space: Space, what: str) -> int:
    """How many numbers an observation becomes: Discrete ones one-hot, others flattened."""
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        kind = type(space).__name__
        raise UserError(f"{what}: sees {kind} observations; Box, Discrete and MultiDiscrete can be read.")
    return Observations.of(space).width


def rows_of(space: Space, single: bool, what: str) -> See:
    """Observations that are no images as rows: float32, or as they are where a normaliser comes after."""
    if not isinstance(space, spaces.Box):
        return Observations.of(space).rows

    def see(batch: Nested) -> np.ndarray:
        x = np.asarray(batch)
        if x.shape[1:] != space.shape:
            raise unexpected_shape(x, space.shape, what)
        x = x.reshape(len(x), -1)
        return x.astype(np.float32, copy=False) if single else x

    return see


def as_rows(space: Space) -> Observations | None:
    """What sees a space as `rows_of` does; None for images and for whole numbers in a Box."""
    numbers = not isinstance(space, spaces.Box) or (space.dtype.kind == "f" and len(space.shape) < 3)
    return Observations.of(space) if numbers else None


def unexpected_shape(x: np.ndarray, shape: tuple[int, ...], what: str) -> UserError:
    return UserError(f"{what}: was given an observation of shape {x.shape[1:]}; {shape} is expected.")


def require_encoder(expert: Expert) -> Encoder:
    """The convolutions and the dense layer of an expert that is a NatureCNN."""
    own = find_encoder(expert)
    if own is None:
        raise UserError(f"encoder: the expert {expert.name!r} has no image network; name one, as 'ppo-pong'.")
    cnn = own.network
    if cnn.sides[0] != cnn.sides[1] or expert.card.get("normalised"):
        raise UserError(
            f"encoder: the expert {expert.name!r} sees images of {(cnn.stack, *cnn.sides)} normalised or "
            "not square; square stacks of frames, read as fractions of 255, can be encoded."
        )
    network = NatureCNN(stack=cnn.stack, size=cnn.sides[0], width=cnn.width, method=cnn.method)
    return Encoder(network, {name: own.params[name] for name in ("conv", "dense")}, expert.name)


def find_encoder(expert: Expert) -> Encoder | None:
    """The image network of an expert, None where it has none."""
    net = expert.network
    if net is None or net.encoder is not None:
        return None if net is None else net.encoder
    return Encoder(net.policy, net.params, expert.name) if type(net.policy) is NatureCNN else None


def save(path: str | os.PathLike[str], policy: TrainedPolicy, card: Mapping[str, Json]) -> Path:
    """Writes an expert's weights and card, each whole and synced.

    The card says `kind` ("action" or "distribution"); `name`, `algorithm`, `environments`, `settings`,
    `returns` and `made` are good to know.
    """
    from_policy(policy, card)  # which refuses what cannot be an expert
    return policy.save(path, **card)


def _card_of_run(folder: Path) -> dict[str, Json]:
    """The card of a run: what its configuration says of the policy in it."""
    if not (folder / "config.json").is_file():
        return {"name": folder.name}
    with damaged(f"expert: {folder / 'config.json'}"):
        settings = disk.read_json(folder / "config.json", "expert")["settings"]
        resolved = settings.get("resolved", settings)
        loss = resolved["loss"]
        soft = isinstance(loss, Mapping) and loss.get("kind") == "CrossEntropy" and not loss.get("groups")
        return {
            "name": folder.name,
            "algorithm": f"imitation of {resolved['expert']} by {settings['name']}",
            "environments": [settings["env"]],
            "kind": "distribution" if soft else "action",
        }


def start(
    init: Source,
    policy: Policy,
    fresh: Params,
    observations: Seen,
    outputs: int,
    *,
    observation_space: Space | None = None,
    action_space: Space | None = None,
) -> tuple[Params, Normaliser]:
    """The parameters that `init` names, for a student with this policy, and the normaliser they go with.

    init: whatever `experts.resolve` makes a network of (a shipped expert, a policy's file, a run's folder, an
    archive), or a `TrainedPolicy`. fresh: the parameters the policy would start with otherwise; their types
    are kept. The spaces are those of the environment. Where the architectures
    differ the error says how.
    """
    try:
        expert = resolve(init, observation_space=observation_space, action_space=action_space)
    except UserError as error:
        raise UserError(f"init: {str(error).removeprefix('expert: ')}") from error
    source, what = expert.network, f"init: {expert.name!r}"
    if source is None:
        raise UserError(f"{what} is no network; name one that is, a policy's file or a run.")
    params = _params(source, policy, what)
    require_fit(what, policy, params, observations.width, outputs)
    if not _same_features(source, observations):
        raise UserError(f"{what} sees images through other features than the policy; give the same encoder.")
    # The clip of a normaliser is left out: students learn without one.
    own = source.normaliser
    normaliser = Normaliser.identity(observations.width) if own is None else Normaliser(own.mean, own.scale)

    def retype(new: jax.Array, old: np.ndarray) -> jax.Array:
        return jnp.asarray(old, new.dtype)

    return jax.tree.map(retype, fresh, params), normaliser


def _params(source: Network, policy: Policy, what: str) -> Params:
    """The source's parameters in the layout of `policy`; another architecture is refused."""
    own, params = source.policy, source.params
    if type(own) is Committee and type(policy) is MLP:
        own, params = own.last(params)
    if isinstance(policy, NatureCNN):
        if source.encoder is not None and isinstance(own, MLP) and not own.widths:
            own, params = source.encoder.network, {**source.encoder.params, "head": params[0]}
    elif source.encoder is not None:
        raise UserError(f"{what} is a network on pixels; the policy is {policy.name}.")
    theirs, ours = _architecture(own), _architecture(policy)
    if theirs["policy"] != ours["policy"]:
        kinds = f"the policy {theirs['policy']} and the student is {ours['policy']}"
        raise UserError(f"{what} is {kinds}; give the same.")
    for name in ours:
        if theirs[name] != ours[name]:
            raise UserError(f"{what} has the {name} {theirs[name]}, the student {ours[name]}; give the same.")
    return params


def _architecture(policy: Policy) -> dict[str, Json]:
    """What decides the function: rounding and the method of a convolution do not."""
    config = policy.config()
    config.pop("method", None)
    if isinstance(policy, NatureCNN):
        config["size"] = policy.sides
    if isinstance(policy, MLP):
        config["head"] = "identity" if policy.head == "identity" else "tanh"
        for edge in ("low", "high"):
            bound = getattr(policy, edge)
            config[edge] = None if bound is None else np.asarray(bound, np.float32).tolist()
    return config


def _same_features(source: Network, observations: Seen) -> bool:
    """Whether both see an image through one frozen network, or neither does."""
    theirs = getattr(source.see, "__self__", None)
    if not isinstance(theirs, Encoded) or not isinstance(observations, Encoded):
        return isinstance(theirs, Encoded) == isinstance(observations, Encoded)
    pairs = zip(jax.tree.leaves(theirs.tensors), jax.tree.leaves(observations.tensors), strict=True)
    return all(np.array_equal(left, right) for left, right in pairs)
