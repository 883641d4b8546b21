"""Any player in any environment: a trained policy, a run, an expert, a function; and the environment of a run
that is over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..envs.gymnasium import STREAMS, Maker, Observed, maker, vector
from ..errors import UserError, check_int, check_name
from ..nested import stack, take
from ..policies import TrainedPolicy
from ..policies.sight import Sight
from ..spec import Environment, mapping
from .evaluate import JUDGED, LANES, EpisodeSet, Evaluation, by_policy, play_episodes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..nested import Info, Nested
    from ..spec import Setting


def evaluate(
    player: Any,
    env: Environment,
    *,
    episodes: int = 20,
    seed: int | None = None,
    env_kwargs: Mapping[str, Setting] | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    number: int = 0,
    stream: str = "evaluate",
) -> Evaluation:
    """Returns and lengths of whole episodes of one player, in an environment of their own. A trained policy
    without memory plays several side by side where that is cheap, to the same returns.

    Args:
      player: a trained policy, a run, an expert, a function of an observation (and, if it takes two
        arguments, of the info), or an object with `predict`.
      env: a Gymnasium id, ``module:function``, a function that makes an environment, or an environment that
        was made from an id; `env_kwargs` go with the first three.
      seed: of the episodes. None: those by which every run, and its expert, is judged after its last round.
      limit: most steps of an episode, for environments that have no limit of their own.
      progress: called with the number of episodes that have ended.
      number: with a `seed`, `stream` and the episode's number it gives the episode's seed.
      stream: see `number`.

    >>> found = evaluate(lambda observation: 0, "CartPole-v1", episodes=2)
    >>> found.lengths.tolist(), found.mean
    ([9, 10], 9.5)
    """
    check_int("episodes", episodes)
    check_int("number", number, 0)
    seed, number = JUDGED if seed is None else (seed, number)
    check_int("seed", seed, 0)
    check_name("stream", stream, STREAMS)
    if limit is not None:
        check_int("limit", limit)
    make = env if isinstance(env, Maker) else maker(env, env_kwargs)
    answer = acting(player)

    def act(seen: Observed, slots: np.ndarray, fresh: np.ndarray) -> Sequence[ArrayLike]:
        return [answer(take(seen.batch, 0), seen.infos[0])]

    policy, lanes, played = _policy(player), 1, act
    remembers = getattr(policy, "on_reset", None)
    rowwise = isinstance(policy, TrainedPolicy) and make.by_id and remembers is None
    slots = vector(make, 1, infos=not rowwise)
    try:
        if rowwise and slots.many and episodes > 1:
            slots.close()
            slots = vector(make, lanes := min(LANES, episodes))
        if rowwise:
            about = policy.policy, policy.params, policy.normaliser, policy.observations, policy.actions
            played = by_policy(*about, lanes)
        return play_episodes(
            slots,
            make.name,
            EpisodeSet(seed, episodes, number),
            played,
            stream=stream,
            lanes=lanes,
            limit=limit,
            progress=progress,
            on_reset=remembers,
        )
    finally:
        slots.close()


def acting(player: Any) -> Callable[[Nested, Info], Any]:
    """A player as a function of (observation, info); see `evaluate`. That of one which remembers, and so has
    an `on_reset`, is marked with `remembers`: it is asked about its own states alone.
    """
    player = _policy(player)
    if hasattr(player, "label") or hasattr(player, "act"):
        alone = not hasattr(player, "label")  # an expert takes batches

        def act(observation: Nested, info: Info) -> ArrayLike:
            return player.act(observation) if alone else player.act(stack([observation]), [info])[0]

        act.remembers = getattr(player, "on_reset", None) is not None  # type: ignore[attr-defined]
        return act
    if hasattr(player, "predict"):
        return lambda observation, info: player.predict(observation, deterministic=True)[0]
    if not callable(player):
        raise UserError(f"policy: {type(player).__name__} is no policy and no function of observations.")
    return player if _takes_info(player) else lambda observation, info: player(observation)


def _policy(player: Any) -> Any:
    """The policy of a run; any other player itself."""
    return player.policy if hasattr(player, "ledger") else player


def _takes_info(function: Callable[..., object]) -> bool:
    """Whether a function has a second argument, and that is not an option with a default of its own."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not say
        return False
    given = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(given) > 1 and (given[1].default is inspect.Parameter.empty or given[1].name == "info")


def maker_of(
    settings: Mapping[str, Any], env: str | None = None, env_kwargs: Mapping[str, Setting] | str | None = None
) -> Maker:
    """How to make the environment of a run with these settings, or another in its place; `env_kwargs`, a
    mapping or JSON, are added to the run's own.
    """
    import gymnasium as gym

    own: str = settings["env"]
    keywords: dict[str, Setting] = settings["env_kwargs"] if env is None else {}
    if env is None and ":" not in own and "/" not in own and own not in gym.registry:
        raise UserError(
            f"env: the run's environment {own!r} was made by a function in Python; name that function, as in "
            "--env module:make."
        )
    more = {} if env_kwargs is None else mapping("env_kwargs", env_kwargs)
    sees = settings.get("student_sees")
    infos = () if sees is None else Sight.of(sees, "student_sees").infos
    return maker(env or own, keywords | more, infos)
