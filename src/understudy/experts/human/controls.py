"""What a person can press: the actions of a space with their names and keys, and what a state shows."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# What a class of Gymnasium's spaces holds is unknown where `isinstance` found it.

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Required, TypedDict, final

import numpy as np
from gymnasium import spaces

from ...errors import UserError
from ...nested import part_at, parts
from ...policies.codecs import single_bounds

if TYPE_CHECKING:
    from .. import Nested, Space

Action = np.ndarray | np.int64

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
KEYS = "123456789abcdefghijklmnopqrtvwxyz0"
"""Keys in the order in which actions get them; s and u are skip and undo."""
MOST_CONTROLS = 16
"""Most numbers of a Box, and rows of a MultiDiscrete, that a person is asked for."""


class Choice(TypedDict):
    """A button: the action's name, and the keys that press it."""

    name: str
    keys: list[str]


class Slider(TypedDict):
    """A number of a Box between its bounds."""

    name: str
    low: float
    high: float


class Plain(TypedDict, total=False):
    """Controls as plain data: rows of choices, or sliders."""

    kind: Required[Literal["discrete", "multi", "box"]]
    choices: list[list[Choice]]
    rows: list[str]
    sliders: list[Slider]


class Row(TypedDict):
    """A number of a state: its name, its value (a text where JSON has no such number), and bounds."""

    name: str
    value: float | str
    low: NotRequired[float]
    high: NotRequired[float]


@final
class Controls:
    """The controls of an action space: buttons for choices, a row of them for each of several, sliders.

    >>> controls = Controls(spaces.Discrete(2), "CartPole-v1")
    >>> [(choice["name"], choice["keys"]) for choice in controls.plain["choices"][0]]
    [('push left', ['1', 'ArrowLeft']), ('push right', ['2', 'ArrowRight'])]
    >>> controls.read([1])
    np.int64(1)
    """

    def __init__(self, space: Space, env: str = "", actions: Sequence[str] | None = None):
        self.space, self._given = space, actions
        self._known = _known(ACTIONS, env) if actions is None else actions
        if isinstance(space, spaces.Box):
            self.plain: Plain = {"kind": "box", "sliders": self._sliders(space)}
        elif isinstance(space, spaces.Discrete):
            self.plain = {"kind": "discrete", "choices": [self._choices(int(space.n))]}
        elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            binary = isinstance(space, spaces.MultiBinary)
            counts = np.full(int(np.prod(space.shape)), 2) if binary else space.nvec.reshape(-1)
            _check_count(space, len(counts))
            choices = [[Choice(name=str(i), keys=[]) for i in range(_check_choices(n))] for n in counts]
            self.plain = {"kind": "multi", "choices": choices, "rows": self._names(len(counts))}
        else:
            raise UserError(f"expert: a person cannot answer with {space}; with Box or Discrete they can.")

    def _names(self, count: int) -> list[str]:
        if self._known is not None and len(self._known) == count:
            return [str(name) for name in self._known]
        if self._given is not None:
            raise UserError(f"actions: {len(self._given)} names are given, and {count} are needed.")
        return [f"action {i + 1}" for i in range(count)]

    def _choices(self, count: int) -> list[Choice]:
        choices: list[Choice] = []
        used: set[str] = set()
        for i, name in enumerate(self._names(_check_choices(count))):
            keys = list(KEYS[i : i + 1])
            arrow = next((key for word, key in ARROWS.items() if word in name.split()), None)
            if arrow is not None and arrow not in used:
                keys.append(arrow)
                used.add(arrow)
            choices.append({"name": name, "keys": keys})
        return choices

    def _sliders(self, space: spaces.Box) -> list[Slider]:
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        _check_count(space, len(low))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UserError(f"expert: a person's sliders need bounds; the actions are {space}.")
        edges = zip(self._names(len(low)), low.tolist(), high.tolist(), strict=True)
        return [{"name": name, "low": float(least), "high": float(most)} for name, least, most in edges]

    def read(self, values: Any) -> Action:
        """The action of what was pressed: the number of a choice in each row, or the slider's values."""
        shape, box = tuple(self.space.shape or ()), self.plain["kind"] == "box"
        good = isinstance(values, list) and len(values) == int(np.prod(shape))
        # nan is not below it
        good = good and all(type(value) in (int, float) and abs(value) < 1e38 for value in values)
        good = good and (box or all(value == int(value) and abs(value) < 1e9 for value in values))
        if good:
            action = np.asarray(values, self.space.dtype if box else np.int64).reshape(shape)
            action = action if box else action + np.int64(getattr(self.space, "start", 0))
            if self.space.contains(action.astype(self.space.dtype)):
                if box:
                    return np.asarray(np.clip(action.astype(np.float32), *single_bounds(self.space)))
                return action if shape else np.int64(action)
        raise UserError(f"answer: {values!r} is not an action of {self.space}.")


def _check_choices(count: int) -> int:
    if count > 200:
        raise UserError(f"expert: a person cannot choose among {count:,} actions; 200 are the most.")
    return int(count)


def _check_count(space: Space, count: int) -> None:
    if count > MOST_CONTROLS:
        raise UserError(
            f"expert: a person cannot set {count} numbers a state; {MOST_CONTROLS} at most ({space})."
        )


def table(state: Nested, space: Space, env: str = "", names: Sequence[str] | None = None) -> list[Row]:
    """What a state shows, as rows with a name, a value and, where they are finite, bounds; images are left
    out.

    >>> table(np.array([0.5, 2.0]), spaces.Box(-1.0, 1.0, (2,)), names=["x", "v"])[0]
    {'name': 'x', 'value': 0.5, 'low': -1.0, 'high': 1.0}
    """
    names = _known(OBSERVATIONS, env) or () if names is None else names
    rows: list[Row] = []
    for path, part in parts(state):
        if part.ndim >= 2 or part.size > 64:
            continue
        keys, own = [str(key + 1) if isinstance(key, int) else key for key in path], part_at(space, path)
        for i, number in enumerate(part.reshape(-1).tolist()):
            name = names[len(rows)] if len(rows) < len(names) else " ".join([*keys, str(i + 1)])
            # JSON has no nan and no infinity; as texts, a page reads them as numbers all the same.
            value = number if math.isfinite(number) else json.dumps(number)
            row: Row = {"name": str(name), "value": value}
            if (bounds := _bounds(own, i)) is not None:
                row["low"], row["high"] = bounds
            rows.append(row)
    return rows


def image(state: Nested) -> np.ndarray | None:
    """The picture that an observation is, or that is a part of it; None where there is none.

    >>> image(np.zeros((4, 84, 84), np.uint8)).shape, image(np.zeros(3)) is None
    ((84, 84, 3), True)
    """
    for _, part in parts(state):
        if part.dtype != np.uint8 or part.ndim not in (2, 3) or min(part.shape[-2:]) < 1 or part.size < 256:
            continue
        if part.ndim == 3 and part.shape[2] == 3:
            return part
        if part.ndim == 3:  # the newest of a stack, whose frames come last or first
            part = part[:, :, -1] if part.shape[2] < part.shape[0] else part[-1]
        return np.repeat(part[:, :, None], 3, axis=2)
    return None


def _bounds(space: Space, i: int) -> tuple[float, float] | None:
    if isinstance(space, spaces.Discrete):
        return float(space.start), float(space.start + space.n - 1)
    if not isinstance(space, spaces.Box):
        return None
    low, high = float(space.low.reshape(-1)[i]), float(space.high.reshape(-1)[i])
    # Some environments write the largest number of float32 where they mean none.
    return (low, high) if max(abs(low), abs(high)) < 1e6 else None


def _known(names: Mapping[str, Sequence[str]], env: str) -> Sequence[str] | None:
    own = env.rpartition("/")[2].rpartition(":")[2]
    return names.get((own.rpartition("-v")[0] or own).removesuffix("8x8"))
