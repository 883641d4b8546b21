"""Pure environments: states in, states out, so that thousands of them step in one compiled program.

``reset(key)`` gives a state and ``step(state, action)`` the next one; nothing else happens. There is one
class, and one function for each library that makes one: Brax and MuJoCo Playground, gymnax, our own Hopper
and Walker2d on MJX (`mjx`), and any object of Brax's shape.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array

from ..errors import UserError, import_extra, shorten
from .gymnasium import STREAMS, Observed

Inner = TypeVar("Inner")
"""What an environment of pure functions keeps from step to step: a tree of arrays."""
Tree = TypeVar("Tree")

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..disk import Json
    from ..nested import Nested, Space
    from ..policies.codecs import Slots
    from .gymnasium import Steps

    Running = tuple[Any, Array]
    """A state of gymnax, and a key."""
    Played = tuple[Inner, Nested, ArrayLike, ArrayLike, ArrayLike]
    """What an environment keeps after a step, the observation, the reward, terminated and truncated."""

EPISODE_STEPS = 1000
"""Steps of an episode where the library has no limit of its own: what Brax trains with."""


class State(NamedTuple):
    """One environment under way: what it keeps, what it shows, and what its last step gave."""

    inner: Any
    observation: Nested
    reward: Array
    terminated: Array
    truncated: Array
    steps: Array


class BraxState(Protocol):
    """A state of a `BraxLike` environment; `info`, a dict, may be missing."""

    @property
    def obs(self) -> Nested: ...
    @property
    def reward(self) -> ArrayLike: ...
    @property
    def done(self) -> ArrayLike: ...


class BraxLike(Protocol):
    """An environment of Brax's shape; one with an `action_space` needs no `action_size`."""

    @property
    def action_size(self) -> int: ...

    def reset(self, rng: Array, /) -> BraxState: ...
    def step(self, state: BraxState, action: Array, /) -> BraxState: ...


@final
@dataclasses.dataclass(frozen=True, eq=False)
class PureEnv:
    """An environment of pure functions.

    begin: from a key to what the environment keeps and the first observation. play: from what it keeps and an
    action to what it keeps, the observation, the reward, terminated and truncated. After `limit` steps an
    episode is truncated. `serves` is the Gymnasium id whose experts fit.

    >>> from gymnasium.spaces import Box
    >>> def play(place, action):
    ...     return place + action, place + action, -jnp.abs(place[0]), jnp.abs(place[0]) > 2, False
    >>> line = PureEnv("line", lambda key: 2 * (jnp.ones(1),), play, Box(-9, 9, (1,)), Box(-1, 1, (1,)), 50)
    >>> line.step(line.reset(jax.random.key(0)), jnp.ones(1)).observation.tolist()
    [2.0]
    """

    name: str
    begin: Callable[[Array], tuple[Any, Nested]]
    play: Callable[[Any, Array], Played[Any]]
    observation_space: Space
    action_space: Space
    limit: int | None = EPISODE_STEPS
    serves: str | None = None

    def reset(self, key: Array) -> State:
        """The first state of the episode that belongs to a key."""
        inner, seen = self.begin(key)
        inner, seen = jax.tree.map(lambda leaf: _typed(leaf, jnp.asarray(leaf).dtype), (inner, seen))
        no = jnp.zeros((), bool)
        return State(inner, seen, jnp.zeros((), jnp.float32), no, no, jnp.zeros((), jnp.int32))

    def step(self, state: State, action: Array) -> State:
        """The state after one action."""
        inner, seen, reward, terminated, truncated = self.play(state.inner, action)
        steps = state.steps + 1
        over = jnp.asarray(truncated, bool)
        over = over if self.limit is None else over | (steps >= self.limit)
        gained = jnp.asarray(reward, jnp.float32)
        new = State(inner, seen, gained, jnp.asarray(terminated, bool), over, steps)
        return jax.tree.map(lambda leaf, old: _typed(leaf, old.dtype), new, state)

    def ages(self, seed: Array, slots: Array) -> Array:
        """At which age (n,) the first episodes of a run in these slots begin: drawn up to the limit, so that
        they end one after another. Environments that all begin and end together show a round one phase of
        their episodes, and learning runs after it.
        """
        return (derived(seed, "stagger", slots) % jnp.uint32(self.limit or 1)).astype(jnp.int32)

    @property
    def max_episode_steps(self) -> int | None:
        return self.limit

    def close(self) -> None: ...


def _typed(leaf: ArrayLike, dtype: np.dtype) -> Array:
    """With a type of its own: a bare number takes that of what is beside it, and a loop's state may not."""
    leaf = jnp.asarray(leaf)
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return leaf
    return jax.lax.convert_element_type(leaf, dtype)


def key_of(seed: ArrayLike) -> Array:
    """The key of a seed below 2³², the same for numbers and for traced arrays."""
    low = jnp.asarray(seed, jnp.uint32)
    return jax.random.wrap_key_data(jnp.stack([jnp.zeros_like(low), low]), impl="threefry2x32")


def chosen(which: Array, new: Tree, old: Tree) -> Tree:
    """`new` where `which` (n,), else `old`: two trees of arrays with n in front."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(which.reshape(which.shape + (1,) * (a.ndim - which.ndim)), a, b)

    return jax.tree.map(pick, new, old)


def words(seed: int) -> np.ndarray:
    """A seed as words of 32 bits, the lowest first, the way `derived` takes it."""
    places = range(0, max(seed.bit_length(), 1), 32)
    return np.array([seed >> place & 0xFFFFFFFF for place in places], np.uint32)


def derived(seed: Array, stream: str, *path: ArrayLike) -> Array:
    """`gymnasium.derive` on the device, bit for bit: NumPy's SeedSequence of words of 32 bits.

    `seed` are the `words` of the run's seed; the numbers of `path` may be arrays.

    >>> from understudy.envs.gymnasium import derive
    >>> int(derived(words(7), "collect", 3, 0)) == derive(7, "collect", 3, 0)
    True
    """
    entropy = [*jnp.asarray(seed, jnp.uint32), jnp.uint32(STREAMS[stream])]
    entropy += [jnp.asarray(one, jnp.uint32) for one in path]
    state = np.uint32(0x43B0D7E5)

    def hashed(value: Array) -> Array:
        nonlocal state
        with np.errstate(over="ignore"):
            value = value ^ state
            state = state * np.uint32(0x931E8875)
        value = value * state
        return value ^ (value >> 16)

    def mixed(x: Array, y: Array) -> Array:
        found = np.uint32(0xCA01F9DD) * x - np.uint32(0x4973F715) * y
        return found ^ (found >> 16)

    pool = [hashed(entropy[i] if i < len(entropy) else jnp.uint32(0)) for i in range(4)]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
        # Without it a compiler that fuses would compute the chain anew for each of its ends.
        pool = list(jax.lax.optimization_barrier(tuple(pool)))
    for more in entropy[4:]:
        pool = [mixed(one, hashed(more)) for one in pool]
    word = pool[0] ^ np.uint32(0x8B51F9DD)
    word = word * np.uint32((0x8B51F9DD * 0x58F38DED) & 0xFFFFFFFF)
    return word ^ (word >> 16)


def brax_style(env: BraxLike, name: str, *, limit: int | None = EPISODE_STEPS) -> PureEnv:
    """An object with ``reset(key)`` and ``step(state, action)`` whose states have `obs`, `reward` and `done`.

    Its spaces are its own `observation_space` and `action_space`, or numbers without bounds and actions in
    [−1, 1]^action_size, as Brax has them. An entry "truncation" of `info` marks ends that are no failures.
    """

    def begin(key: Array) -> tuple[BraxState, Nested]:
        state = env.reset(jax.random.key_data(key))
        return state, state.obs

    def play(state: BraxState, action: Array) -> Played[BraxState]:
        new = env.step(state, action)
        done, info = jnp.asarray(new.done).astype(bool), getattr(new, "info", None) or {}
        cut = done & jnp.asarray(info.get("truncation", False)).astype(bool)
        return new, new.obs, new.reward, done & ~cut, cut

    def space(shape: Mapping[str, jax.ShapeDtypeStruct] | jax.ShapeDtypeStruct) -> Space:
        if isinstance(shape, Mapping):
            return spaces.Dict({str(key): space(one) for key, one in shape.items()})
        return _box(*((0, 255) if shape.dtype == np.uint8 else (-np.inf, np.inf)), shape)

    try:
        seen = getattr(env, "observation_space", None)
        if not isinstance(seen, spaces.Space):
            seen = space(jax.eval_shape(lambda: env.reset(jax.random.PRNGKey(0))).obs)
        acts = getattr(env, "action_space", None)
        if not isinstance(acts, spaces.Space):
            acts = spaces.Box(-1.0, 1.0, (int(env.action_size),))
    except Exception as error:
        raise UserError(
            f"env: {name!r} is no environment: reset(key) must give a state with obs, reward and done "
            f"({shorten(error)})."
        ) from error
    return PureEnv(name, begin, play, seen, acts, getattr(env, "limit", limit))


def brax(name: str, *, max_episode_steps: int = EPISODE_STEPS, **keywords: Json) -> PureEnv:
    """An environment of Brax, such as ant; `keywords` (backend, …) are its own."""
    envs = import_extra("brax.envs", f"env: brax:{name}", "brax")
    return brax_style(envs.get_environment(name, **keywords), f"brax:{name}", limit=max_episode_steps)


def playground(name: str, *, max_episode_steps: int | None = None, **overrides: Json) -> PureEnv:
    """An environment of MuJoCo Playground, such as CartpoleBalance; `overrides` are entries of its config."""
    registry = import_extra("mujoco_playground", f"env: playground:{name}", "brax").registry
    config = registry.get_default_config(name)
    # Not Warp, whose states are shared by all environments of a batch, so that none can be reset alone.
    if "impl" in config:
        overrides = {"impl": "jax"} | overrides
    made = registry.load(name, config=config, config_overrides=overrides or None)
    return brax_style(made, f"playground:{name}", limit=max_episode_steps or int(config.episode_length))


def gymnax(name: str, **settings: Json) -> PureEnv:
    """An environment of gymnax, such as CartPole-v1; `settings` replace numbers of its parameters.

    Its own `step` resets, so its two halves are called here: `step_env`, and `is_truncated` for the limit.
    """
    env, params = import_extra("gymnax", f"env: gymnax:{name}", "gymnax").make(name)
    if "max_episode_steps" in settings:
        settings["max_steps_in_episode"] = settings.pop("max_episode_steps")
    if settings:
        params = params.replace(**settings)

    def begin(key: Array) -> tuple[Running, Nested]:
        first, later = jax.random.split(key)
        seen, state = env.reset_env(first, params)
        return (state, jax.random.key_data(later)), seen

    def play(inner: Running, action: Array) -> Played[Running]:
        state, data = inner
        now, later = jax.random.split(jax.random.wrap_key_data(data, impl="threefry2x32"))
        seen, state, reward, terminated, _ = env.step_env(now, state, action, params)
        kept = state, jax.random.key_data(later)
        return kept, seen, reward, terminated, env.is_truncated(state, params)

    seen, acts = (_gymnasium_space(one) for one in (env.observation_space(params), env.action_space(params)))
    limit = int(params.max_steps_in_episode)
    return PureEnv(f"gymnax:{name}", begin, play, seen, acts, limit, serves=name)


def _gymnasium_space(space: Any) -> Space:
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if not hasattr(space, "low"):
        raise UserError(f"env: the space {type(space).__name__} of gymnax is not supported.")
    return _box(space.low, space.high, space)


def _box(low: ArrayLike, high: ArrayLike, like: jax.ShapeDtypeStruct) -> spaces.Box:
    """The Box of what has the shape and the type of `like`: bytes, or else float32."""
    kind = np.uint8 if np.dtype(like.dtype) == np.uint8 else np.float32
    low, high = (np.broadcast_to(np.asarray(edge, kind), like.shape) for edge in (low, high))
    return spaces.Box(low, high, tuple(like.shape), kind)


def _mjx(name: str, **keywords: Any) -> PureEnv:
    from .mjx import make

    return make(name, **keywords)


LIBRARIES: dict[str, Callable[..., PureEnv]] = {
    "brax": brax,
    "gymnax": gymnax,
    "mjx": _mjx,
    "playground": playground,
}
"""What makes an environment whose name begins so (see `spec.is_pure`)."""


def as_pure(env: Any) -> PureEnv:
    """The pure environment that an object is, or has the shape of."""
    return env if isinstance(env, PureEnv) else brax_style(env, type(env).__name__)


def named(env: str) -> Callable[..., PureEnv]:
    """What makes the pure environment of this name."""
    library, _, name = env.partition(":")
    return functools.partial(LIBRARIES[library], name)


@functools.lru_cache(maxsize=4)
def _programs(env: PureEnv) -> tuple[Callable[..., State], Callable[..., State]]:
    """Beginning and stepping chosen slots. The vectors of one environment, for rounds, evaluations and the
    expert's, share them, so that a number of slots is traced and compiled once.
    """

    def begin(state: State, which: Array, seeds: Array, ages: Array) -> State:
        anew = jax.vmap(lambda seed: env.reset(key_of(seed)))(seeds)
        return chosen(which, anew._replace(steps=ages), state)

    def step(state: State, which: Array, actions: Array) -> State:
        return chosen(which, jax.vmap(env.step)(state, actions), state)

    return jax.jit(begin, donate_argnums=0), jax.jit(step, donate_argnums=0)


@final
class PureVector:
    """See `VectorEnv`. An episode is a function of its seed and its actions."""

    many = True

    def __init__(self, env: PureEnv, count: int):
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.broken: dict[int, Exception] = {}
        self.limit, self._env, self._count = env.limit, env, count
        self._begin, self._step = _programs(env)
        self.ages = np.zeros(count, np.int32)
        """How many steps the next episode of each slot counts as over already."""
        one = jax.eval_shape(lambda seed: env.reset(key_of(seed)), np.uint32(0))
        self._state: State = jax.tree.map(
            lambda leaf: jax.device_put(np.zeros((count, *leaf.shape), leaf.dtype)), one
        )
        self._seen: Nested | None = None

    def _spread(self, slots: Slots, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        which = np.zeros(self._count, bool)
        which[slots] = True
        full = np.zeros((self._count, *values.shape[1:]), values.dtype)
        full[slots] = values
        return which, full

    def begin(self, slots: Sequence[int] | np.ndarray, seeds: Sequence[int]) -> None:
        if len(slots):
            seeded = self._spread(slots, np.array(seeds, np.uint32))
            self._state = self._begin(self._state, *seeded, self.ages.copy())
            self.ages[slots] = 0
            self._seen = None

    def observe(self, slots: np.ndarray) -> Observed:
        if self._seen is None:
            self._seen = jax.device_get(self._state.observation)
        return Observed(jax.tree.map(lambda leaf: leaf[slots], self._seen), [{}] * len(slots))

    def step(self, slots: np.ndarray, actions: Sequence[Nested] | np.ndarray) -> Steps:
        played = np.asarray(actions)
        played = played.astype(np.int32 if played.dtype.kind in "iu" else np.float32)
        self._state = self._step(self._state, *self._spread(slots, played))
        rewards, terminated, truncated, self._seen = jax.device_get(
            (self._state.reward, self._state.terminated, self._state.truncated, self._state.observation)
        )
        return rewards[slots].astype(np.float64), terminated[slots], truncated[slots]

    def close(self) -> None: ...
