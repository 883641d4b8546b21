"""Atari on ALE's native vector environment: any game by name, explicit settings, a seed for every episode.

What a policy sees is a stack of grey frames, (stack, size, size) bytes, newest last; a game begins with one
frame on top of empty ones. ALE resets a finished game by itself in the step after its end and ignores that
step's action; here a finished game is reset at once, with a seed of its own, so that every step is a sample
and a game can be replayed from its seed and its actions.
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from typing import TYPE_CHECKING, final

import gymnasium as gym
import numpy as np

from ..errors import MissingExtra, UserError, check_int, check_name, import_extra, suggest
from .gymnasium import Maker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from numpy.typing import ArrayLike

    from ..disk import Json
    from ..spec import Setting

    Step = tuple[np.ndarray, float, bool, bool, dict[str, np.ndarray]]
    """Observation, reward, terminated, truncated and info."""


SETTINGS: dict[str, tuple[int | float | bool, int, tuple[str, ...]]] = {
    "stack": (4, 1, ("stack_num",)),  # frames in an observation
    "frame_skip": (4, 1, ("frameskip",)),  # frames an action lasts; the last two are max-pooled
    "size": (84, 36, ("img_height", "img_width")),
    "sticky": (0.0, 0, ("repeat_action_probability",)),  # that a frame repeats the last action
    "noop_max": (30, 0, ("noop_max",)),  # up to so many random no-ops at the start
    "fire_reset": (True, 0, ("use_fire_reset",)),  # press fire at the start where the game has it
    "full_actions": (False, 0, ("full_action_space",)),  # all 18 actions instead of the game's own
    "episodic_life": (False, 0, ("episodic_life",)),  # a lost life ends the episode
    "clip_rewards": (False, 0, ("reward_clipping",)),  # keep their signs only
    "max_frames": (108_000, 1, ("max_num_frames_per_episode",)),  # a game's limit
}
"""How the screen becomes an observation: the default, which the shipped experts expect, the least of a whole
number, and what ALE calls it."""


def settings(given: Mapping[str, Setting] | None = None) -> dict[str, int | float | bool]:
    """ALE's keywords for some settings and the defaults of the others; nothing is left to ALE's own. One that
    does not exist is refused with the nearest that does.

    >>> settings({"sticky": 0.25})["repeat_action_probability"]
    0.25
    """
    chosen = {name: default for name, (default, _, _) in SETTINGS.items()}
    for name, value in (given or {}).items():
        check_name("env_kwargs: Atari has no such setting", name, SETTINGS)
        default, least, _ = SETTINGS[name]
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise UserError(f"{name}: {value!r} is neither True nor False.")
        elif isinstance(default, int):
            value = check_int(name, value, least)
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise UserError(f"{name}: {value!r} is not accepted; it is a probability, a number in [0, 1].")
        chosen[name] = type(default)(value)
    named = {theirs: chosen[name] for name, (_, _, names) in SETTINGS.items() for theirs in names}
    return {"grayscale": True, "maxpool": True, "life_loss_info": False, **named}


def _ale() -> tuple[ModuleType, ModuleType]:
    import_extra("ale_py", "env: Atari", "atari")
    import ale_py
    from ale_py import roms, vector_env

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # its banner is not our output
    return roms, vector_env


def games() -> list[str]:
    """Every game ALE has, in its own spelling: pong, ms_pacman, …"""
    return sorted(_ale()[0].get_all_rom_ids())


_ID = re.compile(r"ALE/(?P<name>\w+)-v5")


def _letters(name: str) -> str:
    """A game's name without what its spellings differ in: UpNDown and up_n_down are one game."""
    return re.sub(r"[-_ ]", "", name).lower()


def looks_like(name: str) -> bool:
    """Whether a name is meant for ALE: `ALE/Pong-v5`, or a game's bare name that Gymnasium does not know."""
    if _ID.fullmatch(name):
        return True
    if name in gym.registry or "/" in name or re.search(r"-v\d+$", name):
        return False
    try:
        known = games()
    except MissingExtra:
        known = ["pong", "breakout"]  # without the extra there is no list; for these two experts are shipped
    return _letters(name) in map(_letters, known)


def game(name: str) -> str:
    """ALE's spelling of a game's name; an unknown one is refused with the nearest.

    >>> game("Pong"), game("ALE/UpNDown-v5")
    ('pong', 'up_n_down')
    """
    found, known = _ID.fullmatch(name), games()
    wanted = found["name"] if found else name
    spelled = {_letters(one): one for one in known}
    if _letters(wanted) not in spelled:
        raise UserError(
            f"env: ALE has no game {name!r}{suggest(wanted.lower(), known)} It has {len(known)}, from "
            f"{known[0]} to {known[-1]}."
        )
    return spelled[_letters(wanted)]


def title(name: str) -> str:
    """A game as ALE's ids spell it.

    >>> title("ms_pacman"), title("tic_tac_toe_3d")
    ('MsPacman', 'TicTacToe3D')
    """
    return name.title().replace("_", "")


@final
class AtariEnv(gym.Env):
    """One game as a Gymnasium environment, on the same native vector environment (of one), with ALE's
    keywords (see `settings`).

    `render` gives the newest frame, as it is seen, in RGB.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, name: str, keywords: Mapping[str, float], *, render_mode: str | None = None):
        self.render_mode = render_mode
        # Never used: a finished game is reset before its next step.
        how = {**keywords, "autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._env = _ale()[1].AtariVectorEnv(game=name, num_envs=1, num_threads=1, **how)
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space
        self._frame = np.zeros(self._env.single_observation_space.shape[1:], np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Json] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        super().reset(seed=seed)
        short = None if seed is None else int(seed) % (1 << 31)  # ALE's seeds have 31 bits
        seen, infos = self._env.reset(seed=short)
        return self._seen(seen), _single(infos)

    def step(self, action: ArrayLike) -> Step:
        self.send(action)
        return self.receive()

    def send(self, action: ArrayLike) -> None:
        """Starts a step in ALE's own thread; `receive` waits for its end."""
        self._env.send(np.asarray(action, np.int64).reshape(1))

    def receive(self) -> Step:
        """What the step that was sent has led to."""
        seen, rewards, terminated, truncated, infos = self._env.recv()
        return self._seen(seen), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _single(infos)

    def _seen(self, batch: np.ndarray) -> np.ndarray:
        observation = batch[0].copy()
        self._frame = observation[-1]
        return observation

    def render(self) -> np.ndarray:
        scale = max(1, math.ceil(336 / len(self._frame)))
        large = np.repeat(np.repeat(self._frame, scale, axis=0), scale, axis=1)
        return np.repeat(large[:, :, None], 3, axis=2)

    def close(self) -> None:
        self._env.close()


def _single(infos: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: value[0] for key, value in infos.items()}


def atari_maker(name: str, env_kwargs: Mapping[str, Setting] | None = None) -> Maker:
    """How to make one game as often as needed, under the id that experts' cards use."""
    keywords, spelled = settings(env_kwargs), game(name)
    return Maker(f"ALE/{title(spelled)}-v5", functools.partial(AtariEnv, spelled, keywords), True)
