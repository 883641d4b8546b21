"""A policy as an ONNX model, and the check of it with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import disk
from ..errors import UserError, import_extra
from ..nested import part_at, stack
from ..policies import TrainedPolicy
from . import NEAR
from .graph import graph

OPSET, IR = 17, 8
"""Versions of ONNX that runtimes from 2022 on read."""


def write(trained: TrainedPolicy, path: Path) -> None:
    """Writes the model: one input for every part of the observation, the outputs `outputs` and `action`."""
    import_extra("onnx", "export: ONNX", "onnx")
    from onnx import checker, helper, numpy_helper  # type: ignore[import-not-found]

    def typed(dtype: Any) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def node(one: Any) -> Any:
        given = one.attributes | ({"to": typed(one.attributes["to"])} if "to" in one.attributes else {})
        return helper.make_node(one.op, one.inputs, [one.output], **given)

    def value(name: str, dtype: Any, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, typed(dtype), ["batch", *shape])

    made, acts = graph(trained), trained.actions
    used = {name for one in made.nodes for name in one.inputs}
    kept = [numpy_helper.from_array(a, name) for name, a in sorted(made.arrays.items()) if name in used]
    dtype = next(iter(a.dtype for name, a in made.arrays.items() if "network" in name))
    model = helper.make_model(
        helper.make_graph(
            [node(one) for one in made.nodes],
            "policy",
            [value(one.name, one.dtype, *one.shape) for one in made.inputs],
            [value("outputs", dtype, acts.outputs), value("action", acts.dtype, *acts.shape)],
            kept,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="understudy",
    )
    checker.check_model(model, full_check=True)
    disk.write_file(path, model.SerializeToString(deterministic=True))


def difference(trained: TrainedPolicy, path: Path) -> float | None:
    """The largest difference between the file's outputs, by onnxruntime, and the policy's own, as a share of
    the largest output or of 1, for 32 observations drawn at random; None where onnxruntime is not installed.
    One above `NEAR` is refused.
    """
    try:
        import onnxruntime  # type: ignore[import-not-found]
    except ImportError:
        return None
    space = trained.observations.space()
    space.seed(0)
    drawn = [space.sample() for _ in range(32)]
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    batch, inputs = stack(drawn), graph(trained).inputs
    given = {one.name: np.asarray(part_at(batch, one.path), one.dtype) for one in inputs}
    theirs = np.asarray(session.run(["outputs"], given)[0])
    ours = np.stack([trained.outputs(trained.observations.row(one)) for one in drawn])
    found = float(np.abs(theirs - ours).max() / max(1.0, np.abs(ours).max()))
    if not found <= NEAR:
        raise UserError(f"export: outputs of {path} are not the policy's: {found:.1e} apart.")
    return found
