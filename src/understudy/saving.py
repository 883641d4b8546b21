"""A student on the disk: the file of `Understudy.save`, and the arrays that a run's folder keeps of one.

Samples are not among those arrays: they are in their log already. A student that is begun anew with the same
settings goes on from them bit for bit.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false
# JAX says little of the types of its trees.

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import disk
from .errors import UserError, damaged
from .objectives import Limited, Losses, Samples, Statistics
from .online import GameState
from .policies import Guest, Normaliser, Params
from .programs import keys_again, plain_keys
from .samples import Question, Round
from .students.rounds import add

if TYPE_CHECKING:
    from .disk import Json
    from .learners import Playable
    from .objectives import Reservoir, Window
    from .regret.certificate import Running
    from .spec import Setting
    from .student import Row, Understudy

Small: TypeAlias = (
    "tuple[Playable, None, Params, Running, Array, list[Array], Array, Window | Reservoir | None]"
)
"""A `GameState` with None for its losses, then the arrays of the losses that a snapshot holds, the number of
rounds in them, and the learner's limited memory, if it has one."""
FORMAT = 2
"""Of the files of `save`."""
COUNTS = ("round", "steps", "labels", "unanswered", "breaks")
SAMPLE_COLUMNS = ("inputs", "targets", "executed", "rewards", "flags", "slots", "weights")
CHOSEN = ("index", "p", "weights")
OPEN = ("inputs", "targets", "executed", "rewards", "flags", "labelled", "new", "silent", "by_expert")
"""What a file keeps of the path of an open question."""


def save(student: Understudy, file: Path) -> Path:
    """Writes all that was learnt, the samples and the open questions."""
    plain: dict[str, Json]
    arrays, plain = snapshot(student)
    columns = {name: student.samples.column(name) for name in SAMPLE_COLUMNS} if student.samples.rows else {}
    arrays |= {f"samples.{name}": np.asarray(rows) for name, rows in columns.items()}
    for number, question in student.open.items():
        about = {name: getattr(question, name) for name in CHOSEN}
        about |= {name: getattr(question.path, name) for name in OPEN}
        arrays |= {f"open.{number}.{name}": np.asarray(rows) for name, rows in about.items()}
    policy = student.game.policy
    name = policy.host.name if isinstance(policy, Guest) else None
    settings = student.spec.changes(but=("env",) if name is None else ("env", "policy"))
    plain |= {"format": FORMAT, "kind": student.parts.kind, "settings": settings, "ledger": student.rows}
    plain |= {"student": name, "asked": student.asked}
    plain |= {"open": {str(number): question.path.envs for number, question in student.open.items()}}
    disk.write_tensors(file, arrays, {"student": disk.to_json(plain, lossless=True)})
    return file


def load(begin: Callable[..., Understudy], file: Path, settings: Mapping[str, Setting]) -> Understudy:
    """The student that `save` wrote; `begin` makes one that has not begun, with some settings."""
    arrays, metadata = disk.read_tensors(file, "student")
    with damaged(f"student: {file}"):
        plain = disk.from_json(metadata["student"])
        if plain["format"] != FORMAT:
            raise UserError(f"student: {file} has format {plain['format']!r}; {FORMAT} is read here.")
        if plain.get("student") and "policy" not in settings:
            raise UserError(
                f"policy: {file} is of a student of your own ({plain['student']}), which no file can "
                "keep; give it again, as policy=…."
            )
        student = begin(label_kind=plain["kind"], **plain["settings"] | settings)
        if plain["rows"]:
            rows: dict[str, Any] = {name: arrays[f"samples.{name}"] for name in SAMPLE_COLUMNS}
            student.samples.append(Round(**rows, labels=0))
        student.restore(arrays, plain, plain["ledger"])
        student.asked = plain["asked"]
        for number, envs in plain["open"].items():
            about = {name: arrays[f"open.{number}.{name}"] for name in (*CHOSEN, *OPEN)}
            path = student.path(len(about["weights"]), envs)
            for name in OPEN:
                setattr(path, name, np.array(about[name]))
            path.filled = path.size
            chosen = {name: about[name] for name in CHOSEN}
            student.open[int(number)] = Question(id=int(number), path=path, **chosen)
    return student


def snapshot(student: Understudy) -> tuple[dict[str, np.ndarray], dict[str, Json]]:
    """Arrays and plain data from which `restore` goes on bit for bit, beside the samples."""
    arrays = {f"state.{i:03d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(_small(student)))}
    arrays |= {"mean": student.normaliser.mean, "scale": student.normaliser.scale}
    arrays |= listed("recent", student.recent) | listed("members", student.members)
    arrays |= {} if student.cut is None else student.cut.arrays()
    plain: dict[str, Json] = {name: getattr(student, name) for name in COUNTS}
    plain |= {
        "rows": student.samples.rows,
        "automatic": None if student.automatic is None else student.automatic.numbers(),
        "visited": None if student.visited is None else student.visited.numbers(),
    }
    return arrays, plain


def restore(
    student: Understudy, arrays: Mapping[str, np.ndarray], plain: Mapping[str, Any], rows: list[Row]
) -> None:
    """Back to a `snapshot`; the samples must be in their log already. rows: of the ledger."""
    for name in COUNTS:
        setattr(student, name, plain[name])
    student.rows = rows
    student.see_as(Normaliser(arrays["mean"], arrays["scale"]))
    if student.automatic is not None:
        student.automatic.restore(plain["automatic"])
    if student.visited is not None:
        student.visited.restore(plain["visited"])
    leaves, structure = jax.tree.flatten(_small(student))
    stored = student.rounds.taken([arrays[f"state.{i:03d}"] for i in range(len(leaves))], leaves)
    student.state = _refilled(student, jax.tree.unflatten(structure, stored))
    if student.cut is not None:
        student.cut.restore(dict(arrays))
    student.params = jax.tree.map(np.array, student.state.learner.params)
    student.recent, student.members = (
        unlisted(student.params, name, arrays) for name in ("recent", "members")
    )


def listed(name: str, policies: list[Params]) -> dict[str, np.ndarray]:
    """The leaves of parameters by name and number."""
    return {
        f"{name}.{k:03d}.{i:03d}": leaf
        for k, params in enumerate(policies)
        for i, leaf in enumerate(jax.tree.leaves(params))
    }


def unlisted(like: Params, name: str, arrays: Mapping[str, np.ndarray]) -> list[Params]:
    """The parameters that `listed` gave, which have the structure of `like`."""
    leaves, structure = jax.tree.flatten(like)
    count = sum(stored.startswith(f"{name}.") for stored in arrays) // len(leaves)
    return [
        jax.tree.unflatten(structure, [arrays[f"{name}.{k:03d}.{i:03d}"] for i in range(len(leaves))])
        for k in range(count)
    ]


def _small(student: Understudy) -> Small:
    """The state without the buffer of samples, unless they are nowhere else."""
    losses, memory = student.state.losses, None
    if isinstance(losses, Limited):
        losses, memory = losses.whole, plain_keys(losses.memory)
    arrays = [getattr(losses, name) for name in _names(student, losses)]
    learner, _, comparator, running, cumulative = student.state
    return learner, None, comparator, running, cumulative, arrays, losses.rounds, memory


def _names(student: Understudy, losses: Losses) -> tuple[str, ...]:
    """The arrays of the losses, beside the rounds, that a snapshot holds."""
    if isinstance(losses, Statistics):
        return "factor", "rounding"
    return ("filled",) if _elsewhere(student) else ("filled", "inputs", "targets", "weights")


def _elsewhere(student: Understudy) -> bool:
    """Whether the samples are outside the state too."""
    return student.samples.keeps or student.reader is not None


def _refilled(student: Understudy, small: Small) -> GameState:
    """The state that `_small` made small, its buffer filled from the samples in their log."""
    learner, _, comparator, running, cumulative, arrays, rounds, memory = small
    whole = student.state.losses
    losses = whole.whole if isinstance(whole, Limited) else whole
    if isinstance(losses, Samples) and student.reader is None and student.samples.keeps:
        losses = _played_again(student, losses)
    else:
        names = (*_names(student, losses), "rounds")
        losses = eqx.tree_at(lambda one: [getattr(one, name) for name in names], losses, [*arrays, rounds])
    if isinstance(whole, Limited):
        assert memory is not None
        losses = Limited(losses, keys_again(memory, whole.memory))
    return GameState(learner, losses, comparator, running, cumulative)


def _played_again(student: Understudy, losses: Samples) -> Samples:
    """The samples of the log, round by round, in the buffer of the losses."""
    columns = [student.samples.column(name) for name in ("inputs", "targets", "weights", "slots")]
    done: list[int] = np.diff([0, *(int(row["steps"]) for row in student.rows)]).tolist()
    done[:1] = done[:1] if student.parts.demos is None else [len(student.parts.demos)]
    first = 0
    for size in done:
        inputs, targets, weights, slots = (np.asarray(column[first : first + size]) for column in columns)
        if student.on_device:  # its arithmetic differs from NumPy's in the last bit
            inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
        losses, first = add(losses, student.batch(inputs, targets, weights, slots)), first + size
    return losses
