"""Numbers, arrays and spaces out of the records of a pickle; no names are accepted but those here."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import UserError
from .pickles import Call, Global, refused

# NumPy moved its private modules from numpy.core to numpy._core; a file may hold either, whatever is
# installed here.
_CORE = ("numpy.core.", "numpy._core.")
_DTYPE = re.compile(r"[<>|=]?(b1|\?|i[1248]|u[1248]|f[248])")
MAX_ELEMENTS = 100_000_000


def is_name(record: Any, *names: str) -> bool:
    """Whether a record is one of these dotted names."""
    return isinstance(record, Global) and str(record) in names


def _is_core(record: Any, name: str) -> bool:
    return is_name(record, *(core + name for core in _CORE))


def number(record: Any, what: str) -> float | int | bool:
    """A Python or NumPy number."""
    if isinstance(record, bool | int | float):
        return record
    if isinstance(record, Call):
        value = array(record, what)
        if value.shape == ():
            return value.item()
    raise refused(what, record)


def array(record: Any, what: str) -> np.ndarray:
    """A NumPy array or scalar, rebuilt from its bytes."""
    if isinstance(record, bool | int | float):
        return np.asarray(record)
    if not isinstance(record, Call):
        raise refused(what, record)
    given = record.arguments
    if _is_core(record.function, "multiarray._reconstruct"):
        whole = isinstance(record.state, tuple) and len(record.state) == 5
        if not (whole and is_name(given[0], "numpy.ndarray")):
            raise refused(what, given[0])
        _, shape, kind, fortran, data = record.state
        return _from_bytes(data, kind, shape, "F" if fortran is True else "C", what)
    if _is_core(record.function, "numeric._frombuffer") and len(given) == 4:
        data, kind, shape, order = given
        return _from_bytes(data, kind, shape, order, what)
    if _is_core(record.function, "multiarray.scalar") and len(given) == 2:
        return _from_bytes(given[1], given[0], (), "C", what)
    raise refused(what, record)


def _from_bytes(data: Any, kind: Any, shape: Any, order: Any, what: str) -> np.ndarray:
    data = _bytes(data)
    if not isinstance(data, bytes | bytearray):
        raise refused(what, data)
    dims = shape if isinstance(shape, tuple) else (shape,)
    dtype = _dtype(kind, what)
    if not all(type(d) is int and d >= 0 for d in dims) or order not in ("C", "F"):
        raise UserError(f"{what}: holds an array of shape {reprlib.repr(dims)}, which is none.")
    if math.prod(dims) > MAX_ELEMENTS or math.prod(dims) * dtype.itemsize != len(data):
        raise UserError(f"{what}: holds an array of shape {dims} whose {len(data)} bytes do not fit it.")
    return np.frombuffer(bytes(data), dtype).reshape(dims, order=order)


def _bytes(data: Any) -> Any:
    """Bytes as old pickles write them: a text encoded in latin1, or a call of `bytes` for none."""
    if isinstance(data, Call) and is_name(data.function, "_codecs.encode"):
        text = data.arguments[0]
        return text.encode("latin1") if isinstance(text, str) else data
    if isinstance(data, Call) and is_name(data.function, "__builtin__.bytes") and data.arguments == ():
        return b""
    return data


def _dtype(record: Any, what: str) -> np.dtype:
    if not isinstance(record, Call) or not is_name(record.function, "numpy.dtype"):
        raise refused(what, record)
    name = record.arguments[0]
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise UserError(f"{what}: holds an array of type {reprlib.repr(name)}; numbers are expected.")
    dtype = np.dtype(name)
    order = record.state[1] if isinstance(record.state, tuple) and len(record.state) > 1 else "="
    return dtype.newbyteorder(">") if order == ">" else dtype


def attributes(record: Any, what: str) -> Mapping[str, Any]:
    """The attributes of an object, as the state that the pickle would have given it."""
    state = record.state if isinstance(record, Call) else None
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], Mapping):
        state = state[0]  # (attributes, slots)
    if not isinstance(state, Mapping):
        raise refused(what, record)
    return state


def class_of(record: Any) -> Global | None:
    """The class that a record would have made an object of."""
    if not isinstance(record, Call):
        return None
    if is_name(record.function, "copyreg._reconstructor", "copy_reg._reconstructor"):
        first = record.arguments[0]
        return first if isinstance(first, Global) else None
    return record.function if isinstance(record.function, Global) else None


def space(record: Any, what: str) -> Any:
    """A Gymnasium (or old Gym) space: Box, Discrete, MultiDiscrete, MultiBinary or a Dict of these."""
    from gymnasium import spaces

    found = class_of(record)
    if (
        found is None
        or found.module.split(".")[0] not in ("gymnasium", "gym")
        or ".spaces." not in found.module
    ):
        raise refused(what, record)
    state = attributes(record, what)
    if found.name == "Box":
        low, high = array(state["low"], what), array(state["high"], what)
        return spaces.Box(low, high, dtype=low.dtype.newbyteorder("=").type)
    if found.name == "Discrete":
        return spaces.Discrete(int(number(state["n"], what)), start=int(number(state.get("start", 0), what)))
    if found.name == "MultiDiscrete":
        start = state.get("start")
        return spaces.MultiDiscrete(
            array(state["nvec"], what), start=None if start is None else array(start, what)
        )
    if found.name == "MultiBinary":
        n = state["n"]
        return spaces.MultiBinary(int(number(n, what)) if not isinstance(n, tuple | list) else list(n))
    if found.name == "Dict":
        inner = state["spaces"]
        items = inner.items if isinstance(inner, Call) else list(inner.items())
        return spaces.Dict({str(key): space(value, what) for key, value in items})
    raise refused(what, record)
