"""From a spec to the parts of a run: the world it happens in, and its game."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax

from .. import experts, threefry
from ..defaults import Resolved, plan_of, resolve
from ..envs.gymnasium import Maker, derive, maker
from ..errors import UserError
from ..experts import networks
from ..experts.answers import mode
from ..experts.start import start
from ..machine import memory
from ..making import make_game, remembering
from ..online import Game
from ..policies import Actions, Encoded, Normaliser, Observations, Params, Recalled, Seen
from ..policies.sight import Sight, without_infos
from ..spec import RunSpec, describe
from .collected import Round
from .demos import checksum, recorded
from .sequences import count


@final
class World(NamedTuple):
    """Where runs happen: how to make the environment, its spaces, and the expert in it."""

    make: Maker
    observation_space: Any
    action_space: Any
    expert: Any
    sight: Sight | None = None
    """What the policy sees; None: all of it."""

    @property
    def shown(self) -> Any:
        """The space of what the policy sees."""
        return self.observation_space if self.sight is None else self.sight.space(self.observation_space)

    def observations(self, *, tabular: bool = False) -> Observations:
        """How an observation becomes the policy's row."""
        if self.sight is None:
            return Observations.of(self.observation_space, tabular=tabular)
        return self.sight.observations(self.observation_space, tabular=tabular)

    @classmethod
    def made(cls, spec: RunSpec) -> World:
        """The world of a spec; an environment is made for it, and closed."""
        make = maker(spec.env, spec.env_kwargs, spec.student_infos)
        with contextlib.closing(make()) as env:
            return cls.of(make, env, spec)

    @classmethod
    def of(cls, make: Maker, spaces: Any, spec: RunSpec, *, probe: bool = True) -> World:
        """The world of `make`; `spaces` is an environment of it. A function whose kind of answer is not
        known is asked once about a made-up observation, but not without `probe`.
        """
        whole, acts, expert = spaces.observation_space, spaces.action_space, spec.expert
        seen, sees = whole, spec.student_sees
        sight = None if sees is None else Sight.of(sees, "student_sees")
        # What cannot be a row of numbers is refused before anyone is asked about it.
        _ = Observations.of(whole) if sight is None else sight.observations(whole)
        if spec.student_infos:
            seen = spaces.env.observation_space  # of the environment itself, without the infos beside it
        options = spec.options("expert")
        if spec.env_kwargs and (expert is None or (isinstance(expert, str) and expert in experts.names())):
            # Planners plan in the environment itself, so a shipped expert gets its keywords.
            options = {"env_kwargs": dict(spec.env_kwargs), **options}
        try:
            teacher = experts.resolve(
                expert,
                env_id=make.name if make.by_id else getattr(spaces, "serves", None),
                observation_space=seen if probe else None,
                action_space=acts,
                **options,
            )
        except UserError:
            if expert is not None or plan_of(spec).total:
                raise
            teacher = _nobody(acts)  # demonstrations alone need no expert
        if spec.workers is not None:
            count, processes = spec.workers
            if processes:
                from .processes import in_processes

                teacher = in_processes(teacher, spec, count)
            teacher = dataclasses.replace(teacher, workers=count)
        if spec.student_infos:
            ask, plain = teacher.ask, not isinstance(getattr(seen, "spaces", None), Mapping)
            teacher = dataclasses.replace(
                teacher,
                ask=lambda batch, infos: ask(without_infos(batch, plain), infos),
                observation_space=whole,
                pure=None,
            )
        return cls(make, whole, acts, teacher, sight)


@final
class Parts(NamedTuple):
    """A run that has not begun: everything but the environments and the samples."""

    expert: Any
    observations: Seen
    actions: Actions
    game: Game
    params: Params
    normaliser: Normaliser
    settings: dict[str, Any]
    resolved: Resolved
    demos: Round | None

    @property
    def spec(self) -> RunSpec:
        return self.resolved.spec

    @property
    def total(self) -> int:
        """Samples of the whole run, demonstrations among them."""
        return self.resolved.plan.total + (0 if self.demos is None else len(self.demos))

    def room(self) -> tuple[int, int]:
        """The most samples with a label, or sequences of a policy with memory, of a round and of the run."""
        plan, demos = self.resolved.plan, 0 if self.demos is None else len(self.demos)
        most, policy = [most for _, most in plan.rounds], self.game.policy
        if policy.memory:
            counts = [count(size, plan.envs, policy.length) for size in plan.sizes if size]  # type: ignore[attr-defined]
            counts += [count(demos, 1, policy.length)] if demos else []  # type: ignore[attr-defined]
            return max(counts), sum(counts)
        return max(demos, *most), demos + min(sum(most), plan.budget or sum(most))


def parts(world: World, spec: RunSpec, before: Mapping[str, Any] | None = None) -> Parts:
    """The parts of a run in `world`; `before`: what it was begun with (see `defaults.resolve`)."""
    actions = Actions.of(world.action_space)
    resolved = resolve(spec, world.shown, actions, world.expert, before)
    architecture, encoder = resolved.policy, resolved.encoder
    seen: Any = world.observations(tabular=architecture.name == "tabular")
    if encoder is not None:
        seen = Encoded(
            seen, networks.encoder(world.expert if encoder == "auto" else experts.resolve(encoder))
        )
    if resolved.stack is not None:
        seen = Recalled(seen, resolved.stack, mark=architecture.memory > 0)
    _fits_memory(max(resolved.plan.sizes, default=0), seen.width * seen.dtype.itemsize + 4 * actions.outputs)
    teacher = mode(world.expert) if spec.labels == "mode" else world.expert
    key = threefry.key(derive(spec.seed, "params"))
    with jax.enable_x64(architecture.linear):
        params = architecture.init(key, seen.width, actions.outputs)
        normaliser = Normaliser.identity(seen.width)
        if spec.init is not None:
            spaces = {"observation_space": world.observation_space, "action_space": world.action_space}
            params, normaliser = start(spec.init, architecture, params, seen, actions.outputs, **spaces)
        learner = remembering(spec.memory, resolved.learner, resolved.loss)
        game = make_game(
            architecture, resolved.loss, learner, resolved.solver, params, **resolved.solver_options
        )
    demos = None if spec.demos is None else recorded(spec.demos, seen, actions, world)
    record = resolved.record() | {
        "expert": teacher.name,
        "card_return": _card_return(teacher.card, world.make.name),
        "learner": describe(game.learner),
        "solver": describe(game.solver),
        "encoder": getattr(getattr(seen, "encoder", None), "name", None),
        "demos": demos and {"samples": len(demos), "crc": checksum(demos)},
    }
    settings = spec.plain() | {"env": world.make.name, "name": spec.name, "resolved": record}
    return Parts(teacher, seen, actions, game, params, normaliser, settings, resolved, demos)


def _nobody(action_space: Any) -> Any:
    """What stands for the expert of a run that asks none."""

    def ask(observations: Any, infos: Any) -> Any:
        raise UserError("expert: there is none to ask; name one.")

    return experts.Expert("none", ask=ask, action_space=action_space, workers=1)


def _card_return(card: Any, env: str) -> float | None:
    """The mean return in an environment that an expert's card states."""
    stated = card.get("returns")
    stated = stated.get(env, stated) if isinstance(stated, Mapping) else {}
    mean = stated.get("mean") if isinstance(stated, Mapping) else None
    return float(mean) if isinstance(mean, int | float) else None


def _fits_memory(size: int, row: int) -> None:
    """Refuses a round of so many samples, of `row` bytes each, that this machine cannot hold."""
    # They are there as they were seen, padded, on the device, and once more while a solver works.
    needed, there = 4 * size * row, memory()
    if there is not None and needed > there:
        raise UserError(
            f"interactions: a round of {size:,} takes {needed / 2**30:,.0f} GiB, and this machine "
            f"has {there / 2**30:,.0f}; give fewer."
        )
