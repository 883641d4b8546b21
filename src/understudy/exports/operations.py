"""A list of plain operations on arrays, each one of ONNX's and of the NumPy reader's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import numpy as np


class Input(NamedTuple):
    """A part of the observation: its name, where it is, its type and its shape without the batch."""

    name: str
    path: tuple[str | int, ...]
    dtype: str
    shape: tuple[int, ...]


class Node(NamedTuple):
    """One operation: the names of what goes in, the name of what comes out."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]


@final
@dataclasses.dataclass
class Graph:
    """Inputs, operations in the order in which they are taken, and the arrays that they use, by name. The
    results are called `outputs` (a mean action or logits) and `action`.
    """

    inputs: list[Input] = dataclasses.field(default_factory=list)
    nodes: list[Node] = dataclasses.field(default_factory=list)
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def given(self, path: tuple[str | int, ...], dtype: str, shape: tuple[int, ...]) -> str:
        """Adds the part of the observation at `path` to the inputs and gives its name."""
        name = ".".join(map(str, path)) or "observation"
        self.inputs.append(Input(name, path, dtype, tuple(shape)))
        return name

    def add(self, op: str, *inputs: Any, into: str = "", **attributes: Any) -> str:
        """Adds an operation and gives the name of its result; inputs are names, or numbers to be kept."""
        names = [one if isinstance(one, str) else self._kept(np.asarray(one)) for one in inputs]
        self.nodes.append(Node(op, names, into or f"value_{len(self.nodes)}", attributes))
        return self.nodes[-1].output

    def _kept(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def joined(self, parts: Iterable[str]) -> str:
        """Adds what puts parts (n, …) side by side, where there are several."""
        parts = list(parts)
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def described(self) -> dict[str, Any]:
        """Everything but the arrays, as plain data."""
        return {name: [one._asdict() for one in getattr(self, name)] for name in ("inputs", "nodes")}
