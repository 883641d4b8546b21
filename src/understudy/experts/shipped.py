"""The experts that come with the package: networks, feedback laws for Gymnasium's classic control tasks, and
exact planners for small environments.

A shipped expert has a card `weights/NAME.json`; a network has `NAME.safetensors` beside it, dp-… is a
planner, and the others are laws.
"""

# pyright: reportUnknownArgumentType=false
# The transition table of a Gymnasium environment has no type.

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict

import gymnasium
import numpy as np
from gymnasium import spaces

from ..envs.gymnasium import maker
from ..errors import UserError, damaged, suggest, unknown
from . import Expert

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..disk import Json
    from . import Infos, Kind


class Returns(TypedDict):
    """What an expert was measured at."""

    mean: float
    std: float
    episodes: int


class Card(TypedDict, total=False):
    """What is known about an expert that comes with the package."""

    name: Required[str]
    algorithm: Required[str]
    environments: Required[list[str]]
    kind: Required[Kind]
    returns: dict[str, Returns]
    settings: str | dict[str, Json]
    made: str
    format: int


FOLDER = Path(__file__).parent / "weights"


@functools.cache
def _cards() -> Mapping[str, Card]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def names() -> list[str]:
    """The names of all experts that come with the package.

    >>> "sac-Hopper-v5" in names()
    True
    """
    return list(_cards())


def card(name: str) -> Card:
    """What is known about an expert: algorithm, environments, settings, measured returns, how it was made."""
    if name not in _cards():
        raise unknown("expert", name, _cards())
    return {**_cards()[name]}


def get(name: str, *, env_id: str | None = None, env_kwargs: Mapping[str, Json] | None = None) -> Expert:
    """The expert of that name.

    `env_id` and `env_kwargs` matter to planners only, which plan in the environment itself: one of the ids
    the card lists, and the keywords it is made with.
    """
    about = card(name)
    if name in LAWS:
        return _law(name, about)
    if not name.startswith("dp-"):
        from . import networks

        return networks.load(FOLDER / f"{name}.safetensors")
    if env_id is not None and env_id not in about["environments"]:
        served = ", ".join(about["environments"])
        raise UserError(f"expert: {name!r} plans in {served}, not in {env_id!r}.")
    # The first that the installed Gymnasium has: Taxi-v3 became Taxi-v4.
    registered = [env for env in about["environments"] if env in gymnasium.registry]
    place = env_id or [*registered, *about["environments"]][0]
    return dynamic_programming(place, env_kwargs=env_kwargs, card=about)


def for_env(env_id: str, *, env_kwargs: Mapping[str, Json] | None = None) -> Expert:
    """The shipped expert for an environment, by the ids on the cards: sac-Hopper-v5 serves Hopper-v4 too."""
    name = next((name for name, about in _cards().items() if env_id in about["environments"]), None)
    if name is None:
        served = sorted({env for about in _cards().values() for env in about["environments"]})
        raise UserError(
            f"expert: none is shipped for {env_id!r}{suggest(env_id, served)} Name one, such as your own "
            f"module:function. There are experts for {', '.join(served)}."
        )
    return get(name, env_id=env_id, env_kwargs=env_kwargs)


# Feedback laws. Each works on a whole batch, of NumPy or of JAX, with additions, products and comparisons
# only. Those are exact elementwise, so an action does not depend on its batch. With a matrix product or a
# vectorised sine it could.


def cartpole(x: np.ndarray) -> np.ndarray:
    """Pushes to the side on which K·(x, ẋ, θ, θ̇) is positive; K from a linear-quadratic regulator.

    The regulator is the one of the pole linearised upright with time step 0.02, state cost diag(1, 1, 10, 1)
    and force cost 0.01, scaled to K_θ = 1.
    """
    place, speed, angle, spin = x.T
    return (0.087 * place + 0.153 * speed + 1.0 * angle + 0.264 * spin > 0).astype(int)


def pendulum(x: np.ndarray) -> np.ndarray:
    """Pumps energy until the pendulum is near upright, then balances it.

    With E the energy above rest upright, E = θ̇²/6 + 5(cos θ - 1): torque -2·E·θ̇ while cos θ ≤ 0.8, and
    -(10 sin θ + 2 θ̇) above, clipped to ±2. Hanging still it pushes, since pumping needs motion.
    """
    where = x.__array_namespace__().where
    cos, sin, spin = x.T
    energy = spin * spin / 6 + 5 * (cos - 1)
    pump = where(spin == 0, 2.0, -2 * energy * spin)
    torque = where(cos > 0.8, -10 * sin - 2 * spin, pump)
    torque = where(torque > -2, torque, -2.0)
    return where(torque < 2, torque, 2.0)[:, None]


def acrobot(x: np.ndarray) -> np.ndarray:
    """Pumps energy into the swing: torque +1 where -θ̇₁ + ½(θ̇₂ - sin θ₁ - sin θ₂) > 0, else -1."""
    _, sin1, _, sin2, spin1, spin2 = x.T
    return 2 * (0.5 * (spin2 - sin1 - sin2) - spin1 > 0).astype(int)


LAWS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int, spaces.Box | spaces.Discrete]] = {
    "lqr-CartPole-v1": (cartpole, 4, spaces.Discrete(2)),
    "swingup-Pendulum-v1": (pendulum, 3, spaces.Box(-2.0, 2.0, (1,))),
    "swingup-Acrobot-v1": (acrobot, 6, spaces.Discrete(3)),
}
"""By expert: the law, from observations (n, d) to n actions, d and the actions."""


def _law(name: str, card: Card) -> Expert:
    function, size, actions = LAWS[name]

    def ask(observations: ArrayLike, infos: Infos) -> np.ndarray:
        return function(np.asarray(observations, np.float32))

    return Expert(
        name,
        ask=ask,
        observation_space=spaces.Box(-np.inf, np.inf, (size,)),
        action_space=actions,
        card=card,
        pure=function,
        deterministic=True,
    )


# Planners.

Table = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]


def value_iteration(table: Table, *, discount: float = 0.99, tolerance: float = 1e-10) -> np.ndarray:
    """The optimal action values Q(s, a), shape (states, actions), to `tolerance` in the largest entry.

    ``table[s][a]`` is a list of (probability, next state, reward, terminated), as Gymnasium's toy-text
    environments keep in `env.unwrapped.P`. Iterates Q ← E[r + discount · max_b Q(s', b)], nothing after
    termination.

    >>> value_iteration({0: {0: [(1.0, 0, 1.0, True)], 1: [(1.0, 0, 0.6, False)]}}, discount=0.5).round(3)
    array([[1. , 1.2]])
    """
    if not 0 < discount < 1:
        raise UserError(f"discount: {discount!r} is not a number strictly between 0 and 1.")
    with damaged("table"):
        states, actions = len(table), len(table[0])
        rows = [
            (state * actions + action, *outcome)
            for state in range(states)
            for action in range(actions)
            for outcome in table[state][action]
        ]
        pair, probability, after, reward, terminated = map(np.array, zip(*rows, strict=True))
        total = np.bincount(pair, probability)
        fine = (probability >= 0).all() and (total < 1 + 1e-6).all() and np.isfinite(reward).all()
        if not fine or after.min() < 0 or after.max() >= states:  # its values might grow without end
            raise UserError(
                "table: rewards must be finite, next states be among the states, and probabilities be "
                "≥ 0 with a sum of at most 1."
            )
    weight = discount * probability * ~terminated.astype(bool)
    expected_reward = np.bincount(pair, probability * reward, states * actions)
    q = np.zeros((states, actions))
    while True:  # a contraction by `discount`: the error is at most change · discount / (1 - discount)
        future = np.bincount(pair, weight * q.max(axis=1)[after], states * actions)
        new = (expected_reward + future).reshape(q.shape)
        change, q = np.abs(new - q).max(), new
        if change * discount / (1 - discount) <= tolerance:
            return q


def dynamic_programming(
    env_id: str,
    *,
    env_kwargs: Mapping[str, Json] | None = None,
    discount: float = 0.99,
    card: Card | None = None,
) -> Expert:
    """The optimal expert of an environment with a transition table `P` (FrozenLake, Taxi, CliffWalking).

    Give the environment's own `env_kwargs`: another map, or ice that does not slip, is another table. Of
    equally good actions the first is played.
    """
    with contextlib.closing(maker(env_id, env_kwargs)()) as env:
        table = getattr(env.unwrapped, "P", None)
        if not isinstance(table, Mapping) or not hasattr(env.observation_space, "n"):
            raise UserError(f"expert: dynamic programming needs a transition table; {env_id!r} has none.")
        q = value_iteration(table, discount=discount)
    # Values that differ by what the iteration leaves are equal; without it the choice would follow rounding.
    best = (q >= q.max(axis=1, keepdims=True) - 1e-8).argmax(axis=1).astype(np.int64)

    def ask(states: ArrayLike, infos: Infos) -> np.ndarray:
        return best[np.asarray(states)]

    about: dict[str, Any] = {
        "name": f"dp-{env_id}",
        "algorithm": f"value iteration on the environment's transition table, discount {discount}",
        "environments": [env_id],
        "kind": "action",
        **(card or {}),
        "settings": dict(env_kwargs or {}),
    }
    return Expert(
        about["name"],
        ask=ask,
        observation_space=env.observation_space,
        action_space=env.action_space,
        card=about,
        deterministic=True,
    )
