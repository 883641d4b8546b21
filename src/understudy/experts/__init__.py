"""Experts: what one is, those that come with the package, and how `resolve` makes one of a name or an object.

There is one final class, `Expert`. Everything else in this room is a function that returns one, and wrapping
an expert (checking its answers, showing it other observations, asking it over a slow line) is
`dataclasses.replace` with another `ask`. Importing this room is cheap; readers, planners, JAX and Gymnasium
are imported by what needs them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from .. import disk
from ..errors import UserError, check_name, shorten, suggest, unknown
from ..nested import batch_size, stack
from ..registry import Registry, load

if TYPE_CHECKING:
    from gymnasium import Space

    from ..policies import Network
    from .answers import checked, seeing
    from .callables import batched, from_callable, from_predictor, pure
    from .human import Person, person
    from .networks import save
    from .planners import dynamic_programming, value_iteration
    from .remote import from_remote
    from .training import train


Ask = Callable[[Any, Any], Any]
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
    ask: Ask = dataclasses.field(repr=False)
    kind: Kind = "action"
    observation_space: Space[Any] | None = dataclasses.field(default=None, repr=False)
    action_space: Space[Any] | None = dataclasses.field(default=None, repr=False)
    card: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    needs_infos: bool = False
    on_reset: Callable[[], None] | None = dataclasses.field(default=None, repr=False)
    """Called when an episode begins, of an expert that remembers what it saw in the last one."""
    network: Network | None = dataclasses.field(default=None, repr=False)
    """The network it plays, where it is one that this package runs itself."""
    pure: Callable[[Any], Any] | None = dataclasses.field(default=None, repr=False)
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

    def __post_init__(self):
        if self.kind not in KINDS:
            raise UserError(f"kind: {self.kind!r} is not a kind of label; accepted: {', '.join(KINDS)}.")

    def label(self, observations: Any, infos: Any = None) -> np.ndarray:
        """The expert's answers to n observations (arrays, or a dict of arrays, with n in front)."""
        if batch_size(observations) == 0:
            return self._no_labels()
        labels = np.asarray(self.ask(observations, infos))
        wanted = np.int64 if self.kind == "action" and labels.dtype.kind in "iub" else np.float32
        return labels if labels.dtype == wanted else labels.astype(wanted)

    def act(
        self, observations: Any, infos: Any = None, *, rng: np.random.Generator | None = None
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
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ):
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

    def __call__(self, observation: Any) -> Any:
        """The action for one observation, or the actions for a batch."""
        return self.predict(observation)[0]

    def _no_labels(self) -> np.ndarray:
        space: Any = self.action_space
        if space is None:
            raise UserError(f"expert {self.name!r}: was asked about nothing, and its actions are unknown.")
        if self.kind == "distribution":
            return np.empty((0, int(space.n)), np.float32)
        discrete = np.issubdtype(space.dtype, np.integer)
        return np.empty((0, *space.shape), np.int64 if discrete else np.float32)


def together(name: str, answers: Sequence[Any]) -> np.ndarray:
    """n answers as one array with n in front; refused where their shapes differ."""
    try:
        return np.stack([np.asarray(answer) for answer in answers])
    except ValueError:
        raise UserError(f"expert {name!r}: its answers do not all have the same shape.") from None


def sample_rows(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index per row, drawn from it: the first whose cumulative probability exceeds a uniform number."""
    cumulative = np.cumsum(probabilities, axis=1, dtype=np.float64)
    thresholds = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.minimum((thresholds[:, None] >= cumulative).sum(axis=1), probabilities.shape[1] - 1)


def is_single(observation: Any, space: Any) -> bool:
    """Whether this is one observation of the space, not a batch: it has exactly the space's dimensions."""
    inner = getattr(space, "spaces", None)
    if isinstance(observation, Mapping):
        key = next(iter(observation), None)
        if not isinstance(inner, Mapping) or key not in inner:
            raise UserError(f"observation: its key {key!r} is not in the observation space {space}.")
        return is_single(observation[key], inner[key])
    if isinstance(observation, tuple) and isinstance(inner, tuple):
        return is_single(observation[0], inner[0])
    return np.ndim(observation) == len(space.shape or ())


FOLDER = Path(__file__).parent / "weights"
"""Every shipped expert has a card NAME.json here; a network has NAME.safetensors beside it, dp-… is a
planner, and the others are laws of `controllers`."""


@functools.cache
def _cards() -> Mapping[str, dict[str, Any]]:
    return {path.stem: disk.read_json(path, "expert") for path in sorted(FOLDER.glob("*.json"))}


def names() -> list[str]:
    """The names of all experts that come with the package.

    >>> "sac-Hopper-v5" in names()
    True
    """
    return list(_cards())


def card(name: str) -> dict[str, Any]:
    """What is known about an expert: algorithm, environments, settings, measured returns, how it was made."""
    check_name("expert", name, _cards())
    return dict(_cards()[name])


def get(name: str, *, env_id: str | None = None, env_kwargs: Mapping[str, Any] | None = None) -> Expert:
    """The expert of that name.

    `env_id` and `env_kwargs` matter to planners only, which plan in the environment itself: one of the ids
    the card lists, and the keywords it is made with.
    """
    about = card(name)
    if (FOLDER / f"{name}.safetensors").is_file():
        from . import networks

        return networks.load(FOLDER / f"{name}.safetensors")
    if not name.startswith("dp-"):
        from . import controllers

        return controllers.law(name, about)
    from . import planners

    if env_id is not None and env_id not in about["environments"]:
        served = ", ".join(about["environments"])
        raise UserError(f"expert: {name!r} plans in {served}, not in {env_id!r}.")
    import gymnasium

    # The first that the installed Gymnasium has: Taxi-v3 became Taxi-v4.
    known = [one for one in about["environments"] if one in gymnasium.registry]
    place = env_id or [*known, *about["environments"]][0]
    return planners.dynamic_programming(place, env_kwargs=env_kwargs, card=about)


def for_env(env_id: str, *, env_kwargs: Mapping[str, Any] | None = None) -> Expert:
    """The shipped expert for an environment, by the ids on the cards: sac-Hopper-v5 serves Hopper-v4 too."""
    serving = [name for name in names() if env_id in card(name)["environments"]]
    if not serving:
        served = sorted({other for name in names() for other in card(name)["environments"]})
        raise UserError(
            f"expert: none is shipped for {env_id!r}{suggest(env_id, served)} Name one, such as your own "
            f"module:function. There are experts for {', '.join(served)}."
        )
    return get(serving[0], env_id=env_id, env_kwargs=env_kwargs)


_HOMES = {
    "answers": ("checked", "seeing"),
    "callables": ("batched", "from_callable", "from_predictor", "pure"),
    "networks": ("save",),
    "human": ("person",),
    "planners": ("dynamic_programming", "value_iteration"),
    "remote": ("from_remote",),
    "training": ("train",),
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["Expert", "card", "for_env", "get", "names", "resolve", *_LAZY]  # pyright: ignore[reportUnsupportedDunderAll]


EXPERTS: Registry[Any] = Registry("expert", object, {}, group="experts")
"""Experts that were added: each maker gives whatever `resolve` accepts."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__


def resolve(
    spec: Any = None,
    *,
    env_id: str | None = None,
    observation_space: Any = None,
    action_space: Any = None,
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
    given = {key: value for key, value in options.items() if value is not None}
    shown = observation_space
    if expert_sees is not None and observation_space is not None:
        from ..policies.sight import Sight

        shown = Sight.of(expert_sees, "expert_sees").space(observation_space)
    if spec is None:
        expert = _shipped(env_id, given)
    else:
        expert = _make(spec, env_id, {"observation_space": shown, "action_space": action_space}, given)
    if shown is not None or action_space is not None:
        from .answers import require_spaces

        require_spaces(expert, shown, action_space)
    if expert_sees is not None:
        from .answers import seeing

        expert = seeing(expert, expert_sees)
    if observation_space is not None:
        expert = dataclasses.replace(expert, observation_space=observation_space)
    if action_space is None and expert.action_space is None:
        return expert
    from .answers import checked

    return checked(expert, action_space)


def _shipped(env_id: str | None, options: dict[str, Any]) -> Expert:
    if env_id is None:
        raise UserError(
            "expert: none was named, and none comes with the package for an environment that has no id; "
            "give a name, a file or module:function."
        )
    return for_env(env_id, **_only(options, "a shipped expert", "env_kwargs"))


def _make(spec: Any, env_id: str | None, spaces: dict[str, Any], options: dict[str, Any]) -> Expert:
    if isinstance(spec, Expert):
        _only(options, "an expert that is already made")
        return spec
    if isinstance(spec, tuple) and len(spec) >= 2:
        from .brax import from_params

        return from_params(spec, **spaces, **_only(options, "brax's parameters", "activation", "name"))
    if isinstance(spec, str | os.PathLike):
        return _from_text(os.fspath(spec), env_id, spaces, options)
    if inspect.isclass(spec):
        raise UserError(f"expert: {spec.__name__} is a class; give an object of it or a function.")
    if callable(getattr(spec, "predict", None)):
        from .callables import from_predictor

        return from_predictor(spec, **spaces, **_only(options, "an object with predict", "name"))
    if callable(spec):
        from .callables import from_callable

        return from_callable(spec, **spaces, **_only(options, "a callable", "batched", "kind", "name"))
    raise UserError(
        f"expert: {type(spec).__name__} is not accepted; give a name, a file, module:function, a callable "
        "or an object with predict."
    )


def _from_text(text: str, env_id: str | None, spaces: dict[str, Any], options: dict[str, Any]) -> Expert:
    if text in names():
        return get(text, env_id=env_id, **_only(options, "a shipped expert", "env_kwargs"))
    if text in EXPERTS:
        EXPERTS.refuse_foreign(text, options)
        try:
            made = EXPERTS.maker(text)(**options)
        except UserError:
            raise
        except Exception as error:  # whatever a maker of the user's own may raise
            raise UserError(f"expert: {text!r} cannot be made ({shorten(error)}).") from error
        naming = not isinstance(made, Expert) and (callable(made) or hasattr(made, "predict"))
        return _make(made, env_id, spaces, {"name": text} if naming else {})
    who, _, door = text.partition(":")
    if who == "person":
        from .human import person

        if door:
            options = {**options, "door": door}
        return person(**_only(options, "a person", *inspect.signature(person).parameters))
    if text.endswith(".safetensors") or os.path.isfile(os.path.join(text, "policy.safetensors")):
        from . import networks

        return networks.load(text, **_only(options, "a policy's file or a run", "expert_card"))
    if text.endswith((".pt", ".pth")):
        from . import rsl_rl

        return rsl_rl.load(text, **spaces, **_only(options, "a checkpoint", "activation", "who", "name"))
    if text.endswith((".msgpack", ".npz")):
        from . import brax

        return brax.load(text, **spaces, **_only(options, "brax's parameters", "activation", "name"))
    zipped = text if text.endswith(".zip") or os.path.isfile(text) else f"{text}.zip"
    if text.endswith(".zip") or os.path.isfile(zipped):
        from .sb3 import archive

        return archive.load(zipped, **_only(options, "an archive", "activation", "vec_normalize", "name"))
    if ":" in text:
        found = load("expert", text)
        if not isinstance(found, Expert) and "name" not in options and callable(found):
            options = {**options, "name": text}
        return _make(found, env_id, spaces, options)
    from .sb3 import archive

    if archive.is_hub_name(text):
        keys = ("filename", "revision", "activation", "vec_normalize")
        return archive.from_hub(text, **_only(options, "a hub name", *keys))
    named = unknown("expert", text, [*names(), *EXPERTS.names()])
    raise UserError(f"{named} A function of yours is module:function.")


def _only(options: dict[str, Any], what: str, *accepted: str) -> dict[str, Any]:
    """The options, all of which must be of use to the expert they are for."""
    for key in options:
        if key not in accepted:
            uses = f"it uses {', '.join(accepted)}" if accepted else "it uses none"
            raise UserError(f"expert: the option {key!r} is not for {what}; {uses}.")
    return options
