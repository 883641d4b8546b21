"""Short feedback laws that solve Gymnasium's classic control tasks.

Each works on a whole batch with additions, products and comparisons only. Those are exact elementwise, so an
action does not depend on its batch. With a matrix product or a vectorised sine it could.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from . import Expert


def cartpole(x: np.ndarray) -> np.ndarray:
    """Pushes to the side on which K·(x, ẋ, θ, θ̇) is positive; K from a linear-quadratic regulator.

    The regulator is the one of the pole linearised upright with time step 0.02, state cost diag(1, 1, 10, 1)
    and force cost 0.01, scaled to K_θ = 1.
    """
    gain = np.array([0.087, 0.153, 1.0, 0.264], np.float32)
    place, speed, angle, spin = x.T
    return (gain[0] * place + gain[1] * speed + gain[2] * angle + gain[3] * spin > 0).astype(_whole(x))


def pendulum(x: np.ndarray) -> np.ndarray:
    """Pumps energy until the pendulum is near upright, then balances it.

    With E the energy above rest upright, E = θ̇²/6 + 5(cos θ - 1): torque -2·E·θ̇ while cos θ ≤ 0.8, and
    -(10 sin θ + 2 θ̇) above, clipped to ±2. Hanging still it pushes, since pumping needs motion.
    """
    cos, sin, spin = x.T
    energy = spin * spin / np.float32(6) + np.float32(5) * (cos - np.float32(1))
    pump = _either(spin == 0, np.float32(2), np.float32(-2) * energy * spin)
    balance = np.float32(-10) * sin - np.float32(2) * spin
    torque = _either(cos > np.float32(0.8), balance, pump)
    torque = _either(torque > np.float32(-2), torque, np.float32(-2))
    return _either(torque < np.float32(2), torque, np.float32(2))[:, None]


def acrobot(x: np.ndarray) -> np.ndarray:
    """Pumps energy into the swing: torque +1 where -θ̇₁ + ½(θ̇₂ - sin θ₁ - sin θ₂) > 0, else -1."""
    _, sin1, _, sin2, spin1, spin2 = x.T
    return 2 * (np.float32(0.5) * (spin2 - sin1 - sin2) - spin1 > 0).astype(_whole(x))


def _whole(x: Any) -> Any:
    return np.int64 if isinstance(x, np.ndarray) else np.int32


def _either(which: Any, one: Any, other: Any) -> Any:
    """NumPy's `where`, or its JAX twin where the arrays are on the device."""
    if isinstance(which, np.ndarray):
        return np.where(which, one, other)
    import jax.numpy as jnp

    return jnp.where(which, one, other)


LAWS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int, spaces.Space]] = {
    "lqr-CartPole-v1": (cartpole, 4, spaces.Discrete(2)),
    "swingup-Pendulum-v1": (pendulum, 3, spaces.Box(-2.0, 2.0, (1,))),
    "swingup-Acrobot-v1": (acrobot, 6, spaces.Discrete(3)),
}
"""By expert: the law, from observations (n, d) to n actions, d and the actions."""


def law(name: str, card: Mapping[str, Any]) -> Expert:
    """The expert that plays a law."""
    function, size, actions = LAWS[name]
    return Expert(
        name,
        ask=lambda observations, infos: function(np.asarray(observations, np.float32)),
        observation_space=spaces.Box(-np.inf, np.inf, (size,)),
        action_space=actions,
        card=card,
        pure=function,
        deterministic=True,
    )
