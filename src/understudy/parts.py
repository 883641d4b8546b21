"""What a student is made of: its game, what it sees and plays, and what it starts with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeGuard, final

import jax
import numpy as np

from . import experts, threefry
from .defaults import Resolved, Timetable, resolve
from .envs.gymnasium import derive
from .errors import UserError
from .experts import Expert, networks
from .experts.answers import mode
from .experts.networks import start
from .losses import check_loss
from .machine import total_memory
from .online import Game, make_game, with_memory
from .policies import Actions, Encoded, Guest, Job, Normaliser, Observations, Params, Recalled, Seen
from .policies.base import first_params
from .policies.sight import Sight
from .samples import Round, checksum, count, recorded
from .solvers import SOLVERS
from .spec import FIELDS, WORLD, RunSpec, describe, is_mapping, refuse_old_name, stated

if TYPE_CHECKING:
    from .disk import Json
    from .experts import Infos, Kind, Nested, Space
    from .policies import Policy
    from .spec import Setting


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Spaces:
    """What there is to see and to play, and who knows what to play there.

    sight: what the policy sees; None: all of it. env: the environment's name, for the record.
    """

    observation_space: Space
    action_space: Space
    expert: Expert
    sight: Sight | None = None
    env: str = ""

    @property
    def shown(self) -> Space:
        """The space of what the policy sees."""
        return self.observation_space if self.sight is None else self.sight.space(self.observation_space)

    def observations(self, *, tabular: bool = False) -> Observations:
        """How an observation becomes the policy's row."""
        if self.sight is None:
            return Observations.of(self.observation_space, tabular=tabular)
        return self.sight.observations(self.observation_space, tabular=tabular)


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """A student that has not begun: everything but its samples.

    expert: gives the labels, as it answers or reduced to its most likely action. kind: "action" or
    "distribution". label_shape: of one label. resolved: every decision. settings: as plain data, for
    config.json. total: samples of the whole run, demonstrations included. room: the most labelled samples
    (with a memory: sequences) of one round, and of the run.
    """

    expert: Expert
    kind: str
    label_shape: tuple[int, ...]
    observations: Seen
    actions: Actions
    game: Game
    params: Params
    normaliser: Normaliser
    settings: dict[str, Json]
    spec: RunSpec
    resolved: Resolved
    demos: Round | None
    total: int
    room: tuple[int, int]


def make_parts(world: Spaces, spec: RunSpec, before: Mapping[str, Setting] | None = None) -> Parts:
    """The parts of a student for these spaces and this expert; `before`: what a run was begun with (see
    `defaults.resolve`).
    """
    shown, actions = world.shown, Actions.of(world.action_space)
    resolved = resolve(spec, shown, actions, world.expert, before)
    architecture, encoder = resolved.policy, resolved.encoder
    seen: Seen = world.observations(tabular=architecture.name == "tabular")
    if encoder is not None:
        seen = Encoded(
            seen, networks.require_encoder(world.expert if encoder == "auto" else experts.resolve(encoder))
        )
    if resolved.frame_stack is not None:
        seen = Recalled(seen, resolved.frame_stack, mark=architecture.memory > 0)
    plan, teacher = resolved.plan, expert_to_learn_from(world.expert, spec)
    demos = None if spec.demos is None else recorded(spec.demos, seen, actions, spec.memory_limit)
    recorded_samples = 0 if demos is None else len(demos)
    room = _room(plan, architecture, recorded_samples)
    card_return = _card_return(teacher.card, world.env)
    _fits_memory(max(plan.sizes, default=0), seen.width * seen.dtype.itemsize + 4 * actions.outputs)
    check_loss(resolved.loss, actions.outputs)
    key = threefry.key(derive(spec.seed, "params"))
    with jax.enable_x64(architecture.linear):
        rows = seen.dtype if seen.dtype == np.uint8 else float
        if isinstance(architecture, Guest):
            job = Job(
                features=seen.width,
                outputs=actions.outputs,
                loss=resolved.loss,
                solver=SOLVERS.make(str(resolved.solver), resolved.solver_options),
                seed=derive(spec.seed, "params"),
            )
            architecture = architecture.begun(job, np.zeros((2, seen.width), seen.dtype))
        params = first_params(architecture, key, seen.width, actions.outputs, rows=rows)
        normaliser = Normaliser.identity(seen.width)
        if spec.init is not None:
            spaces = {"observation_space": world.observation_space, "action_space": world.action_space}
            params, normaliser = start(spec.init, architecture, params, seen, actions.outputs, **spaces)
        learner = resolved.learner
        if spec.memory != "all":
            learner = with_memory(spec.memory, learner, resolved.loss)
        game = make_game(
            architecture, resolved.loss, learner, resolved.solver, params, **resolved.solver_options
        )
    record: dict[str, Json] = resolved.record()
    settings: dict[str, Json] = spec.plain()
    settings |= {"env": world.env, "name": spec.name}
    record |= {
        "expert": teacher.name,
        "card_return": card_return,
        "learner": describe(game.learner),
        "solver": architecture.host.way if isinstance(architecture, Guest) else describe(game.solver),
        "encoder": getattr(getattr(seen, "encoder", None), "name", None),
        "demos": None if demos is None else {"samples": len(demos), "crc": checksum(demos)},
    }
    return Parts(
        expert=teacher,
        kind=teacher.kind,
        label_shape=(actions.outputs,) if teacher.kind == "distribution" else actions.shape,
        observations=seen,
        actions=actions,
        game=game,
        params=params,
        normaliser=normaliser,
        settings=settings | {"resolved": record},
        spec=spec,
        resolved=resolved,
        demos=demos,
        total=plan.total + recorded_samples,
        room=room,
    )


def expert_to_learn_from(expert: Expert, spec: RunSpec) -> Expert:
    """The expert whose labels are learnt: as it answers, or with its most likely action."""
    if spec.label_kind == "distribution" and expert.kind != "distribution":
        raise UserError(
            f"label_kind: the expert {expert.name!r} answers with actions, not with a distribution."
        )
    return mode(expert) if spec.label_kind == "action" else expert


class Remembering(Protocol):
    """What a policy with memory says of the sequences that it learns from."""

    @property
    def length(self) -> int:
        """Rows of a sequence that are learnt from."""
        ...

    @property
    def burn(self) -> int:
        """Rows before them that its memory is made of."""
        ...


def remembers(policy: Policy) -> TypeGuard[Remembering]:
    """Whether a policy has a memory."""
    return policy.memory > 0


def _room(plan: Timetable, policy: Policy, demos: int) -> tuple[int, int]:
    """The most samples with a label, or sequences of a policy with memory, of a round and of the run."""
    most = [most for _, most in plan.rounds]
    if remembers(policy):
        counts = [count(size, plan.num_envs, policy.length) for size in plan.sizes if size]
        if demos:
            counts.append(count(demos, 1, policy.length))
        return max(counts), sum(counts)
    return max(demos, *most), demos + min(sum(most), plan.budget or sum(most))


def nobody(action_space: Space, kind: Kind = "action") -> Expert:
    """What stands for the expert of a student that is given its labels."""

    def ask(observations: Nested, infos: Infos) -> np.ndarray:
        raise UserError("expert: there is none to ask; name one.")

    return Expert("none", ask=ask, kind=kind, action_space=action_space, workers=1)


def parts_of(
    observation_space: Space, action_space: Space, kind: Kind, settings: Mapping[str, Setting]
) -> Parts:
    """The parts of a student that somebody else's loop asks and teaches."""
    foreign = [name for name in settings if name in (*WORLD, "until", "return_limits") or name not in FIELDS]
    if foreign:
        refuse_old_name(foreign[0])
        raise UserError(f"{foreign[0]}: an Understudy has no such setting; it has no environment, no expert.")
    spec = RunSpec.of({"env": "own loop"} | stated(settings))
    return make_parts(
        Spaces(
            observation_space=observation_space,
            action_space=action_space,
            expert=nobody(action_space, kind),
            env="own loop",
        ),
        spec,
    )


def _card_return(card: Mapping[str, Setting], env: str) -> float | None:
    """The mean return in an environment that an expert's card states."""
    stated = card.get("returns")
    if is_mapping(stated):
        stated = stated.get(env, stated)
    mean = stated.get("mean") if is_mapping(stated) else None
    return float(mean) if isinstance(mean, int | float) else None


def _fits_memory(size: int, row: int) -> None:
    """Refuses a round of so many samples, of `row` bytes each, that this machine cannot hold."""
    # They are there as they were seen, padded, on the device, and once more while a solver works.
    needed, there = 4 * size * row, total_memory()
    if there is not None and needed > there:
        raise UserError(
            f"steps_per_round: a round of {size:,} takes {needed / 2**30:,.0f} GiB, and this machine "
            f"has {there / 2**30:,.0f}; give fewer."
        )
