"""What a student is made of: its game, what it sees and plays, and what it starts with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, final

import jax

from . import experts, threefry
from .automatic import Automatic
from .choose import choose
from .envs.gymnasium import derive
from .errors import UserError
from .experts import Expert, networks
from .experts.answers import mode
from .experts.networks import start
from .machine import memory
from .making import make_game, remembering
from .online import Game
from .policies import Actions, Encoded, Normaliser, Observations, Params, Policy, Recalled, Seen
from .policies.sight import Sight
from .samples import Round, checksum, count, recorded
from .spec import FIELDS, WORLD, RunSpec, describe, stated


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Spaces:
    """What there is to see and to play, and who knows what to play there.

    sight: what the policy sees; None: all of it. env: the environment's name, for the record.
    """

    observation_space: Any
    action_space: Any
    expert: Expert
    sight: Sight | None = None
    env: str = ""

    @property
    def shown(self) -> Any:
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

    kind: of the expert's labels, "action" or "distribution". standardise: whether by the first round's
    statistics; members: networks of the ensemble that is evaluated and kept; ordinary: where labels weigh
    alike, how many of them weigh as much as a round otherwise does. settings: for the record.
    """

    kind: str
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
    def label_shape(self) -> tuple[int, ...]:
        """The shape of one of the expert's answers."""
        return (self.actions.outputs,) if self.kind == "distribution" else self.actions.shape

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


def parts(world: Spaces, spec: RunSpec) -> Parts:
    """The parts of a student for these spaces and this expert."""
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
    teacher = taught(world.expert, spec)
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
        "card_return": _card_return(teacher.card, world.env),
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
    settings = spec.plain() | {"env": world.env, "name": spec.name, "resolved": resolved}
    return Parts(
        kind=teacher.kind,
        observations=seen,
        actions=actions,
        game=game,
        params=params,
        automatic=chosen.automatic,
        normaliser=normaliser,
        noise=noise,
        settings=settings,
        spec=spec,
        demos=demos,
        standardise=standardise,
        members=chosen.members,
        ordinary=ordinary if chosen.weigh == "labels" else None,
    )


def taught(expert: Expert, spec: RunSpec) -> Expert:
    """Whose labels are learnt: the expert's, or the most likely action of one that answers with
    distributions.
    """
    return mode(expert) if spec.labels == "mode" else expert


def nobody(action_space: Any, kind: str = "action") -> Expert:
    """What stands for the expert of a student that is given its labels."""

    def ask(observations: Any, infos: Any) -> Any:
        raise UserError("expert: there is none to ask; name one.")

    return Expert("none", ask=ask, kind=kind, action_space=action_space, workers=1)  # type: ignore[arg-type]


def parts_of(observation_space: Any, action_space: Any, kind: str, settings: Mapping[str, Any]) -> Parts:
    """The parts of a student that somebody else's loop asks and teaches."""
    foreign = [name for name in settings if name in WORLD or name not in FIELDS]
    if foreign:
        raise UserError(f"{foreign[0]}: an Understudy has no such setting; it has no environment, no expert.")
    spec = RunSpec.of({"env": "own loop"} | stated(settings))
    return parts(
        Spaces(
            observation_space=observation_space,
            action_space=action_space,
            expert=nobody(action_space, kind),
            env="own loop",
        ),
        spec,
    )


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
