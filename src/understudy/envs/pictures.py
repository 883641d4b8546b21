"""Pictures of states: an episode is a function of its seed and its actions, so any state of it can be drawn
later, in an environment of its own. Where no pictures are asked for, they cost nothing.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..errors import UserError, shorten
from ..nested import parts
from ..spec import is_pure
from .gymnasium import Maker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..nested import Nested
    from .gymnasium import Env


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """The state after the first `steps` of `actions` in the episode with this seed; the list may grow on."""

    seed: int
    actions: Sequence[Nested]
    steps: int

    def __deepcopy__(self, memo: dict[int, Scene]) -> Scene:
        return self  # its part of the list does not change


@final
class Pictures:
    """Draws scenes. One environment plays their episodes again; a scene that comes after the last one drawn
    costs the steps between them.

    >>> from understudy.envs.gymnasium import maker
    >>> Pictures(maker(lambda: None)).why
    "env: '<lambda>' makes a NoneType; ... is expected."
    """

    def __init__(self, make: Maker):
        self._make = make
        self._stage: Stage | None = None
        self._at: Scene | None = None
        self.rate = 30
        """Steps of the environment in a second, as far as it says."""
        self.why: str | None = None
        """Why there are no pictures; None while there are."""
        try:
            self._stage = Stage(make)
            self.rate = self._stage.rate
        except UserError as error:
            self.why = str(error)

    def draw(self, scene: Scene, seen: Nested | None = None, *, before: int = 0) -> list[np.ndarray]:
        """The scene and up to `before` states before it, oldest first; none where it cannot be drawn.

        `seen` is what the state shows. An environment that shows something else when it is played again is
        not drawn any more: its pictures would be of other states.
        """
        if self._stage is None:
            return []
        try:
            at, first, env = self._at, max(0, scene.steps - before), self._stage.env
            if at is None or at.actions is not scene.actions or at.seed != scene.seed or at.steps > first:
                shown, _ = env.reset(seed=scene.seed)
                done = 0
            else:
                shown, done = None, at.steps
            found = []
            for step in range(done, scene.steps + 1):
                if step >= first:
                    found.append(self._stage.draw())
                if step < scene.steps:
                    shown, *_ = env.step(scene.actions[step])
            self._at = scene
        except Exception as error:
            self.why = f"env: {self._make.name} cannot be drawn any more ({shorten(error)})."
        else:
            if seen is None or shown is None or _same(shown, seen):
                return found
            self.why = f"env: {self._make.name} shows other states when it is played again."
        self.close()
        return []

    def close(self) -> None:
        if self._stage is not None:
            self._stage.close()
            self._stage = None


def _same(one: Nested, other: Nested) -> bool:
    theirs = dict(parts(other))
    return all(path in theirs and np.array_equal(part, theirs[path]) for path, part in parts(one))


@final
class Stage:
    """An environment that draws, begun with `seed`; a `UserError` says why it cannot be drawn here.

    seen, info: what it showed first. rate: steps in a second, as far as it says.
    """

    def __init__(self, make: Maker, seed: int = 0):
        # Without a screen MuJoCo renders through EGL, which must be set before its first use.
        if not os.environ.get("DISPLAY"):
            os.environ.setdefault("MUJOCO_GL", "egl")
            if sys.platform.startswith("linux") and not os.environ.get("WAYLAND_DISPLAY"):
                os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # else pygame warns of a missing screen
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # else pygame prints a greeting
        os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")  # else SDL takes SIGTERM and nothing ends
        self._name, self.env = make.name, None
        try:
            self.env: Any = make(render_mode="rgb_array")
            if is_pure(self.env):
                hint = "name another with env, as in --env CartPole-v1"
                raise UserError(f"env: {make.name} draws no pictures; {hint}.")
            _can_draw(self.env)
            self.seen, self.info = self.env.reset(seed=seed)
            self._camera = Camera(self.env)
            self.rate = max(1, int(self.env.metadata.get("render_fps") or 30))
            self.draw()
        except Exception as error:
            self.close()
            if isinstance(error, UserError):
                if isinstance(error.__cause__, TypeError) and "render_mode" in str(error.__cause__):
                    raise _blind(make.name) from error
                raise
            raise UserError(
                f"env: {make.name} cannot be drawn here ({shorten(error)}); "
                "MuJoCo needs EGL (Debian: apt install libegl1), other environments may need pygame."
            ) from error

    def draw(self) -> np.ndarray:
        """What the environment shows now: (height, width, 3), of even height and width."""
        self._camera.follow()
        try:
            drawn = np.asarray(self.env.render())
        except NotImplementedError as error:
            raise _blind(self._name) from error
        if drawn.ndim != 3:
            raise _blind(self._name)
        height, width = (size - size % 2 for size in drawn.shape[:2])
        return drawn[:height, :width]

    def close(self) -> None:
        if self.env is not None:
            self.env.close()


@final
class Camera:
    """Keeps a MuJoCo robot in the picture: the free camera moves as the heaviest tree of bodies does, in x
    and y. A camera that was chosen (camera_name, camera_id) stays as it is, and so do other environments.
    """

    def __init__(self, env: Any):
        world = env.unwrapped
        self._renderer = getattr(world, "mujoco_renderer", None)
        self._from: np.ndarray | None = None
        if self._renderer is None or getattr(self._renderer, "camera_id", 0) != -1:
            return
        env.render()  # makes the viewer and its camera
        viewer, self._data = self._renderer.viewer, world.data
        roots = np.flatnonzero(world.model.body_parentid[1:] == 0) + 1
        self._root = int(roots[world.model.body_subtreemass[roots].argmax()])
        self._camera, self._from = viewer.cam, self._place()
        self._at = np.array(viewer.cam.lookat)
        # Without a graphics card shadows and mirrors take two thirds of the time.
        import mujoco

        flags = mujoco.mjtRndFlag  # type: ignore[attr-defined]
        for flag in (flags.mjRND_SHADOW, flags.mjRND_REFLECTION):
            viewer.scn.flags[int(flag)] = 0

    def follow(self) -> None:
        """Moves to where the robot is, and makes its context the thread's: another panel's may be."""
        if self._renderer is not None and self._renderer.viewer is not None:
            self._renderer.viewer.make_context_current()
        if self._from is not None:
            moved = self._place() - self._from
            self._camera.lookat[:2] = self._at[:2] + moved

    def _place(self) -> np.ndarray:
        return np.array(self._data.xpos[self._root][:2])


def _can_draw(env: Env) -> None:
    """Opens and closes a MuJoCo surface: a renderer that fails when made raises again when deleted."""
    if "mujoco" in type(env.unwrapped).__module__ and os.environ.get("MUJOCO_GL") == "egl":
        from mujoco.egl import GLContext

        GLContext(8, 8).free()


def _blind(name: str) -> UserError:
    return UserError(
        f"env: {name} draws no pictures; what makes it (a function, or the environment's __init__) needs "
        "the parameter render_mode, and the environment a render() that returns arrays (height, width, 3)."
    )
