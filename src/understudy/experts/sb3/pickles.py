"""Reads a pickle as data, executing nothing.

A pickle is a program whose instructions may import and call anything. Here its instructions build a tree of
records instead: a name is a `Global`, a call is a `Call`, an object is a `Call` with a state. Nothing is
imported and nothing is called while reading, whatever the file holds. `number`, `array` and `space` make
values of the tree, and accept a few known names.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# What a stranger's containers hold is unknown until it is looked at.

from __future__ import annotations

import dataclasses
import math
import pickletools
import re
import reprlib
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from ...errors import UserError, shorten

if TYPE_CHECKING:
    from .. import Space

MOST_INSTRUCTIONS = 1_000_000  # instructions; a state dict of a thousand tensors has some fifty thousand


@dataclasses.dataclass(frozen=True)
class Global:
    """A name that the pickle would have imported."""

    module: str
    name: str

    def __str__(self):
        return shorten(f"{self.module}.{self.name}")


# Records have no text of their own: those that refer to each other again and again would make it endless.
@dataclasses.dataclass(eq=False, repr=False)
class Call:
    """A call that the pickle would have made, and the state it would have put into the result."""

    function: Record
    arguments: Any
    state: Record = None
    items: list[Record] = dataclasses.field(default_factory=lambda: list[Record]())


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Persistent:
    """A reference to something outside the pickle (for torch, a storage)."""

    key: Record


Container: TypeAlias = "list[Record] | tuple[Record, ...] | dict[Record, Record] | set[Record]"
Plain: TypeAlias = "bool | int | float | str | bytes | bytearray | Container"
Record: TypeAlias = "Plain | Global | Call | Persistent | None"
"""What a pickle holds, read as data."""


# Names that no weights, spaces or statistics have a use for. Reading is safe because nothing is run; this
# list only decides which files are refused although the field in question is not needed: those that would
# start a program. (Fields that are not needed are full of harmless schedules, classes and paths of other
# libraries.)
_MODULES = """
    os posix nt subprocess sys shutil socket importlib imp runpy pty ctypes _ctypes webbrowser commands popen2
    code codeop pdb timeit pip marshal multiprocessing requests urllib http
"""
_FUNCTIONS = "eval exec execfile compile open input __import__ breakpoint setattr delattr"
DANGEROUS, DANGEROUS_BUILTINS = frozenset(_MODULES.split()), frozenset(_FUNCTIONS.split())
BUILTINS = ("builtins", "__builtin__", "__builtins__")

_LITERALS = """
    INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING
    UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8
"""
_MARK = Global("", "mark")


def read(data: bytes, what: str, accepted: Callable[[Global], bool] | None = None) -> Record:
    """The tree of records in a pickle; `what` names it in the sentence that refuses it.

    A pickle that mentions a name able to start a program, or one that is not `accepted`, is refused as a
    whole, even where that part is not needed.
    """
    reader = _Reader()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the decoder warns of odd escapes
            tree = reader.read(data)
    except UserError:
        raise
    except Exception as error:  # what a truncated or hostile file makes of the decoder is the file's fault
        raise UserError(f"{what}: is damaged or no pickle ({shorten(error)}).") from None
    for name in reader.globals:
        if _starts_programs(name):
            raise UserError(f"{what}: would call {name}, which is foreign there; refused, nothing was run.")
        if accepted is not None and not accepted(name):
            raise refused(what, name)
    return tree


def refused(what: str, record: Record) -> UserError:
    """The sentence for a record that is not one of those accepted, naming what it would have called."""
    if isinstance(record, Call):
        record = record.function
    name = str(record) if isinstance(record, Global) else type(record).__name__
    return UserError(f"{what}: holds {name}, which is not accepted there; refused, nothing was run.")


def _starts_programs(name: Global) -> bool:
    if name.module in BUILTINS and name.name.split(".")[0] in DANGEROUS_BUILTINS:
        return True
    # Newer pickles may reach through a module: ("torch", "os.system").
    return name.module.split(".")[0] in DANGEROUS or not DANGEROUS.isdisjoint(name.name.split(".")[:-1])


class _Reader:
    """A stack machine for pickle's instructions in which a call is a record."""

    def __init__(self):
        self.stack: list[Any] = []
        self.memo: dict[int, Record] = {}
        self.globals: dict[Global, None] = {}

    def read(self, data: bytes) -> Record:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number > MOST_INSTRUCTIONS:
                raise ValueError(f"more than {MOST_INSTRUCTIONS} instructions")
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name not in _STEPS:
                raise ValueError(f"instruction {opcode.name} is not accepted")
            _STEPS[opcode.name](self, argument)
        raise ValueError("it has no end")

    def push(self, item: Record) -> None:
        self.stack.append(item)

    def put(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def last(self, count: int) -> list[Record]:
        if len(self.stack) < count or any(item is _MARK for item in self.stack[-count:]):
            raise ValueError("the stack is too short")
        return self.stack[-count:]

    def pop(self, count: int) -> list[Record]:
        items = self.last(count)
        del self.stack[-count:]
        return items

    def since_mark(self) -> list[Record]:
        place = len(self.stack) - 1 - next(i for i, item in enumerate(reversed(self.stack)) if item is _MARK)
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def name(self, module: Record, name: Record) -> None:
        if not (isinstance(module, str) and isinstance(name, str)):
            raise ValueError("a name is not a string")
        record = Global(module, name)
        self.globals[record] = None
        self.push(record)

    def call(self, function: Record, arguments: Record) -> None:
        self.push(Call(function, arguments))

    def extend(self, items: list[Record]) -> None:
        target = self.stack[-1]
        if isinstance(target, Call):
            target.items.extend(items)
        elif isinstance(target, set):
            target.update(item for item in items if _hashable(item))
        else:
            target.extend(items)

    def update(self, items: list[Record]) -> None:
        pairs = list(zip(items[::2], items[1::2], strict=True))
        target = self.stack[-1]
        if isinstance(target, Call):
            target.items.extend(pairs)
        elif isinstance(target, dict):  # a set would hash the values, and endless tuples end the process
            target.update((key, value) for key, value in pairs if _hashable(key))
        else:
            raise ValueError("pairs are put into what is no dict")

    def build(self) -> None:
        (state,) = self.pop(1)
        (target,) = self.last(1)
        if isinstance(target, Call):  # the state of anything else has no reader here
            target.state = state


def _hashable(key: Record) -> bool:
    return isinstance(key, (str, int, float, bytes, type(None), Global))


def _instance(reader: _Reader, argument: str) -> None:
    arguments = tuple(reader.since_mark())
    reader.name(*argument.split(" ", 1))
    reader.call(reader.pop(1)[0], arguments)


def _dict(reader: _Reader, argument: Record) -> None:
    items = reader.since_mark()
    reader.push({})
    reader.update(items)


def _object(reader: _Reader, argument: Record) -> None:
    function, *arguments = reader.since_mark()
    reader.call(function, tuple(arguments))


_FRESH = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple}
_STEPS: dict[str, Callable[[_Reader, Any], Any]] = {
    **dict.fromkeys(_LITERALS.split(), _Reader.push),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Reader.put),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda reader, number: reader.push(reader.memo[number])
    ),
    **dict.fromkeys(("PROTO", "FRAME"), lambda reader, _: None),
    "MEMOIZE": lambda reader, _: reader.put(len(reader.memo)),
    "NONE": lambda reader, _: reader.push(None),
    "NEWTRUE": lambda reader, _: reader.push(True),
    "NEWFALSE": lambda reader, _: reader.push(False),
    **{name: lambda reader, _, make=make: reader.push(make()) for name, make in _FRESH.items()},
    **{f"TUPLE{n}": lambda reader, _, n=n: reader.push(tuple(reader.pop(n))) for n in (1, 2, 3)},
    **dict.fromkeys(("TUPLE", "FROZENSET"), lambda reader, _: reader.push(tuple(reader.since_mark()))),
    "LIST": lambda reader, _: reader.push(reader.since_mark()),
    "DICT": _dict,
    "MARK": lambda reader, _: reader.push(_MARK),
    "POP": lambda reader, _: reader.stack.pop(),
    "POP_MARK": lambda reader, _: reader.since_mark(),
    "DUP": lambda reader, _: reader.push(reader.last(1)[0]),
    "APPEND": lambda reader, _: reader.extend(reader.pop(1)),
    **dict.fromkeys(("APPENDS", "ADDITEMS"), lambda reader, _: reader.extend(reader.since_mark())),
    "SETITEM": lambda reader, _: reader.update(reader.pop(2)),
    "SETITEMS": lambda reader, _: reader.update(reader.since_mark()),
    "GLOBAL": lambda reader, argument: reader.name(*argument.split(" ", 1)),
    "STACK_GLOBAL": lambda reader, _: reader.name(*reader.pop(2)),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda reader, _: reader.call(*reader.pop(2))),
    "NEWOBJ_EX": lambda reader, _: reader.call(*reader.pop(3)[:2]),
    "INST": _instance,
    "OBJ": _object,
    "BUILD": lambda reader, _: reader.build(),
    "BINPERSID": lambda reader, _: reader.push(Persistent(reader.pop(1)[0])),
    "PERSID": lambda reader, argument: reader.push(Persistent(argument)),
}


# Numbers, arrays and spaces out of records.

# NumPy moved its private modules from numpy.core to numpy._core; a file may hold either, whatever is
# installed here.
_CORE = ("numpy.core.", "numpy._core.")
_DTYPE = re.compile(r"[<>|=]?(b1|\?|i[1248]|u[1248]|f[248])")
MAX_ELEMENTS = 100_000_000


def is_name(record: Record, *names: str) -> TypeGuard[Global]:
    """Whether a record is one of these dotted names."""
    return isinstance(record, Global) and str(record) in names


def _is_core(record: Record, name: str) -> bool:
    return is_name(record, *(core + name for core in _CORE))


def number(record: Record, what: str) -> float | int | bool:
    """A Python or NumPy number."""
    value = array(record, what)
    if value.shape:
        raise refused(what, record)
    return value.item()


def array(record: Record, what: str) -> np.ndarray:
    """A NumPy array or scalar, rebuilt from its bytes."""
    if isinstance(record, bool | int | float):
        return np.asarray(record)
    if not isinstance(record, Call):
        raise refused(what, record)
    given = record.arguments
    if _is_core(record.function, "multiarray._reconstruct"):
        state = record.state
        if not isinstance(state, tuple) or len(state) != 5 or not is_name(given[0], "numpy.ndarray"):
            raise refused(what, given[0])
        _, shape, kind, fortran, data = state
        return _from_bytes(data, kind, shape, "F" if fortran is True else "C", what)
    if _is_core(record.function, "numeric._frombuffer") and len(given) == 4:
        data, kind, shape, order = given
        return _from_bytes(data, kind, shape, order, what)
    if _is_core(record.function, "multiarray.scalar") and len(given) == 2:
        return _from_bytes(given[1], given[0], (), "C", what)
    raise refused(what, record)


def _from_bytes(data: Record, kind: Record, shape: Record, order: Record, what: str) -> np.ndarray:
    data, dtype = _bytes(data, what), _dtype(kind, what)
    dims: Any = shape if isinstance(shape, tuple) else (shape,)
    if not all(type(d) is int and d >= 0 for d in dims) or order not in ("C", "F"):
        raise UserError(f"{what}: holds an array of shape {reprlib.repr(dims)}, which is none.")
    if math.prod(dims) > MAX_ELEMENTS or math.prod(dims) * dtype.itemsize != len(data):
        raise UserError(f"{what}: holds an array of shape {dims} whose {len(data)} bytes do not fit it.")
    return np.frombuffer(data, dtype).reshape(dims, order="F" if order == "F" else "C")


def _bytes(data: Record, what: str) -> bytes:
    """Bytes, also as old pickles write them: a text encoded in latin1, or a call of `bytes` for none."""
    if isinstance(data, Call) and is_name(data.function, "_codecs.encode"):
        text: Record = data.arguments[0]
        if isinstance(text, str):
            return text.encode("latin1")
    if isinstance(data, Call) and is_name(data.function, "__builtin__.bytes") and data.arguments == ():
        return b""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    raise refused(what, data)


def _dtype(record: Record, what: str) -> np.dtype:
    if not isinstance(record, Call) or not is_name(record.function, "numpy.dtype"):
        raise refused(what, record)
    name = record.arguments[0]
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise UserError(f"{what}: holds an array of type {reprlib.repr(name)}; numbers are expected.")
    dtype = np.dtype(name)
    order = record.state[1] if isinstance(record.state, tuple) and len(record.state) > 1 else "="
    return dtype.newbyteorder(">") if order == ">" else dtype


def attributes(record: Record, what: str) -> Mapping[str, Any]:
    """The attributes of an object, as the state that the pickle would have given it."""
    state: Any = record.state if isinstance(record, Call) else None
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], Mapping):
        state = state[0]  # (attributes, slots)
    if not isinstance(state, Mapping):
        raise refused(what, record)
    return state


def class_of(record: Record) -> Global | None:
    """The class that a record would have made an object of."""
    if not isinstance(record, Call):
        return None
    if is_name(record.function, "copyreg._reconstructor", "copy_reg._reconstructor"):
        first = record.arguments[0]
        return first if isinstance(first, Global) else None
    return record.function if isinstance(record.function, Global) else None


def space(record: Record, what: str) -> Space:
    """A Gymnasium (or old Gym) space: Box, Discrete, MultiDiscrete, MultiBinary or a Dict of these."""
    from gymnasium import spaces

    kind = class_of(record)
    foreign = kind is None or kind.module.split(".")[0] not in ("gymnasium", "gym")
    if kind is None or foreign or ".spaces." not in kind.module:
        raise refused(what, record)
    state = attributes(record, what)
    if kind.name == "Box":
        low, high = array(state["low"], what), array(state["high"], what)
        return spaces.Box(low, high, dtype=low.dtype.newbyteorder("=").type)
    if kind.name == "Discrete":
        return spaces.Discrete(int(number(state["n"], what)), start=int(number(state.get("start", 0), what)))
    if kind.name == "MultiDiscrete":
        start = state.get("start")
        return spaces.MultiDiscrete(
            array(state["nvec"], what), start=None if start is None else array(start, what)
        )
    if kind.name == "MultiBinary":
        n = state["n"]
        return spaces.MultiBinary(int(number(n, what)) if not isinstance(n, tuple | list) else list(n))
    if kind.name == "Dict":
        inner: Any = state["spaces"]
        items: list[Any] = inner.items if isinstance(inner, Call) else list(inner.items())
        return spaces.Dict({str(key): space(value, what) for key, value in items})
    raise refused(what, record)
