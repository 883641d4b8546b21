"""Stable-Baselines3 archives (PPO, A2C, SAC, TD3, DQN) as experts; nothing in the file is run.

An archive is a zip with `data` (JSON in which Python objects are base64 pickles), `policy.pth` (the weights)
and files that are not needed here. Every pickle is read as records and never run; from the few that matter,
known names alone are accepted; and a file that holds a pickle able to start a program, needed or not, is
refused as a whole.
"""

# pyright: reportUnknownVariableType=false

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UserError, damaged, import_extra, shorten
from ...policies import Normaliser
from .. import Expert
from ..networks import existing, from_mlp
from . import layout, pickles, torchfile
from .pickles import Record
from .torchfile import member, opened

if TYPE_CHECKING:
    from ...disk import Json

_TORCH = ("ReLU", "Tanh", "Sigmoid", "ELU", "SELU", "SiLU", "Identity")
_ACTIVATIONS = {name: name.lower() for name in _TORCH} | {"LeakyReLU": "leaky_relu"}
# What a policy has where its policy_kwargs name no activation, by the part of Stable-Baselines3 it is from.
_USUAL = {"common": "tanh", "ppo": "tanh", "a2c": "tanh", "sac": "relu", "td3": "relu", "dqn": "relu"}
_DEFAULT_ACTIVATION = {f"stable_baselines3.{part}.policies": name for part, name in _USUAL.items()}
_EXTRACTORS = ("FlattenExtractor", "NatureCNN")
_READ = ("observation_space", "action_space", "policy_kwargs", "policy_class")
LONGEST = 1 << 25
"""Bytes of the JSON, at most: lists of lists have twenty times as many in memory."""


def load(
    path: str | os.PathLike[str],
    *,
    activation: str | None = None,
    vec_normalize: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Expert:
    """The expert in a Stable-Baselines3 archive: its answers are those of `predict(…, deterministic=True)`.

    PPO and A2C with Discrete actions give their distribution. `activation` is needed only where the archive
    does not say it (a policy class of one's own); `vec_normalize` is the file that `VecNormalize.save` wrote,
    whose statistics are applied to what this expert sees and to nothing else.
    """
    path, what = existing(path, "archive")
    with damaged(what):
        data, objects, tensors, version = _members(path, what)
        settings = _settings(data, objects, what, activation)
        seen, acts = settings.observation_space, settings.action_space
        statistics = None if vec_normalize is None else normaliser(vec_normalize, seen.shape or ())
        net = layout.build(tensors, settings, what, statistics)
        raw = net.encoder is not None and not settings.normalize_images
        algorithm = layout.family(tensors, what)
        if algorithm == layout.ON_POLICY:
            algorithm = "PPO" if "clip_range" in data else "A2C"
        card = {
            "name": name or path.stem,
            "algorithm": algorithm,
            "normalised": statistics is not None or raw,
            "made": f"read from {path.name}, written by Stable-Baselines3 {version or '(version unknown)'}",
        }
        return from_mlp(net, seen, acts, card)


def _members(path: Path, what: str) -> tuple[dict[str, Json], dict[str, Record], dict[str, np.ndarray], str]:
    """The data of an archive, the pickles of it that are read, the weights, and who wrote it."""
    with opened(path, what) as archive:
        data = _json(member(archive, "data", what), what)
        pickled = {key: field.get(":serialized:") for key, field in data.items() if isinstance(field, dict)}
        trees = ((k, _pickle(text, f"{what}, {k}")) for k, text in pickled.items() if isinstance(text, str))
        objects = {key: tree for key, tree in trees if key in _READ}
        for other in archive.namelist():
            if other != "policy.pth" and other.endswith((".pth", ".pt", ".pkl", ".pickle")):
                torchfile.scan(member(archive, other, what), f"{what}, {other}")
        tensors = torchfile.state_dict(member(archive, "policy.pth", what), f"{what}, policy.pth")
        version, file = "", "_stable_baselines3_version"
        if file in archive.namelist():
            version = member(archive, file, what)[:40].decode("ascii", "replace").strip()
    return data, objects, tensors, version


def _json(data: bytes, what: str) -> dict[str, Json]:
    if len(data) > LONGEST:
        raise UserError(f"{what}: its member 'data' has {len(data):,} bytes; {LONGEST:,} are the most.")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise UserError(f"{what}: its member 'data' is not JSON: no archive of Stable-Baselines3.") from None
    if not isinstance(value, dict):
        raise UserError(f"{what}: its member 'data' is not an archive of Stable-Baselines3.")
    return value


def _pickle(text: str, what: str) -> Record:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise UserError(f"{what}: is not base64.") from None
    return pickles.read(data, what)


def _settings(
    data: Mapping[str, Any], objects: Mapping[str, Record], what: str, activation: str | None
) -> layout.Settings:
    """The spaces, and what policy_kwargs and the policy's class say: activation, image scaling, squashing."""
    if missing := [field for field in _READ[:2] if field not in objects]:
        raise UserError(f"{what}: has no {missing[0]}, so it is no archive of Stable-Baselines3.")
    spaces = (pickles.space(objects[field], f"{what}, {field}") for field in _READ[:2])
    given = objects.get("policy_kwargs", data.get("policy_kwargs", {}))
    if not isinstance(given, Mapping):
        given = {}
    extractor = given.get("features_extractor_class")
    if isinstance(extractor, pickles.Global | pickles.Call):
        label = shorten(extractor.name) if isinstance(extractor, pickles.Global) else "a class of its own"
        if label not in _EXTRACTORS:
            raise UserError(f"{what}: uses the extractor {label}; {' and '.join(_EXTRACTORS)} can be read.")
    policy_class = objects.get("policy_class")
    return layout.Settings(
        *spaces,
        activation=activation or _activation(given.get("activation_fn"), policy_class),
        normalize_images=given.get("normalize_images", True) is not False,
        squash_output=given.get("squash_output", False) is True,
        clip_mean=float(pickles.number(given.get("clip_mean", 2.0), f"{what}, policy_kwargs")),
    )


def _activation(function: Record, policy_class: Record) -> str | None:
    if isinstance(function, pickles.Global) and function.module.startswith("torch.nn."):
        return _ACTIVATIONS.get(function.name)
    if function is None and isinstance(policy_class, pickles.Global):
        return _DEFAULT_ACTIVATION.get(policy_class.module)
    return None


def normaliser(path: str | os.PathLike[str], shape: tuple[int, ...]) -> Normaliser | None:
    """The statistics that `VecNormalize.save` wrote: x ↦ clip((x - mean)/√(var + ε), ±clip) of flattened
    observations, None if it was off.
    """
    path = Path(path)
    what = f"VecNormalize file {path.name!r}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{what}: cannot be read ({error.strerror or error}).") from None
    tree = pickles.read(data, what)
    with damaged(what):
        state = _attributes(tree, "vec_env.vec_normalize.VecNormalize", what)
        if not pickles.number(state.get("norm_obs", True), what):
            return None
        if isinstance(state["obs_rms"], dict):
            raise UserError(f"{what}: normalises a dict of observations; one array is what can be read.")
        inner = _attributes(state["obs_rms"], "running_mean_std.RunningMeanStd", what)
        mean, variance = (pickles.array(inner[key], what).astype(np.float64) for key in ("mean", "var"))
        epsilon, limit = (float(pickles.number(state[key], what)) for key in ("epsilon", "clip_obs"))
        if mean.shape != shape or variance.shape != shape:
            raise UserError(f"{what}: its statistics have the shape {mean.shape}, the observations {shape}.")
        if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance + epsilon > 0).all()):
            raise UserError(f"{what}: its statistics are not finite and positive.")
        deviation = np.sqrt(variance + epsilon)
        return Normaliser(mean.reshape(-1), deviation.reshape(-1), limit, dtype=np.float64)


def _attributes(record: Record, name: str, what: str) -> Mapping[str, Any]:
    """The attributes of an object of this class of Stable-Baselines3; any other is refused."""
    if not pickles.is_name(pickles.class_of(record), f"stable_baselines3.common.{name}"):
        raise pickles.refused(what, record)
    return pickles.attributes(record, what)


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
STATISTICS = "vec_normalize.pkl"


def is_hub_name(text: str) -> bool:
    """Whether a text has the form `org/repo`.

    >>> is_hub_name("sb3/ppo-CartPole-v1"), is_hub_name("./here/ppo.zip")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def from_hub(
    name: str,
    *,
    filename: str | None = None,
    revision: str | None = None,
    activation: str | None = None,
    vec_normalize: str | None = None,
) -> Expert:
    """The expert in the repository `org/repo` of the Hugging Face Hub. The archive is `repo.zip`, by
    Stable-Baselines3's convention `{algo}-{env}.zip`, unless `filename` names another.

    The repository's own `vec_normalize.pkl` is used where there is one, unless `vec_normalize` names a file
    of yours.
    """
    if not is_hub_name(name):
        raise UserError(f"expert: {name!r} is not a name of the form org/repo.")
    repo = name.split("/")[1]
    filename = filename or f"{repo}.zip"
    path = download(name, filename, revision)
    if path is None:
        raise UserError(f"expert: {name!r} on the hub has no file {filename!r}; give filename=.")
    statistics = vec_normalize or download(name, STATISTICS, revision)
    expert = load(path, activation=activation, vec_normalize=statistics, name=name)
    return dataclasses.replace(
        expert, card={**expert.card, "source": f"hub:{name}/{filename}", "revision": revision}
    )


def download(repo: str, filename: str, revision: str | None) -> Path | None:
    """The local copy of a file on the hub, downloaded once; None where the repository has no such file."""
    here = f"expert: there is no folder or file {repo!r} here; to look for it on the Hugging Face Hub one"
    client, errors = (import_extra(one, here, "hub") for one in ("huggingface_hub", "huggingface_hub.errors"))
    try:
        return Path(client.hf_hub_download(repo, filename, revision=revision))
    except errors.LocalEntryNotFoundError:  # not in the local copy, and the hub could not be reached
        raise UserError(f"expert: {repo!r} could not be fetched, the hub cannot be reached.") from None
    except errors.EntryNotFoundError:
        return None
    except errors.RepositoryNotFoundError:
        raise UserError(f"expert: there is no repository {repo!r} on the hub (or it is private).") from None
    except Exception as error:  # the network, the proxy, the disk: a library's worth of reasons
        raise UserError(f"expert: {repo!r} could not be fetched ({shorten(error)}).") from error
