"""One door for every file that this package writes or reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import UserError

if TYPE_CHECKING:
    from .policies import Policy, Student, TrainedPolicy
    from .runs import Record
    from .studies import Results

R = TypeVar("R")

READ = (
    "a run's folder, a study's folder, a study's .toml, a policy's or an expert's .safetensors, a "
    "Stable-Baselines3 .zip, an exported .npz"
)


def load(path: str | os.PathLike[str], *, policy: Student | Policy | None = None) -> Any:
    """What a file or a folder holds.

    policy: the student of one's own (`understudy.students`) that a run or a policy is of, as it was given to
    the run: no file can keep it.

    - the folder of a run, finished or not: a `Record`
    - the folder of a study: `studies.Results` of its finished runs
    - a study's .toml: a `Study`
    - .safetensors (the ending may be left out) and the .npz of ``understudy export --to numpy``: a
      `TrainedPolicy`
    - a Stable-Baselines3 .zip: an `Expert`

    Nothing in a file is executed. The type of what is returned is `Any`: who names the file knows its kind.

    >>> from understudy.experts.shipped import FOLDER
    >>> load(FOLDER / "sac-Hopper-v5.safetensors").actions.shape
    (3,)
    """
    place = Path(path)
    if place.is_dir():
        return _able(_folder(place, policy), path)
    place = place if place.exists() else Path(f"{place}.safetensors")
    if not place.exists():
        raise UserError(f"load: there is no file or folder {str(path)!r}.")
    ending = place.suffix.lower()
    if ending == ".toml":
        from .studies import read

        return read(place)[0]
    if ending == ".zip":
        from . import experts

        return experts.resolve(str(place))
    if ending == ".npz":
        from .exports import arrays

        return arrays.read(place, "load")
    if ending in (".safetensors", ""):
        from .policies import TrainedPolicy

        return _able(TrainedPolicy.read(place, "load", student=policy)[0], path)
    raise UserError(f"load: {str(path)!r} is of no kind that is read here; accepted: {READ}.")


def _able(found: R, path: str | os.PathLike[str]) -> R:
    """What was read; a student of one's own that was not given again is refused."""
    from .policies import Guest

    trained: Any = getattr(found, "policy", None)
    for policy in (trained, getattr(trained, "policy", None)):
        if isinstance(policy, Guest) and policy.host.student is None:
            raise UserError(
                f"policy: {str(path)!r} is of a student of your own ({policy.host.name}), which no file can "
                "keep; give it again, as in understudy.load(…, policy=student)."
            )
    return found


def _folder(place: Path, student: Student | Policy | None) -> Record | Results | TrainedPolicy:
    if (place / "config.json").is_file():
        from .runs import Record

        return Record.load(place, policy=student)
    if (place / "study.json").is_file():
        from .studies import Results

        return Results.load(place)
    if (place / "policy.safetensors").is_file():
        from .policies import TrainedPolicy

        return TrainedPolicy.load(place, policy=student)
    inner = next((part for part in ("full", "coarse") if (place / part / "study.json").is_file()), None)
    hint = f"; it was tuned, and the studies are in {inner}/ and its like" if inner else ""
    raise UserError(f"load: the folder {str(place)!r} holds neither a run, a study nor a policy{hint}.")
