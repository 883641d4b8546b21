"""Experts: what one is, and how `resolve` makes one of a name, a file or an object.

There is one final class, `Expert`. Everything else in this room is a function that returns one, and wrapping
an expert (checking its answers, showing it other observations, asking it over a slow line) is
`dataclasses.replace` with another `ask`. Importing this room is cheap; readers, planners, JAX and Gymnasium
are imported by what needs them.
"""

# pyright: reportUnusedImport=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# What is imported for type checkers is made by `__getattr__` when the program runs; `resolve` takes anything.

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from ..errors import UserError, shorten, unknown
from ..nested import batch_size, stack
from ..registry import Registry, load_named

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import ArrayLike

    from ..nested import Infos as Infos
    from ..nested import Nested as Nested
    from ..nested import Space as Space
    from ..policies import Network
    from .answers import checked, seeing, several
    from .callables import Predictor, batched, from_callable, from_predictor, from_remote, pure
    from .human import Person, person
    from .networks import save
    from .shipped import card, dynamic_programming, for_env, get, names, value_iteration
    from .training import train

    Named: TypeAlias = str | os.PathLike[str] | Callable[..., Any] | Predictor | tuple[Any, ...] | None
    Source: TypeAlias = "Expert | Named"
    """What `resolve` makes an expert of."""


Kind = Literal["action", "distribution"]
KINDS = ("action", "distribution")


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Expert:
    """A named labeller of batches of observations.

    `ask(observations, infos)` is given n observations at once and returns n labels. With `kind="action"` a
    label is an action: float32 (n, *shape) for Box, int64 (n, *shape) for choices, (n,) where there is one.
    With `kind="distribution"` (Discrete only) it is a row of probabilities, float32 (n, k). The spaces are
    what the expert was made for, None where that is unknown; the card says where it comes from.

    >>> left = Expert("left", ask=lambda observations, infos: np.zeros(len(observations), np.int64))
    >>> left.label(np.ones((3, 4)))
    array([0, 0, 0])
    """

    name: str
    ask: Callable[..., ArrayLike] = dataclasses.field(repr=False)
    kind: Kind = "action"
    observation_space: Space | None = dataclasses.field(default=None, repr=False)
    action_space: Space | None = dataclasses.field(default=None, repr=False)
    card: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any], repr=False)
    needs_infos: bool = False
    on_reset: Callable[[], None] | None = dataclasses.field(default=None, repr=False)
    """Called when an episode begins, of an expert that remembers what it saw in the last one."""
    network: Network | None = dataclasses.field(default=None, repr=False)
    """The network it plays, where it is one that this package runs itself."""
    pure: Callable[..., Any] | None = dataclasses.field(default=None, repr=False)
    """The same answers as a function of n observations that JAX can trace, where there is one: then runs in
    pure environments stay on the device."""
    deterministic: bool = False
    """Whether an observation has one answer, to the bit, in any batch and at any time."""
    probed: int = 0
    """Calls that were made to find out what it is."""
    batch: int = 32
    """Most observations in one call of a slow expert; 1: it is asked about them one at a time."""
    person: Person | None = dataclasses.field(default=None, repr=False)
    """Who is asked in place of `ask`, where it is a person (`experts.human`)."""
    workers: int | None = None
    """Calls that may be under way at once, for a slow or expensive expert; None: it is neither. A run
    asks such an expert about a state once, in parallel, after the round where it does not act itself, and
    does not play it for its return unless that is asked for."""
    names: tuple[str, ...] = ()
    """The names of several experts that are asked as one (`experts.several`)."""
    route: Callable[[Nested, Infos], np.ndarray] | None = dataclasses.field(default=None, repr=False)
    """Which of them n observations and infos are labelled by, (n,): numbers of `names`."""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise UserError(f"kind: {self.kind!r} is not a kind of label; accepted: {', '.join(KINDS)}.")

    def label(self, observations: Nested, infos: Infos = None) -> np.ndarray:
        """The expert's answers to n observations (arrays, or a dict of arrays, with n in front)."""
        if batch_size(observations) == 0:
            return self._no_labels()
        labels = np.asarray(self.ask(observations, infos))
        wanted = np.int64 if self.kind == "action" and labels.dtype.kind in "iub" else np.float32
        return labels if labels.dtype == wanted else labels.astype(wanted)

    def act(
        self, observations: Nested, infos: Infos = None, *, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """The actions it would play: its labels, or from a distribution the mode, or with `rng` a sample.

        >>> coin = Expert("coin", ask=lambda o, i: np.full((len(o), 2), [0.25, 0.75]), kind="distribution")
        >>> coin.act(np.zeros(3)), coin.act(np.zeros(8), rng=np.random.default_rng(0)).sum()
        (array([1, 1, 1]), np.int64(6))
        """
        labels = self.label(observations, infos)
        if self.kind == "action":
            return labels
        indices = labels.argmax(axis=1) if rng is None else sample_rows(labels, rng)
        return indices.astype(np.int64) + int(getattr(self.action_space, "start", 0))

    def predict(
        self,
        observation: Nested,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Stable-Baselines3's signature: one observation or a batch in, (action or actions, state) out.

        A distribution is answered with its mode whatever `deterministic` says: randomness is an argument here
        (see `act`), never hidden in the expert.
        """
        if self.observation_space is None:
            raise UserError(
                f"expert {self.name!r}: predict cannot tell one observation from a batch because the "
                "observation space is unknown; give observation_space=, or call act."
            )
        if not is_single(observation, self.observation_space):
            return self.act(observation), state
        return self.act(stack([observation]))[0], state

    def __call__(self, observation: Nested) -> np.ndarray:
        """The action for one observation, or the actions for a batch."""
        return self.predict(observation)[0]

    def _no_labels(self) -> np.ndarray:
        space = self.action_space
        if space is None:
            raise UserError(f"expert {self.name!r}: was asked about nothing, and its actions are unknown.")
        if self.kind == "distribution":
            return np.empty((0, int(getattr(space, "n"))), np.float32)  # noqa: B009
        discrete = np.issubdtype(space.dtype, np.integer)
        return np.empty((0, *(space.shape or ())), np.int64 if discrete else np.float32)


def sample_rows(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index per row, drawn from it: the first whose cumulative probability exceeds a uniform number."""
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    thresholds = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.minimum((thresholds[:, None] >= cumulative).sum(axis=1), probabilities.shape[1] - 1)


def is_single(observation: Any, space: Space) -> bool:
    """Whether this is one observation of the space, not a batch: it has exactly the space's dimensions."""
    inner: Any = getattr(space, "spaces", None)
    if isinstance(observation, Mapping):
        key, value = next(iter(observation.items()), (None, None))
        if not isinstance(inner, Mapping) or key not in inner:
            raise UserError(f"observation: its key {key!r} is not in the observation space {space}.")
        return is_single(value, inner[key])
    if isinstance(observation, tuple) and isinstance(inner, tuple):
        return is_single(observation[0], inner[0])
    return np.ndim(observation) == len(space.shape or ())


_HOMES = {
    "answers": ("checked", "seeing", "several"),
    "callables": ("batched", "from_callable", "from_predictor", "from_remote", "pure"),
    "networks": ("save",),
    "human": ("person",),
    "shipped": ("card", "dynamic_programming", "for_env", "get", "names", "value_iteration"),
    "training": ("train",),
}
_LAZY = {name: home for home, members in _HOMES.items() for name in members}
__all__ = ["Expert", "resolve", *_LAZY]  # pyright: ignore[reportUnsupportedDunderAll]


EXPERTS: Registry[Source] = Registry("expert", object, {}, group="experts")
"""Experts that were added: each maker gives whatever `resolve` accepts."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__


def resolve(
    spec: Source = None,
    *,
    env_id: str | None = None,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    expert_sees: str | None = None,
    **options: Any,
) -> Expert:
    """An expert from whatever names or is one, for an environment with these spaces, its answers checked.

    In this order: None (the shipped expert that serves `env_id`); an `Expert`; brax's PPO parameters (a
    tuple); an object with `predict`; a callable; and for a text the name of a shipped or registered expert, a
    policy's file (`.safetensors` with its card), the folder of a run, a checkpoint of rsl_rl (`.pt`), brax's
    parameters (`.msgpack`, `.npz`), a Stable-Baselines3 archive (whose `.zip` may be left out), `person` (or
    `person:page`, `person:terminal`), `module:attribute` (searched in the current directory too), a hub name
    `org/repo`.

    `expert_sees`: what a privileged expert is asked about, as in "joints,info:target". Other options go to
    the maker: `batched`, `kind`, `name` (callables), `activation` (archives, hub, checkpoints, brax),
    `vec_normalize` (archives and hub), `who` (checkpoints), `filename`, `revision` (hub), `env_kwargs`
    (shipped), `expert_card` (files). One that the expert in
    question has no use for is refused; None counts as not given.

    >>> resolve("lqr-CartPole-v1").label([[0.0, 0.0, 0.1, 0.0]])
    array([1])
    """
    shown = observation_space
    if expert_sees is not None and observation_space is not None:
        from ..policies.sight import Sight

        shown = Sight.of(expert_sees, "expert_sees").space(observation_space)
    given = {key: value for key, value in options.items() if value is not None}
    asked = _Asked(env_id, {"observation_space": shown, "action_space": action_space}, given)
    expert = asked.shipped() if spec is None else asked.make(spec)
    from . import answers

    answers.require_spaces(expert, shown, action_space)
    if expert_sees is not None:
        expert = answers.seeing(expert, expert_sees)
    if observation_space is not None:
        expert = dataclasses.replace(expert, observation_space=observation_space)
    if action_space is None and expert.action_space is None:
        return expert
    return answers.checked(expert, action_space)


@final
@dataclasses.dataclass(frozen=True)
class _Asked:
    """What was said besides the expert's name: where it is to be asked, and options for its maker."""

    env_id: str | None
    spaces: dict[str, Space | None]
    options: dict[str, Any]

    def only(self, what: str, *accepted: str) -> dict[str, Any]:
        """The options, all of which must be of use to the expert they are for."""
        for key in self.options:
            if key not in accepted:
                uses = f"it uses {', '.join(accepted)}" if accepted else "it uses none"
                raise UserError(f"expert: the option {key!r} is not for {what}; {uses}.")
        return self.options

    def shipped(self) -> Expert:
        if self.env_id is None:
            raise UserError(
                "expert: none was named, and none comes with the package for an environment that has no "
                "id; give a name, a file or module:function."
            )
        from . import shipped

        return shipped.for_env(self.env_id, **self.only("a shipped expert", "env_kwargs"))

    def make(self, spec: Source) -> Expert:
        if isinstance(spec, Expert):
            self.only("an expert that is already made")
            return spec
        if isinstance(spec, tuple) and len(spec) >= 2:
            from . import brax

            return brax.from_params(
                spec, **self.spaces, **self.only("brax's parameters", "activation", "name")
            )
        if isinstance(spec, str | os.PathLike):
            return self.named(os.fspath(spec))
        if inspect.isclass(spec):
            raise UserError(f"expert: {spec.__name__} is a class; give an object of it or a function.")
        from . import callables

        if isinstance(spec, callables.Predictor) and callable(spec.predict):
            options = self.only("an object with predict", "name")
            return callables.from_predictor(spec, **self.spaces, **options)
        if callable(spec):
            options = self.only("a callable", "batched", "kind", "name")
            return callables.from_callable(spec, **self.spaces, **options)
        raise UserError(
            f"expert: {type(spec).__name__} is not accepted; give a name, a file, module:function, a "
            "callable or an object with predict."
        )

    def named(self, text: str) -> Expert:
        from . import shipped

        if text in shipped.names():
            return shipped.get(text, env_id=self.env_id, **self.only("a shipped expert", "env_kwargs"))
        if text in EXPERTS:
            return self.registered(text)
        who, _, door = text.partition(":")
        if who == "person":
            from .human import person

            asked = dataclasses.replace(self, options=self.options | ({"door": door} if door else {}))
            return person(**asked.only("a person", *inspect.signature(person).parameters))
        if text.endswith(".safetensors") or os.path.isfile(os.path.join(text, "policy.safetensors")):
            from . import networks

            return networks.load(text, **self.only("a policy's file or a run", "expert_card"))
        if text.endswith((".pt", ".pth")):
            from . import rsl_rl

            return rsl_rl.load(text, **self.spaces, **self.only("a checkpoint", "activation", "who", "name"))
        if text.endswith((".msgpack", ".npz")):
            from . import brax

            return brax.load(text, **self.spaces, **self.only("brax's parameters", "activation", "name"))
        from .sb3 import archive

        zipped = text if text.endswith(".zip") or os.path.isfile(text) else f"{text}.zip"
        if text.endswith(".zip") or os.path.isfile(zipped):
            return archive.load(zipped, **self.only("an archive", "activation", "vec_normalize", "name"))
        if ":" in text:
            spec: Source = load_named("expert", text)
            nameless = not isinstance(spec, Expert) and callable(spec) and "name" not in self.options
            return (self.naming(text) if nameless else self).make(spec)
        if archive.is_hub_name(text):
            keys = ("filename", "revision", "activation", "vec_normalize")
            return archive.from_hub(text, **self.only("a hub name", *keys))
        error = unknown("expert", text, [*shipped.names(), *EXPERTS.names()])
        raise UserError(f"{error} A function of yours is module:function.")

    def registered(self, name: str) -> Expert:
        EXPERTS.refuse_foreign(name, self.options)
        try:
            spec = EXPERTS.maker(name)(**self.options)
        except UserError:
            raise
        except Exception as error:  # whatever a maker of the user's own may raise
            raise UserError(f"expert: {name!r} cannot be made ({shorten(error)}).") from error
        nameless = not isinstance(spec, Expert) and (callable(spec) or hasattr(spec, "predict"))
        without = dataclasses.replace(self, options={})
        return (without.naming(name) if nameless else without).make(spec)

    def naming(self, name: str) -> _Asked:
        return dataclasses.replace(self, options={**self.options, "name": name})
