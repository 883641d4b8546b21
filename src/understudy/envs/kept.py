"""A function of one environment's arrays as a single operation of JAX, lowered for a whole batch.

Physics is thousands of operations, and Python traces them anew in every process: seconds before a program can
even be looked up in JAX's compilation cache. Here they are one operation for everything around them, and what
they are lowered to is kept beside that cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import jax.export
import jax.numpy as jnp
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from .. import disk
from ..machine import versions

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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
