"""From a spec to the parts of a run: the world it happens in, and its game."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax

from .. import experts, threefry
from ..envs.gymnasium import Maker, derive, maker
from ..errors import UserError
from ..experts import networks
from ..experts.answers import mode
from ..experts.start import start
from ..machine import memory
from ..making import make_game, remembering
from ..online import Game
from ..policies import Actions, Encoded, Normaliser, Observations, Params, Policy, Recalled, Seen
from ..policies.sight import Sight, without_infos
from ..spec import RunSpec, describe
from .automatic import Automatic
from .choose import choose
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
    def of(cls, make: Maker, spaces: Any, spec: RunSpec) -> World:
        """The world of `make`; `spaces` is an environment of it."""
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
                observation_space=seen,
                action_space=acts,
                **options,
            )
        except UserError:
            if expert is not None or spec.total:
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
    """A run that has not begun: everything but the environments and the samples.

    standardise: whether by the first round's statistics; members: networks of the committee that is evaluated
    and kept; ordinary: where labels weigh alike, how many of them weigh as much as a round otherwise does.
    """

    expert: Any
    observations: Seen
    actions: Actions
    game: Game
    params: Params
    automatic: Automatic | None
    normaliser: Normaliser
    noise: float
    settings: dict[str, Any]
    spec: RunSpec
    demos: Round | None
    standardise: bool
    members: int
    ordinary: int | None

    @property
    def envs(self) -> int:
        """Environments side by side: no more than an ordinary round has steps."""
        return min(self.spec.envs, self.spec.interactions)

    @property
    def total(self) -> int:
        """Samples of the whole run, demonstrations among them."""
        return self.spec.total + (0 if self.demos is None else len(self.demos))

    def room(self) -> tuple[int, int]:
        """The most samples with a label, or sequences of a policy with memory, of a round and of the run."""
        spec, demos = self.spec, 0 if self.demos is None else len(self.demos)
        most, policy = [most for _, most in spec.rounds_planned], self.game.policy
        if policy.memory:
            counts = [count(size, self.envs, policy.length) for size in spec.sizes if size]  # type: ignore[attr-defined]
            counts += [count(demos, 1, policy.length)] if demos else []  # type: ignore[attr-defined]
            return max(counts), sum(counts)
        return max(demos, *most), demos + min(sum(most), spec.budget or sum(most))

    @property
    def rule(self) -> Any:
        """The query rule; None where every state is asked about."""
        return None if self.spec.decided("ask") == "all" else self.spec.rule

    @property
    def limits(self) -> dict[str, Any]:
        """What one call of a slow expert may take."""
        seconds = math.inf if self.spec.expert_timeout is None else self.spec.expert_timeout
        return {"timeout": seconds, "retries": self.spec.expert_retries if self.spec.workers else 0}


def parts(world: World, spec: RunSpec) -> Parts:
    """The parts of a run in `world`."""
    actions = Actions.of(world.action_space)
    chosen = choose(spec, world.shown, actions, world.expert)
    architecture = chosen.policy
    if hasattr(spec.rule, "fits"):
        spec.rule.fits(architecture)
    seen = world.observations(tabular=architecture.name == "tabular")
    seen = _encoded(seen, architecture, world.expert, spec.encoder)
    if spec.stack is not None or architecture.memory:
        seen = Recalled(seen, spec.stack or 2, mark=architecture.memory > 0)
    _fits_memory(spec, seen.width * seen.dtype.itemsize + 4 * actions.outputs)
    teacher = mode(world.expert) if spec.labels == "mode" else world.expert
    if teacher.on_reset is not None:
        _in_order(spec)
    key = threefry.key(derive(spec.seed, "params"))
    with jax.enable_x64(architecture.linear):
        params = architecture.init(key, seen.width, actions.outputs)
        normaliser = Normaliser.identity(seen.width)
        if spec.init is not None:
            spaces = {"observation_space": world.observation_space, "action_space": world.action_space}
            params, normaliser = start(spec.init, architecture, params, seen, actions.outputs, **spaces)
        learner = remembering(spec.memory, chosen.learner, chosen.loss)
        game = make_game(architecture, chosen.loss, learner, chosen.solver, params, **chosen.options)
    demos = None if spec.demos is None else recorded(spec.demos, seen, actions, world)
    ordinary = min(spec.rule.count or spec.interactions, spec.interactions)
    standardise = spec.decided("standardise") and spec.init is None
    noise = spec.decided("noise")
    if spec.noise is None and noise and actions.categorical:
        noise = 1.0  # the temperature at which an agent samples from its policy
    resolved = {
        "expert": teacher.name,
        "card_return": _card_return(teacher.card, world.make.name),
        "learner": describe(game.learner),
        "automatic": chosen.automatic is not None,
        "policy": architecture.config(),
        "loss": describe(chosen.loss),
        "solver": describe(game.solver),
        "first_round": spec.decided("first_round"),
        "noise": noise,
        "standardise": standardise,
        "ask": describe(spec.decided("ask")),
        "weigh": chosen.weigh,
        "average": spec.decided("average"),
        "members": chosen.members,
        "encoder": getattr(getattr(seen, "encoder", None), "name", None),
        "demos": demos and {"samples": len(demos), "crc": checksum(demos)},
    }
    settings = spec.plain() | {"env": world.make.name, "name": spec.name, "resolved": resolved}
    return Parts(
        teacher,
        seen,
        actions,
        game,
        params,
        chosen.automatic,
        normaliser,
        noise,
        settings,
        spec,
        demos,
        standardise,
        chosen.members,
        ordinary if chosen.weigh == "labels" else None,
    )


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


def _in_order(spec: RunSpec) -> None:
    """Refuses settings with which an expert that remembers would not be asked state after state."""
    for name, value, accepted in (
        ("envs", spec.envs, 1),
        ("ask", spec.decided("ask"), "all"),
        ("expert_workers", spec.workers, None),
    ):
        if value != accepted:
            raise UserError(
                f"{name}: an expert with on_reset remembers, so it is asked state after state in one "
                f"environment; {value!r} is not accepted, {accepted!r} is."
            )


def _fits_memory(spec: RunSpec, row: int) -> None:
    """Refuses a round whose samples, of `row` bytes each, this machine cannot hold."""
    # They are there as they were seen, padded, on the device, and once more while a solver works.
    needed, there = 4 * max(spec.sizes, default=0) * row, memory()
    if there is not None and needed > there:
        raise UserError(
            f"interactions: a round of {max(spec.sizes):,} takes {needed / 2**30:,.0f} GiB, and this machine "
            f"has {there / 2**30:,.0f}; give fewer."
        )


def _encoded(seen: Observations, policy: Policy, teacher: Any, encoder: Any) -> Any:
    """For a linear policy on images: what a frozen network, the expert's own by default, makes of them."""
    image = sum(leaf.kind == "byte" and len(leaf.shape) == 3 for leaf in seen.leaves) == 1
    own = networks.sees(teacher) is not None
    if encoder == "none" or (encoder == "auto" and not (policy.name == "linear" and image and own)):
        return seen
    if not image or policy.name != "linear":
        raise UserError(f"encoder: {encoder!r} is for a linear policy on images; this one is {policy.name}.")
    return Encoded(seen, networks.encoder(teacher if encoder == "auto" else experts.resolve(encoder)))
