"""Hopper and Walker2d on MJX, made of Gymnasium's models with Gymnasium's rewards and ends.

The state is what the next step needs, and no more: positions, velocities and the solver's warm start. A
reset draws them without a forward pass, so it costs next to nothing beside a step.

Physics is thousands of operations, and Python traces them anew in every process: seconds before a program can
even be looked up in JAX's compilation cache. Here they are one operation for everything around them, lowered
for a whole batch, and what they are lowered to is kept beside that cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import gymnasium as gym
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from .. import disk
from ..errors import check_name, import_extra
from ..machine import versions
from .pure import PureEnv

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .pure import Played

    Pose = tuple[Array, Array, Array]
    """Places, speeds, and where the solver begins."""
    Carry = tuple[Array, Array, Array, Array]

MODELS = {"Hopper": "Hopper-v5", "Walker2d": "Walker2d-v5"}
ITERATIONS, LINE_SEARCH = 4, 8
"""Most iterations of MJX's constraint solver, and steps of its line search. All environments of a batch wait
for the slowest, so a fixed small number is what is fast; with these the shipped SAC expert scores 3,447 in
Hopper, and 3,448 in Gymnasium's (its card).
"""

STAGES = np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]], np.float32)
"""Runge and Kutta's stages: how far each goes along the slope of the last, and its weight in their mean."""


def make(
    name: str, *, iterations: int = ITERATIONS, ls_iterations: int = LINE_SEARCH, **keywords: Any
) -> PureEnv:
    """mjx:Hopper or mjx:Walker2d; other `keywords` are those of the Gymnasium environment."""
    mjx = import_extra("mujoco.mjx", f"env: mjx:{name}", "mjx")
    check_name("env: mjx has no such model", name, MODELS)
    made = gym.make(MODELS[name], **keywords)
    inner: Any = made.unwrapped
    limit = made.spec.max_episode_steps if made.spec else None
    spaces = made.observation_space, made.action_space
    physics = inner.model
    scale = inner._reset_noise_scale
    hidden = int(inner._exclude_current_positions_from_observation)
    home = (inner.init_qpos.copy(), inner.init_qvel.copy())
    physics.opt.iterations, physics.opt.ls_iterations = iterations, ls_iterations

    @functools.cache
    def model() -> tuple[Any, Any]:
        # Not before the first step: it takes the accelerator.
        with jax.ensure_compile_time_eval():
            put = mjx.put_model(physics)
            return put, mjx.make_data(put)

    def pushed(place: Array, speed: Array, warm: Array, action: Array) -> Array:
        put, blank = model()
        return mjx.forward(put, _filled(blank, (place, speed, warm), action)).qacc

    # The accelerations: all of MJX's physics, once in a program.
    slope = Kept(pushed, (physics.nv,), _bytes(physics))

    def begin(key: Array) -> tuple[Pose, Array]:
        first, second = jax.random.split(key)
        place, speed = (
            jnp.asarray(one, jnp.float32) + jax.random.uniform(own, one.shape, jnp.float32, -scale, scale)
            for one, own in zip(home, (first, second), strict=True)
        )
        return (place, speed, jnp.zeros(physics.nv, jnp.float32)), _seen(hidden, place, speed)

    def by_stages(_turn: Array, state: Pose, action: Array) -> Pose:
        (place, speed, warm), h = state, physics.opt.timestep
        model()  # here, since nothing may be computed while a program is being lowered

        def stage(carry: Carry, given: Array) -> tuple[Carry, None]:
            (rate, push, moved, gained), (far, weight) = carry, given
            here, rate = place + h * (far * rate), speed + h * (far * push)
            push = slope(here, rate, warm, action)
            return (rate, push, moved + weight * rate, gained + weight * push), None

        first = speed, warm, jnp.zeros_like(speed), jnp.zeros_like(speed)
        (_, push, moved, gained), _ = jax.lax.scan(stage, first, jnp.asarray(STAGES))
        return place + h * moved, speed + h * gained, push

    def by_mjx(_turn: Array, state: Pose, action: Array) -> Pose:
        put, blank = model()
        data = mjx.step(put, _filled(blank, state, action))
        return data.qpos, data.qvel, data.qacc_warmstart

    # Runge and Kutta's method is four copies of the physics in `mjx.step`, and one in a loop of four here: a
    # fraction of the program to trace and compile. Joints that neither slide nor turn on an axis are MJX's.
    kinds = {int(mjx.JointType.SLIDE), int(mjx.JointType.HINGE)}
    staged = physics.opt.integrator == int(mjx.IntegratorType.RK4)
    staged = staged and kinds.issuperset(physics.jnt_type.tolist())

    def play(state: Pose, action: Array) -> Played[Pose]:
        once = functools.partial(by_stages if staged else by_mjx, action=action)
        (place, _, _), (new, speed, warm) = state, jax.lax.fori_loop(0, inner.frame_skip, once, state)
        healthy = _healthy(inner, new, speed)
        reward = (
            inner._forward_reward_weight * (new[0] - place[0]) / inner.dt + healthy * inner._healthy_reward
        )
        reward = reward - inner._ctrl_cost_weight * jnp.sum(jnp.square(action))
        ended = ~healthy if inner._terminate_when_unhealthy else jnp.zeros((), bool)
        return (new, speed, warm), _seen(hidden, new, speed), reward, ended, False

    made.close()
    return PureEnv(f"mjx:{name}", begin, play, *spaces, limit, serves=MODELS[name])


def _bytes(physics: Any) -> bytes:
    """Everything about a model of MuJoCo."""
    library = importlib.import_module("mujoco")
    found = np.empty(library.mj_sizeModel(physics), np.uint8)
    library.mj_saveModel(physics, None, found)
    return found.tobytes()


def _filled(blank: Any, state: Pose, action: Array) -> Any:
    place, speed, warm = state
    return blank.replace(qpos=place, qvel=speed, qacc_warmstart=warm, ctrl=action)


def _healthy(env: Any, place: Array, speed: Array) -> Array:
    """Whether a robot is healthy by the ranges of Gymnasium's environment."""
    (lowest, highest), (least, most) = env._healthy_z_range, env._healthy_angle_range
    healthy = (lowest < place[1]) & (place[1] < highest) & (least < place[2]) & (place[2] < most)
    if hasattr(env, "_healthy_state_range"):
        low, high = env._healthy_state_range
        state = jnp.concatenate([place[2:], speed])
        healthy &= ((low < state) & (state < high)).all()
    return healthy


def _seen(hidden: int, place: Array, speed: Array) -> Array:
    return jnp.concatenate([place[hidden:], jnp.clip(speed, -10.0, 10.0)])


DIGEST = hashlib.sha256().digest_size
LIBRARIES = ("jax", "jaxlib", "mujoco", "mujoco-mjx")


@final
class Kept:
    """`function` of arrays to one float32 array of `shape`, for one environment; `vmap` makes it many.

    `about` says which function it is: everything that its numbers depend on beside its arguments and the
    versions of the libraries. It has no derivative.

    >>> double = Kept(lambda x: 2 * x, (3,), b"a line")
    >>> jax.jit(jax.vmap(double))(jnp.ones((2, 3))).tolist()
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """

    def __init__(self, function: Callable[..., Array], shape: tuple[int, ...], about: bytes):
        self.shape, self._function = shape, function
        said = [about, Path(__file__).read_bytes(), repr(sorted(versions(LIBRARIES).items())).encode()]
        self._about = hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in said))
        self._made: dict[str, jax.export.Exported] = {}

    def __call__(self, *arrays: ArrayLike) -> Array:
        return _rows.bind(*(jnp.asarray(one)[None] for one in arrays), kept=self)[0]

    def lowered(self, platform: str, given: Sequence[ShapedArray]) -> jax.export.Exported:
        """The function of arrays of these shapes for a platform, from its file where that is sound."""
        shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in given]
        modes = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
        key = self._about.copy()
        key.update(repr((platform, [(one.shape, str(one.dtype)) for one in shapes], *modes)).encode())
        name = key.hexdigest()
        if name not in self._made:
            folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
            path = None if folder is None else Path(folder, f"understudy-{name}.stablehlo")
            # Of this little function a file's program takes everything but itself.
            frame = _exported(
                lambda *rows: jnp.zeros((len(rows[0]), *self.shape), jnp.float32), platform, shapes
            )
            if (data := _read(path)) is not None:
                self._made[name] = dataclasses.replace(frame, mlir_module_serialized=data)
            else:
                made = self._made[name] = _exported(jax.vmap(self._function), platform, shapes)
                if _differences(frame, made) <= {"mlir_module_serialized", "_get_vjp"}:
                    _write(path, bytes(made.mlir_module_serialized))
        return self._made[name]


def _exported(
    function: Callable[..., Array], platform: str, shapes: Sequence[jax.ShapeDtypeStruct]
) -> jax.export.Exported:
    anything = [jax.export.DisabledSafetyCheck.custom_call("ALL")]  # the same version will read it

    def rows(*given: Array) -> Array:  # a name that is the same for all, since it is in the program
        return function(*given)

    call = jax.jit(rows, keep_unused=True)
    return jax.export.export(call, platforms=[platform], disabled_checks=anything)(*shapes)


def _differences(one: jax.export.Exported, other: jax.export.Exported) -> set[str]:
    """The names of the fields in which two records differ."""
    names = [field.name for field in dataclasses.fields(one)]
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def _read(path: Path | None) -> bytes | None:
    """What a file holds after the digest of it; None where there is none, or another."""
    with contextlib.suppress(OSError):
        found = b"" if path is None else path.read_bytes()
        data = found[DIGEST:]
        return data if found and hashlib.sha256(data).digest() == found[:DIGEST] else None
    return None


def _write(path: Path | None, data: bytes) -> None:
    with contextlib.suppress(OSError):  # a cache that cannot be written is none
        if path is not None:
            disk.write_file(path, hashlib.sha256(data).digest() + data)


_rows = Primitive("understudy_rows")


@_rows.def_abstract_eval
def _shaped(*given: ShapedArray, kept: Kept) -> ShapedArray:
    return ShapedArray((given[0].shape[0], *kept.shape), jnp.float32)


@_rows.def_impl
def _now(*given: Array, kept: Kept) -> Array:
    return jax.jit(functools.partial(_rows.bind, kept=kept))(*given)


def _batched(given: Sequence[Array], axes: Sequence[int | None], *, kept: Kept) -> tuple[Array, int]:
    """Batches of rows are more rows. Those that were there stay in front: they may be spread over devices."""
    count = next(one.shape[at] for one, at in zip(given, axes, strict=True) if at is not None)

    def flat(one: Array, at: int | None) -> Array:
        one = jnp.repeat(one[:, None], count, axis=1) if at is None else jnp.moveaxis(one, at, 1)
        return one.reshape(-1, *one.shape[2:])

    made = _rows.bind(*map(flat, given, axes), kept=kept)
    return made.reshape(-1, count, *kept.shape), 1


def _lowered(context: Any, *given: mlir.ir.Value, kept: Kept) -> Sequence[mlir.ir.Value]:
    platform, *others = context.module_context.platforms
    assert not others
    call = kept.lowered(platform, context.avals_in).call
    return mlir.lower_fun(call, multiple_results=False)(context, *given)


batching.primitive_batchers[_rows] = _batched
mlir.register_lowering(_rows, _lowered)
