"""Reads a pickle as data, executing nothing.

A pickle is a program whose instructions may import and call anything. Here its instructions build a tree of
records instead: a name is a `Global`, a call is a `Call`, an object is a `Call` with a state. Nothing is
imported and nothing is called while reading, whatever the file holds; the readers of the tree accept a few
known names.
"""

from __future__ import annotations

import dataclasses
import pickletools
import warnings
from collections.abc import Callable
from typing import Any

from ...errors import UserError, shorten

LIMIT = 1_000_000  # instructions; a state dict of a thousand tensors has some fifty thousand


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

    function: Any
    arguments: Any
    state: Any = None
    items: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Persistent:
    """A reference to something outside the pickle (for torch, a storage)."""

    key: Any


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
_MARK = object()


def read(data: bytes, what: str, accepted: Callable[[Global], bool] | None = None) -> Any:
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
    for found in reader.globals:
        if _starts_programs(found):
            raise UserError(f"{what}: would call {found}, which is foreign there; refused, nothing was run.")
        if accepted is not None and not accepted(found):
            raise refused(what, found)
    return tree


def refused(what: str, record: Any) -> UserError:
    """The sentence for a record that is not one of those accepted, naming what it would have called."""
    if isinstance(record, Call):
        record = record.function
    name = str(record) if isinstance(record, Global) else type(record).__name__
    return UserError(f"{what}: holds {name}, which is not accepted there; refused, nothing was run.")


def _starts_programs(found: Global) -> bool:
    if found.module in BUILTINS and found.name.split(".")[0] in DANGEROUS_BUILTINS:
        return True
    # Newer pickles may reach through a module: ("torch", "os.system").
    return found.module.split(".")[0] in DANGEROUS or not DANGEROUS.isdisjoint(found.name.split(".")[:-1])


class _Reader:
    """A stack machine for pickle's instructions in which a call is a record."""

    def __init__(self):
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.globals: dict[Global, None] = {}

    def read(self, data: bytes) -> Any:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number > LIMIT:
                raise ValueError(f"more than {LIMIT} instructions")
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name not in _STEPS:
                raise ValueError(f"instruction {opcode.name} is not accepted")
            _STEPS[opcode.name](self, argument)
        raise ValueError("it has no end")

    def push(self, item: Any) -> None:
        self.stack.append(item)

    def put(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def last(self, count: int) -> list[Any]:
        if len(self.stack) < count or any(item is _MARK for item in self.stack[-count:]):
            raise ValueError("the stack is too short")
        return self.stack[-count:]

    def pop(self, count: int) -> list[Any]:
        items = self.last(count)
        del self.stack[-count:]
        return items

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1 - next(i for i, item in enumerate(reversed(self.stack)) if item is _MARK)
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def name(self, module: Any, name: Any) -> None:
        if not (isinstance(module, str) and isinstance(name, str)):
            raise ValueError("a name is not a string")
        found = Global(module, name)
        self.globals[found] = None
        self.push(found)

    def call(self, function: Any, arguments: Any) -> None:
        self.push(Call(function, arguments))

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Call):
            target.items.extend(items)
        elif isinstance(target, set):
            target.update(item for item in items if _hashable(item))
        else:
            target.extend(items)

    def update(self, items: list[Any]) -> None:
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


def _hashable(key: Any) -> bool:
    return isinstance(key, (str, int, float, bytes, type(None), Global))


def _instance(reader: _Reader, argument: str) -> None:
    arguments = tuple(reader.since_mark())
    reader.name(*argument.split(" ", 1))
    reader.call(reader.pop(1)[0], arguments)


def _dict(reader: _Reader, argument: Any) -> None:
    items = reader.since_mark()
    reader.push({})
    reader.update(items)


def _object(reader: _Reader, argument: Any) -> None:
    function, *arguments = reader.since_mark()
    reader.call(function, tuple(arguments))


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
    "EMPTY_LIST": lambda reader, _: reader.push([]),
    "EMPTY_DICT": lambda reader, _: reader.push({}),
    "EMPTY_SET": lambda reader, _: reader.push(set()),
    "TUPLE1": lambda reader, _: reader.push(tuple(reader.pop(1))),
    "TUPLE2": lambda reader, _: reader.push(tuple(reader.pop(2))),
    "TUPLE3": lambda reader, _: reader.push(tuple(reader.pop(3))),
    "MARK": lambda reader, _: reader.push(_MARK),
    "POP": lambda reader, _: reader.stack.pop(),
    "POP_MARK": lambda reader, _: reader.since_mark(),
    "DUP": lambda reader, _: reader.push(reader.last(1)[0]),
    "EMPTY_TUPLE": lambda reader, _: reader.push(()),
    "TUPLE": lambda reader, _: reader.push(tuple(reader.since_mark())),
    "LIST": lambda reader, _: reader.push(reader.since_mark()),
    "DICT": _dict,
    "FROZENSET": lambda reader, _: reader.push(tuple(reader.since_mark())),
    "APPEND": lambda reader, _: reader.extend(reader.pop(1)),
    "APPENDS": lambda reader, _: reader.extend(reader.since_mark()),
    "ADDITEMS": lambda reader, _: reader.extend(reader.since_mark()),
    "SETITEM": lambda reader, _: reader.update(reader.pop(2)),
    "SETITEMS": lambda reader, _: reader.update(reader.since_mark()),
    "GLOBAL": lambda reader, argument: reader.name(*argument.split(" ", 1)),
    "STACK_GLOBAL": lambda reader, _: reader.name(*reader.pop(2)),
    "REDUCE": lambda reader, _: reader.call(*reader.pop(2)),
    "NEWOBJ": lambda reader, _: reader.call(*reader.pop(2)),
    "NEWOBJ_EX": lambda reader, _: reader.call(*reader.pop(3)[:2]),
    "INST": _instance,
    "OBJ": _object,
    "BUILD": lambda reader, _: reader.build(),
    "BINPERSID": lambda reader, _: reader.push(Persistent(reader.pop(1)[0])),
    "PERSID": lambda reader, argument: reader.push(Persistent(argument)),
}
