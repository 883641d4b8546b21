"""Students that are computed elsewhere, by PyTorch, scikit-learn or anything else, in the place of a policy.

A student's state, arrays by name, takes the place of parameters: whoever keeps, compares, saves or sends back
parameters does the same with it and does not notice.
"""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import equinox as eqx
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import DTypeLike

from ..errors import ContractError, UserError, calling, kind_of, name_of
from .base import Params, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..disk import Json
    from ..losses import Loss

State = dict[str, np.ndarray]
"""All that a student is, as arrays by name."""
READY = 16
"""Students that are held ready to act, so that going back to one of them does not load it again."""


class Job(NamedTuple):
    """What a student learns of its run before the first round.

    features, outputs: numbers in a row, and in what is said of it. loss: of the run (`understudy.losses`);
    None where the student is only to act. solver: the options of Adam that the run would train a network of
    its own with. seed: follows from the run's. member: which of an ensemble it is; 0 acts.
    """

    features: int
    outputs: int
    loss: Loss | None
    solver: Any
    seed: int
    member: int = 0


@runtime_checkable
class Student(Protocol):
    """What a student of one's own has to be: an object with these four methods, given as ``policy=``. It is
    copied with `copy.deepcopy`; what it does at random must follow from its state.

    It may also have
    ``begin(job)``, called once before the first round with a `Job`;
    ``gradient(rows, labels, weights)``, that of ``Σ_i weights_i loss_i``, as arrays by their names in the
    state, which adaftrl needs;
    ``onnx(features)``, its model as ONNX's bytes, from `rows` to `outputs`, for exports;
    ``parametric = False`` where it has no parameters that a penalty could hold;
    ``options``, names of options of the run's Adam that it is trained with, which ``begin`` finds in the job;
    ``device = True`` where `fit` takes JAX's arrays too, which stay on an accelerator.

    >>> import numpy as np
    >>> import understudy
    >>> class Mean:
    ...     mean = np.zeros(1, np.float32)
    ...     def act(self, rows):
    ...         return np.repeat(self.mean[None], len(rows), axis=0)
    ...     def fit(self, rows, labels, weights, *, proximal=None):
    ...         self.mean = np.average(labels, axis=0, weights=weights)
    ...     def state(self):
    ...         return {"mean": self.mean}
    ...     def load(self, arrays):
    ...         self.mean = arrays["mean"]
    >>> run = understudy.imitate("Pendulum-v1", policy=Mean(), rounds=2, steps_per_round=20, episodes=0)
    >>> run.ledger["labels"].tolist()
    [20, 40]
    """

    def act(self, rows: np.ndarray) -> np.ndarray:
        """Outputs (n, k), a mean action or the logits of a choice, for rows (n, width), as a policy sees
        them.
        """
        ...

    def fit(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        *,
        proximal: tuple[State, float] | None = None,
    ) -> None:
        """Goes on from here to less of ``Σ_i weights_i loss(act(rows_i), labels_i)`` over all samples so far:
        rows (n, width), labels (n, k), weights (n,), which sum to 1 a round. With ``proximal = (centre,
        weight)`` it is that and ``weight/2 ||state − centre||²``, over the floating-point arrays of the state
        that are parameters.
        """
        ...

    def state(self) -> State:
        """Arrays by name, always the same names, from which `load` goes on to the last bit."""
        ...

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes back to what `state` returned."""
        ...


def adopted(value: Any) -> Any:
    """A student as a `Guest`; anything else as it is, but for what is nearly one.

    >>> adopted(3)
    3
    """
    if isinstance(value, Student):
        return Guest(Host(value))
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__}
    for kind, maker in (
        ("torch.nn.modules.module.Module", "torch"),
        ("sklearn.base.BaseEstimator", "sklearn"),
    ):
        if kind in kinds:
            raise UserError(
                f"policy: {type(value).__name__} is no student yet; understudy.students.{maker}(…) makes "
                "one of it."
            )
    return value


@final
class Host:
    """A student, and copies of it that hold the states last asked for. `job`: what it began with."""

    def __init__(self, student: Student | None, name: str = "", job: Job | None = None):
        self.student, self.job = student, job
        self.part: Any = getattr(student, "part", student)
        """What the user gave, which sentences name."""
        self.name = name or name_of(student if isinstance(getattr(student, "name", None), str) else self.part)
        self.options: tuple[str, ...] = tuple(getattr(student, "options", ()))
        self.parametric = bool(getattr(student, "parametric", True))
        self.device = bool(getattr(student, "device", False))
        self._names: set[str] | None = None
        self._ready: OrderedDict[bytes, Student] = OrderedDict()

    @property
    def way(self) -> str:
        """How it learns, for the record."""
        return "adam" if "learning_rate" in self.options else "its own"

    def has(self, name: str) -> bool:
        """Whether the student has what it need not have."""
        return callable(getattr(self.student, name, None))

    def copied(self) -> Any:
        """A copy of the student as it was given, or one sentence where nobody gave it."""
        if self.student is None:
            raise UserError(
                f"policy: this is a student of somebody's own ({self.name}), which no file can keep; give it "
                "again, as in understudy.load(folder, policy=…)."
            )
        with calling("student", self.part, "copy.deepcopy"):
            return copy.deepcopy(self.student)

    def begun(self, job: Job) -> Host:
        """The student at the beginning of a job."""
        student = self.copied()
        if self.has("begin"):
            with calling("student", self.part, "begin"):
                student.begin(job)
        return Host(student, self.name, job)

    def first(self, member: int = 0, seed: int | None = None) -> State:
        """The state at the beginning; of another `member` of an ensemble one of its own."""
        if not member:
            return self.state_of(self.copied())
        assert self.job is not None and seed is not None
        other = self.begun(self.job._replace(seed=seed, member=member))
        return self.state_of(other.student)

    def state_of(self, student: Any) -> State:
        """The student's state, checked, in arrays of its own."""
        with calling("student", self.part, "state"):
            given = student.state()
        wrong = kind_of(given)
        if isinstance(given, Mapping):
            found = {name: np.array(values) for name, values in sorted(given.items())}
            wrong = next((k for k, values in found.items() if values.dtype.kind not in "biuf"), "")
            names, self._names = set(found), self._names or set(found)
            wrong = wrong and f"{wrong!r}, which is no array of numbers"
            if not wrong and found and names == self._names:
                return found
            wrong = wrong or f"the names {sorted(names)}" + (f" after {sorted(self._names)}" if names else "")
        raise ContractError(
            f"student {self.name!r}: its state returned {wrong}; arrays by name are expected, always by the "
            "same names."
        )

    def holding(self, state: Mapping[str, np.ndarray]) -> Any:
        """A student that holds a state; it must not be changed."""
        key = _digest(state)
        if (ready := self._ready.get(key)) is None:
            ready = self.copied()
            with calling("student", self.part, "load"):
                ready.load({name: np.array(values) for name, values in state.items()})
            self._keep(key, ready)
        self._ready.move_to_end(key)
        return ready

    def _keep(self, key: bytes, student: Student) -> None:
        self._ready[key] = student
        while len(self._ready) > READY:
            self._ready.popitem(last=False)

    def fitted(self, state: State, *samples: np.ndarray, proximal: tuple[State, float] | None) -> State:
        """The state to which the student comes from another: rows, labels, weights."""
        with calling("student", self.part, "copy.deepcopy"):
            student = copy.deepcopy(self.holding(state))
        with calling("student", self.part, "fit"):
            student.fit(*samples, proximal=proximal)
        new = self.state_of(student)
        self._keep(_digest(new), student)
        return new

    def gradient(self, state: State, *samples: np.ndarray) -> State:
        """The gradient of a round's loss: rows, labels, weights."""
        with calling("student", self.part, "gradient"):
            given = self.holding(state).gradient(*samples)
        if not isinstance(given, Mapping) or not given.keys() <= state.keys():
            raise ContractError(
                f"student {self.name!r}: its gradient returned {kind_of(given)}; arrays by their names in "
                "the state are expected."
            )
        return {name: np.asarray(values) for name, values in given.items()}

    def says(self, state: Mapping[str, np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        """A function from rows (n, width) to outputs (n, k)."""
        student, outputs = self.holding(state), None if self.job is None else self.job.outputs

        def say(rows: np.ndarray) -> np.ndarray:
            with calling("student", self.part, "act"):
                found = np.asarray(student.act(rows))
            if found.ndim != 2 or len(found) != len(rows) or outputs not in (None, found.shape[1]):
                raise ContractError(
                    f"student {self.name!r}: its act returned {found.shape} for rows of shape {rows.shape}; "
                    f"outputs of shape {(len(rows), outputs)} are expected."
                )
            return found

        return say


@final
class Guest(Policy):
    """A student in the place of a policy. Its parameters are a `State`, or several, whose mean it says.

    >>> guest = Guest(Host(None, "Robot"))
    >>> guest.config()
    {'policy': 'student', 'student': 'Robot', 'members': 1}
    """

    host: Host = eqx.field(static=True)
    members: int = eqx.field(static=True, default=1)
    name: ClassVar[str] = "student"

    def begun(self, job: Job, like: np.ndarray | None = None) -> Guest:
        """The student at the beginning of a job, which answers rows `like` these."""
        guest = Guest(self.host.begun(job))
        if like is not None:
            guest.apply(guest.host.first(), like)
        return guest

    def several(self, members: list[Params]) -> tuple[Guest, Params]:
        """The mean of several states, as a policy and its parameters."""
        return Guest(self.host, len(members)), members

    def init(self, key: Array, features: int, outputs: int, dtype: DTypeLike | None = None) -> Params:
        return self.host.first()

    def apply(self, params: Params, inputs: Any) -> Any:
        if isinstance(inputs, Tracer):
            raise UserError(f"policy: the student {self.host.name!r} is not JAX's and cannot be compiled.")
        return self.says(params)(np.asarray(inputs))

    def says(self, params: Params) -> Callable[[np.ndarray], np.ndarray]:
        """A function from rows (n, width) to outputs (n, k), with these parameters."""
        if self.members == 1:
            return self.host.says(params)
        each = [self.host.says(one) for one in params]
        return lambda rows: np.mean([say(rows) for say in each], axis=0)

    def forward(self, params: Params) -> Callable[[np.ndarray], np.ndarray]:
        """A function from one row of inputs to one row of outputs, see `acting.forward`."""
        if self.host.student is None:  # it can be described, and not act
            return lambda row: self.host.copied()
        say = self.says(params)
        return lambda row: say(row[None])[0]

    def config(self) -> dict[str, Json]:
        return {"policy": self.name, "student": self.host.name, "members": self.members}


def guest_of(
    config: Mapping[str, Any], features: int, outputs: int, given: Student | Policy | None = None
) -> Guest:
    """The student that `Guest.config()` described, which somebody gives again; without it one that cannot
    act.
    """
    name, members = str(config["student"]), int(config["members"])
    guest = Guest(Host(None, name)) if given is None else given
    guest = guest if isinstance(guest, Policy) else adopted(guest)
    if not isinstance(guest, Guest):
        raise UserError(f"policy: {kind_of(given)} is no student, and the file is that of one ({name}).")
    if guest.host.student is not None:
        job = Job(features=features, outputs=outputs, loss=None, solver=None, seed=0)
        guest = guest.begun(job)
    return Guest(guest.host, members)


def _digest(state: Mapping[str, np.ndarray]) -> bytes:
    """What tells states apart."""
    found = hashlib.blake2b(digest_size=16)
    for name, values in sorted(state.items()):
        found.update(f"{name} {values.dtype} {values.shape} ".encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.digest()
