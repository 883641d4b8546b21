"""A small environment for studies: cheap to step, and able to pause, to write down that it was played, and to
kill its own process. Workers import it by name, as ``rooms:Room-v0``.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

ROOM = "rooms:Room-v0"
EXPERT = "rooms:expert"


class Room(gymnasium.Env):
    """A random walk in a cube. pause: seconds a step; log: a file that gets a line when one is first stepped;
    dies: a file, and the process is killed at the fifth step unless it is there ("always": in any case);
    breaks: the step at which it raises an error, unless the file `mended` is there.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)

    def __init__(
        self,
        pause: float = 0.0,
        log: str | None = None,
        dies: str | None = None,
        breaks: int = 0,
        mended: str | None = None,
    ):
        self.pause, self.log, self.dies, self.breaks, self.steps = pause, log, dies, breaks, 0
        self.mended = mended is not None and Path(mended).exists()

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.time, self.state = 0, self.np_random.uniform(-1, 1, 3)
        return self.state.copy(), {}

    def step(self, action: Any):
        self.steps += 1
        self.time += 1
        if self.log and self.steps == 1:
            with open(self.log, "a") as file:
                file.write(f"{os.getpid()}\n")
        if self.dies and self.steps == 5 and not Path(self.dies).exists():
            if self.dies != "always":
                Path(self.dies).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps == self.breaks and not self.mended:
            raise RuntimeError("the floor gave way")
        time.sleep(self.pause)
        self.state = np.clip(self.state + 0.1 * self.np_random.normal(size=3), -1, 1)
        return self.state.copy(), -float(np.square(action).sum()), False, self.time >= 20, {}


gymnasium.registry.pop("Room-v0", None)  # imported by two names: the last one counts, without a warning
gymnasium.register("Room-v0", entry_point=Room)


def expert(observation: Any) -> Any:
    return np.tanh(observation[:2] - observation[2])


def counted(observation: Any) -> Any:
    """The expert, with a line for every state it is asked about in the file that ROOM_ASKED names."""
    with open(os.environ["ROOM_ASKED"], "a") as file:
        file.write("1\n")
    return expert(observation)


def placed(observation: Any) -> Any:
    """The expert, slow, with a line for every answer in the file that ROOM_PLACED names: the node of a Ray
    cluster on which it was given, and the state. With ROOM_NODES the first answers wait, a minute at most,
    until so many nodes have one: actors may start long after each other.
    """
    time.sleep(0.05)
    if "ROOM_PLACED" in os.environ:
        import ray

        log = Path(os.environ["ROOM_PLACED"])
        with log.open("a") as file:
            file.write(f"{ray.get_runtime_context().get_node_id()} {observation.tobytes().hex()}\n")
        nodes, patience = int(os.environ.get("ROOM_NODES", "1")), time.monotonic() + 60
        while nodes > 1 and time.monotonic() < patience:
            if len({line.split()[0] for line in log.read_text().splitlines()}) >= nodes:
                break
            time.sleep(0.05)
    return expert(observation)


def hangs(observation: Any) -> Any:
    """The expert, which hangs on one side of the cube and fails on the other."""
    if observation[0] < -0.5:
        raise RuntimeError("too far")
    time.sleep(60 if observation[0] > 0.5 else 0)
    return expert(observation)
