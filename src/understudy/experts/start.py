"""Where a student starts: from the parameters of an expert, of a policy's file or of a finished run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import UserError
from ..policies import (
    MLP,
    Committee,
    Encoded,
    NatureCNN,
    Network,
    Normaliser,
    Params,
    Policy,
    Seen,
    require_fit,
)
from . import resolve


def start(
    init: Any, policy: Policy, fresh: Params, observations: Seen, outputs: int, **spaces: Any
) -> tuple[Params, Normaliser]:
    """The parameters that `init` names, for a student with this policy, and the normaliser they go with.

    init: whatever `experts.resolve` makes a network of (a shipped expert, a policy's file, a run's folder, an
    archive), or a `TrainedPolicy`. fresh: the parameters the policy would start with otherwise; their types
    are kept. spaces: `observation_space` and `action_space` of the environment. Where the architectures
    differ the error says how.
    """
    try:
        expert = resolve(init, **spaces)
    except UserError as error:
        raise UserError(f"init: {str(error).removeprefix('expert: ')}") from error
    source, what = expert.network, f"init: {expert.name!r}"
    if source is None:
        raise UserError(f"{what} is no network; name one that is, a policy's file or a run.")
    found = _params(source, policy, what)
    require_fit(what, policy, found, observations.width, outputs)
    if not _same_features(source, observations):
        raise UserError(f"{what} sees images through other features than the policy; give the same encoder.")
    kept = source.normaliser
    # The clip of a normaliser is left out: students learn without one.
    normaliser = (
        Normaliser.identity(observations.width) if kept is None else Normaliser(kept.mean, kept.scale)
    )
    return jax.tree.map(lambda new, old: jnp.asarray(old, new.dtype), fresh, found), normaliser


def _params(source: Network, policy: Policy, what: str) -> Params:
    """The source's parameters in the layout of `policy`; another architecture is refused."""
    made, params = source.policy, source.params
    if type(made) is Committee and type(policy) is MLP:
        made, params = made.last(params)
    if isinstance(policy, NatureCNN):
        if source.encoder is not None and isinstance(made, MLP) and not made.widths:
            made, params = source.encoder.network, {**source.encoder.params, "head": params[0]}
    elif source.encoder is not None:
        raise UserError(f"{what} is a network on pixels; the policy is {policy.name}.")
    theirs, ours = _shape(made), _shape(policy)
    if theirs["policy"] != ours["policy"]:
        kinds = f"the policy {theirs['policy']} and the student is {ours['policy']}"
        raise UserError(f"{what} is {kinds}; give the same.")
    for name in ours:
        if theirs[name] != ours[name]:
            raise UserError(f"{what} has the {name} {theirs[name]}, the student {ours[name]}; give the same.")
    return params


def _shape(policy: Policy) -> dict[str, Any]:
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
    return all(np.array_equal(one, other) for one, other in pairs)
