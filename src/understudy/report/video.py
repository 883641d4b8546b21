"""Videos of policies, several side by side, written picture by picture as the episodes are played."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np

from .. import disk
from ..envs.gymnasium import Maker, derive
from ..envs.pictures import Stage
from ..errors import MissingExtra, UserError
from ..policies import Actions
from .tables import returned

if TYPE_CHECKING:
    from ..nested import Info, Nested

Act: TypeAlias = "Callable[[Nested, Info], np.ndarray | np.int64]"
SUFFIXES = (".mp4", ".mkv", ".mov", ".webm", ".gif")
SMALL = 240
"""Pictures lower than this are enlarged by a whole factor: the text would hide them."""
RATE = 31
"""Pictures a second, at most about; MuJoCo has up to 125, of which every fourth will do."""


def record(
    path: Path,
    make: Maker,
    acts: Mapping[str, Act],
    *,
    seed: int = 0,
    steps: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Writes a video with one panel per act, with its name and its return so far; gives the returns.

    The episodes are played side by side, only pictures that are kept are drawn, and each is written at once.
    A MuJoCo robot is followed. Where two acts have discrete actions, each also answers for the other's
    states, unless it remembers its own; a state in which they disagree gets a coloured frame. A panel whose
    episode has ended keeps its last picture, faded. `progress(steps)` is called after every picture. Without
    a renderer, and where ffmpeg fails, a `UserError` says so, and no file is left.
    """
    disk.check_ending("video", path, *SUFFIXES)
    with contextlib.ExitStack() as opened:
        panels: list[Panel] = []
        for name, act in acts.items():
            others = [a for key, a in acts.items() if key != name and not getattr(a, "remembers", False)]
            panel = Panel(make, name, act, seed=seed, other=others[0] if len(others) == 1 else None)
            panels.append(opened.enter_context(contextlib.closing(panel)))
        skip = max(1, round(panels[0].rate / RATE))
        write = opened.enter_context(film(path, panels[0].rate / skip))
        for taken in range(0, steps + skip, skip):
            for panel in panels:
                panel.look()
            for _ in range(min(skip, steps - taken)):
                for panel in panels:
                    panel.step()
            write(np.concatenate([panel.shown() for panel in panels], axis=1))
            if progress is not None:
                progress(min(taken, steps))
            if all(panel.faded for panel in panels):
                break
    return {panel.name: panel.total for panel in panels}


@final
class Panel:
    """One player in an environment of its own, and the picture of it."""

    def __init__(self, make: Maker, name: str, act: Act, *, seed: int, other: Act | None = None):
        self.name, self.total, self.over, self.faded, self.marked = name, 0.0, False, False, False
        self._act, self._other, self._played = act, other, 0
        self.stage = Stage(make, derive(seed, "video", 0, 0))
        self._seen, self._info, self.rate = self.stage.seen, self.stage.info, self.stage.rate
        self._choices = Actions.of(self.stage.env.action_space).categorical

    def look(self) -> None:
        """Draws what the environment shows now."""
        if not self.faded:
            self._picture, self.marked, self.faded = self.stage.draw(), False, self.over

    def step(self) -> None:
        """Plays one action, unless the episode has ended."""
        if self.over:
            return
        action = self._act(self._seen, self._info)
        if self._choices and self._other is not None:
            self.marked |= not np.array_equal(action, self._other(self._seen, self._info))
        self._seen, reward, terminated, truncated, self._info = self.stage.env.step(action)
        self.total, self._played = self.total + float(reward), self._played + 1
        self.over = bool(terminated or truncated)

    def shown(self) -> np.ndarray:
        """The picture with its text; framed where the acts disagreed since it was drawn."""
        picture = marked(self._picture) if self.marked else self._picture
        if self.faded:
            picture = picture // 2 + 127
        ended = f", ended after {self._played / self.rate:.1f} s" if self.faded else ""
        return _titled(picture, f"{self.name}\nreturn {returned(self.total)}{ended}")

    def close(self) -> None:
        self.stage.close()


@contextlib.contextmanager
def film(path: Path, rate: float) -> Generator[Callable[[np.ndarray], None]]:
    """A function that adds a picture to the video `path`, which is there once the block has ended well."""
    draft = path.with_name(f".{path.stem}.draft{path.suffix}")
    process: subprocess.Popen[bytes] | None = None

    def write(picture: np.ndarray) -> None:
        nonlocal process
        try:
            if process is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                process = subprocess.Popen(
                    _command(draft, picture, rate), stdin=subprocess.PIPE, stderr=complaints
                )
            assert process.stdin is not None
            process.stdin.write(np.ascontiguousarray(picture).tobytes())
        except OSError as error:  # a broken pipe has its reason in what ffmpeg said
            raise failed(error.strerror or str(error)) from error

    def failed(why: str) -> UserError:
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()
        complaints.seek(0)
        said = [line for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
        return UserError(f"video: cannot write {str(path)!r} ({said[-1].strip()[:200] if said else why}).")

    with tempfile.TemporaryFile() as complaints:
        try:
            yield write
            if process is not None and process.stdin is not None:
                process.stdin.close()
                if process.wait():
                    raise failed(f"ffmpeg ended with code {process.returncode}")
                os.replace(draft, path)
        except OSError as error:
            raise failed(error.strerror or str(error)) from error
        finally:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            with contextlib.suppress(OSError):
                draft.unlink()


def _command(path: Path, picture: np.ndarray, rate: float) -> list[str]:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe  # pyright: ignore[reportMissingTypeStubs]

        program: str | None = get_ffmpeg_exe()
    except ImportError:
        program = shutil.which("ffmpeg")
    if program is None:
        raise MissingExtra("video", "mujoco")
    height, width = picture.shape[:2]
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]  # the codec takes no other sizes
    codec = [*even, "-c:v", "libx264", "-pix_fmt", "yuv420p"] if path.suffix.lower() in SUFFIXES[:3] else []
    return [program, "-y", "-loglevel", "error", *raw, "-an", *codec, str(path)]


def marked(picture: np.ndarray) -> np.ndarray:
    """The picture with a frame of colour.

    >>> marked(np.zeros((40, 40, 3), np.uint8))[0, 0].tolist()
    [213, 94, 0]
    """
    picture, width = np.array(picture, copy=True), max(3, min(picture.shape[:2]) // 50)
    for edge in (np.s_[:width], np.s_[-width:], np.s_[:, :width], np.s_[:, -width:]):
        picture[edge] = (213, 94, 0)
    return picture


def _titled(picture: np.ndarray, text: str) -> np.ndarray:
    """The picture with text in its corner."""
    from PIL import Image, ImageDraw, ImageFont

    larger = -(-SMALL // picture.shape[0])
    picture = picture.repeat(larger, axis=0).repeat(larger, axis=1)
    image = Image.fromarray(picture)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(max(10, picture.shape[0] // 28))
    box = draw.multiline_textbbox((10, 8), text, font=font)
    draw.rectangle((box[0] - 5, box[1] - 4, box[2] + 5, box[3] + 4), fill=(255, 255, 255))
    draw.multiline_text((10, 8), text, fill=(20, 20, 20), font=font)
    return np.asarray(image)
