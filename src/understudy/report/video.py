"""Videos of policies, several side by side. Without a renderer a `UserError` says what is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..envs.gymnasium import Maker, derive
from ..errors import MissingExtra, UserError

Act = Callable[[Any, Any], Any]


def frames(
    make: Maker, act: Act, *, seed: int, steps: int, other: Act | None = None
) -> tuple[list[np.ndarray], float, int]:
    """The pictures of one episode, its return, and frames per second.

    Where actions are choices, a state in which `other` would choose another one gets a frame of colour.
    """
    # Without a screen MuJoCo renders through EGL, which must be set before its first use.
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        env = make(render_mode="rgb_array")
        _can_draw(env)
        observation, info = env.reset(seed=derive(seed, "video"))
        pictures = [_picture(env)]
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"video: {make.name} cannot be drawn here ({type(error).__name__}: {_first(error)}); "
            "MuJoCo needs EGL (Debian: apt install libegl1), other environments may need pygame."
        ) from error
    total, over = 0.0, False
    while not over and len(pictures) <= steps:
        action = act(observation, info)
        chooses = other is not None and np.issubdtype(np.asarray(action).dtype, np.integer)
        if chooses and not np.array_equal(action, other(observation, info)):  # type: ignore[misc]
            pictures[-1] = marked(pictures[-1])
        observation, reward, terminated, truncated, info = env.step(action)
        total, over = total + float(reward), terminated or truncated
        pictures.append(_picture(env))
    speed = int(env.metadata.get("render_fps") or 30)
    env.close()
    return pictures, total, speed


def record(
    path: Path, make: Maker, acts: Mapping[str, Act], *, seed: int = 0, steps: int = 1000
) -> dict[str, float]:
    """Writes a video with one panel per act, named in its corner; returns each one's return.

    Where two acts have discrete actions, each also answers for the other's states; a state in which they
    disagree gets a coloured frame. A panel whose episode has ended keeps its last picture.
    """
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise MissingExtra("video", "mujoco") from None
    shown, returns, speed = [], {}, 30
    for name, act in acts.items():
        others = [one for key, one in acts.items() if key != name]
        other = others[0] if len(others) == 1 else None
        pictures, returns[name], speed = frames(make, act, seed=seed, steps=steps, other=other)
        shown.append([_named(picture, name) for picture in pictures])
    length = max(len(pictures) for pictures in shown)
    # A minute of MuJoCo has up to 125 pictures a second; every second or fourth will do.
    skip = max(1, round(speed / 31))
    # Else imageio forks ffmpeg to change its group first, and JAX, which has threads, warns of a deadlock.
    os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer: Any
        with imageio.get_writer(path, fps=speed / skip, macro_block_size=2) as writer:
            for i in range(0, length, skip):
                row = [pictures[min(i, len(pictures) - 1)] for pictures in shown]
                writer.append_data(np.concatenate(row, axis=1))
    except (OSError, ValueError) as error:
        raise UserError(f"video: cannot write {str(path)!r} ({_first(error)}).") from error
    return returns


def marked(picture: np.ndarray, colour: tuple[int, int, int] = (213, 94, 0)) -> np.ndarray:
    """The picture with a frame of colour.

    >>> marked(np.zeros((40, 40, 3), np.uint8))[0, 0].tolist()
    [213, 94, 0]
    """
    picture, width = np.array(picture, copy=True), max(3, min(picture.shape[:2]) // 50)
    for edge in (np.s_[:width], np.s_[-width:], np.s_[:, :width], np.s_[:, -width:]):
        picture[edge] = colour
    return picture


def _can_draw(env: Any) -> None:
    """Opens and closes a MuJoCo surface first: a renderer that fails while it is made raises a second time
    when it is deleted.
    """
    if "mujoco" in type(env.unwrapped).__module__ and os.environ.get("MUJOCO_GL") == "egl":
        from mujoco.egl import GLContext

        GLContext(8, 8).free()


def _picture(env: Any) -> np.ndarray:
    picture = np.asarray(env.render())
    if picture.ndim != 3:
        raise UserError("video: the environment draws no pictures.")
    even = [size - size % 2 for size in picture.shape[:2]]
    return picture[: even[0], : even[1]]


def _named(picture: np.ndarray, name: str) -> np.ndarray:
    """The picture with a name in its corner, where Pillow is installed."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return picture
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    box = draw.textbbox((10, 8), name)
    draw.rectangle((box[0] - 4, box[1] - 3, box[2] + 4, box[3] + 3), fill=(255, 255, 255))
    draw.text((10, 8), name, fill=(20, 20, 20))
    return np.asarray(image)


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else "no reason given"
