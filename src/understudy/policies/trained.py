"""A policy with its parameters, what it sees and how it acts: the thing a run is for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np

from .. import disk
from ..errors import UserError, damaged, is_own
from .acting import Actor, Encoded, Encoder, Network, Seen, forward, forward_step, require_fit, softmax
from .base import Params, Policy
from .codecs import Actions, Normaliser, Observations, Recalled
from .guest import Guest, Student, guest_of
from .nature_cnn import NatureCNN

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..disk import Json
    from ..nested import Nested

    Memory = tuple[np.ndarray, np.ndarray]
    """Past rows (n, depth − 1, inner) and states (n, memory) of a policy that remembers."""

FORMAT = 1
HEADER = "card"
"""The entry of a safetensors file's header that holds a card."""


def place(path: str | os.PathLike[str]) -> Path:
    """The file with the numbers; the ending may be left out, or be the card's.

    >>> place("runs/rate-0.5").name, place("hopper.json").name
    ('rate-0.5.safetensors', 'hopper.safetensors')
    """
    path = Path(path)
    stem = path.stem if path.suffix in (".safetensors", ".json") else path.name
    return path.with_name(f"{stem}.safetensors")


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], card: Mapping[str, Json]) -> Path:
    """Writes both files, each whole and synced (see `disk.write_file`). The header of the safetensors file
    holds the card too, but for `training`, so that it can be read without the other.
    """
    weights = place(path)
    # Without the record of the training, which has times in it: one seed, the same bytes.
    header = {name: value for name, value in card.items() if name != "training"}
    disk.write_tensors(weights, arrays, {HEADER: disk.to_json(header, sort=True)})
    disk.write_file(weights.with_suffix(".json"), disk.to_json(card, indent=2, sort=True) + "\n")
    return weights


def _read(
    path: str | os.PathLike[str], field: str, given: str | os.PathLike[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
    """The arrays and the card: the .json, or the one in the header, with what the file `given` says instead.
    Refused where there is none, or it is damaged or of a newer format.
    """
    weights = place(path)
    file = weights.with_suffix(".json")
    arrays, metadata = disk.read_tensors(weights, field)
    card: Any = {}
    if file.is_file():
        card = disk.read_json(file, field)
    elif HEADER in metadata:
        with damaged(f"{field}: the header of {weights}"):
            card = json.loads(metadata[HEADER])
    elif given is None:
        raise UserError(
            f"{field}: nothing says what is in {weights}: there is no card {file.name} beside it and no "
            f"{HEADER!r} in its header; name a card with --expert-card."
        )
    if given is not None:
        file, more = Path(given), disk.read_json(Path(given), field)
        card = {"format": FORMAT, **card, **more} if isinstance(more, dict) else more
    return arrays, _known(card, f"{field}: {file}")


def _known(card: Any, what: str) -> dict[str, Any]:
    """The card; refused where it is none or of a newer format."""
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise UserError(f"{what} is not the card of a policy.")
    if card["format"] > FORMAT:
        raise UserError(f"{what} has format {card['format']}, newer than the {FORMAT} known here.")
    return card


@final
class TrainedPolicy:
    """A policy ready to act: callable, with Stable-Baselines3's `predict`, and on disk without pickle.

    One observation always takes the same path (see `policies.acting`), so its action does not depend on the
    batch it is in. A policy that remembers (`remembers`: a GRU, or a stack of observations) is called once a
    step, and `reset` where an episode begins; `predict` takes the memory as `state` and returns the next.
    """

    def __init__(
        self, policy: Policy, params: Params, observations: Seen, actions: Actions, normaliser: Normaliser
    ):
        self.policy, self.params = policy, params
        self.observations, self.actions, self.normaliser = observations, actions, normaliser
        self.remembers = isinstance(observations, Recalled)
        self._forward = forward(policy, params)
        self._step = forward_step(policy, params) if policy.memory else None
        self._state: Memory | None = None

    def __repr__(self) -> str:
        return f"TrainedPolicy({self.policy.name}, {self.observations.space()} to {self.actions.space()})"

    def __str__(self) -> str:
        config = self.policy.config()
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.params))
        told = ", ".join(f"{name} {config[name]}" for name in ("widths", "activation") if name in config)
        remembers = "; it remembers the episode: reset() before each" if self.remembers else ""
        return "\n".join(
            [
                f"Policy {self.policy.name}, {size:,} parameters" + (f" ({told})" if told else ""),
                f"  sees  {self.observations.space()}",
                f"  acts  {self.actions.space()}",
                f"  use   action = policy(observation){remembers}",
            ]
        )

    def outputs(self, row: np.ndarray) -> np.ndarray:
        """The raw outputs (k,) for one encoded row, an episode's first: a mean action, or logits."""
        return self._forward(self.normaliser(row))

    def along(self, rows: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """The raw outputs (n, k) for encoded rows (n, width) in the order in which they were seen in these
        slots (n,): a policy with memory carries its state from row to row of a slot.
        """
        actor = Actor(self.policy, self.params, self.normaliser, 1 + int(np.max(slots)))
        each = zip(rows, np.asarray(slots).tolist(), strict=True)
        return np.concatenate([actor.outputs(row[None], [slot]) for row, slot in each])

    def _each(self, rows: Iterable[np.ndarray]) -> np.ndarray:
        """The raw outputs (n, k) for normalised rows, one by one; n may be 0."""
        return np.reshape([self._forward(row) for row in rows], (-1, self.actions.outputs))

    def reset(self) -> None:
        """The next observation begins an episode."""
        self._state = None

    @property
    def on_reset(self) -> Callable[[], None] | None:
        """`reset`, where there is something to forget; else None."""
        return self.reset if self.remembers else None

    def act(self, observation: Nested) -> np.ndarray | np.int64:
        """The deterministic action for one observation: the next of the episode, where it remembers."""
        if not self.remembers:
            return self.actions.play(self.outputs(self.observations.row(observation)))
        action, self._state = self.predict(observation, self._state)
        return action

    def _recalling(
        self, now: np.ndarray, state: Memory | None, episode_start: ArrayLike | None
    ) -> tuple[np.ndarray, Memory]:
        """Outputs (n, k) for inner rows (n, inner) and a memory, and the next memory."""
        codec, n = self.observations, len(now)
        assert isinstance(codec, Recalled)
        shapes = (n, codec.depth - 1, now.shape[1]), (n, self.policy.memory)
        if state is None:
            state = np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.float32)
            fresh = np.ones(n, bool)
        else:
            fresh = np.zeros(n, bool) if episode_start is None else np.ravel(episode_start).astype(bool)
        if not isinstance(state, tuple) or tuple(map(np.shape, state)) != shapes:
            raise UserError(f"state: it is not what predict of this policy returned for {n} observations.")
        if fresh.shape != (n,):
            raise UserError(f"episode_start: there are {fresh.size} marks for {n} observations.")
        rows = codec.join(now, state[0], fresh)
        inputs, carried = self.normaliser(rows), state[1]
        if self._step is None:
            outputs = self._each(inputs)
        else:
            carried, outputs = self._step(carried, inputs)
        return outputs, (codec.past(rows), carried)

    def predict(
        self,
        observation: Nested,
        state: Memory | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray | np.int64, Memory | None]:
        """One observation or a batch in, (action or actions, state) out; the action is always the
        deterministic one. `state` is the memory that the last call returned, None where all episodes begin;
        `episode_start` (n,) says where one does.
        """
        if isinstance(self.observations, Recalled):
            single, inner = self.observations.single(observation), self.observations.inner
            now = inner.row(observation)[None] if single else inner.rows(observation)
            outputs, state = self._recalling(now, state, episode_start)
            return (self.actions.play(outputs[0]) if single else self.actions.plays(outputs)), state
        if self.observations.single(observation):
            return self.act(observation), state
        rows = [self.observations.row(one) for one in self.observations.split(observation)]
        return self.actions.plays(self._each(map(self.normaliser, rows))), state

    def __call__(self, observation: Nested) -> np.ndarray | np.int64:
        """The action for one observation, or the actions for a batch."""
        if self.remembers and not self.observations.single(observation):
            raise UserError("policy: it remembers; call predict with the state that the last call returned.")
        return self.act(observation) if self.remembers else self.predict(observation)[0]

    def save(self, path: str | os.PathLike[str], **extra: Json) -> Path:
        """Writes `path`.safetensors and `path`.json; `extra` is plain data for the card."""
        arrays, card = self.packed()
        return write(path, arrays, card | extra)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
        """The policy as named arrays and its card, plain data: what `save` writes and `unpacked` reads."""
        tensors = {"network": self.params, "mean": self.normaliser.mean, "scale": self.normaliser.scale}
        if (frozen := getattr(self.observations, "tensors", None)) is not None:
            tensors["encoder"] = frozen
        leaves = jax.tree_util.tree_flatten_with_path(tensors)[0]
        arrays = {"params" + jax.tree_util.keystr(path): np.asarray(leaf, order="C") for path, leaf in leaves}
        names = iter(arrays)
        listed = jax.tree.map(lambda _: next(names), tensors)  # lists and dicts of names of arrays
        if is_own(self.policy):  # whose parameters may be modules; `init` says again how they go together
            listed["network"] = jax.tree.leaves(listed["network"])
        card = {
            "format": FORMAT,
            **self.policy.config(),
            "params": listed,
            "observations": self.observations.config(),
            "actions": self.actions.config(),
        }
        return arrays, card | ({"clip": self.normaliser.limit} if self.normaliser.limit < math.inf else {})

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Student | Policy | None = None) -> TrainedPolicy:
        """Reads what `save` wrote; `path` may also be a run's folder, or the file of an expert. policy: a
        student of one's own (`understudy.students`), which no file keeps; without it one cannot act.
        """
        return cls.read(path, student=policy)[0]

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        field: str = "policy",
        card: str | os.PathLike[str] | None = None,
        student: Student | Policy | None = None,
    ) -> tuple[TrainedPolicy, dict[str, Any]]:
        """The policy and its card, with what the file `card` says instead. Errors begin with `field`."""
        base = Path(path)
        base = base / "policy" if os.path.isdir(base) else base
        arrays, about = _read(base, field, card)
        return cls.unpacked(arrays, about, f"{field}: {base}", student), about

    @classmethod
    def unpacked(
        cls,
        arrays: Mapping[str, np.ndarray],
        card: Json,
        what: str = "policy",
        student: Student | Policy | None = None,
    ) -> TrainedPolicy:
        """The policy that `packed` described, half-precision tensors widened; errors begin with `what`."""
        from . import from_config

        about = _known(card, what)
        if unsaid := [name for name in ("observations", "actions") if name not in about]:
            raise UserError(f"{what} does not say what the policy sees and does ({unsaid[0]!r} is missing).")
        wide = {k: v.astype(np.float32) if v.dtype == np.float16 else v for k, v in arrays.items()}
        with damaged(what):
            tensors = jax.tree.map(lambda name: wide[name], about["params"])
            seen = _seen(about["observations"], tensors.get("encoder"))
            acts = Actions.from_config(about["actions"])
            policy = None if about["policy"] == Guest.name else from_config(about)
            if policy is not None and student is not None:
                raise UserError(f"{what} holds a policy of this package ({about['policy']}); give it alone.")
            if policy is not None and is_own(policy):
                like = policy.init(jax.random.key(0), seen.width, acts.outputs)
                leaves = jax.tree.leaves(tensors["network"])
                tensors["network"] = jax.tree.unflatten(jax.tree.structure(like), leaves)
            if policy is not None:
                require_fit(what, policy, tensors["network"], seen.width, acts.outputs)
            _ = seen.space(), acts.space()  # a card may say what no space is
            normaliser = Normaliser.identity(seen.width)
            if "mean" in tensors:
                normaliser = Normaliser(tensors["mean"], tensors["scale"], about.get("clip", math.inf))
            if normaliser.mean.shape != (seen.width,) or normaliser.scale.shape != (seen.width,):
                raise ValueError(f"its normaliser is not for {seen.width} numbers")
            if policy is None:
                policy = guest_of(about, seen.width, acts.outputs, student)
            return cls(policy, tensors["network"], seen, acts, normaliser)

    def network(self, *, distribution: bool = False) -> Network:
        """This policy as a network that answers batches with actions, or with probabilities of choices."""
        head = softmax if distribution else self.actions.plays
        return Network(self.policy, self.params, self.observations.rows, head, self.normaliser)


def _seen(config: Any, tensors: Params) -> Seen:
    """What `config` described, from a policy's card."""
    if not isinstance(config, dict):
        return Observations.from_config(config)
    if "recalled" in config:
        inner = _seen(config["recalled"], tensors)
        if isinstance(inner, Recalled):
            raise KeyError("encoder")
        return Recalled(inner, config["changes"] + 1, mark=config["mark"])
    from . import from_config

    network = from_config(config["encoder"])
    if not isinstance(network, NatureCNN) or tensors is None:
        raise KeyError("encoder")
    return Encoded(Observations.from_config(config["inner"]), Encoder(network, tensors, config["name"]))
