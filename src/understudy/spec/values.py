"""Values of settings: each in its one spelling, or one sentence with the field, the value and what fits."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import numbers
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown


def read_toml(path: str | os.PathLike[str], field: str) -> dict[str, Any]:
    """A TOML file, or one sentence about `field`."""
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise UserError(f"{field}: cannot read {str(path)!r} ({error.strerror or error}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {str(path)!r} is not TOML ({error}).") from None


def describe(part: Any) -> Any:
    """A part of a run as plain data, for the record and to compare when a run is resumed.

    >>> from understudy import ftrl
    >>> describe(ftrl(eta=0.5))["name"]
    'ftrl'
    """
    if isinstance(part, (str, int, float, bool)) or part is None:
        return part
    if isinstance(part, Mapping):
        return {str(name): describe(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [describe(one) for one in part]
    if isinstance(part, os.PathLike):
        return os.fspath(part)
    if hasattr(part, "label") or hasattr(part, "predict"):  # an expert, which may hold a network
        return str(getattr(part, "name", type(part).__qualname__))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: describe(getattr(part, field.name)) for field in dataclasses.fields(part)}
        return {"kind": type(part).__name__, **fields}
    if hasattr(part, "tolist"):
        return part.tolist()
    name = getattr(part, "__qualname__", None)
    return f"{part.__module__}:{name}" if name else type(part).__qualname__


def checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """The value in its one spelling, or one sentence."""
    name, kind, least = field.name, str(field.type).removesuffix(" | None"), field.metadata.get("least")
    if value is None and field.default is None:
        return None
    if hasattr(value, "item") and not getattr(value, "shape", (1,)):
        value = value.item()
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    limit = "" if least is None else f" ≥ {least:g}"
    if kind == "int":
        if not number or value != int(value) or (least is not None and value < least):
            raise UserError(f"{name}: {value!r} is not a whole number{limit}.")
        return int(value)
    if kind == "float":
        if not number or (least is not None and value < least):
            raise UserError(f"{name}: {value!r} is not a finite number{limit}.")
        return float(value)
    if kind == "bool":
        words = {"yes": True, "no": False, True: True, False: False}
        if not isinstance(value, (str, bool)) or value not in words:
            raise UserError(f"{name}: {value!r} is not accepted; say yes or no.")
        return words[value]
    if kind == "str":
        accepted = field.metadata.get("among")
        if accepted is not None and value not in accepted:
            raise unknown(name, value, accepted)
        return os.fspath(value)
    if kind.startswith("tuple"):
        listed = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        if not all(isinstance(one, numbers.Integral) and one >= 1 for one in listed):
            raise UserError(f"{name}: {value!r} must be positive whole numbers, as in (256, 256).")
        return tuple(int(one) for one in listed)
    if kind.startswith("Mapping"):
        return mapping(name, value)
    return value


def mapping(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, Mapping):
        raise UserError(f"{name}: {value!r} is not a JSON object such as '{{\"max_episode_steps\": 200}}'.")
    return {str(key): one for key, one in value.items() if one is not None}


def number_or_word(value: Any) -> Any:
    """A number in its one spelling, and what is none as it is."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else value
