"""What one side sees: keys of a Dict observation, slices of vectors, entries of the environment's info.

joints                  one key of a Dict (deeper ones are joined by dots: robot.joints)
joints[:3], [2:5]       some numbers of a key, or of an observation that is one array
info:target             an entry of the info
joints,info:target      several, as a dict of these names
joints+info:target      several, as one vector
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from ..errors import UserError, unknown
from ..nested import batch_size, part_at
from .codecs import Observations, as_array, on_device

if TYPE_CHECKING:
    from ..nested import Info, Infos, Nested, Space

INFO = "info:"
OWN = "observation"
"""The key of an observation that is no Dict, where entries of the info are put beside it."""
PART = re.compile(r"(?P<info>info:)?(?P<key>[^\[\]]*)(?:\[(?P<cut>-?\d*(?::-?\d*){1,2})\])?")
FORM = "write keys, slices and entries of the info: joints,camera[0:3],info:target"


class Part(NamedTuple):
    """One thing that is seen: a key of the observation or the info, cut or whole."""

    info: bool
    path: tuple[str, ...]
    cut: slice | None
    name: str


@final
@dataclasses.dataclass(frozen=True)
class Sight:
    """A group of observations, read from text (see above). `joined`: as one vector.

    >>> from gymnasium.spaces import Box, Dict
    >>> both = Dict(joints=Box(-1, 1, (4,)), goal=Box(-1, 1, (2,)))
    >>> student = Sight.of("joints[:2]", "student_sees")
    >>> student.observations(both).row({"joints": np.arange(4.0), "goal": np.zeros(2)}).tolist()
    [0.0, 1.0]
    >>> Sight.of("goal+info:x", "expert_sees").seen({"goal": np.ones((1, 2))}, [{"x": 7.0}]).tolist()
    [[1.0, 1.0, 7.0]]
    """

    parts: tuple[Part, ...]
    joined: bool
    field: str

    @classmethod
    def of(cls, text: str, field: str) -> Sight:
        """The group that `text` describes; errors begin with `field`."""
        if "," in text and "+" in text:
            raise UserError(f"{field}: {text!r} has commas and plus signs; one of them joins all parts.")
        found = []
        for one in re.split("[,+]", text):
            name = one.strip()
            read = PART.fullmatch(name)
            if not name or read is None or (read["info"] and not read["key"]):
                raise UserError(f"{field}: {text!r} is not accepted; {FORM}.")
            edges = [int(edge) if edge else None for edge in (read["cut"] or "").split(":")]
            if edges[2:] == [0]:
                raise UserError(f"{field}: {text!r} goes on by 0 numbers; a slice goes on by 1 or more.")
            key = read["key"]
            path = (key,) if read["info"] else tuple(key.split(".")) if key else ()
            cut = slice(*edges) if read["cut"] else None
            found.append(Part(bool(read["info"]), path, cut, name))
        return cls(tuple(found), "+" in text, field)

    @property
    def infos(self) -> tuple[str, ...]:
        """The entries of the info that are seen."""
        return tuple(dict.fromkeys(part.path[0] for part in self.parts if part.info))

    def space(self, whole: Space) -> Any:
        """The space of what is seen of `whole`; None where entries of the info are seen that it lacks."""
        if self.infos and not _merged(whole):
            return None
        inner = [_cut_space(self._inner(part, whole), part, self.field) for part in self.parts]
        if self.joined:
            for part, one in zip(self.parts, inner, strict=True):
                if one.shape is None:
                    raise UserError(f"{self.field}: {part.name!r} is {one}; plus signs join arrays only.")
            return spaces.Box(-np.inf, np.inf, (sum(int(np.prod(one.shape or ())) for one in inner),))
        if len(inner) == 1:
            return inner[0]
        return spaces.Dict({part.name: one for part, one in zip(self.parts, inner, strict=True)})

    def observations(self, whole: Space, *, tabular: bool = False) -> Observations:
        """How a whole observation becomes the row of what is seen of it. Entries of the info must be in it,
        under their names (see `understudy.envs.gymnasium.maker`).
        """
        leaves = []
        for part in self.parts:
            inner = self._inner(part, whole)
            cut = _cut_space(inner, part, self.field)
            if part.cut is not None and cut.dtype == np.uint8:
                raise UserError(f"{self.field}: {part.name!r} cuts bytes; a student sees them whole.")
            for leaf in Observations.of(inner, tabular=tabular).leaves:
                picks = () if part.cut is None else tuple(range(*leaf.shape)[part.cut])
                path = (*self._path(part, whole), *leaf.path)
                leaves.append(dataclasses.replace(leaf, path=path, picks=picks))
        return Observations(leaves)

    def seen(self, batch: Nested, infos: Infos) -> Nested:
        """What is seen of a batch of n whole observations (arrays of NumPy or of JAX) and their n infos, with
        n in front.
        """
        found = {}
        for part in self.parts:
            value = (
                entries(infos, part.path[0], batch_size(batch)) if part.info else part_at(batch, part.path)
            )
            found[part.name] = value if part.cut is None else as_array(value)[:, part.cut]
        if self.joined:
            flat = [as_array(one).reshape(batch_size(batch), -1) for one in found.values()]
            own: ModuleType = jnp if any(map(on_device, flat)) else np
            return own.concatenate(flat, axis=1)
        return found if len(found) > 1 else next(iter(found.values()))

    def _path(self, part: Part, whole: Space) -> tuple[str, ...]:
        if part.info:
            return (INFO + part.path[0],)
        # Beside entries of the info an observation that is no Dict has a key of its own.
        return part.path or ((OWN,) if _merged(whole) else ())

    def _inner(self, part: Part, whole: Space) -> Space:
        for key in self._path(part, whole):
            inner = getattr(whole, "spaces", None)
            if not isinstance(inner, Mapping):
                raise UserError(
                    f"{self.field}: {part.name!r} names a key, and the observations are {whole}; write a "
                    "slice such as [0:3]."
                )
            if key not in inner:
                raise unknown(f"{self.field}: the observations have no such key", key, map(str, inner))
            whole = inner[key]
        return whole


def entries(infos: Infos, key: str, count: int) -> np.ndarray:
    """info[key] of n environments, stacked; the infos are as for `info_at`."""
    if infos is None:
        raise UserError(f"info[{key!r}] is to be seen, but there are no infos.")
    rows = []
    for i in range(count):
        info = info_at(infos, i)
        if key not in info:
            known = ", ".join(sorted(map(str, info))) or "none"
            raise UserError(f"info has no key {key!r} in environment {i}; its keys: {known}.")
        rows.append(np.asarray(info[key]))
    try:
        return np.stack(rows)
    except ValueError:
        raise UserError(f"info[{key!r}] does not have the same shape everywhere.") from None


def info_at(infos: Infos, index: int) -> Info:
    """The info of environment `index`, from a sequence of dicts or a vector environment's dict of arrays.

    A vector environment marks with a boolean array `_key` which environments have given the key.
    """
    if isinstance(infos, Mapping):
        found = {}
        for key, values in infos.items():
            given = infos.get(f"_{key}")
            if isinstance(key, str) and key.startswith("_") and key[1:] in infos:
                continue
            if given is not None and not given[index]:
                continue
            found[key] = info_at(values, index) if isinstance(values, Mapping) else values[index]
        return found
    if isinstance(infos, Sequence | np.ndarray) and not isinstance(infos, str) and index < len(infos):
        return infos[index]
    raise UserError(f"infos: one dict per environment is expected, got {type(infos).__name__}.")


def without_infos(batch: Nested, plain: bool) -> Nested:
    """A batch without the entries of the info beside its observations; `plain`: these are no dicts."""
    assert isinstance(batch, Mapping)
    own = {key: value for key, value in batch.items() if not str(key).startswith(INFO)}
    return own[OWN] if plain else own


def _merged(whole: Space) -> bool:
    inner = getattr(whole, "spaces", None)
    return isinstance(inner, Mapping) and any(str(key).startswith(INFO) for key in inner)


def _cut_space(space: Space, part: Part, field: str) -> Space:
    cut = part.cut
    if cut is None:
        return space
    if not isinstance(space, spaces.Box | spaces.MultiBinary) or len(space.shape) != 1:
        raise UserError(f"{field}: slices are of vectors of numbers, this is {space}.")
    size = len(range(*space.shape)[cut])
    if not size:
        raise UserError(f"{field}: {part.name!r} takes none of {space.shape[0]} numbers.")
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary(size)
    return spaces.Box(space.low[cut], space.high[cut], dtype=space.dtype.type)
