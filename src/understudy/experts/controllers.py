"""Short feedback laws that solve Gymnasium's classic control tasks.

Each works on a whole batch with additions, products and comparisons only. Those are exact elementwise, so an
action does not depend on the batch it was asked in; a matrix product or a vectorised sine would not promise
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from .base import Expert

NO_CARD: Mapping[str, Any] = MappingProxyType({})


def cartpole(card: Mapping[str, Any] = NO_CARD) -> Expert:
    """Pushes to the side on which K·(x, ẋ, θ, θ̇) is positive; K from a linear-quadratic regulator.

    The regulator is the one of the pole linearised upright with time step 0.02, state cost diag(1, 1, 10, 1)
    and force cost 0.01, scaled to K_θ = 1.
    """
    from gymnasium import spaces

    gain = np.array([0.087, 0.153, 1.0, 0.264], np.float32)

    def ask(observations: Any, infos: Any) -> np.ndarray:
        x, v, angle, spin = np.asarray(observations, np.float32).T
        return (gain[0] * x + gain[1] * v + gain[2] * angle + gain[3] * spin > 0).astype(np.int64)

    return Expert(
        "lqr-CartPole-v1",
        ask=ask,
        observation_space=spaces.Box(-np.inf, np.inf, (4,)),
        action_space=spaces.Discrete(2),
        card=card,
    )


def pendulum(card: Mapping[str, Any] = NO_CARD) -> Expert:
    """Pumps energy until the pendulum is near upright, then balances it.

    With E the energy above rest upright, E = θ̇²/6 + 5(cos θ - 1): torque -2·E·θ̇ while cos θ ≤ 0.8, and
    -(10 sin θ + 2 θ̇) above, clipped to ±2. Hanging still it pushes, since pumping needs motion.
    """
    from gymnasium import spaces

    def ask(observations: Any, infos: Any) -> np.ndarray:
        cos, sin, spin = np.asarray(observations, np.float32).T
        energy = spin * spin / np.float32(6) + np.float32(5) * (cos - np.float32(1))
        pump = np.where(spin == 0, np.float32(2), np.float32(-2) * energy * spin)
        balance = np.float32(-10) * sin - np.float32(2) * spin
        torque = np.where(cos > np.float32(0.8), balance, pump)
        return np.minimum(np.maximum(torque, np.float32(-2)), np.float32(2))[:, None]

    return Expert(
        "swingup-Pendulum-v1",
        ask=ask,
        observation_space=spaces.Box(-np.inf, np.inf, (3,)),
        action_space=spaces.Box(-2.0, 2.0, (1,)),
        card=card,
    )


def acrobot(card: Mapping[str, Any] = NO_CARD) -> Expert:
    """Pumps energy into the swing: torque +1 where -θ̇₁ + ½(θ̇₂ - sin θ₁ - sin θ₂) > 0, else -1."""
    from gymnasium import spaces

    def ask(observations: Any, infos: Any) -> np.ndarray:
        _, sin1, _, sin2, spin1, spin2 = np.asarray(observations, np.float32).T
        drive = np.float32(0.5) * (spin2 - sin1 - sin2) - spin1
        return np.where(drive > 0, 2, 0).astype(np.int64)

    return Expert(
        "swingup-Acrobot-v1",
        ask=ask,
        observation_space=spaces.Box(-np.inf, np.inf, (6,)),
        action_space=spaces.Discrete(3),
        card=card,
    )
