"""Taking a run along: its policy as ONNX or plain arrays, its episodes for Minari and LeRobot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, final

from .. import disk
from ..errors import UserError, check_name
from ..policies import Policy, Student, TrainedPolicy
from ..policies.trained import place
from ..runs import Record
from ..studies import best_folder

NEAR = 1e-5
"""The largest difference of an ONNX file's outputs from the policy's, as a share of the largest, or of 1."""
FORMS = ("onnx", "numpy", "minari", "lerobot")
__all__ = ["FORMS", "Exported", "export"]


@final
class Exported(NamedTuple):
    """What was written: the form, where (a file, a folder, or the id of Minari's dataset), other files beside
    it, how many episodes, and the largest difference of an ONNX file's outputs from the policy's own (None
    where it was not measured).
    """

    to: str
    out: str
    beside: tuple[str, ...] = ()
    episodes: int | None = None
    difference: float | None = None


def export(
    what: Record | TrainedPolicy | str | os.PathLike[str],
    to: str,
    out: str | os.PathLike[str] | None = None,
    *,
    policy: Student | Policy | None = None,
) -> Exported:
    """Writes a policy, or the episodes of a run, in a form that other programs read.

    Args:
      what: a run, a trained policy, or the path of either (a run's folder, a policy's .safetensors), or the
        folder of a study, of which it is the best run that was kept.
      to: "onnx" (one file; the extra onnx), "numpy" (one .npz, and a reader beside it that needs NumPy only),
        "minari" (a dataset; the extra minari) or "lerobot" (a folder; the extra tables).
      out: the file or folder to write, or the id of Minari's dataset; by default made of the run's name.
      policy: the student of one's own that a file is of, see `understudy.load`.

    Policies act without noise, and standardise their observations themselves. ONNX files are compared with
    the policy where onnxruntime is installed.

    >>> import tempfile, understudy
    >>> run = understudy.imitate("CartPole-v1", policy="linear", rounds=3, steps_per_round=40, episodes=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(run, "numpy", f"{folder}/cartpole.npz").beside
    ('...understudy_policy.py',)
    """
    check_name("to", to, FORMS)
    source, stem = _read(what, policy)
    if to in ("onnx", "numpy"):
        return _export_policy(source.policy if isinstance(source, Record) else source, to, out, stem)
    if not isinstance(source, Record):
        raise UserError(f"export: {to} keeps episodes, and {str(what)!r} is a policy; name a run's folder.")
    if to == "minari":
        from . import to_minari

        name = os.fspath(out) if out is not None else to_minari.name_of(source, stem)
        return Exported(to, name, episodes=to_minari.write(source, name))
    from . import to_lerobot

    folder = Path(out or f"{stem}-lerobot")
    return Exported(to, str(folder), episodes=to_lerobot.write(source, folder))


def _export_policy(policy: TrainedPolicy, to: str, out: str | os.PathLike[str] | None, stem: str) -> Exported:
    ending = ".onnx" if to == "onnx" else ".npz"
    path = disk.check_ending("out", Path(out or stem + ending), ending)
    with disk.reporting(path):
        if to == "onnx":
            from . import to_onnx

            to_onnx.write(policy, path)
            return Exported(to, str(path), difference=to_onnx.difference(policy, path))
        from . import arrays

        return Exported(to, str(path), beside=(str(arrays.write(policy, path)),))


def _read(
    what: Record | TrainedPolicy | str | os.PathLike[str], student: Student | Policy | None
) -> tuple[Record | TrainedPolicy, str]:
    """The run or the policy, and a name for its files."""
    if isinstance(what, Record):
        return what, "policy" if what.folder is None else what.folder.resolve().name
    if isinstance(what, TrainedPolicy):
        return what, "policy"
    path = Path(what)
    if path.is_dir():
        path = best_folder(path)
        return Record.load(path, policy=student), path.resolve().name
    if not place(path).is_file():
        told = f"there is no file or folder {str(what)!r}; name a run's folder or a .safetensors"
        raise UserError(f"export: {told}.")
    return TrainedPolicy.read(path, "export", student=student)[0], place(path).stem
