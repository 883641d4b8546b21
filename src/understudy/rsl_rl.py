"""Aggregated distillation inside rsl_rl: its runner, environments and checkpoints, our memory and ledger.

rsl_rl's `Distillation` fits the rollout just collected and forgets it. Here every labelled state is kept, as
in DAgger, or a uniform sample of all of them, and each update fits minibatches of that memory. No fork is
needed, since rsl_rl finds classes by name:

    algorithm:
      class_name: "understudy.rsl_rl:Distillation"
      memory: "reservoir:1000000"     # or "all", "window:20" (rollouts); "window:1" is rsl_rl's own
      beta: "linear:20"               # how likely the teacher acts, a number or a schedule over updates
      loss_type: "huber"              # "mse", "huber", or "kl" where both have a distribution
      ledger: "logs/ledger.csv"       # one row an update

All other settings are rsl_rl's. This file needs rsl-rl-lib 5 and its PyTorch, and takes no device by JAX.
"""

# pyright: reportMissingImports=false
# rsl_rl and PyTorch are an extra, and absent where the types are checked.

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import torch
from rsl_rl import algorithms
from rsl_rl.env import VecEnv
from rsl_rl.storage import RolloutStorage
from rsl_rl.utils import resolve_callable, resolve_class, resolve_obs_groups
from tensordict import TensorDict
from torch import Tensor, nn

from .errors import UserError, check_int, check_name
from .objectives.memory import parse_memory
from .regret import Ledger
from .spec import mixing

LOSSES = ("mse", "huber", "kl")
OBSERVED, ACTION, STATE = "obs.", "action", "state."
"""Names of what a memory keeps of a state: its observations, its labels, the student's hidden state."""


@final
class Memory:
    """Labelled sequences of states: all of them, those of the last rollouts, or a uniform sample.

    A sequence is a dict of tensors (length, …). For students without memory its length is 1. rule: as of
    `understudy.RunSpec.memory`; a reservoir counts states.

    >>> memory = Memory("reservoir:2", length=1, generator=torch.Generator().manual_seed(0))
    >>> for n in range(5):
    ...     memory.add({"n": torch.full((1, 3), n)})
    >>> len(memory), memory.seen, memory.take(torch.tensor([0, 1]))["n"].shape
    (2, 15, torch.Size([1, 2]))
    """

    def __init__(self, rule: str, *, length: int, generator: torch.Generator):
        self._kind, self._size = parse_memory(rule) or ("all", 0)
        self._length, self._generator = length, generator
        self._columns: dict[str, Tensor] = {}
        self.seen, self._filled = 0, 0

    def __len__(self) -> int:
        return self._filled

    @property
    def states(self) -> int:
        """How many labelled states are kept."""
        return self._filled * self._length

    def add(self, sequences: Mapping[str, Tensor]) -> None:
        """Adds the sequences of a rollout, tensors (length, n, …)."""
        count = next(iter(sequences.values())).shape[1]
        capacity = self._capacity(count)
        self._grow(sequences, min(capacity, self.seen + count))
        order = torch.arange(self.seen, self.seen + count)
        places = order.clone()
        if self._kind == "window":
            places = order % capacity
        elif self._kind == "reservoir":  # algorithm R: sequence g stays with probability capacity/(g + 1)
            drawn = (torch.rand(count, generator=self._generator) * (order + 1)).long()
            places = torch.where(order < capacity, order, drawn)
        # Of several new sequences that are given the same place, the last one stays.
        where, from_end = np.unique(places.numpy()[::-1], return_index=True)
        where, which = where[where < capacity], (count - 1 - from_end)[where < capacity]
        for name, column in self._columns.items():
            here, there = (torch.as_tensor(index, device=column.device) for index in (where, which))
            column[:, here] = sequences[name][:, there].to(column.dtype)
        self.seen += count
        self._filled = min(capacity, self.seen)

    def _capacity(self, count: int) -> int:
        """The most sequences, where a rollout has so many."""
        if self._kind == "all":
            return self.seen + count
        return self._size * count if self._kind == "window" else max(self._size // self._length, 1)

    def _grow(self, like: Mapping[str, Tensor], wanted: int) -> None:
        """Makes room for so many sequences, twice as much whenever it is short."""
        room = next(iter(self._columns.values())).shape[1] if self._columns else 0
        if room >= wanted:
            return
        room = max(wanted, 2 * room)
        for name, tensor in like.items():
            column = torch.zeros(
                tensor.shape[0], room, *tensor.shape[2:], dtype=tensor.dtype, device=tensor.device
            )
            if self._filled:
                column[:, : self._filled] = self._columns[name][:, : self._filled]
            self._columns[name] = column

    def take(self, places: Tensor) -> dict[str, Tensor]:
        """The sequences at these places (n,): tensors (length, n, …)."""
        return {name: column[:, places.to(column.device)] for name, column in self._columns.items()}

    def draw(self, count: int) -> dict[str, Tensor]:
        """A minibatch, drawn uniformly with replacement."""
        return self.take(torch.randint(self._filled, (count,), generator=self._generator))

    def state_dict(self) -> dict[str, Tensor | dict[str, Tensor] | int]:
        """What `load_state_dict` goes on from, in tensors and numbers."""
        return {
            "columns": {name: column[:, : self._filled].clone() for name, column in self._columns.items()},
            "seen": self.seen,
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, kept: Mapping[str, Any]) -> None:
        """Back to what `state_dict` gave."""
        self._columns, self.seen = dict(kept["columns"]), int(kept["seen"])
        self._filled = next(iter(self._columns.values())).shape[1] if self._columns else 0
        self._generator.set_state(kept["generator"].cpu())


@final
class Teachers(nn.Module):
    """Several teachers, one for each environment as `route` says: the name of a group of observations whose
    first column is the teacher's number, or a function from all observations to these numbers (n,).
    """

    is_recurrent = False

    def __init__(self, teachers: Mapping[str, nn.Module], route: str | Callable[[TensorDict], Tensor]):
        super().__init__()
        self.names, self.models, self._route = list(teachers), nn.ModuleList(teachers.values()), route
        self._params: tuple[Tensor, ...] = ()
        self._mean = torch.zeros(0)
        for name, model in teachers.items():
            if getattr(model, "is_recurrent", False):
                raise UserError(
                    f"teachers: {name!r} is recurrent; teachers that are routed must not remember."
                )

    def forward(self, obs: TensorDict, **how: bool) -> Tensor:
        group = self._route
        numbers = (group(obs) if callable(group) else obs[group].reshape(len(obs), -1)[:, 0]).long()
        if not bool(((numbers >= 0) & (numbers < len(self.models))).all()):
            raise UserError(f"route: teacher numbers are 0 to {len(self.models) - 1}; one is another number.")
        answers = [model(obs, **how) for model in self.models]
        if how.get("stochastic_output"):
            every = [model.output_distribution_params for model in self.models]
            self._mean = _pick(numbers, [model.output_mean for model in self.models])
            self._params = tuple(_pick(numbers, list(params)) for params in zip(*every, strict=True))
        return _pick(numbers, answers)

    @property
    def output_distribution_params(self) -> tuple[Tensor, ...]:
        return self._params

    @property
    def output_mean(self) -> Tensor:
        return self._mean

    def reset(
        self, dones: Tensor | None = None, hidden_state: Tensor | tuple[Tensor, ...] | None = None
    ) -> None: ...

    def get_hidden_state(self) -> None: ...

    def detach_hidden_state(self, dones: Tensor | None = None) -> None: ...


def _pick(numbers: Tensor, options: list[Tensor]) -> Tensor:
    """Row i of options[numbers[i]]."""
    stacked = torch.stack([torch.broadcast_to(option, options[0].shape) for option in options])
    return stacked[numbers, torch.arange(len(numbers), device=numbers.device)]


class Distillation(algorithms.Distillation):  # pyright: ignore[reportGeneralTypeIssues] # not this file
    """rsl_rl's distillation with a memory, a mixture of who acts, several teachers and a ledger.

    An update takes as many gradient steps as rsl_rl's would, num_learning_epochs × num_steps_per_env /
    gradient_length, each on as many states (num_envs × gradient_length), or on `batch_size` of them. The
    loss in the ledger is that of the student on the states of the rollout, before it learns from them.

    Args:
      memory: which labelled states are kept: "all", "window:ROLLOUTS" or "reservoir:STATES".
      beta: how likely the teacher acts, of each environment and step: a number, "linear:UPDATES" or
        "exponential:RATE", as of `understudy.imitate`.
      batch_size: states of a gradient step.
      ledger: the CSV file that is written after every update; None: it is kept in `ledger` alone.
      seed: of minibatches, the reservoir and the mixture.
      settings: all others are rsl_rl's own.

    With ``algorithm.stagger: true`` environments begin with episodes of different ages, so that a rollout
    shows all phases of an episode. With ``algorithm.route`` and a mapping ``teachers`` in place of
    ``teacher``, each environment has the teacher that its observation names:

        teachers: {walk: {class_name: MLPModel, checkpoint: walk.pt, …}, run: {…}}
        algorithm: {route: "task"}      # or a function, "module:function"
    """

    def __init__(
        self,
        student: nn.Module,
        teacher: nn.Module,
        storage: RolloutStorage,
        *,
        memory: str = "reservoir:1000000",
        beta: float | str = 0.0,
        loss_type: str = "mse",
        batch_size: int | None = None,
        ledger: str | None = None,
        seed: int = 0,
        **settings: Any,
    ):
        check_name("loss_type", loss_type, LOSSES)
        for name, value in (("batch_size", batch_size), ("seed", seed)):
            if value is not None:
                check_int(name, value, least=0 if name == "seed" else 1)
        with warnings.catch_warnings():  # of steps that its loop over the rollout would leave out
            warnings.simplefilter("ignore")
            super().__init__(
                student, teacher, storage, loss_type="mse" if loss_type == "kl" else loss_type, **settings
            )
        self._kl = loss_type == "kl"
        if self._kl and (student.distribution is None or getattr(teacher, "distribution", 0) is None):
            raise UserError("loss_type: 'kl' needs a student and a teacher with a distribution_cfg.")
        steps, envs = storage.num_transitions_per_env, storage.num_envs
        self._remembers = bool(student.is_recurrent)
        self._generator = torch.Generator().manual_seed(int(seed))
        self.memory = Memory(memory, length=steps if self._remembers else 1, generator=self._generator)
        self._mixing = mixing(beta, first_round="agent")
        self._batch = batch_size or envs * self.gradient_length
        self._updates = max(1, self.num_learning_epochs * steps // self.gradient_length)
        self._path, self.rows = ledger, []
        self._params: list[tuple[Tensor, ...]] = []
        self._begun: tuple[Tensor, ...] = ()
        self._driven = self._ended = 0.0
        self._loss, self._labels = 0.0, 0

    @property
    def ledger(self) -> Ledger:
        """One row an update."""
        names = list(self.rows[0]) if self.rows else ["round"]
        return Ledger({name: [row[name] for row in self.rows] for name in names})

    # ------------------------------------------------------------------------------------ a rollout

    def act(self, obs: TensorDict) -> Tensor:
        """The student's actions, or the teacher's where β says so; the teacher's labels of these states."""
        if not self.storage.step:
            self._begun = _flat_state(self.student.get_hidden_state())
        played = self.student(obs, stochastic_output=True).detach()
        labels = self.teacher(obs, **({"stochastic_output": True} if self._kl else {})).detach()
        if self._kl:
            self._params.append(tuple(part.detach() for part in self.teacher.output_distribution_params))
            labels = self.teacher.output_mean.detach()
        mean = played if self.student.distribution is None else self.student.output_mean.detach()
        self._loss += float(self._divergence(mean, labels, self._params[-1] if self._kl else ()))
        driven = torch.rand(len(played), generator=self._generator) < self._mixing.beta(self.num_updates + 1)
        self._driven += float(driven.float().mean())
        actions = torch.where(driven.to(played.device)[:, None], labels, played)
        self.transition.actions, self.transition.privileged_actions = actions, labels
        self.transition.observations = obs
        return actions

    def process_env_step(
        self, obs: TensorDict, rewards: Tensor, dones: Tensor, extras: dict[str, Tensor]
    ) -> None:
        """Records one step of all environments."""
        self._ended += float(dones.float().sum())
        super().process_env_step(obs, rewards, dones, extras)

    # ------------------------------------------------------------------------------------- learning

    def update(self) -> dict[str, float]:
        """Adds the rollout to the memory, fits minibatches of it, and writes the row of the ledger."""
        steps = self.storage.num_transitions_per_env
        self._remember()
        self.num_updates += 1
        hidden, fitted = self.student.get_hidden_state(), 0.0
        for _ in range(self._updates):
            fitted += self._descend(self.memory.draw(max(self._batch // self.memory._length, 1)))
        self.student.reset(hidden_state=hidden)  # the episodes under way go on
        self.student.detach_hidden_state()
        self.student.update_normalization(self.storage.observations.flatten(0, 1))
        self.storage.clear()
        on_policy = self._loss / steps
        self._enter(on_policy, steps)
        self._loss = self._driven = self._ended = 0.0
        return {
            "behavior": fitted / self._updates,
            "on_policy": on_policy,
            "average": self.rows[-1]["average_loss"],
        }

    def _remember(self) -> None:
        """Moves the rollout into the memory: as sequences of one environment, or state by state."""
        storage = self.storage
        columns: dict[str, Tensor] = {OBSERVED + name: value for name, value in storage.observations.items()}
        columns |= {ACTION: storage.privileged_actions}
        for k in range(len(self._params[0]) if self._params else 0):
            columns[f"{ACTION}.{k}"] = torch.stack([params[k].clone() for params in self._params])
        if self._remembers:
            columns["done"] = storage.dones
            for k, part in enumerate(self._begun):  # (layers, envs, width), once a sequence
                columns[f"{STATE}{k}"] = part.transpose(0, 1)[None]
            if not self._begun:
                columns |= self._blank_state()
        else:
            columns = {name: value.flatten(0, 1)[None] for name, value in columns.items()}
        self._params = []
        self._labels += storage.num_transitions_per_env * storage.num_envs
        self.memory.add(columns)

    def _blank_state(self) -> dict[str, Tensor]:
        """The hidden state of students that have not seen anything yet."""
        core = self._raw_student.rnn.rnn
        shape = 1, self.storage.num_envs, core.num_layers, core.hidden_size
        parts = 2 if isinstance(core, nn.LSTM) else 1
        return {f"{STATE}{k}": torch.zeros(shape, device=self.device) for k in range(parts)}

    def _descend(self, batch: dict[str, Tensor]) -> float:
        """One gradient step; through time in pieces of `gradient_length` for students with memory."""
        length = len(batch[ACTION])
        observed = {name.removeprefix(OBSERVED): v for name, v in batch.items() if name.startswith(OBSERVED)}
        states = TensorDict(observed, batch_size=batch[ACTION].shape[:2], device=self.device)
        if self._remembers:
            parts = [batch[f"{STATE}{k}"][0].transpose(0, 1).contiguous() for k in range(_parts(batch))]
            self.student.reset(hidden_state=parts[0] if len(parts) == 1 else tuple(parts))
        total = 0.0
        for first in range(0, length, self.gradient_length):
            piece = range(first, min(first + self.gradient_length, length))
            loss: Any = 0.0
            with torch.amp.autocast(
                torch.device(self.device).type, enabled=self.use_mixed_precision, dtype=torch.bfloat16
            ):
                for t in piece:
                    params = tuple(batch[f"{ACTION}.{k}"][t] for k in range(2) if f"{ACTION}.{k}" in batch)
                    answer = self.student(states[t], **({"stochastic_output": True} if self._kl else {}))
                    loss = loss + self._divergence(answer, batch[ACTION][t], params)
                    if self._remembers:
                        self.student.reset(batch["done"][t].view(-1))
            self._step(loss / len(piece))
            total += float(loss.detach()) / length
        return total

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        if self.is_multi_gpu:
            self.reduce_parameters()
        if self.max_grad_norm:
            nn.utils.clip_grad_norm_(self.student.parameters(), self.max_grad_norm)
        self.optimizer.step()
        self.student.detach_hidden_state()

    def _divergence(self, answer: Tensor, labels: Tensor, params: tuple[Tensor, ...]) -> Tensor:
        """The mean loss of the student's answers, or of its distribution, which they were drawn from."""
        if not self._kl:
            return self.loss_fn(answer, labels)
        return self.student.get_kl_divergence(params, self.student.output_distribution_params).mean()

    def _enter(self, loss: float, steps: int) -> None:
        """The row of the ledger."""
        before = self.rows[-1]["cumulative_loss"] if self.rows else 0.0
        self.rows.append(
            {
                "round": self.num_updates,
                "labels": self._labels,
                "kept": self.memory.states,
                "loss": loss,
                "cumulative_loss": before + loss,
                "average_loss": (before + loss) / self.num_updates,
                "beta": self._mixing.beta(self.num_updates),
                "by_expert": self._driven / steps,
                "episodes": int(self._ended),
            }
        )
        if self._path is not None and not (self.is_multi_gpu and self.gpu_global_rank):
            self.ledger.to_csv(self._path)

    # ---------------------------------------------------------------------------------- checkpoints

    def save(self) -> dict[str, Any]:
        """rsl_rl's checkpoint, with the memory and the ledger beside the models."""
        ours = {"memory": self.memory.state_dict(), "rows": self.rows, "labels": self._labels}
        return super().save() | {"understudy": ours}

    def load(self, loaded_dict: dict[str, Any], load_cfg: dict[str, Any] | None, strict: bool) -> bool:
        """Models as rsl_rl loads them; of a checkpoint of this class also the memory and the ledger."""
        resumes = super().load(loaded_dict, load_cfg, strict)
        ours = loaded_dict.get("understudy")
        if ours is not None and (load_cfg is None or load_cfg.get("student")):
            self.memory.load_state_dict(ours["memory"])
            self.rows, self._labels = list(ours["rows"]), int(ours["labels"])
            self.num_updates = len(self.rows)
        return resumes

    @staticmethod
    def construct_algorithm(obs: TensorDict, env: VecEnv, cfg: dict[str, Any], device: str) -> Distillation:
        """The algorithm of a runner's config; reads `stagger`, `teachers` and `route` and leaves the rest to
        rsl_rl.
        """
        stagger, route = cfg["algorithm"].pop("stagger", False), cfg["algorithm"].pop("route", None)
        teachers = cfg.pop("teachers", None)
        if (teachers is None) != (route is None):
            raise UserError("teachers: several of them need algorithm.route, and a route needs several.")
        models: dict[str, nn.Module] = {}
        if teachers is not None:
            if not teachers:
                raise UserError("teachers: the mapping is empty; name at least one.")
            groups = cfg["obs_groups"] = resolve_obs_groups(obs, cfg["obs_groups"], ["student", "teacher"])
            for name, about in teachers.items():
                about = dict(about)
                path = about.pop("checkpoint", None)
                kind, rest = resolve_class(about)
                models[name] = kind(obs, groups, "teacher", env.num_actions, **rest).to(device)
                if path is not None:
                    models[name].load_state_dict(_actor(path, device))
            cfg["teacher"] = teachers[next(iter(teachers))] | {"checkpoint": None}
            cfg["teacher"].pop("checkpoint")
        built = algorithms.Distillation.construct_algorithm(obs, env, cfg, device)
        if models:
            chosen = resolve_callable(route) if isinstance(route, str) and ":" in route else route
            if isinstance(chosen, str):
                check_name("route: a group of observations", chosen, list(obs.keys()))
            built.teacher = built._raw_teacher = Teachers(models, chosen).to(device)
            built.teacher_loaded = True
        if stagger:
            ages = torch.rand(env.num_envs, generator=built._generator) * float(_longest(env))
            env.episode_length_buf = ages.to(env.episode_length_buf)
        return built


def _actor(path: str, device: str) -> dict[str, Tensor]:
    """The state of the acting network in a checkpoint, which may hold tensors and numbers only."""
    try:
        kept = torch.load(path, weights_only=True, map_location=device)
    except FileNotFoundError:
        raise UserError(f"checkpoint: there is no file {path!r}.") from None
    for name in ("actor_state_dict", "student_state_dict", "teacher_state_dict"):
        if name in kept:
            return kept[name]
    raise UserError(
        f"checkpoint: {path!r} has no actor_state_dict, student_state_dict or teacher_state_dict."
    )


def _longest(env: VecEnv) -> float:
    most = env.max_episode_length
    length = float(most.max()) if isinstance(most, Tensor) else float(most)
    if not (math.isfinite(length) and length > 0):
        raise UserError(
            f"stagger: the environment's max_episode_length is {length!r}, not a number of steps."
        )
    return length


def _flat_state(state: Tensor | tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
    """The parts of a hidden state, (layers, n, width) each; none where there is none yet."""
    if state is None:
        return ()
    parts = state if isinstance(state, tuple) else (state,)
    return tuple(part.detach().clone() for part in parts)


def _parts(batch: Mapping[str, Tensor]) -> int:
    return sum(name.startswith(STATE) for name in batch)
