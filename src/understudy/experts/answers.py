"""What an expert is asked and what it answers: other observations than the policy's, where it is privileged,
and answers that are checked before a learner gets them: shape, finite, inside the action space; and several
experts as one, where each state is labelled by the one that its route names.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# What a class of Gymnasium's spaces holds is unknown where `isinstance` found it.

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from ..errors import UserError
from ..nested import batch_size, take
from ..policies.codecs import single_bounds
from ..policies.sight import Sight, info_at
from ..registry import load_named
from . import Expert, resolve

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike

    from ..spec import Setting
    from . import Infos, Nested, Source, Space

Verify = Callable[[np.ndarray, int], np.ndarray]
"""From n answers, and n, to n labels; a `UserError` says what is wrong with them."""

# How far float32 arithmetic may put an action beyond a bound of size one, or a sum of probabilities off one.
SLACK = 1e-5


def checked(expert: Expert, action_space: Space | None = None) -> Expert:
    """The same expert, whose every answer is verified; a wrong one raises `UserError` in one sentence.

    Box: shape (n, *shape), finite, inside the bounds (what exceeds them by rounding, 1e-5 relative, is put on
    them). Discrete: whole numbers (n,) in range, or rows (n, k) of probabilities that sum to one.
    MultiDiscrete: (n, *shape).

    >>> from understudy.experts import Expert
    >>> nan = Expert("nan", ask=lambda observations, infos: np.full((len(observations), 1), np.nan))
    >>> checked(nan, spaces.Box(-1, 1, (1,))).label(np.zeros((2, 3)))
    Traceback (most recent call last):
    understudy.errors.UserError: expert 'nan': its action [nan] in environment 0 is not finite.
    """
    space = expert.action_space if action_space is None else action_space
    if space is None:
        raise UserError(f"expert {expert.name!r}: cannot be checked because its action space is unknown.")
    verify = _verifier(expert, space)
    inner = expert.ask

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        answer = inner(observations, infos)
        try:
            labels = np.asarray(answer)
        except ValueError:  # rows of different lengths
            raise UserError(f"expert {expert.name!r}: its answers do not all have the same shape.") from None
        return verify(labels, batch_size(observations))

    return dataclasses.replace(expert, ask=ask, action_space=space)


def seeing(expert: Expert, sees: str) -> Expert:
    """The expert, asked about a group of observations (`understudy.policies.sight` says how it is written)
    and not about the whole of them. The infos are one dict per observation, or the dict of arrays that
    Gymnasium's vector environments give.

    >>> tripled = seeing(Expert("tripled", ask=lambda states, infos: states * 3.0), "info:state")
    >>> tripled.label(np.zeros((2, 8)), [{"state": [1.0]}, {"state": [2.0]}])
    array([[3.],
           [6.]], dtype=float32)
    """
    if expert.person is not None:  # who is asked in place of `ask`
        raise UserError("expert_sees: a person is shown the whole state, and no part of it; leave it out.")
    inner, sight = expert.ask, Sight.of(sees, "expert_sees")

    def ask(observations: Nested, infos: Infos) -> ArrayLike:
        try:
            seen = sight.seen(observations, infos)
        except UserError as error:
            raise UserError(f"expert {expert.name!r}: {error}") from error
        return inner(seen, infos)

    needs, inside = expert.needs_infos or bool(sight.infos), expert.pure

    def traced(observations: Nested) -> Array:
        assert inside is not None
        return inside(sight.seen(observations, None))

    own = {"pure": None if inside is None or needs else traced, "needs_infos": needs}
    return dataclasses.replace(
        expert, ask=ask, observation_space=None, card={**expert.card, "sees": sees}, **own
    )


def mode(expert: Expert) -> Expert:
    """The same expert, which answers with its most probable action instead of its distribution.

    >>> coin = Expert("coin", ask=lambda o, i: np.full((len(o), 2), [0.25, 0.75]), kind="distribution")
    >>> mode(coin).label(np.zeros((2, 1)))
    array([1, 1])
    """
    if expert.kind == "action":
        return expert

    inner, first = expert.pure, int(getattr(expert.action_space, "start", 0))

    def traced(observations: Nested) -> Array:
        assert inner is not None
        return inner(observations).argmax(axis=1) + first

    pure = None if inner is None else traced
    return dataclasses.replace(expert, ask=expert.act, kind="action", pure=pure)


def require_spaces(
    expert: Expert, observation_space: Space | None = None, action_space: Space | None = None
) -> None:
    """Refuses an expert made for other observations or actions than these, where both are known."""
    made, has = expert.observation_space, observation_space
    if made is not None and has is not None and not _same_observations(made, has):
        raise UserError(
            f"expert {expert.name!r}: was made for observations {made}, the environment gives {has}."
        )
    made, has = expert.action_space, action_space
    if made is not None and has is not None and not _same_actions(made, has):
        raise UserError(f"expert {expert.name!r}: was made for actions {made}, the environment takes {has}.")


def _same_observations(made: Space, has: Space) -> bool:
    """By their shapes: the bounds of observations differ between versions of one environment."""
    if made == has:
        return True
    if isinstance(made, spaces.Dict) and isinstance(has, spaces.Dict):  # it may read some of the keys only
        return made.keys() <= has.keys() and all(
            _same_observations(made[key], has[key]) for key in made.spaces
        )
    if isinstance(made, spaces.Tuple) and isinstance(has, spaces.Tuple):
        return len(made) == len(has) and all(map(_same_observations, made.spaces, has.spaces))
    if isinstance(made, spaces.MultiDiscrete) and isinstance(has, spaces.MultiDiscrete):  # of any type
        return np.array_equal(made.nvec, has.nvec) and np.array_equal(made.start, has.start)
    kinds = spaces.Dict, spaces.Tuple, spaces.Discrete, spaces.MultiDiscrete
    if isinstance(made, kinds) or isinstance(has, kinds):
        return False
    if len(made.shape or ()) == 3 and len(has.shape or ()) == 3:  # images: channels may come first or last
        shape = made.shape or ()
        return has.shape in (shape, (*shape[1:], *shape[:1]))
    return made.shape == has.shape


def _same_actions(made: Space, has: Space) -> bool:
    if isinstance(made, spaces.Box) and isinstance(has, spaces.Box):
        same = made.shape == has.shape
        return same and np.allclose(made.low, has.low) and np.allclose(made.high, has.high)
    return made == has


def _verifier(expert: Expert, space: Space) -> Verify:
    who = f"expert {expert.name!r}"
    if expert.kind == "distribution":
        if not isinstance(space, spaces.Discrete):
            raise UserError(f"{who}: gives distributions, which need Discrete actions; these are {space}.")
        return _distributions(who, int(space.n))
    if isinstance(space, spaces.Box):
        return _numbers(who, space)
    if isinstance(space, spaces.Discrete):
        return _choices(who, space, np.asarray(space.start), np.asarray(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return _choices(who, space, space.start, space.nvec)
    if isinstance(space, spaces.MultiBinary):
        return _choices(who, space, np.asarray(0), np.asarray(2))
    raise UserError(
        f"{who}: the action space {space} is not supported; accepted: Box, Discrete, MultiDiscrete and "
        "MultiBinary."
    )


def _numbers(who: str, space: spaces.Box) -> Verify:
    slack = [SLACK * np.maximum(1, np.abs(bound)) for bound in (space.low, space.high)]
    below, above = (np.where(np.isfinite(edge), edge, 0) for edge in slack)
    least, most = space.low - below, space.high + above
    bounded = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
    low, high = single_bounds(space)

    def verify(labels: np.ndarray, n: int) -> np.ndarray:
        if labels.shape != (n, *space.shape):
            raise _wrong_shape(who, labels, n, space)
        if labels.dtype.kind not in "fiub":
            raise UserError(f"{who}: its actions are of type {labels.dtype}; numbers are expected.")
        clipped = np.minimum(np.maximum(labels, low), high)
        with np.errstate(over="ignore"):  # what float32 cannot hold is not finite
            single = labels.astype(np.float32, copy=False)
        # NaN equals nothing, so that where bounds are finite this comparison is the whole check.
        if (clipped == labels).all() and (bounded or np.isfinite(single).all()):
            return single
        finite = np.isfinite(single)
        inside = (labels >= least) & (labels <= most) & finite
        if inside.all():
            return clipped.astype(np.float32, copy=False)
        place = tuple(np.argwhere(~(finite if not finite.all() else inside))[0])
        value = f"{who}: its action {_short(labels[place[0]])} in environment {place[0]} is"
        if not finite.all():
            raise UserError(f"{value} not finite.")
        raise UserError(
            f"{value} outside the bounds: {labels[place]:.6g} where {space.low[place[1:]]:g} to "
            f"{space.high[place[1:]]:g} is accepted; clip or scale it in the expert."
        )

    return verify


def _choices(who: str, space: Space, first: np.ndarray, count: np.ndarray) -> Verify:
    def verify(labels: np.ndarray, n: int) -> np.ndarray:
        if labels.shape != (n, *(space.shape or ())):
            raise _wrong_shape(who, labels, n, space)
        if labels.dtype.kind not in "iub":
            whole = labels.dtype.kind == "f" and bool((labels == np.floor(labels)).all())
            if not (whole and np.isfinite(labels).all()):
                told = f"{_short(labels)} are not whole numbers as {space} requires"
                raise UserError(f"{who}: its actions {told}.")
        inside = (labels >= first) & (labels < first + count)
        if not inside.all():
            row = int(np.argwhere(~inside)[0, 0])
            where = f"{_short(labels[row])} in environment {row}"
            raise UserError(f"{who}: its action {where} is none of {space}.")
        return labels.astype(np.int64, copy=False)

    return verify


def _distributions(who: str, k: int) -> Verify:
    def verify(labels: np.ndarray, n: int) -> np.ndarray:
        if labels.shape != (n, k) or labels.dtype.kind not in "fiub":
            raise UserError(
                f"{who}: gave an array of shape {labels.shape} and type {labels.dtype} for {n} "
                f"observation(s); rows of {k} probabilities, shape {(n, k)}, are expected."
            )
        fine = (labels >= -SLACK).all(axis=1) & (np.abs(labels.sum(axis=1) - 1) <= 10 * SLACK)
        if not fine.all():
            row = int(np.argmin(fine))
            raise UserError(
                f"{who}: its answer {_short(labels[row])} in environment {row} is no distribution; numbers "
                f"that are not negative and sum to 1 are expected (their sum is {labels[row].sum():.6g})."
            )
        return np.maximum(labels, 0).astype(np.float32, copy=False)

    return verify


def _wrong_shape(who: str, labels: np.ndarray, n: int, space: Space) -> UserError:
    wanted = (n, *(space.shape or ()))
    if labels.dtype.kind == "O" and labels.size:
        given = labels.flat[0]
        kind = "None" if given is None else type(given).__name__
        return UserError(f"{who}: answered with {kind}; {space} needs numbers of shape {wanted[1:]}.")
    probabilities = isinstance(space, spaces.Discrete) and labels.shape == (n, int(space.n))
    hint = "; if these are probabilities, give kind='distribution'" if probabilities else ""
    return UserError(
        f"{who}: gave an array of shape {labels.shape} for {n} observation(s); {space} needs {wanted}{hint}."
    )


def _short(values: np.ndarray) -> str:
    """Numbers on one line, the middle left out where there are many."""
    return np.array2string(values, threshold=8, edgeitems=3, max_line_width=10_000)


# Several experts as one.


def several(
    experts: Mapping[str, Source | Mapping[str, Setting]], route: str | Callable[..., str | int], **where: Any
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
            needs = expert.needs_infos and infos is not None
            about = [info_at(infos, int(i)) for i in rows] if needs else None
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
    first, cards = everyone[0], {n: dict(one.card) for n, one in made.items()}
    return Expert(
        "+".join(made),
        ask=ask,
        kind=first.kind,
        observation_space=where.get("observation_space"),
        action_space=where.get("action_space") or first.action_space,
        card={"name": "+".join(made), "algorithm": "several experts", "experts": cards},
        needs_infos=infos_too or any(one.needs_infos for one in everyone),
        on_reset=reset if hooks else None,
        deterministic=all(one.deterministic for one in everyone),
        probed=sum(one.probed for one in everyone),
        batch=min(one.batch for one in everyone),
        workers=max(slow) if slow else None,
        names=tuple(made),
        route=who,
    )


def _made(name: str, given: Source | Mapping[str, Setting], where: dict[str, Any]) -> Expert:
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
    route: str | Callable[..., str | int], names: tuple[str, ...], space: Space | None
) -> tuple[Callable[[Nested, Infos], np.ndarray], bool]:
    """Whose each of n states is, by number, and whether that takes the infos."""
    if isinstance(route, str) and (":" not in route or "[" in route or route.startswith("info:")):
        sight, shown = Sight.of(route, "route"), route
        if len(sight.parts) > 1:
            raise UserError(f"route: {route!r} is several things; one key, slice or entry of the info is.")
        if space is not None:
            sight.space(space)  # a key that is not there is refused now

        said, takes = sight.seen, bool(sight.infos)
    else:
        from .callables import from_callable

        function: Callable[..., str | int] = load_named("route", route) if isinstance(route, str) else route
        if not callable(function):
            raise UserError(f"route: {route!r} is no key of the observation and no function.")
        asked = from_callable(function, kind="action", name="route")
        shown = route if isinstance(route, str) else getattr(function, "__name__", "the function")
        said, takes = asked.ask, asked.needs_infos

    def who(observations: Nested, infos: Infos) -> np.ndarray:
        values = np.asarray(said(observations, infos))
        return _routed(values, batch_size(observations), names, shown)

    return who, takes


def _routed(values: np.ndarray, count: int, names: tuple[str, ...], shown: str) -> np.ndarray:
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
