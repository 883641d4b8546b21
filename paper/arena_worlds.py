"""Where the arena's rules compete: environments, their experts, and one that steps an environment.

An expert answers about states; what is measured against it is a *player*, which the noisy expert's is not:
its answers are right in the mean, so the measure is the expert without the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from understudy import experts
from understudy.errors import check_name

PENDULUM = "InvertedDoublePendulum-v5"


class World(NamedTuple):
    """An environment of the arena.

    budget: the most labels of a run, a twentieth of which is a portion. limits: the least and the largest
    return, where they are known: the test is exact then. most: episodes after which a candidate that is not
    decided is given up.
    """

    env: str
    budget: int
    limits: tuple[float, float] | None = None
    most: int = 200
    steps: int = 1000
    """Environment steps of a round whose states a rule chooses among."""

    @property
    def portion(self) -> int:
        """Labels between two updates."""
        return self.budget // 20

    @property
    def first(self) -> int:
        """Expert-driven labels before a rule's own begin, as the preset practical has them: a quarter of the
        budget, but at least 200 or half of it.
        """
        return max(self.budget // 4, min(200, self.budget // 2))


WORLDS = {
    "hopper": World("Hopper-v5", 600),
    "walker2d": World("Walker2d-v5", 1200),
    "halfcheetah": World("HalfCheetah-v5", 5000),
    "ant": World("Ant-v5", 2000),
    "double-pendulum": World(PENDULUM, 400),
    "cartpole": World("CartPole-v1", 200, (0.0, 500.0)),
    "acrobot": World("Acrobot-v1", 400, (-500.0, 0.0)),
    "pendulum": World("Pendulum-v1", 800, (-16.2736045 * 200, 0.0), 500),
}
"""By the name of a part. Pusher and LunarLander are left out: no expert for them comes with the package."""

GAINS = np.array([0.2128, 1.8131, 5.5687, 0.3149, 0.9024, 0.8482])
"""The linear-quadratic regulator of the double pendulum upright, at the environment's step of 0.05 s, with
state costs 1, 10, 10, 0.1, 0.1, 0.1 and a force cost of 1, for position, angles and their velocities."""


def upright(states: np.ndarray) -> np.ndarray:
    """Balances the double pendulum: −K·(x, θ₁, θ₂, ẋ, θ̇₁, θ̇₂), within the bounds of the force.

    >>> float(upright(np.array([[0.0, 0.1, 0.0, 0.995, 1.0, 0.0, 0.0, 0.0, 0.0]]))[0, 0]).__round__(3)
    -0.182
    """
    x = np.asarray(states, np.float64)
    angles = np.arctan2(x[:, 1:3], x[:, 3:5])
    seen = np.concatenate([x[:, :1], angles, x[:, 5:8]], axis=1)
    return np.clip(-(seen * GAINS).sum(axis=1, keepdims=True), -1.0, 1.0).astype(np.float32)


EXPERTS = {
    "clean": "as it comes with the package",
    "noisy": "its answers with normal noise of a tenth of half the range (choices: one in ten at random)",
    "weak": "nine tenths of its action (choices: in one state of ten, always the same, another one)",
}
NOISE, SHARE = 0.1, 0.9


class Teacher(NamedTuple):
    """An expert in the arena. label: from states (n, …) to its answers; player: whose return is the
    measure.
    """

    label: Callable[[np.ndarray], np.ndarray]
    player: Callable[[Any], Any]


def teacher(world: World, kind: str, seed: int) -> Teacher:
    """The expert of a world, clean, noisy or weak; the noise follows from `seed` and the order of questions.

    >>> teacher(WORLDS["cartpole"], "clean", 0).label(np.array([[0.0, 0.0, 0.1, 0.0]]))
    array([1])
    """
    check_name("expert", kind, EXPERTS)
    known = experts.from_callable(experts.batched(upright)) if world.env == PENDULUM else None
    expert = experts.for_env(world.env) if known is None else known
    with gym.make(world.env) as env:
        actions: Any = env.action_space
    rng = np.random.default_rng([seed, 0])
    choices = hasattr(actions, "n")

    def mode(states: np.ndarray) -> np.ndarray:
        return expert.act(states)

    def noisy(states: np.ndarray) -> np.ndarray:
        answers = mode(states)
        if choices:
            other = rng.integers(actions.n, size=len(answers))
            return np.where(rng.random(len(answers)) < NOISE, other, answers)
        size = NOISE * (actions.high - actions.low) / 2.0
        noise = size * rng.standard_normal(answers.shape)
        return np.clip(answers + noise, actions.low, actions.high).astype(np.float32)

    def weak(states: np.ndarray) -> np.ndarray:
        answers = mode(states)
        if choices:
            wrong = np.floor(1000.0 * np.abs(states).sum(axis=1)).astype(int) % 10 == 0
            return np.where(wrong, (answers + 1) % actions.n, answers)
        return SHARE * answers

    label = {"clean": mode, "noisy": noisy, "weak": weak}[kind]
    played = mode if kind == "noisy" else label
    return Teacher(label, lambda observation: played(np.asarray(observation)[None])[0])


class Trace(NamedTuple):
    """Steps in the order in which they were played, (m, …) each. by: the numbers of the steps that the expert
    labelled on the way, labels: what it said there. first: where an episode begins.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    first: np.ndarray
    by: np.ndarray
    labels: np.ndarray

    @property
    def episodes(self) -> list[np.ndarray]:
        """The numbers of the steps of each episode."""
        return np.split(np.arange(len(self.states)), 1 + np.flatnonzero(self.first[1:]))


Act = Callable[[np.ndarray], tuple[Any, Any]]
"""From a state to what is played there, and the expert's answer where it was asked on the way, else None."""


class Walk:
    """One environment with the episode under way; an episode is a function of its seed and its actions."""

    def __init__(self, env: str, seed: int):
        self._env: Any = gym.make(env, disable_env_checker=True)
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space
        self._seed, self._episode, self._over = seed, 0, True
        self._state = np.zeros(0)

    def begin(self) -> None:
        """The next step begins an episode."""
        self._over = True

    def go(self, steps: int, act: Act, *, labels: float = np.inf, episodes: float = np.inf) -> Trace:
        """Plays so many steps, or until so many labels were given or episodes have ended."""
        played: list[tuple[Any, ...]] = []
        asked, ended = [], 0
        while len(played) < steps and len(asked) < labels and ended < episodes:
            fresh = self._over
            if fresh:
                own = np.random.SeedSequence([self._seed, 1, self._episode]).generate_state(1)[0]
                self._state, _ = self._env.reset(seed=int(own))
                self._episode, self._over = self._episode + 1, False
            state = np.array(self._state)
            action, label = act(state)
            if label is not None:
                asked.append((len(played), label))
            self._state, reward, terminated, truncated, _ = self._env.step(action)
            self._over = bool(terminated or truncated)
            ended += self._over
            played.append((state, np.asarray(action), float(reward), terminated, truncated, fresh))
        columns: Any = [np.asarray(column) for column in zip(*played, strict=True)]
        by, said = zip(*asked, strict=True) if asked else ((), ())
        names = Trace._fields[: len(columns)]
        about = dict(zip(names, columns, strict=True))
        return Trace(**about, by=np.asarray(by, int), labels=np.asarray(said))

    def close(self) -> None:
        self._env.close()
