"""Several experts as one: each state is labelled by the one that its route names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..nested import batch_size, take
from ..registry import load_named
from . import Expert, resolve

if TYPE_CHECKING:
    from . import Infos, Nested, Source, Space


def several(
    experts: Mapping[str, Source | Mapping[str, Any]], route: str | Callable[..., Any], **where: Any
) -> Expert:
    """One expert of several, each of which labels the states that are its own.

    Args:
      experts: names, and what `resolve` makes experts of; or ``{"expert": …, "expert_sees": …}``, with any
        of its options.
      route: whose a state is. A key of the observation, a slice of it or an entry of the info, as `goal`,
        `[4:5]` or `info:task` (`understudy.policies.sight`), or a function of an observation (and its info)
        or ``module:function``. It gives a name, or a number from 0 in the order of the experts.
      where: env_id, observation_space and action_space, as of `resolve`.

    It is asked as one expert is: of n states, each of its experts is asked about its own in one call. Where
    some answer with distributions and others with actions, all answer with actions.

    >>> push = {"left": lambda observation: 0, "right": lambda observation: 1}
    >>> pusher = several(push, lambda observation: "left" if observation[0] < 0 else "right")
    >>> pusher.label(np.array([[-1.0], [2.0], [-3.0]])), pusher.route(np.array([[-1.0], [2.0]]), None)
    (array([0, 1, 0]), array([0, 1]))
    """
    if not experts:
        raise UserError("experts: there is none; name some, as in {'walk': 'walk.zip', 'run': 'run.zip'}.")
    made = {name: _made(name, given, where) for name, given in experts.items()}
    if len({one.kind for one in made.values()}) > 1:
        from .answers import mode

        made = {name: mode(one) for name, one in made.items()}
    who, infos_too = _router(route, tuple(made), where.get("observation_space"))
    everyone = list(made.values())

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        numbers = who(observations, infos)
        given: Any = None
        for number, expert in enumerate(everyone):
            rows = np.flatnonzero(numbers == number)
            if not len(rows):
                continue
            about = _infos_of(infos, rows) if expert.needs_infos else None
            labels = expert.label(take(observations, rows), about)
            if given is None:
                given = np.zeros((len(numbers), *labels.shape[1:]), labels.dtype)
            elif labels.shape[1:] != given.shape[1:]:
                raise UserError(
                    f"experts: {expert.name!r} answers with shape {labels.shape[1:]}, another with "
                    f"{given.shape[1:]}; all answer alike."
                )
            given[rows] = labels
        return given

    def reset() -> None:
        for hook in hooks:
            hook()

    hooks = [one.on_reset for one in everyone if one.on_reset is not None]
    slow = [one.workers for one in everyone if one.workers is not None]
    first = everyone[0]
    return Expert(
        "+".join(made),
        ask=ask,
        kind=first.kind,
        observation_space=where.get("observation_space"),
        action_space=where.get("action_space") or first.action_space,
        card={
            "name": "+".join(made),
            "algorithm": "several experts",
            "experts": {n: dict(one.card) for n, one in made.items()},
        },
        needs_infos=infos_too or any(one.needs_infos for one in everyone),
        on_reset=reset if hooks else None,
        deterministic=all(one.deterministic for one in everyone),
        probed=sum(one.probed for one in everyone),
        batch=min(one.batch for one in everyone),
        workers=max(slow) if slow else None,
        names=tuple(made),
        route=who,
    )


def _made(name: str, given: Source | Mapping[str, Any], where: dict[str, Any]) -> Expert:
    """One of the experts, by its own options."""
    options: dict[str, Any] = {**given} if isinstance(given, Mapping) else {"expert": given}
    if "expert" not in options:
        raise UserError(f"experts: {name!r} is a table without expert; it has {', '.join(options)}.")
    try:
        expert = resolve(options.pop("expert"), **where, **options)
    except UserError as error:
        raise UserError(f"experts: {name!r}: {error}") from error.__cause__
    if expert.person is not None:
        raise UserError(f"experts: {name!r} is a person, who is asked alone (expert), not among several.")
    if expert.names:
        raise UserError(f"experts: {name!r} is several experts already.")
    return expert


def _router(
    route: str | Callable[..., Any], names: tuple[str, ...], space: Space | None
) -> tuple[Callable[[Nested, Infos], np.ndarray], bool]:
    """Whose each of n states is, by number, and whether that takes the infos."""
    from ..policies.sight import Sight

    if isinstance(route, str) and (":" not in route or "[" in route or route.startswith("info:")):
        sight, shown = Sight.of(route, "route"), route
        if len(sight.parts) > 1:
            raise UserError(f"route: {route!r} is several things; one key, slice or entry of the info is.")
        if space is not None:
            sight.space(space)  # a key that is not there is refused now

        def said(observations: Nested, infos: Infos) -> Any:
            return sight.seen(observations, infos)

        takes = bool(sight.infos)
    else:
        from .callables import from_callable

        function: Callable[..., Any] = load_named("route", route) if isinstance(route, str) else route
        if not callable(function):
            raise UserError(f"route: {route!r} is no key of the observation and no function.")
        asked = from_callable(function, kind="action", name="route")
        shown = route if isinstance(route, str) else getattr(function, "__name__", "the function")
        said, takes = asked.ask, asked.needs_infos

    def who(observations: Nested, infos: Infos) -> np.ndarray:
        values = np.asarray(said(observations, infos))
        return _numbers(values, batch_size(observations), names, shown)

    return who, takes


def _numbers(values: np.ndarray, count: int, names: tuple[str, ...], shown: str) -> np.ndarray:
    """The numbers (n,) of the experts that a route has named, by name or number."""
    if values.size != count:
        raise UserError(
            f"route: {shown!r} gives {values.size // max(count, 1)} numbers a state; one is expected, such "
            "as a slice [0:1] has, or a name."
        )
    values = values.reshape(count)
    among = f"they are {', '.join(names)} (0 to {len(names) - 1})"
    if values.dtype.kind in "US":
        known = {name: number for number, name in enumerate(names)}
        found = np.array([known.get(str(value), -1) for value in values])
    elif values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
        inside = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < len(names))
        found = np.where(inside, numbers, -1).astype(int)
    else:
        raise UserError(f"route: {shown!r} gives {values.dtype}; names of experts, or numbers, are expected.")
    if (found < 0).any():
        place = int(np.argmax(found < 0))
        raise UserError(f"route: {values[place].item()!r} in state {place} is none of the experts; {among}.")
    return found


def _infos_of(infos: Infos, rows: np.ndarray) -> Infos:
    """The infos of some of n states."""
    from ..policies.sight import info_at

    return None if infos is None else [info_at(infos, int(i)) for i in rows]
