"""What a person can press: the actions of a space with their names and keys, and what a state shows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from gymnasium import spaces

from ...errors import UserError
from ...nested import part_at, parts
from ...policies.codecs import single_bounds

ACTIONS = {
    "CartPole": ("push left", "push right"),
    "MountainCar": ("push left", "nothing", "push right"),
    "Acrobot": ("turn left", "nothing", "turn right"),
    "LunarLander": ("nothing", "fire left engine", "fire main engine", "fire right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("down", "up", "right", "left", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
    "Pendulum": ("torque",),
    "MountainCarContinuous": ("force",),
}
"""Names of the actions of well-known environments, by the beginning of their ids."""
OBSERVATIONS = {
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
    "MountainCar": ("position", "velocity"),
    "Acrobot": ("cos θ₁", "sin θ₁", "cos θ₂", "sin θ₂", "velocity θ₁", "velocity θ₂"),
    "Pendulum": ("cos θ", "sin θ", "velocity"),
    "LunarLander": ("x", "y", "velocity x", "velocity y", "angle", "turning", "left leg", "right leg"),
    "Blackjack": ("your sum", "dealer's card", "usable ace"),
}
ARROWS = {"left": "ArrowLeft", "right": "ArrowRight", "up": "ArrowUp", "down": "ArrowDown"}
PLAIN = "123456789abcdefghijklmnopqrtvwxyz0"
"""Keys in the order in which actions get them; s and u are skip and undo."""
MOST_CONTROLS = 16
"""Most numbers of a Box, and rows of a MultiDiscrete, that a person is asked for."""


@final
class Controls:
    """The controls of an action space: buttons for choices, a row of them for each of several, sliders.

    >>> made = Controls(spaces.Discrete(2), "CartPole-v1")
    >>> [(one["name"], one["keys"]) for one in made.plain["choices"][0]]
    [('push left', ['1', 'ArrowLeft']), ('push right', ['2', 'ArrowRight'])]
    >>> made.read([1])
    np.int64(1)
    """

    def __init__(self, space: Any, env: str = "", actions: Sequence[str] | None = None):
        self.space, self._given = space, actions
        self._known = _known(ACTIONS, env) if actions is None else actions
        if isinstance(space, spaces.Box):
            self.plain = {"kind": "box", "sliders": self._sliders(space)}
        elif isinstance(space, spaces.Discrete):
            self.plain = {"kind": "discrete", "choices": [self._choices(int(space.n))]}
        elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            binary = isinstance(space, spaces.MultiBinary)
            counts = np.full(int(np.prod(space.shape)), 2) if binary else space.nvec.reshape(-1)
            _few(space, len(counts))
            self.plain = {"kind": "multi", "choices": [self._choices(int(n), plain=True) for n in counts]}
            self.plain["rows"] = self._names(len(counts))
        else:
            raise UserError(f"expert: a person cannot answer with {space}; with Box or Discrete they can.")

    def _names(self, count: int) -> list[str]:
        names = self._known if self._known is not None and len(self._known) == count else None
        if names is None and self._given is not None:
            raise UserError(f"actions: {len(self._given)} names are given, and {count} are needed.")
        return [f"action {i + 1}" for i in range(count)] if names is None else [str(one) for one in names]

    def _choices(self, count: int, *, plain: bool = False) -> list[dict[str, Any]]:
        if count > 200:
            raise UserError(f"expert: a person cannot choose among {count:,} actions; 200 are the most.")
        if plain:
            return [{"name": str(i), "keys": []} for i in range(count)]
        found, used = [], set()
        for i, name in enumerate(self._names(count)):
            keys = list(PLAIN[i : i + 1])
            arrow = next((key for word, key in ARROWS.items() if word in name.split()), None)
            if arrow is not None and arrow not in used:
                keys.append(arrow)
                used.add(arrow)
            found.append({"name": name, "keys": keys})
        return found

    def _sliders(self, space: Any) -> list[dict[str, Any]]:
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        _few(space, len(low))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UserError(f"expert: a person's sliders need bounds; the actions are {space}.")
        names = self._names(len(low))
        return [
            {"name": n, "low": float(a), "high": float(b)} for n, a, b in zip(names, low, high, strict=True)
        ]

    def read(self, values: Any) -> Any:
        """The action of what was pressed: the number of a choice in each row, or the slider's values."""
        shape, box = tuple(self.space.shape or ()), self.plain["kind"] == "box"
        fine = isinstance(values, list) and len(values) == int(np.prod(shape))
        fine = fine and all(type(one) in (int, float) and abs(one) < 1e38 for one in values)  # nan is not
        fine = fine and (box or all(one == int(one) and abs(one) < 1e9 for one in values))
        if fine:
            made = np.asarray(values, self.space.dtype if box else np.int64).reshape(shape)
            made = made if box else made + np.int64(getattr(self.space, "start", 0))
            if self.space.contains(made.astype(self.space.dtype)):
                if box:
                    return np.asarray(np.clip(made.astype(np.float32), *single_bounds(self.space)))
                return made if shape else np.int64(made)
        raise UserError(f"answer: {values!r} is not an action of {self.space}.")


def table(seen: Any, space: Any, env: str = "", names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """What a state shows, as rows with a name, a value and, where they are finite, bounds; images are left
    out.

    >>> table(np.array([0.5, 2.0]), spaces.Box(-1.0, 1.0, (2,)), names=["x", "v"])[0]
    {'name': 'x', 'value': 0.5, 'low': -1.0, 'high': 1.0}
    """
    names = _known(OBSERVATIONS, env) or () if names is None else names
    found: list[dict[str, Any]] = []
    for path, part in parts(seen):
        if part.ndim >= 2 or part.size > 64:
            continue
        keys, own = [str(key + 1) if isinstance(key, int) else key for key in path], part_at(space, path)
        for i, number in enumerate(part.reshape(-1).tolist()):
            name = names[len(found)] if len(found) < len(names) else " ".join([*keys, str(i + 1)])
            # JSON has no nan and no infinity; as texts, a page reads them as numbers all the same.
            value = number if math.isfinite(number) else json.dumps(number)
            found.append({"name": str(name), "value": value, **_bounds(own, i)})
    return found


def image(seen: Any) -> np.ndarray | None:
    """The picture that an observation is, or that is a part of it; None where there is none.

    >>> image(np.zeros((4, 84, 84), np.uint8)).shape, image(np.zeros(3)) is None
    ((84, 84, 3), True)
    """
    for _, one in parts(seen):
        if one.dtype != np.uint8 or one.ndim not in (2, 3) or min(one.shape[-2:]) < 1 or one.size < 256:
            continue
        if one.ndim == 2:
            return np.repeat(one[:, :, None], 3, axis=2)
        if one.shape[2] == 3:
            return one
        newest = one[:, :, -1] if one.shape[2] < one.shape[0] else one[-1]
        return np.repeat(newest[:, :, None], 3, axis=2)
    return None


def _bounds(space: Any, i: int) -> dict[str, float]:
    if isinstance(space, spaces.Discrete):
        return {"low": float(space.start), "high": float(space.start + space.n - 1)}
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        return {}
    ends = float(low.reshape(-1)[i]), float(high.reshape(-1)[i])
    # Some environments write the largest number of float32 where they mean none.
    return {"low": ends[0], "high": ends[1]} if np.abs(ends).max() < 1e6 else {}


def _known(names: Mapping[str, Sequence[str]], env: str) -> Sequence[str] | None:
    own = env.rpartition("/")[2].rpartition(":")[2]
    return names.get((own.rpartition("-v")[0] or own).removesuffix("8x8"))


def _few(space: Any, count: int) -> None:
    if count > MOST_CONTROLS:
        raise UserError(
            f"expert: a person cannot set {count} numbers a state; {MOST_CONTROLS} at most ({space})."
        )
