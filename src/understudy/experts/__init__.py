"""Experts: those that come with the package, yours, other libraries', remote ones; `resolve` makes them.

Importing this room is cheap; readers, planners, JAX and Gymnasium are imported by what needs them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
from typing import TYPE_CHECKING, Any

from ..errors import UserError, said, unknown
from ..registry import Registry, load
from .base import Expert

if TYPE_CHECKING:
    from .answers import checked, seeing
    from .callables import batched, from_callable, from_predictor, pure
    from .human import person
    from .networks import save
    from .planners import dynamic_programming, value_iteration
    from .remote import from_remote
    from .shipped import card, for_env, get, names
    from .training import train

_HOMES = {
    "answers": ("checked", "seeing"),
    "callables": ("batched", "from_callable", "from_predictor", "pure"),
    "networks": ("save",),
    "human": ("person",),
    "planners": ("dynamic_programming", "value_iteration"),
    "remote": ("from_remote",),
    "shipped": ("card", "for_env", "get", "names"),
    "training": ("train",),
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["Expert", "resolve", *_LAZY]  # pyright: ignore[reportUnsupportedDunderAll]


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
    from .shipped import for_env

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
    from . import shipped

    if text in shipped.names():
        return shipped.get(text, env_id=env_id, **_only(options, "a shipped expert", "env_kwargs"))
    if text in EXPERTS:
        EXPERTS.refuse_foreign(text, options)
        try:
            made = EXPERTS.maker(text)(**options)
        except UserError:
            raise
        except Exception as error:  # whatever a maker of the user's own may raise
            raise UserError(f"expert: {text!r} cannot be made ({said(error)}).") from error
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
    from .sb3 import hub

    if hub.is_hub_name(text):
        keys = ("filename", "revision", "activation", "vec_normalize")
        return hub.load(text, **_only(options, "a hub name", *keys))
    named = unknown("expert", text, [*shipped.names(), *EXPERTS.names()])
    raise UserError(f"{named} A function of yours is module:function.")


def _only(options: dict[str, Any], what: str, *accepted: str) -> dict[str, Any]:
    """The options, all of which must be of use to the expert they are for."""
    for key in options:
        if key not in accepted:
            uses = f"it uses {', '.join(accepted)}" if accepted else "it uses none"
            raise UserError(f"expert: the option {key!r} is not for {what}; {uses}.")
    return options
