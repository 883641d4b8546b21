"""The environments and experts of the golden runs. Of understudy they use public names only."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from understudy import experts

DIES: dict[str, tuple[int, ...]] = {}
"""Of the run that is played: after how many calls of "step", "ask" or "round" its process is killed, one
number for each process of the run.
"""
_calls: dict[str, int] = {}


def begin(dies: dict[str, tuple[int, ...]]) -> None:
    """A run begins, or goes on, in this process."""
    DIES.clear()
    DIES.update(dies)
    _calls.clear()


def called(what: str) -> None:
    """Counts a call, and kills this process where the run says so; the file `kills` has a line for each."""
    if what not in DIES:
        return
    _calls[what] = _calls.get(what, 0) + 1
    file = Path("kills")
    before = file.read_text().splitlines() if file.exists() else []
    if len(before) < len(DIES[what]) and _calls[what] == DIES[what][len(before)]:
        file.write_text("".join(f"{line}\n" for line in [*before, f"{what} {_calls[what]}"]))
        os.kill(os.getpid(), signal.SIGKILL)


class Room(gym.Env):
    """A random walk in a cube that the action pulls a little; the step `breaks` raises an error, once."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float64)

    def __init__(self, breaks: int = 0, length: int = 20):
        self.breaks, self.length, self.steps = breaks, length, 0

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.time, self.state = 0, self.np_random.uniform(-1, 1, 3)
        return self.state.copy(), {}

    def step(self, action: Any):
        called("step")
        self.steps += 1
        self.time += 1
        if self.steps == self.breaks and not Path("broken").exists():
            Path("broken").touch()
            raise RuntimeError("the floor gave way")
        self.state = self.state + 0.1 * self.np_random.normal(size=3) + 0.05 * np.resize(action, 3)
        self.state = np.clip(self.state, -1, 1)
        return self.state.copy(), -float(np.square(action).sum()), False, self.time >= self.length, {}


def room(observation: Any) -> Any:
    called("ask")
    return np.tanh(observation[:2] - observation[2])


def slow(observation: Any) -> Any:
    """The room's expert, a millisecond or two late, so that answers come in another order than questions."""
    called("ask")
    time.sleep(0.001 + 0.002 * abs(float(observation[0])))
    return np.tanh(observation[:2] - observation[2])


_tries: dict[bytes, int] = {}


def failing(observation: Any) -> Any:
    """Fails once on every third state or so, and always on every tenth."""
    state = np.asarray(observation).tobytes()
    _tries[state] = _tries.get(state, 0) + 1
    part = float(observation[1]) % 0.3
    if part < 0.03 or (part < 0.1 and _tries[state] == 1):
        raise ConnectionError("busy")
    return np.tanh(observation[:2] - observation[2])


def pole(observation: Any) -> Any:
    """A rule of the thumb for CartPole: towards where the pole falls."""
    called("ask")
    return int(observation[2] + 0.2 * observation[3] > 0)


def ball(observation: Any) -> Any:
    """Moves by where Pong's last frame is brightest: a function of the frames, not a good player."""
    called("ask")
    frame = np.asarray(observation).reshape(4, 84, 84)[-1]
    return int(2 + (int(frame[20:76, 10:74].argmax()) // 64 > 28))


class Parts(gym.Env):
    """Observations of two parts, choices of two kinds."""

    observation_space = gym.spaces.Dict(
        {"place": gym.spaces.Box(-1, 1, (2,), np.float32), "door": gym.spaces.Discrete(3)}
    )
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.time, self.place, self.door = (
            0,
            self.np_random.uniform(-1, 1, 2),
            int(self.np_random.integers(3)),
        )
        return self._seen(), {"goal": np.float32(self.place[0])}

    def _seen(self):
        return {"place": self.place.astype(np.float32), "door": self.door}

    def step(self, action: Any):
        called("step")
        self.time += 1
        self.place = np.clip(self.place + 0.2 * np.array([int(action[0]) - 1, 2 * int(action[1]) - 1]), -1, 1)
        self.door = (self.door + int(action[0])) % 3
        reward = -float(np.abs(self.place).sum())
        return self._seen(), reward, self.time >= 9, False, {"goal": np.float32(self.place[0])}


def parts(observation: Any) -> Any:
    place, door = observation["place"], int(observation["door"])
    return np.array([int(place[0] < 0.3) + int(place[0] + 0.2 * door < -0.3), int(place[1] < 0)])


class Cue(gym.Env):
    """Shows a sign in the first step of an episode only; the sign is what to play."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.sign, self.time = np.array([self.np_random.choice([-1.0, 1.0])], np.float32), 0
        return self.sign, {"sign": self.sign}

    def step(self, action: Any):
        called("step")
        self.time += 1
        right = float(abs(action[0] - self.sign[0]) < 0.3)
        return np.zeros(1, np.float32), right, self.time == 5, False, {"sign": self.sign}


def sign(observation: Any) -> Any:
    """What `expert_sees="info:sign"` shows is the answer."""
    return np.asarray(observation, np.float32).reshape(1)


class Dots(gym.Env):
    """A bright dot moves left or right over a dark field; the last four frames are seen."""

    observation_space = gym.spaces.Box(0, 255, (4, 36, 36), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.at, self.age = int(self.np_random.integers(4, 32)), 0
        self.seen = np.zeros((4, 36, 36), np.uint8)
        self._look()
        return self.seen.copy(), {}

    def _look(self):
        frame = np.zeros((36, 36), np.uint8)
        frame[16:20, self.at - 2 : self.at + 2] = 255
        frame[0, self.age % 36] = 1 + self.age
        self.seen = np.concatenate([self.seen[1:], frame[None]])

    def step(self, action: Any):
        called("step")
        self.at, self.age = int(np.clip(self.at + int(action) - 1, 2, 34)), self.age + 1
        self._look()
        return self.seen.copy(), float(self.at == 18), self.age >= 13, False, {}


def dots(observation: Any) -> Any:
    called("ask")
    at = int(observation[-1, 17].argmax()) + 2
    return np.int64(1 + np.sign(18 - at))


class View(gym.Env):
    """A small picture of a place, and a number beside it that is not in the picture."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (12, 12, 3), np.uint8),
            "pull": gym.spaces.Box(-1, 1, (1,), np.float32),
        }
    )
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.time, self.place = 0, float(self.np_random.uniform(-1, 1))
        self.pull = float(self.np_random.uniform(-1, 1))
        return self._seen(), {}

    def _seen(self):
        image = np.zeros((12, 12, 3), np.uint8)
        at = round((self.place + 1) * 5)
        image[4:8, at : at + 2] = [255, 100, 10]
        return {"image": image, "pull": np.array([self.pull], np.float32)}

    def step(self, action: Any):
        called("step")
        self.time += 1
        self.place = float(np.clip(self.place + 0.2 * self.pull + 0.3 * float(action[0]), -1, 1))
        return self._seen(), -abs(self.place), self.time >= 10, False, {}


def view(observation: Any) -> Any:
    at = float(observation["image"][5, :, 0].argmax()) / 5 - 1
    return np.clip(np.array([-at - 0.6 * float(observation["pull"][0])], np.float32), -1, 1)


class _Drifting(NamedTuple):
    obs: Any
    reward: Any
    done: Any


class _Drift:
    """A pure environment of Brax's shape: obs (2,) are place and drift; the action (1,) moves the place."""

    action_size, limit = 1, 5

    def reset(self, key: Any):
        import jax
        import jax.numpy as jnp

        obs = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return _Drifting(obs, jnp.zeros(()), jnp.zeros(()))

    def step(self, state: Any, action: Any):
        import jax.numpy as jnp

        place = state.obs[0] + 0.4 * state.obs[1] + 0.5 * action[0]
        obs = jnp.stack([place, state.obs[1]])
        return _Drifting(obs, 1.0 - jnp.abs(place), jnp.float32(jnp.abs(place) > 2))


def drift() -> Any:
    return _Drift()


@experts.pure
def back(observation: Any) -> Any:
    """The drift's expert, which JAX can trace."""
    import jax.numpy as jnp

    return jnp.clip(-observation[:1] - 0.8 * observation[1:], -1.0, 1.0)


for _name, _made in {"Room": Room, "Parts": Parts, "Cue": Cue, "Dots": Dots, "View": View}.items():
    gym.registry.pop(f"{_name}-v0", None)
    gym.register(f"{_name}-v0", entry_point=_made)
