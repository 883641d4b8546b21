"""What a policy is worth: returns of whole episodes, in environments of their own, seeded apart from
collection. An evaluation costs no queries and no interactions.

Who is compared plays the same episodes: `JUDGED` says which ones judge the kept policies of all runs,
whatever their seeds, and their experts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import intervals
from ..envs.gymnasium import STREAMS, Maker, derive, maker
from ..envs.vector import Seen, VectorEnv, vector
from ..errors import UserError, among, whole
from ..nested import stacked, take
from ..policies import Actions, History, not_finite
from ..policies.sight import Sight
from ..spec import FIELDS, Environment
from ..spec.values import checked
from .collected import not_finite_rows
from .labels import failure

if TYPE_CHECKING:
    from .groups import Members

LIMIT = 100_000
JUDGED = 0, 1 << 31
"""Seed and number of the episodes by which every run and its expert are judged, and which choose nothing."""
AGAIN = tuple((1 << 30) + (k << 24) for k in range(4))
"""Added to the number of an evaluation, they give those of the episodes that confirm it: up to four times as
many again.
"""
PRECISE = 0.01
"""A mean return whose standard error is at most this share of it needs no more episodes."""
Asked = tuple[int, int, int]
"""Which episodes a player plays: a seed, how many, and the number of the evaluation."""
Act = Callable[[Seen, np.ndarray, np.ndarray], tuple[Any, dict[int, UserError]]]
"""From what the active slots show, which those are (players, lanes), and where an episode begins (active,):
an action for each, and the errors of players that cannot go on.
"""


class Evaluation(NamedTuple):
    """Undiscounted returns, lengths and seeds of the episodes, (episodes,) each; no seeds where they are not
    known. Those of equal seeds can be compared, one by one.
    """

    returns: np.ndarray
    lengths: np.ndarray
    seeds: np.ndarray = np.zeros(0, np.int64)

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        return float(self.returns.std())

    @property
    def precise(self) -> bool:
        """Whether more episodes would hardly change the mean."""
        count = len(self.returns)
        return count > 1 and float(self.returns.std(ddof=1)) <= PRECISE * abs(self.mean) * count**0.5

    def first(self, episodes: int) -> Evaluation:
        """The first so many of these episodes."""
        return Evaluation(*(one[:episodes] for one in self))

    def listed(self) -> dict[str, list[Any]]:
        """As plain data."""
        return {name: one.tolist() for name, one in self._asdict().items()}

    @classmethod
    def read(cls, listed: Any) -> Evaluation | None:
        """What `listed` gave; None where there is nothing."""
        if not listed:
            return None
        # A return that is not finite is null in a file.
        lengths, seeds = (np.asarray(listed.get(name, ()), np.int64) for name in ("lengths", "seeds"))
        return cls(np.asarray(listed["returns"], float), lengths, seeds)

    def with_more(self, more: Evaluation) -> Evaluation:
        """These episodes and `more`."""
        return Evaluation(*(np.concatenate(both) for both in zip(self, more, strict=True)))


def paired(mine: Evaluation, theirs: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """The returns of the episodes that both have played, in pairs; none where their seeds are not known.

    >>> one = Evaluation(np.array([5.0, 7.0]), np.array([9, 9]), np.array([31, 4]))
    >>> paired(one, Evaluation(np.array([6.0]), np.array([9]), np.array([4])))
    (array([7.]), array([6.]))
    """
    _, here, there = np.intersect1d(mine.seeds, theirs.seeds, return_indices=True)
    return mine.returns[here], theirs.returns[there]


def judged(mine: Evaluation | None, theirs: Evaluation | None) -> dict[str, float]:
    """What the returns of a policy and of its expert come to, with 95 % intervals of the means, and of the
    mean paired difference; nan for what was not measured, or is not bounded.
    """
    found = dict.fromkeys(("return_mean", "return_std", "return_low", "return_high", "return_least"), np.nan)
    found |= dict.fromkeys(("episodes", "expert_return_low", "expert_return_high"), np.nan)
    found |= dict.fromkeys(("difference", "difference_low", "difference_high"), np.nan)
    if mine is not None:
        own = intervals.mean(mine.returns)
        found |= {"return_mean": mine.mean, "return_std": mine.std, "return_low": own.low}
        found |= {"return_high": own.high, "return_least": float(mine.returns.min())}
        found["episodes"] = len(mine.returns)
    if theirs is not None:
        found |= dict(
            zip(("expert_return_low", "expert_return_high"), intervals.mean(theirs.returns)[1:3], strict=True)
        )
    if mine is not None and theirs is not None:
        gap = intervals.difference(*paired(mine, theirs))
        found |= dict(zip(("difference", "difference_low", "difference_high"), gap[:3], strict=True))
    return {name: value if np.isfinite(value) else np.nan for name, value in found.items()}


def endless(name: str) -> UserError:
    """That an episode of this environment does not end."""
    return UserError(
        f"env: an evaluation episode of {name} has lasted {LIMIT} steps and the environment has no "
        "limit; give one with episode_limit, as in --episode-limit 1000 (a run is resumed with it)."
    )


def play_episodes(
    env: VectorEnv,
    name: str,
    asked: Sequence[Asked],
    act: Act,
    *,
    stream: str = "evaluate",
    lanes: int = 1,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    on_reset: Callable[[], None] | None = None,
) -> list[Evaluation | UserError]:
    """Whole episodes of n players side by side; player i plays those that ``asked[i]`` says, in `lanes` slots
    of `env`.

    Episode j of a player is seeded by (its seed, stream, its number, j), so lanes do not change the result.
    An episode ends after `limit` steps. A player whose environment raises, or that without such a limit has
    an episode of `LIMIT` steps, ends with an error. `progress` is called with the number of episodes that
    have ended, `on_reset` before one begins.
    """
    count = len(asked)
    paths = [[derive(seed, stream, number, j) for j in range(many)] for seed, many, number in asked]
    returns = [np.zeros(len(seeds)) for seeds in paths]
    lengths = [np.zeros(len(seeds), np.int64) for seeds in paths]
    episode = np.full((count, lanes), -1)  # under way in every lane; -1: none
    total, steps, begun = np.zeros(episode.size), np.zeros(episode.size, np.int64), [0] * count
    errors: dict[int, UserError] = {}

    def begin(slots: Sequence[int]) -> None:
        seeded = []
        for slot in slots:
            player = slot // lanes
            total[slot], steps[slot], episode.flat[slot] = 0.0, 0, -1
            if begun[player] < len(paths[player]) and player not in errors:
                episode.flat[slot] = begun[player]
                seeded.append((slot, paths[player][begun[player]]))
                begun[player] += 1
        if on_reset is not None and seeded:
            on_reset()
        env.begin([slot for slot, _ in seeded], [seed for _, seed in seeded])

    def leave(wrong: dict[int, UserError]) -> None:
        for player, error in wrong.items():
            errors.setdefault(player, error)
            episode[player] = -1

    begin(range(episode.size))
    changed, turn, ended = True, 0, 0
    while True:
        if env.broken:
            leave({slot // lanes: failure("environment", error) for slot, error in env.broken.items()})
        if changed or env.broken:
            active = episode >= 0
            slots, changed = np.flatnonzero(active), False
            if not len(slots):
                break
        actions, wrong = act(env.observe(slots), active, steps[slots] == 0)
        if wrong:
            leave(wrong)
            changed = True
            continue
        rewards, terminated, truncated = env.step(slots, actions)
        total[slots] += rewards
        steps[slots] += 1
        turn += 1
        over = terminated | truncated
        if limit is not None and turn >= limit:
            over |= steps[slots] >= limit
        if over.any():
            for slot in slots[over].tolist():
                player, which = slot // lanes, episode.flat[slot]
                returns[player][which], lengths[player][which] = total[slot], steps[slot]
            begin(slots[over].tolist())
            changed, ended = True, ended + int(over.sum())
            if progress is not None:
                progress(ended)
        if limit is None and turn >= LIMIT and steps.max() >= LIMIT:
            leave(dict.fromkeys((np.flatnonzero(steps >= LIMIT) // lanes).tolist(), endless(name)))
            steps[steps >= LIMIT], changed = 0, True
    found = zip(returns, lengths, map(np.asarray, paths), strict=True)
    return [errors.get(i) or Evaluation(*one) for i, one in enumerate(found)]


def by_policies(
    groups: Sequence[tuple[Members, np.ndarray]], observations: Any, actions: Actions, lanes: int
) -> Act:
    """Players that are runs, in so many lanes each: their deterministic actions, by architecture. Beside each
    group are the players that its runs are.
    """
    history = History(observations, lanes * sum(len(at) for _, at in groups))

    def act(seen: Seen, active: np.ndarray, fresh: np.ndarray) -> tuple[Any, dict[int, UserError]]:
        slots = np.flatnonzero(active)
        history.begin(slots[fresh])
        rows = history.see(slots, seen.batch)
        if len(bad := not_finite_rows(rows)):
            owners = np.nonzero(active)[0]
            return None, {int(owners[i]): not_finite(rows[i]) for i in bad}
        history.advance(slots, rows)
        if len(groups) == 1 and active.all():
            outputs = groups[0][0].outputs(rows.reshape(*active.shape, -1), active)
            return actions.plays(outputs.reshape(len(rows), -1)), {}
        spread = np.zeros((*active.shape, observations.width), observations.dtype)
        spread[active] = rows
        played: Any = None
        for group, at in groups:
            live = active[at]
            if not live.any():
                continue
            mine = actions.plays(group.outputs(spread[at], live)[live])
            if played is None:
                played = np.zeros((*active.shape, *mine.shape[1:]), mine.dtype)
            theirs = np.zeros(active.shape, bool)
            theirs[at] = live
            played[theirs] = mine
        return played[active], {}

    return act


def evaluate(
    player: Any,
    env: Environment,
    *,
    episodes: int = 20,
    seed: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    number: int = 0,
    stream: str = "evaluate",
) -> Evaluation:
    """Returns and lengths of whole episodes of one player, in an environment of their own.

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
    whole("episodes", episodes)
    whole("number", number, 0)
    seed, number = JUDGED if seed is None else (seed, number)
    whole("seed", seed, 0)
    among("stream", stream, STREAMS)
    if limit is not None:
        whole("limit", limit)
    make = env if isinstance(env, Maker) else maker(env, env_kwargs)
    one = acting(player)

    def act(seen: Seen, active: np.ndarray, fresh: np.ndarray) -> tuple[Any, dict[int, UserError]]:
        return [one(take(seen.batch, 0), seen.infos[0])], {}

    slots = vector(make, 1, infos=True)
    try:
        how = {"stream": stream, "limit": limit, "progress": progress}
        how |= {"on_reset": getattr(_policy(player), "on_reset", None)}
        found = play_episodes(slots, make.name, [(seed, episodes, number)], act, **how)[0]
    finally:
        slots.close()
    if isinstance(found, UserError):
        raise found
    return found


def acting(player: Any) -> Callable[[Any, Any], Any]:
    """A player as a function of (observation, info); see `evaluate`. That of one which remembers, and so has
    an `on_reset`, is marked with `remembers`: it is asked about its own states alone.
    """
    player = _policy(player)
    if hasattr(player, "label") or hasattr(player, "act"):
        alone = not hasattr(player, "label")  # an expert takes batches

        def act(observation: Any, info: Any) -> Any:
            return player.act(observation) if alone else player.act(stacked([observation]), [info])[0]

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


def _takes_info(function: Any) -> bool:
    """Whether a function has a second argument, and that is not an option with a default of its own."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not say
        return False
    given = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(given) > 1 and (given[1].default is inspect.Parameter.empty or given[1].name == "info")


def world_of(settings: Mapping[str, Any], env: str | None = None, env_kwargs: Any = None) -> Maker:
    """How to make the environment of a run with these settings, or another in its place; `env_kwargs`, a
    mapping or JSON, are added to the run's own.
    """
    import gymnasium as gym

    own = settings["env"]
    if env is None and ":" not in own and "/" not in own and own not in gym.registry:
        raise UserError(
            f"env: the run's environment {own!r} was made by a function in Python; name that function, as in "
            "--env module:make."
        )
    more = {} if env_kwargs is None else checked(FIELDS["env_kwargs"], env_kwargs)
    sees = settings.get("student_sees")
    infos = () if sees is None else Sight.of(sees, "student_sees").infos
    return maker(env or own, (settings["env_kwargs"] if env is None else {}) | more, infos)
