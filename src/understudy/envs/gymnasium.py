"""Gymnasium environments: how one is made, the seeds of all that is random in a run, and n slots of one
environment, each with one episode under way.

Nothing resets by itself. The caller begins the next episode of a slot, with a seed, so every step is a sample
and an episode is a function of its seed and its actions: it can be played again. There are three vector
environments: of any Gymnasium environments (here), Gymnasium's MuJoCo environments on MuJoCo itself
(`mujoco`), both of which step to the bits of one Gymnasium environment, and pure environments
(`pure.PureVector`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, SupportsFloat, final

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ..errors import MissingExtra, UserError, failure, kind_of, shorten, suggest
from ..nested import part_at, stack
from ..policies.sight import INFO, OWN
from ..registry import module, place_of
from ..spec import Environment, is_pure

if TYPE_CHECKING:
    from ..disk import Json
    from ..nested import Info, Nested, Space
    from ..spec import Setting
    from .pure import PureEnv

    Env = gym.Env[Nested, Nested]
    """An environment of Gymnasium's."""
    Steps = tuple[np.ndarray, np.ndarray, np.ndarray]

PURPOSES = ("collect", "evaluate", "mixing", "noise", "params", "solver", "random", "video", "ask")
PURPOSES += ("memory", "members", "stagger")
STREAMS = {name: number for number, name in enumerate(PURPOSES, 1)}
"""What is random in a run, by number: another order would be other runs."""


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

    `maker(…)` accepts a Gymnasium id, a function that returns an environment (or ``module:function``), or an
    environment that was made from an id.
    """

    name: str
    make: Callable[..., Any]
    by_id: bool

    def __call__(self, **keywords: Json) -> Any:
        """One environment; a function gets those of `keywords` (render_mode, …) that are its parameters."""
        if not self.by_id:
            keywords = {name: one for name, one in keywords.items() if _takes(self.make, name)}
        known = gym.registry.get(self.name.rpartition(":")[2])
        if "mujoco" in sys.modules or "mujoco" in str(getattr(known, "entry_point", "")):
            _hear_mujoco()
        try:
            made = self.make(**keywords)
        except UserError:
            raise
        except gym.error.NameNotFound as error:
            raise _no_such(self.name) from error
        except Exception as error:  # whatever a constructor or the import behind it may raise
            if isinstance(error, gym.error.DependencyNotInstalled) and "mujoco" in str(error).lower():
                raise MissingExtra(f"env: {self.name}", "mujoco") from error
            raise UserError(f"env: {self.name!r} cannot be made ({shorten(error)}).") from error
        if not isinstance(made, gym.Env):
            from .pure import as_pure

            if is_pure(made):
                return as_pure(made)
            raise UserError(
                f"env: {self.name!r} makes a {type(made).__name__}; a function that returns one "
                "gymnasium.Env, or a pure environment, is expected."
            )
        for name in ("observation_space", "action_space"):
            if not isinstance(getattr(made, name, None), gym.Space):
                raise UserError(f"env: {self.name!r} makes an environment without {name}.")
        return made


def maker(
    env: Environment | None, env_kwargs: Mapping[str, Setting] | None = None, infos: Sequence[str] = ()
) -> Maker:
    """How to make `env`: an id or a function with `env_kwargs`, or an environment with a spec.

    ``module:Id`` imports a module first, of the current folder too; where the module has a function of that
    name, ``module:make``, that function makes the environment. The entries `infos` of the info are put beside
    the observations: Dict observations with a key ``info:NAME`` for each.
    """
    if infos:
        made = maker(env, env_kwargs)
        return dataclasses.replace(made, make=functools.partial(_with_infos, made, tuple(infos)))
    keywords = dict(env_kwargs or {})
    if isinstance(env, str):
        if is_pure(env):
            from .pure import named

            return Maker(env, functools.partial(named(env), **keywords), False)
        if env.startswith("ALE/") or env not in gym.registry:
            from . import atari

            if atari.looks_like(env):
                return atari.atari_maker(env, keywords)
        package, _, name = env.rpartition(":")
        if package and callable(found := getattr(module("env", package), name, None)):
            return Maker(env, functools.partial(found, **keywords), False)
        return Maker(env, functools.partial(gym.make, env, **keywords), True)
    if isinstance(env, gym.Env):
        if env.spec is None:
            raise UserError("env: this environment was not made from an id; give the function that makes it.")
        if keywords:
            raise UserError("env_kwargs: this environment is made already; give them with its id.")
        return Maker(env.spec.id, functools.partial(gym.make, env.spec), True)
    from .pure import as_pure

    if is_pure(env):
        if keywords:
            raise UserError("env_kwargs: this environment is made already; give them where it is made.")
        made = as_pure(env)
        return Maker(made.name, lambda: made, False)
    if isinstance(env, gym.vector.VectorEnv) or not callable(env):
        raise UserError(
            f"env: {type(env).__name__} is not accepted; give an id such as 'Hopper-v5' or a function "
            "that makes one environment (num_envs= says how many to run side by side)."
        )
    name = place_of(env) or getattr(env, "__name__", type(env).__name__)
    return Maker(name, functools.partial(env, **keywords) if keywords else env, False)


class WithInfos(gym.Wrapper):
    """The environment with entries of the info beside its observations."""

    def __init__(self, env: Env, infos: tuple[str, ...]):
        super().__init__(env)
        own, self._infos = env.observation_space, infos
        parts = dict(own.spaces) if isinstance(own, gym.spaces.Dict) else {OWN: own}
        for name, value in self._entries(env.reset(seed=0)[1]).items():
            parts[name] = gym.spaces.Box(-np.inf, np.inf, value.shape)
        self.observation_space, self._plain = gym.spaces.Dict(parts), OWN in parts

    def reset(
        self, *, seed: int | None = None, options: dict[str, Json] | None = None
    ) -> tuple[dict[str, Nested], dict[str, Nested]]:
        seen, info = self.env.reset(seed=seed, options=options)
        return self._beside(seen, info), info

    def step(self, action: Nested) -> tuple[dict[str, Nested], SupportsFloat, bool, bool, dict[str, Nested]]:
        seen, reward, terminated, truncated, info = _values("step", self.env.step(action))
        return self._beside(seen, info), reward, terminated, truncated, info

    def _beside(self, seen: Any, info: Info) -> dict[str, Nested]:
        return {**({OWN: seen} if self._plain else seen), **self._entries(info)}

    def _entries(self, info: Info) -> dict[str, np.ndarray]:
        for name in self._infos:
            if name not in info:
                known = ", ".join(sorted(map(str, info))) or "none"
                raise UserError(f"student_sees: info has no key {name!r}; its keys: {known}.")
        return {INFO + name: np.asarray(info[name], np.float32) for name in self._infos}


def _with_infos(made: Maker, infos: tuple[str, ...], **keywords: Json) -> WithInfos:
    inner = made(**keywords)
    try:
        return WithInfos(inner, infos)
    except BaseException:
        inner.close()
        raise


def has_limit(env: Any) -> bool:
    """Whether the environment ends its episodes itself after some number of steps, as far as it says.

    >>> import gymnasium
    >>> has_limit(gymnasium.make("CartPole-v1")), has_limit(gymnasium.make("CartPole-v1").unwrapped)
    (True, False)
    """
    from .atari import AtariEnv

    while True:
        if isinstance(env, (gym.wrappers.TimeLimit, AtariEnv)) or getattr(env, "max_episode_steps", None):
            return True
        if not hasattr(env, "env"):
            return False
        env = env.env


def _takes(function: Callable[..., Env | PureEnv], name: str) -> bool:
    try:
        takes = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in takes or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())


@functools.cache
def _hear_mujoco() -> None:
    """MuJoCo's warnings become Python's: by itself it writes them into a file in the current folder. That an
    attribute of a model is deprecated is left out: its player cannot change the model.
    """
    try:
        import mujoco
    except ImportError:
        return

    def hear(text: str) -> None:
        if "deprecated" not in text:
            with contextlib.suppress(Warning):  # an exception must not reach MuJoCo
                warnings.warn(f"MuJoCo: {' '.join(text.split())}", stacklevel=2)

    if mujoco.get_mju_user_warning() is None:  # type: ignore[attr-defined]
        mujoco.set_mju_user_warning(hear)  # type: ignore[attr-defined]


def _no_such(env_id: str) -> UserError:
    from . import atari

    package, _, name = env_id.rpartition(":")
    if package:
        here = [key for key, one in vars(module("env", package)).items() if callable(one) and key[0] != "_"]
        hint = suggest(name, [*here, *gym.registry])
        return UserError(
            f"env: {package!r} has no class or function {name!r}, and no environment has that id{hint}"
        )
    names = list(gym.registry)
    with contextlib.suppress(MissingExtra):
        names += map(atari.title, atari.games())
    return UserError(f"env: Gymnasium has no environment {env_id!r}{suggest(env_id, names)}")


LIGHT = tuple(f"gymnasium.envs.{kind}." for kind in ("classic_control", "toy_text", "box2d"))
"""Where the environments are that cost nothing to make."""


class Observed(NamedTuple):
    """What n slots show: n infos, and the observations as a batch (nested arrays with n in front)."""

    batch: Nested
    infos: Sequence[Info]


class VectorEnv(Protocol):
    """Slots are named by their numbers (n,), in any order and choice."""

    observation_space: Space
    action_space: Space
    many: bool
    """Whether slots cost next to nothing and are independent, so that a run may evaluate in several of them
    unasked. Of environments in general that is not known."""
    broken: dict[int, Exception]
    """Slots whose environment has raised, and what; such a slot keeps its last observation."""

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        """Begins an episode in each of these slots."""
        ...

    def observe(self, slots: np.ndarray) -> Observed:
        """What these slots show now."""
        ...

    def step(self, slots: np.ndarray, actions: Sequence[Nested] | np.ndarray) -> Steps:
        """Plays one action in each of these slots: rewards (float64), terminated and truncated, (n,) each.

        A slot whose episode has ended must be begun before its next step.
        """
        ...

    def close(self) -> None: ...


def raise_broken(env: VectorEnv) -> None:
    """Raises what an environment has raised, as a sentence; nothing where none has."""
    for error in env.broken.values():
        raise failure("environment", error)


@final
class GymnasiumVector:
    """Gymnasium environments, one object a slot, stepped one after another. Those that step in threads of
    their own (`AtariEnv.send` and `receive`) are stepped `threads` at a time; 0: there are none.
    """

    def __init__(self, make: Maker, count: int, first: Env, *, threads: int = 0):
        self._envs = [first]
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
        self._seen: list[Nested | None] = [None] * count
        self._infos: list[Info] = [{}] * count
        self.broken: dict[int, Exception] = {}

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                seen, info = _values("reset", self._envs[slot].reset(seed=int(seed)))
                self._show(slot, seen, info)
            except Exception as error:  # an error in one environment must not end the other runs
                self.broken[int(slot)] = error

    def _show(self, slot: int, seen: Nested, info: Info) -> None:
        """Takes what an environment shows, or raises: what cannot be stacked is the fault of one slot."""
        _fit(seen, self.observation_space)
        self._seen[slot], self._infos[slot] = seen, info

    def observe(self, slots: np.ndarray) -> Observed:
        chosen = slots.tolist()
        infos = [self._infos[slot] for slot in chosen]
        return Observed(stack([self._seen[slot] for slot in chosen]), infos)

    def step(self, slots: np.ndarray, actions: Sequence[Nested] | np.ndarray) -> Steps:
        rewards, ended = np.empty(len(slots)), np.zeros((2, len(slots)), bool)
        ahead, envs = self._threads, [self._envs[slot] for slot in slots.tolist()]
        for env, action in zip(envs[:ahead], actions, strict=False):
            env.send(action)
        for i, slot in enumerate(slots.tolist()):
            try:
                made = envs[i].receive() if ahead else envs[i].step(actions[i])
                seen, rewards[i], ended[0, i], ended[1, i], info = _values("step", made)
                self._show(slot, seen, info)
            except Exception as error:
                self.broken[slot], rewards[i] = error, np.nan
            if ahead and i + ahead < len(envs):
                envs[i + ahead].send(actions[i + ahead])
        return rewards, ended[0], ended[1]

    def close(self) -> None:
        for env in self._envs:
            env.close()


RETURNS = {
    "reset": (2, "two: observation, info"),
    "step": (5, "five: observation, reward, terminated, truncated, info"),
}


def _values(method: str, made: Any) -> Any:
    """What a reset or a step returned, which must be Gymnasium's values."""
    count, names = RETURNS[method]
    if isinstance(made, tuple) and len(made) == count:
        return made
    values = f"{len(made)} values" if isinstance(made, tuple) else kind_of(made)
    old = ", as the old gym did" if method == "step" and values == "4 values" else ""
    told = f"its {method} returned {values}{old}, and Gymnasium's {method} returns {names}"
    raise UserError(f"environment: {told}.")


def _fit(seen: Any, space: Space) -> None:
    """Refuses an observation that has more or fewer numbers than its space says, or other choices."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner: Any = space.spaces
        for key in inner if isinstance(inner, Mapping) else range(len(inner)):
            _fit(part_at(seen, (key,)), inner[key])
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

    >>> two = vector(maker("CartPole-v1"), 2)
    >>> two.begin([0, 1], [7, 7])
    >>> seen = two.observe(np.array([0, 1])).batch
    >>> seen.shape, bool((seen[0] == seen[1]).all())
    ((2, 4), True)
    """
    from . import atari, mujoco
    from .pure import PureEnv, PureVector

    first = make() if first is None else first
    if isinstance(first, PureEnv):
        return PureVector(first, count)
    with contextlib.ExitStack() as undo:
        undo.callback(first.close)
        own = type(first.unwrapped).__module__.startswith("gymnasium.envs.mujoco.")
        direct = mujoco.rules_of(first) if own and make.by_id and not infos else None
        env: VectorEnv
        if direct is not None:
            env = mujoco.MujocoVector(first, *direct, count, threads)
        else:
            ahead = max(1, threads) if isinstance(first, atari.AtariEnv) else 0
            env = GymnasiumVector(make, count, first, threads=ahead)
        undo.pop_all()
    return env
