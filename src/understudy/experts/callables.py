"""Experts from Python functions and from objects with `predict`: yours, or another library's models."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import UserError, shorten
from ..nested import batch_size, copy_batch, parts, stack, take
from . import Expert, together

LIKE_SB3 = (
    "expected is predict(observation, deterministic=True) -> (action, state), as Stable-Baselines3 has it; a "
    "method that gives the action alone is an expert by itself (expert=model.predict, module:model.predict)"
)
"""What an object with `predict` must be, and what to do with another."""


def batched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as one that takes n observations at once and returns n answers.

    >>> @batched
    ... def act(observations):
    ...     return observations.sum(axis=1) > 0
    """
    function.batched = True  # type: ignore[attr-defined]
    return function


def pure(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function of one observation (or, with `batched`, of n) as one that JAX can trace: runs in pure
    environments then stay on the device.

    >>> import jax.numpy as jnp
    >>> expert = from_callable(pure(lambda observation: jnp.tanh(observation[:1])), name="tanh")
    >>> expert.pure(jnp.zeros((3, 2))).shape
    (3, 1)
    """
    function.pure = True  # type: ignore[attr-defined]
    return function


def from_callable(
    function: Callable[..., Any],
    *,
    batched: bool | None = None,
    kind: str | None = None,
    name: str | None = None,
    observation_space: Any = None,
    action_space: Any = None,
) -> Expert:
    """An expert from `function(observation)` or `function(observation, info)` -> action or probabilities.

    - Batched: if `batched=True` is given or the function is marked with `experts.batched`, it is called with
      n observations and must return n answers; otherwise it is called once per observation.
    - Kind: `kind=` if given; otherwise the function's attribute `kind`; otherwise, for Discrete actions and a
      function of the observation alone, it is asked once about a sample of the observation space, and k
      numbers for an answer mean a distribution. Else an action.
    - A parameter called `info` (or `infos`) receives the environment's info: a privileged expert.
    - An attribute `on_reset`, a function without arguments, is called when an episode begins: for an expert
      that remembers what it saw. It is asked state after state, in one environment.

    >>> expert = from_callable(lambda observation: observation[:1] * 2, name="double")
    >>> expert.label(np.array([[1.0, 9.0], [2.0, 9.0]]))
    array([[2.],
           [4.]], dtype=float32)
    """
    name = name or _name(function)
    if any(map(inspect.iscoroutinefunction, (function, type(function).__call__))):
        raise UserError(
            f"expert {name!r}: is a coroutine function; experts.from_remote({_name(function)}) is "
            "the expert that awaits it."
        )
    many = bool(getattr(function, "batched", False)) if batched is None else bool(batched)
    wants = _info_parameter(function)
    kind = kind or getattr(function, "kind", None)
    call = _reporting(function, name)
    from ..policies.sight import info_at  # brings JAX

    def ask(observations: Any, infos: Any) -> Any:
        if wants is not None and infos is None:
            raise UserError(f"expert {name!r}: takes the environment's {wants}, which was not given to it.")
        observations = copy_batch(
            observations
        )  # the policy learns from these; an expert may write to its own
        if many:
            return call(observations, **({wants: infos} if wants else {}))
        answers = []
        for i in range(batch_size(observations)):
            keywords = {wants: info_at(infos, i)} if wants else {}
            answers.append(call(take(observations, i), **keywords))
        return together(name, answers)

    traced = None
    if getattr(function, "pure", False) and wants is None:
        import jax

        traced = function if many else jax.vmap(function)
    probed = 0
    if kind is None:
        kind = "action"
        if observation_space is not None and wants is None and type(action_space).__name__ == "Discrete":
            answer, probed = np.asarray(ask(stack([_sample(observation_space)]), None)), 1
            if answer.shape == (1, int(action_space.n)) and answer.dtype.kind == "f":
                kind = "distribution"
    return Expert(
        name,
        ask=ask,
        kind=kind,  # type: ignore[arg-type]
        observation_space=observation_space,
        action_space=action_space,
        card={"name": name, "algorithm": "a Python function", "kind": kind},
        needs_infos=wants is not None,
        on_reset=getattr(function, "on_reset", None),
        probed=probed,
        pure=traced,
        batch=32 if many else 1,
    )


def from_predictor(
    model: Any, *, name: str | None = None, observation_space: Any = None, action_space: Any = None
) -> Expert:
    """An expert from an object with Stable-Baselines3's `predict`, asked with whole batches; one that cannot
    answer a batch is asked about one observation at a time.

    A `TrainedPolicy` is the expert that its file is. Of a model whose `predict` takes a state and gives the
    next one (a recurrent one) every state would be the first of an episode, so it is refused.
    """
    from ..policies import TrainedPolicy  # brings JAX
    from . import networks

    name = name or type(model).__name__
    if isinstance(model, TrainedPolicy):
        return networks.of(model, {"name": name, "algorithm": "a trained policy"})
    takes = _parameters(model.predict)
    if takes and "deterministic" not in takes and not any(map(_takes_any, takes.values())):
        raise UserError(f"expert {name!r}: its predict takes no deterministic=True; {LIKE_SB3}.")
    call = _reporting(model.predict, name)
    seen, acts = (getattr(model, space, None) for space in ("observation_space", "action_space"))
    shape = getattr(action_space if acts is None else acts, "shape", None)
    alone = False  # whether it was found to take one observation at a time

    def ask(observations: Any, infos: Any) -> Any:
        nonlocal alone
        n, whole, wrong = batch_size(observations), None, None
        if not alone:
            try:
                whole = answered(observations)
            except UserError as error:
                wrong = error
            if whole is not None and whole.shape == (n, *(whole.shape[1:] if shape is None else shape)):
                return whole
        try:
            each = together(name, [answered(take(observations, i)) for i in range(n)])
        except UserError:  # it cannot do either, and was made for batches
            if wrong is not None:
                raise wrong from wrong.__cause__
            if whole is not None:
                return whole
            raise
        alone = True
        return each

    def answered(observations: Any) -> np.ndarray:
        answer = call(copy_batch(observations), deterministic=True)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise UserError(
                f"expert {name!r}: its predict gave {type(answer).__name__}, not a pair; {LIKE_SB3}."
            )
        if answer[1] is not None and "state" in takes:
            raise UserError(
                f"expert {name!r}: its predict gave a state, so it remembers; give a function of one "
                "observation that keeps the state, with an attribute on_reset that drops it."
            )
        return np.asarray(answer[0])

    return Expert(
        name,
        ask=ask,
        # What it was made for goes first, and is then compared with what is there.
        observation_space=observation_space if seen is None else seen,
        action_space=action_space if acts is None else acts,
        card={
            "name": name,
            "algorithm": f"an object of {type(model).__module__} with predict",
            "kind": "action",
        },
        on_reset=getattr(model, "on_reset", None),
    )


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__).replace("<locals>.", "").strip("<>")


def _info_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter that takes the environment's info; None where there is none."""
    return next((name for name in ("info", "infos") if name in _parameters(function)), None)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C do not say
        return {}


def _takes_any(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.VAR_KEYWORD


def _sample(space: Any) -> Any:
    """Some observation of a space, always the same one; the space's own generator stays where it is."""
    space = copy.deepcopy(space)
    space.seed(0)
    return space.sample()


def _reporting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, whose exceptions become a `UserError` that names the expert; the cause is attached."""

    def call(observation: Any, **keywords: Any) -> Any:
        try:
            return function(observation, **keywords)
        except UserError:
            raise
        except Exception as error:
            shapes = {".".join(map(str, path)): part.shape for path, part in parts(observation)}
            shown = shapes.get("", shapes)  # of one array, which has no name
            raise UserError(f"expert {name!r}: failed on observations {shown} ({shorten(error)}).") from error

    return call
