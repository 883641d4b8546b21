"""`understudy export`: a run's policy or its episodes, for other programs."""

from __future__ import annotations

from pathlib import Path

from tyro.conf import Positional

from .options import Json, Name, Options


class Export(Options):
    """Write the policy of a run, or its episodes, in a form that other programs read."""

    run: Positional[Path]
    """The folder of a run, or of a study (the best run that it kept), or the .safetensors of a policy."""
    to: str = "onnx"
    """onnx: one file, compared with the policy where onnxruntime is installed. numpy: one .npz, and a reader
    beside it that needs NumPy only. minari: the episodes as a dataset of Minari. lerobot: the episodes as a
    dataset of LeRobot, format 3.0."""
    out: Name = None
    """The file or folder to write, or the id of Minari's dataset; by default made of the run's name."""
    json: Json = False
    policy: Name = None
    """The student of your own (module:function) that the run was begun with, which no file keeps."""


def run(options: Export) -> int:
    """Writes the files and prints where they are."""
    from ..exports import NEAR, export
    from ..policies import POLICIES
    from ..report import tables

    student = None if options.policy is None else POLICIES.make(options.policy, {})
    found = export(options.run, options.to, options.out, policy=student)
    rows = [("written", found.out), *(("beside it", one) for one in found.beside)]
    if found.episodes is not None:
        rows.append(("episodes", str(found.episodes)))
    if found.to == "onnx":
        text = "not measured: onnxruntime is not installed"
        if found.difference is not None:
            text = f"{found.difference:.1e} of the largest output; {NEAR:.0e} is allowed"
        rows.append(("difference to the policy", text))
    tables.show(tables.facts(f"{options.run} as {found.to}", rows))
    tables.json_line(found._asdict())
    return 0
