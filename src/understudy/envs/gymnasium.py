"""Any Gymnasium environment, in slots: each slot is one environment whose every episode has a seed of its
own.

There is no automatic reset anywhere: a slot is reset here, at once, when its episode has ended, so that no
step is ever ignored by the environment and every step is a sample. An episode is determined by its seed and
its actions, so one that was cut short by a kill can be rebuilt by playing its actions again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from ..errors import MissingExtra, UserError

STREAMS = {
    "collect": 1,
    "evaluate": 2,
    "mixing": 3,
    "noise": 4,
    "params": 5,
    "solver": 6,
    "random": 7,
    "video": 8,
}


def derive(seed: int, stream: str, *path: int) -> int:
    """A seed for one purpose, from the run's only seed: a number below 2³² that other purposes do not share.

    >>> one = derive(0, "collect", 0, 1)
    >>> one == derive(0, "collect", 0, 1), one == derive(0, "evaluate", 0, 1)
    (True, False)
    """
    return int(np.random.SeedSequence([seed, STREAMS[stream], *path]).generate_state(1)[0])


@final
@dataclasses.dataclass(frozen=True)
class Maker:
    """How to make an environment, as often as needed: its name for the record and a function.

    `maker(…)` accepts a Gymnasium id, a function that returns an environment, or an environment that was
    made from an id.
    """

    name: str
    make: Callable[..., Any]
    by_id: bool

    def __call__(self, **keywords: Any) -> Any:
        """One environment; `keywords` such as render_mode are passed on for ids."""
        import gymnasium as gym

        try:
            made = self.make(**keywords) if self.by_id else self.make()
        except gym.error.DependencyNotInstalled as error:
            extra = "atari" if "ale" in str(error).lower() else "mujoco"
            raise MissingExtra(f"env: {self.name}", extra) from error
        except gym.error.NameNotFound as error:
            raise _no_such(self.name) from error
        except Exception as error:  # whatever a constructor or the import behind it may raise
            raise UserError(f"env: {self.name!r} cannot be made ({_told(error)}).") from error
        if not isinstance(made, gym.Env):
            raise UserError(
                f"env: {self.name!r} makes a {type(made).__name__}; a function that returns one "
                "gymnasium.Env is expected."
            )
        return made


def maker(env: Any, env_kwargs: Mapping[str, Any] | None = None) -> Maker:
    """How to make `env`: an id with `env_kwargs`, a function, or an environment with a spec."""
    import gymnasium as gym

    keywords = dict(env_kwargs or {})
    if isinstance(env, str):
        from . import atari

        if atari.looks_like(env):
            return atari.atari_maker(env, keywords)
        return Maker(env, functools.partial(gym.make, env, **keywords), True)
    if keywords:
        raise UserError("env_kwargs: they go with an environment's id; put them in the function instead.")
    if isinstance(env, gym.Env):
        if env.spec is None:
            raise UserError("env: this environment was not made from an id; give the function that makes it.")
        return Maker(env.spec.id, functools.partial(gym.make, env.spec), True)
    if isinstance(env, gym.vector.VectorEnv) or not callable(env):
        raise UserError(
            f"env: {type(env).__name__} is not accepted; give an id such as 'Hopper-v5' or a function "
            "that makes one environment (envs= says how many to run side by side)."
        )
    return Maker(getattr(env, "__name__", type(env).__name__), env, False)


@dataclasses.dataclass
class Slot:
    """One environment with the episode under way in it."""

    env: Any
    index: int
    episode: int = -1
    observation: Any = None
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    actions: list[np.ndarray] = dataclasses.field(default_factory=list)


@final
class Slots:
    """`count` environments side by side, each episode seeded by (seed, stream, slot, episode)."""

    def __init__(self, make: Maker, count: int, seed: int, stream: str = "collect"):
        self._seed, self._stream = seed, stream
        self.slots = [Slot(make(), index) for index in range(count)]
        self.observation_space = self.slots[0].env.observation_space
        self.action_space = self.slots[0].env.action_space

    def __len__(self) -> int:
        return len(self.slots)

    def start(self) -> None:
        """Begins the first episode in every slot that has none."""
        for slot in self.slots:
            if slot.episode < 0:
                self._begin(slot, 0)

    def _begin(self, slot: Slot, episode: int) -> None:
        slot.episode, slot.actions = episode, []
        slot.observation, slot.info = slot.env.reset(
            seed=derive(self._seed, self._stream, slot.index, episode)
        )

    def step(self, slot: Slot, action: Any) -> tuple[float, bool, bool]:
        """Plays one action; where the episode ends, the next one begins at once. Reward, terminated,
        truncated.
        """
        slot.actions.append(np.array(action, copy=True))
        slot.observation, reward, terminated, truncated, slot.info = slot.env.step(action)
        if terminated or truncated:
            self._begin(slot, slot.episode + 1)
        return float(reward), bool(terminated), bool(truncated)

    def rebuild(self, slot: Slot, episode: int, actions: np.ndarray) -> None:
        """Brings a slot to where `actions` led in `episode`, by playing them again from its seed."""
        self._begin(slot, episode)
        for action in actions:
            slot.observation, _, terminated, truncated, slot.info = slot.env.step(action)
            slot.actions.append(np.array(action, copy=True))
            if terminated or truncated:
                raise UserError(
                    "resume: the environment does not replay: an episode under way ends earlier now."
                )

    def close(self) -> None:
        for slot in self.slots:
            slot.env.close()


def _no_such(env_id: str) -> UserError:
    import gymnasium as gym

    from . import atari

    names = list(gym.registry)
    with contextlib.suppress(MissingExtra):
        names += ["".join(part.capitalize() for part in name.split("_")) for name in atari.games()]
    near = difflib.get_close_matches(env_id, names, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    return UserError(f"env: Gymnasium has no environment {env_id!r}{hint}")


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
