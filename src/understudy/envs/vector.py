"""Vector environments: n slots of one environment, each with one episode under way.

Nothing resets by itself. The caller begins the next episode of a slot, with a seed, so every step is a sample
and an episode is a function of its seed and its actions: it can be played again. There are three
implementations: any Gymnasium environment (here), Hopper and Walker2d on MuJoCo itself (`mujoco`), both of
which step to the bits of one Gymnasium environment, and pure environments (`lanes`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from gymnasium import spaces

from ..errors import UserError
from ..nested import at, stacked
from .gymnasium import Maker

LIGHT = tuple(f"gymnasium.envs.{kind}." for kind in ("classic_control", "toy_text", "box2d"))
"""Where the environments are that cost nothing to make."""


class Seen(NamedTuple):
    """What n slots show: n infos, and the observations as a batch (nested arrays with n in front)."""

    batch: Any
    infos: Sequence[Mapping[str, Any]]


class VectorEnv(Protocol):
    """Slots are named by their numbers (n,), in any order and choice."""

    observation_space: Any
    action_space: Any
    many: bool
    """Whether slots cost next to nothing and are independent, so that a run may evaluate in several of them
    unasked. Of environments in general that is not known."""
    broken: dict[int, Exception]
    """Slots whose environment has raised, and what; such a slot keeps its last observation."""

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        """Begins an episode in each of these slots."""
        ...

    def observe(self, slots: np.ndarray) -> Seen:
        """What these slots show now."""
        ...

    def step(self, slots: np.ndarray, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Plays one action in each of these slots: rewards (float64), terminated and truncated, (n,) each.

        A slot whose episode has ended must be begun before its next step.
        """
        ...

    def close(self) -> None: ...


@final
class GymnasiumVector:
    """Any Gymnasium environments, one object a slot, stepped one after another. Those that step in threads of
    their own (`AtariEnv.send` and `receive`) are stepped `threads` at a time; 0: there are none.
    """

    def __init__(self, make: Maker, count: int, first: Any, *, threads: int = 0):
        self._envs: list[Any] = [first]
        try:
            while len(self._envs) < count:
                self._envs.append(make())
        except BaseException:
            for env in self._envs[1:]:
                env.close()
            raise
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        entry = str(getattr(self._envs[0].spec, "entry_point", None))
        self.many = make.by_id and entry.startswith(LIGHT)
        self._threads = threads
        self._seen: list[Any] = [None] * count
        self._infos: list[Any] = [{}] * count
        self.broken: dict[int, Exception] = {}

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                seen, info = self._envs[slot].reset(seed=int(seed))
                self._show(slot, seen, info)
            except Exception as error:  # an error in one environment must not end the other runs
                self.broken[int(slot)] = error

    def _show(self, slot: int, seen: Any, info: Any) -> None:
        """Takes what an environment shows, or raises: what cannot be stacked is the fault of one slot."""
        _fit(seen, self.observation_space)
        self._seen[slot], self._infos[slot] = seen, info

    def observe(self, slots: np.ndarray) -> Seen:
        chosen = slots.tolist()
        return Seen(stacked([self._seen[slot] for slot in chosen]), [self._infos[slot] for slot in chosen])

    def step(self, slots: np.ndarray, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rewards, ended = np.empty(len(slots)), np.zeros((2, len(slots)), bool)
        ahead, envs = self._threads, [self._envs[slot] for slot in slots.tolist()]
        for env, action in zip(envs[:ahead], actions, strict=False):
            env.send(action)
        for i, slot in enumerate(slots.tolist()):
            try:
                made = envs[i].receive() if ahead else envs[i].step(actions[i])
                seen, rewards[i], ended[0, i], ended[1, i], info = made
                self._show(slot, seen, info)
            except Exception as error:
                self.broken[slot], rewards[i] = error, np.nan
            if ahead and i + ahead < len(envs):
                envs[i + ahead].send(actions[i + ahead])
        return rewards, ended[0], ended[1]

    def close(self) -> None:
        for env in self._envs:
            env.close()


def _fit(seen: Any, space: Any) -> None:
    """Refuses an observation that has more or fewer numbers than its space says, or other choices."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner: Any = space.spaces
        for key in inner if isinstance(inner, Mapping) else range(len(inner)):
            _fit(at(seen, (key,)), inner[key])
    elif space.shape is not None and (size := math.prod(np.shape(seen))) != math.prod(space.shape):
        raise UserError(f"environment: its observation has {size} numbers, and its space is {space}.")
    elif isinstance(space, spaces.Discrete) and not 0 <= seen - space.start < space.n:
        raise UserError(f"environment: its observation {seen} is none of {space}.")


def vector(make: Maker, count: int, *, threads: int = 1, infos: bool = False, first: Any = None) -> VectorEnv:
    """`count` slots of the environment, by the fastest implementation that steps to Gymnasium's bits.

    Args:
      threads: threads that MuJoCo and ALE step in.
      infos: the infos are read; MuJoCo stepped directly has none, so Gymnasium steps it then.
      first: one environment that `make` has made already; it is used, and closed in the end.

    >>> from understudy.envs.gymnasium import maker
    >>> two = vector(maker("CartPole-v1"), 2)
    >>> two.begin([0, 1], [7, 7])
    >>> seen = two.observe(np.array([0, 1])).batch
    >>> seen.shape, bool((seen[0] == seen[1]).all())
    ((2, 4), True)
    """
    from . import atari, mujoco
    from .lanes import PureVector
    from .pure import PureEnv

    first = make() if first is None else first
    if isinstance(first, PureEnv):
        return PureVector(first, count)
    with contextlib.ExitStack() as undo:
        undo.callback(first.close)
        rules = mujoco.Rules.of(first) if make.by_id and not infos else None
        found: VectorEnv
        if rules is not None:
            found = mujoco.Physics(first, rules, count, threads)
        else:
            ahead = max(1, threads) if isinstance(first, atari.AtariEnv) else 0
            found = GymnasiumVector(make, count, first, threads=ahead)
        undo.pop_all()
    return found
