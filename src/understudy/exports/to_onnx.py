"""A policy as an ONNX model, and the check of it with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .. import disk
from ..errors import UserError, import_extra
from ..nested import part_at, stack
from ..policies import Guest, TrainedPolicy
from . import NEAR
from .graph import STUDENT, Node, dtype_of, graph

OPSET, IR = 17, 8
"""Versions of ONNX that runtimes from 2022 on read."""


def write(trained: TrainedPolicy, path: Path) -> None:
    """Writes the model: one input for every part of the observation, the outputs `outputs` and `action`."""
    onnx = import_extra("onnx", "export: ONNX", "onnx")
    helper, g, actions = onnx.helper, graph(trained), trained.actions

    def type_of(dtype: DTypeLike) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def value(name: str, dtype: DTypeLike, shape: Sequence[int]) -> object:
        return helper.make_tensor_value_info(name, type_of(dtype), ["batch", *shape])

    def as_onnx(node: Node) -> object:
        attributes = {name: type_of(str(a)) if name == "to" else a for name, a in node.attributes.items()}
        return helper.make_node(node.op, node.inputs, [node.output], **attributes)

    dtype = dtype_of(trained, g)
    inputs = [value(part.name, part.dtype, part.shape) for part in g.inputs]
    outputs = [value("outputs", dtype, (actions.outputs,)), value("action", actions.dtype, actions.shape)]
    used = {name for node in g.nodes for name in node.inputs}
    arrays = [onnx.numpy_helper.from_array(g.arrays[name], name) for name in sorted(used & g.arrays.keys())]
    nodes: list[Any] = []
    for node in g.nodes:
        if node.op == STUDENT:
            found, theirs = _student(onnx, trained, node)
            nodes, arrays = [*nodes, *found], [*arrays, *theirs]
        else:
            nodes.append(as_onnx(node))
    model = helper.make_model(
        helper.make_graph(nodes, "policy", inputs, outputs, arrays),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="understudy",
    )
    onnx.checker.check_model(model, full_check=True)
    disk.write_file(path, model.SerializeToString(deterministic=True))


def _student(onnx: ModuleType, trained: TrainedPolicy, node: Node) -> tuple[list[Any], list[Any]]:
    """The operations and arrays of a student's own model, from the node's input to its output."""
    policy, member = trained.policy, int(str(node.attributes["member"]))
    assert isinstance(policy, Guest)
    if policy.host.student is not None and not policy.host.has("onnx"):
        raise UserError(
            f"export: the student {policy.host.name!r} has no onnx(features), which returns its model as "
            "ONNX's bytes; those of students.torch have."
        )
    student = policy.host.holding(trained.params if policy.members == 1 else trained.params[member])
    model = onnx.load_from_string(student.onnx(trained.observations.width))
    if any(one.domain in ("", "ai.onnx") and one.version != OPSET for one in model.opset_import):
        raise UserError(f"export: the student's model must be of ONNX's opset {OPSET}.")
    (given,), (said,) = model.graph.input, model.graph.output
    kind, prefix = given.type.tensor_type.elem_type, f"student.{member}."
    names = {given.name: f"{prefix}rows", said.name: f"{prefix}said", "": ""}
    for one in (*model.graph.node, *model.graph.initializer):
        if hasattr(one, "op_type"):
            for ends in (one.input, one.output):
                ends[:] = [names.setdefault(name, prefix + name) for name in ends]
        one.name = names.setdefault(one.name, prefix + one.name)
    ours = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))
    before = onnx.helper.make_node("Cast", node.inputs, [f"{prefix}rows"], to=kind)
    after = onnx.helper.make_node("Cast", [f"{prefix}said"], [node.output], to=ours)
    return [before, *model.graph.node, after], list(model.graph.initializer)


def difference(trained: TrainedPolicy, path: Path) -> float | None:
    """The largest difference between the file's outputs, by onnxruntime, and the policy's own, as a share of
    the largest output or of 1, for 32 observations drawn at random; None where onnxruntime is not installed.
    One above `NEAR` is refused.
    """
    try:
        runtime = import_extra("onnxruntime", "export: ONNX", "onnx")
    except UserError:
        return None
    space = trained.observations.space()
    space.seed(0)
    observations = [space.sample() for _ in range(32)]
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    batch, inputs = stack(observations), graph(trained).inputs
    parts = {part.name: np.asarray(part_at(batch, part.path), part.dtype) for part in inputs}
    theirs = np.asarray(session.run(["outputs"], parts)[0])
    ours = np.stack([trained.outputs(trained.observations.row(each)) for each in observations])
    apart = float(np.abs(theirs - ours).max() / max(1.0, np.abs(ours).max()))
    if not apart <= NEAR:
        raise UserError(f"export: outputs of {path} are not the policy's: {apart:.1e} apart.")
    return apart
