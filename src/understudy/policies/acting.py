"""Policies that act: one observation in, one row of outputs out, by the same calls whatever the batch.

A product of n rows differs in its last bits from n products of one row, and 1e-7 in an action is 0.2 in
Hopper's state 300 steps later. So every row is computed alone. For small networks that is also the fast
way: on two busy cores a 256-256 network took 10 µs a row in NumPy and 88 µs in a compiled call, nearly all
of it dispatch; a linear policy 1.5 and 9.5 (benchmarks/bench_acting.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import UserError
from .base import Linear, Params, Policy, Tabular
from .codecs import Actions, Normaliser, Observations, Recalled, Wrapped
from .gru import GRU
from .guest import Guest
from .mlp import ACTIVATIONS, MLP, Committee, sigmoid
from .nature_cnn import NatureCNN

if TYPE_CHECKING:
    from ..disk import Json
    from ..nested import Nested
    from .codecs import Slots

Forward = Callable[[np.ndarray], np.ndarray]
Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
BYTES = np.dtype(np.uint8)
REMEMBERED = 256
"""Images whose features are remembered."""
PROGRAMS = 16
"""Compiled policies that are kept."""
_PROGRAMS: dict[Hashable, tuple[Policy, Callable[..., Array]]] = {}
_SEEN: dict[Hashable, tuple[Params, dict[bytes, np.ndarray]]] = {}


def forward(policy: Policy, params: Params) -> Forward:
    """A function from one row of inputs to one row of outputs, with these parameters (copied to the host). A
    policy with memory takes the row as the first of an episode. A subclass of a policy of this package may
    compute something else, so it goes through the compiled program, as all policies do that this file does
    not know.

    >>> forward(Linear(), np.eye(2))(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    if type(policy) is Guest:
        return policy.forward(params)
    if type(policy) is Tabular:
        table = np.asarray(params)
        return lambda x: table[int(x[0])]
    if type(policy) is Linear:
        return _linear(np.asarray(params), policy.bias)
    if type(policy) is Committee:
        return _committee(policy, params)
    if type(policy) is MLP:
        return _mlp(policy, params)
    if type(policy) is NatureCNN and policy.method == "single":  # the features compiled for one image
        see, (weight, bias) = features(policy, params), _layer(params["head"])
        return lambda x: see(x) @ weight + bias
    if policy.memory:
        step, empty = forward_step(policy, params), np.zeros((1, policy.memory), np.float32)
        return lambda x: step(empty, x[None])[1][0]
    program = _program(policy, "apply")
    return lambda x: np.asarray(program(params, x[None]))[0]


def forward_rows(policy: Policy, params: Params) -> Forward:
    """A function from rows (m, width) to outputs (m, k), each row to the bits of `forward`.

    >>> forward_rows(Linear(), 2 * np.eye(2))(np.ones((1, 2)))
    array([[2., 2.]])
    """
    single = forward(policy, params)
    if type(policy) in (Linear, MLP, Committee):
        # A stack of products of one row, not one product: NumPy makes the same call for each.
        return lambda x: single(x) if len(x) == 1 else single(x[:, None])[:, 0]
    return lambda x: np.stack([single(row) for row in x])


def forward_step(policy: Policy, params: Params) -> Step:
    """For a policy with memory: from states (n, memory) and rows (n, width) to the next states and outputs
    (n, k), each row to the bits it has alone.

    >>> import jax
    >>> policy = GRU(width=2, widths=())
    >>> step = forward_step(policy, policy.init(jax.random.key(0), features=2, outputs=1))
    >>> state, outputs = step(np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32))
    >>> state.shape, outputs.shape
    ((3, 2), (3, 1))
    """
    if type(policy) is not GRU:
        program = _program(policy, "step")

        def each(state: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = [program(params, state[i : i + 1], rows[i : i + 1]) for i in range(len(rows))]
            return tuple(np.concatenate([np.asarray(one[i]) for one in found]) for i in (0, 1))  # type: ignore[return-value]

        return each
    (A, a), (B, b) = _layer(params["inputs"]), _layer(params["state"])
    mlp, width, one = _mlp(policy.mlp, params["mlp"]), policy.width, B.dtype.type(1)

    def step(state: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = rows.astype(B.dtype, copy=False)[:, None]  # a stack of products of one row, as above
        x, state = np.ascontiguousarray(rows[..., :-1]), state[:, None] * (one - rows[..., -1:])
        seen, own = x @ A + a, state @ B + b
        gates = sigmoid(seen[..., : 2 * width] + own[..., : 2 * width])
        r, z = gates[..., :width], gates[..., width:]
        new = np.tanh(seen[..., 2 * width :] + r * own[..., 2 * width :])
        state = (one - z) * new + z * state
        return state[:, 0], mlp(np.concatenate([state, x], axis=-1))[:, 0]

    return step


def _layer(params: Params) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(params["weight"]), np.asarray(params["bias"])


def as_numbers(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Inputs as the policies read them: bytes as fractions of 255."""
    return x.astype(dtype) / dtype.type(255) if x.dtype == BYTES else x.astype(dtype, copy=False)


def _linear(weight: np.ndarray, bias: bool) -> Forward:
    if not bias:
        return lambda x: as_numbers(x, weight.dtype) @ weight
    matrix, shift = np.ascontiguousarray(weight[..., :-1, :]), weight[..., -1, :]
    shift = shift if weight.ndim == 2 else shift[..., None, :]
    return lambda x: as_numbers(x, weight.dtype) @ matrix + shift


def _mlp(policy: MLP, params: Params) -> Forward:
    layers = [_layer(one) for one in params]
    activate, (last, shift) = ACTIVATIONS[policy.activation].numpy, layers[-1]
    dtype = last.dtype
    head = policy.head_function(np, dtype)

    def run(x: np.ndarray) -> np.ndarray:
        x = as_numbers(x, dtype)
        for weight, bias in layers[:-1]:
            x = x @ weight
            x += bias
            x = activate(x)
        x = x @ last
        x += shift
        return head(x)

    return run


def _committee(policy: Committee, params: Params) -> Forward:
    own = [jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], params) for i in range(policy.members)]
    members = [_mlp(policy.member, one) for one in own]
    count = np.asarray(params[0]["bias"]).dtype.type(policy.members)
    return lambda x: sum(member(x) for member in members) / count


def features(policy: NatureCNN, params: Params) -> Forward:
    """A function from one image to NatureCNN's features (width,): a program for a batch of one, so that they
    do not depend on the batch an image is in. Measured on one core: 0.35 ms an image, in NumPy 0.6. A GPU is
    not asked: its products have ten bits, and the same image must look the same with and without it.

    The features of the last `REMEMBERED` images are remembered, for all functions of the same parameters: an
    expert and the student that sees through its network look at an image once.
    """
    program, frozen = _program(policy, "features"), {name: params[name] for name in ("conv", "dense")}
    made = type(policy), policy.stack, policy.sides, policy.width, policy.method
    key = made, tuple(id(leaf) for leaf in jax.tree.leaves(frozen))
    # The parameters are kept beside what they gave, so that no others can take their place in memory.
    _, seen = _SEEN.setdefault(key, (frozen, {}))
    while len(_SEEN) > 8:
        _SEEN.pop(next(iter(_SEEN)))
    kept = _on_host(frozen)

    def see(x: np.ndarray) -> np.ndarray:
        image = x.tobytes()
        found = seen.get(image)
        if found is None:
            found = seen[image] = np.asarray(program(kept, x[None]))[0]
            if len(seen) > REMEMBERED:
                seen.pop(next(iter(seen)), None)
        return found

    return see


def _on_host(params: Params) -> Params:
    """Parameters on the processor beside an accelerator, where there is one."""
    try:
        host = None if jax.default_backend() == "cpu" else jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS names the accelerator alone
        host = None
    return jax.device_put(params, host)


def _program(policy: Policy, method: str) -> Callable[..., Array]:
    """A compiled method of a policy, one for all parameters that it acts with, round after round."""
    leaves, structure = jax.tree.flatten(policy)
    key = structure, tuple(id(leaf) if hasattr(leaf, "shape") else leaf for leaf in leaves), method
    if key not in _PROGRAMS:
        if len(_PROGRAMS) >= PROGRAMS:
            _PROGRAMS.clear()
        # With the policy, so that the ids of its leaves stay theirs.
        _PROGRAMS[key] = policy, jax.jit(getattr(policy, method))
    return _PROGRAMS[key][1]


@final
class Actor:
    """A policy that acts in some slots, each with an episode of its own: rows in, outputs out.

    memory: numbers that the policy carries from step to step in every slot; 0: none.

    >>> actor = Actor(Linear(), np.eye(2), Normaliser.identity(2), slots=2)
    >>> actor.outputs(np.ones((1, 2)), [1])
    array([[1., 1.]])
    """

    def __init__(self, policy: Policy, params: Params, normaliser: Normaliser, slots: int):
        self._normaliser, self.memory = normaliser, policy.memory
        if policy.memory:
            self._step = forward_step(policy, params)
            self._states = np.zeros((slots, policy.memory), np.float32)
        else:
            self._rows = forward_rows(policy, params)

    def outputs(self, rows: np.ndarray, slots: Slots) -> np.ndarray:
        """The outputs (n, k) for what these slots (n,) show, as rows (n, width). A policy with memory takes
        them as the next of the episodes there.
        """
        rows = self._normaliser(rows)
        if not self.memory:
            return self._rows(rows)
        self._states[slots], outputs = self._step(self._states[slots], rows)
        return outputs


class Encoder(NamedTuple):
    """A frozen network up to its last hidden layer, its parameters, and a name for the record."""

    network: NatureCNN
    params: Params
    name: str


@final
class Encoded(Wrapped):
    """Observations as the features of a frozen network: `Observations`' interface, each image encoded once.
    Numbers beside the image stay as they are.

    One image takes one compiled program for a batch of one, so its features do not depend on the batch.
    """

    def __init__(self, inner: Observations, encoder: Encoder):
        made = encoder.network
        wanted = (made.stack, *made.sides)
        images = [one for one in inner.leaves if one.kind == "byte" and tuple(one.shape) == wanted]
        if len(images) != 1:
            raise UserError(
                f"encoder: {encoder.name!r} sees images of bytes of shape {wanted}; the observations are "
                f"{', '.join(f'{one.kind} {one.shape}' for one in inner.leaves)}."
            )
        self.inner, self.encoder = inner, encoder
        self.image = Observations(images)
        self.beside = Observations([one for one in inner.leaves if one is not images[0]])
        self.width, self.dtype = made.width + self.beside.width, np.dtype(np.float32)
        self._program = features(made, encoder.params)

    @property
    def measured(self) -> np.ndarray:
        """Every feature is a plain number; of the rest those that are."""
        return np.concatenate([np.ones(self.encoder.network.width, bool), self.beside.measured])

    def row(self, observation: Nested) -> np.ndarray:
        """The features of the image, and beside them what else there is (width,)."""
        seen = self._program(self.image.row(observation).reshape(self.image.leaves[0].shape))
        if not self.beside.leaves:
            return seen
        return np.concatenate([seen, as_numbers(self.beside.row(observation), self.dtype)])

    def rows(self, batch: Nested) -> np.ndarray:
        """The features (n, width) of a batch, each image to the bits of `row`."""
        return np.stack([self.row(one) for one in self.split(batch)])

    def config(self) -> dict[str, Json]:
        return {
            "inner": self.inner.config(),
            "encoder": self.encoder.network.config(),
            "name": self.encoder.name,
        }

    @property
    def tensors(self) -> Params:
        """The encoder's parameters, which are saved with the policy: it needs no other file."""
        return self.encoder.params


Seen = Observations | Encoded | Recalled
"""How an observation becomes a row."""


@final
@dataclasses.dataclass(eq=False)
class Network:
    """n observations in, n answers out.

    see: observations (n in front) -> rows (n, width) or images (n, …). encoder: a frozen image network whose
    features the policy takes in their place. head: outputs (n, k) -> n answers.

    >>> from understudy.policies import MLP
    >>> double = Network(MLP(widths=()), [{"weight": 2 * np.eye(2), "bias": np.zeros(2)}], np.asarray, np.abs)
    >>> double([[1.0, -3.0]])
    array([[2., 6.]])
    """

    policy: Policy
    params: Params
    see: Callable[[Nested], np.ndarray]
    head: Callable[[np.ndarray], np.ndarray]
    normaliser: Normaliser | None = None
    encoder: Encoder | None = None

    def __post_init__(self):
        self._one, self._many = forward(self.policy, self.params), forward_rows(self.policy, self.params)
        self._image = None if self.encoder is None else features(self.encoder.network, self.encoder.params)

    def inputs(self, observations: Nested) -> np.ndarray:
        """What the policy sees of n observations, with n in front."""
        rows = np.ascontiguousarray(self.see(observations))  # products of strided rows have other bits
        if self.normaliser is not None:
            rows = self.normaliser(rows)
        return rows if self._image is None else np.stack([self._image(image) for image in rows])

    def outputs(self, observations: Nested) -> np.ndarray:
        """The raw outputs (n, k), each row to the bits it has alone."""
        rows = self.inputs(observations)
        return self._one(rows[0])[None] if len(rows) == 1 else self._many(rows)

    def __call__(self, observations: Nested) -> np.ndarray:
        return self.head(self.outputs(observations))

    def traced(
        self, seen: Seen | None, actions: Actions, *, distribution: bool = False
    ) -> Callable[..., Array] | None:
        """The same as a function of n observations on the device: the outputs as actions or, with
        `distribution`, as probabilities. None where it sees through a frozen image network, or otherwise than
        `Observations` do.

        >>> from gymnasium.spaces import Box, Dict, Discrete
        >>> from understudy.policies import Linear
        >>> seen, acts = Observations.of(Dict(a=Box(-1, 1, (1,)), b=Discrete(3))), Actions.of(Discrete(4))
        >>> network = Network(Linear(), jnp.eye(4), seen.rows, acts.plays)
        >>> network.traced(seen, acts)({"a": jnp.array([[0.5]]), "b": jnp.array([2])}).tolist()
        [3]
        """
        if self.encoder is not None or not isinstance(seen, Observations):
            return None

        def answers(batch: Array) -> Array:
            params, inputs = jax.tree.map(jnp.asarray, self.params), seen.rows(batch)
            if self.normaliser is not None:
                inputs = self.normaliser(inputs)
            outputs = self.policy.apply(params, inputs)
            return jax.nn.softmax(outputs) if distribution else actions.plays(outputs)

        return answers


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities (n, k) of rows of logits, each to the bits it has alone.

    >>> softmax(np.log(np.array([[0.25, 0.75]]))).round(6)
    array([[0.25, 0.75]])
    """
    rows = [np.exp(row - row.max()) for row in logits]
    return np.stack([row / row.sum() for row in rows])


def require_fit(what: str, policy: Policy, params: Params, features: int, outputs: int) -> None:
    """Refuses parameters whose shapes are not those of `policy` with so many features and outputs."""

    def init() -> Params:  # with its key: made outside it would start the accelerator, for shapes alone
        return policy.init(jax.random.key(0), features, outputs)

    try:
        made = jax.eval_shape(init)
    except jax.errors.JAXTypeError:  # a policy of someone's own that looks at the numbers of its key
        made = init()
    wanted, found = _shapes(made), _shapes(params)
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise UserError(
                f"{what}: its network does not go from {features} to {outputs} numbers: the parameter {name} "
                f"has the shape {found.get(name)}, {wanted.get(name)} is needed."
            )


def _shapes(params: Params) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path): np.shape(leaf) for path, leaf in leaves}
