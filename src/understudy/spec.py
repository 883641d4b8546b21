"""What was said of a run: its settings with their types, limits, defaults and help, each in its one spelling.

Nothing is decided here: None, "auto" and a preset stay as they were said, and `defaults` says what they mean.
`imitate` builds a `RunSpec` from keywords, the command line from options, a study from the points of a grid,
a worker process from JSON; ``--config`` reads it from TOML and config.json keeps it. Importing this file is
cheap: the registries of learners, losses, policies and solvers are imported when a spec is made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, TypeVar, final

from . import disk
from .errors import UserError, check_int, unknown

if TYPE_CHECKING:  # importing this file is cheap
    import gymnasium
    import numpy as np

    from .asking import Rule
    from .disk import Json
    from .envs.pure import PureEnv
    from .experts import Source
    from .learners import AnyLearner
    from .losses import Loss
    from .policies import Policy
    from .policies.sight import Sight
    from .registry import Registry
    from .solvers import AnySolver

    Said: TypeAlias = bool | int | float | str | Sequence["Setting"] | Mapping[str, "Setting"] | None
    Made: TypeAlias = "Environment" | Source | AnyLearner | Policy | Loss | AnySolver | Rule
    Setting: TypeAlias = Said | Made | np.generic | np.ndarray
    """What may be said of a setting: plain data, or what stands in place of a name."""

Environment: TypeAlias = "str | Callable[..., Any] | gymnasium.Env[Any, Any] | PureEnv"
"""An id, a function that makes an environment, or an environment."""
T = TypeVar("T")

Experts: TypeAlias = "Mapping[str, Any] | Sequence[tuple[str, Any]]"
"""Names, and what makes experts of them, in an order."""

PARTS = ("learner", "policy", "loss", "solver", "ask", "expert")
"""Parts that a run has by name or as an object, each with options."""


def _of(part: str, default: bool | None = None) -> Any:
    """A field that is an option of a part."""
    return dataclasses.field(default=default, metadata={"of": part})


def _least(default: T, least: float, most: float = math.inf) -> T:
    """A number from `least` to `most`."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most})


def _among(default: T, *accepted: str) -> T:
    return dataclasses.field(default=default, metadata={"among": accepted})


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """The fields of `RunSpec`. None and auto stand for what `defaults` decides."""

    env: Environment | None = None
    """A Gymnasium id such as Hopper-v5, module:Id to import a package first, or module:function."""
    expert: Source = None
    """A shipped expert's name (default: the one for the environment), a .zip archive, a .safetensors file,
    org/repo on the hub, module:function, or person: you, on a page (person:page) or in a terminal
    (person:terminal). ray: before a name asks it on a Ray cluster, with expert_workers actors."""
    experts: Experts | None = None
    """Several experts in place of one, by name: a table, or as JSON '{"walk": "walk.zip", "run": "run.zip"}'.
    Each may be a table of its own, with expert, expert_sees and other options of an expert."""
    route: Any = None
    """Which of the experts labels a state: a key or slice of the observation or an entry of the info, as in
    task, [4:5] or info:task, or module:function. It gives a name, or a number from 0 in the order of the
    experts."""
    expert_sees: str | None = _of("expert")
    """What the expert is asked about, where it is not the whole observation: keys, slices and entries of the
    info, as in joints,camera[0:3],info:target (a dict of these) or joints+info:target (one vector)."""
    student_sees: str | None = None
    """What the policy sees, written in the same way; the rest is hidden from it."""
    frame_stack: int | None = _least(None, 1, 10_000)
    """The policy sees the last so many observations of the episode: the last one and the changes before it
    (gru: 2 where nothing is said)."""
    expert_card: str | None = _of("expert")
    """A JSON file that says what an expert's .safetensors file does not: its architecture and spaces."""
    activation: str | None = _of("expert")
    """Activation of an archive's network, where the archive does not say."""
    vec_normalize: str | None = _of("expert")
    """VecNormalize statistics that go with an archive."""
    revision: str | None = _of("expert")
    """Which revision of a hub's repository."""
    expert_workers: int | str | None = None
    """Questions under way at once, for an expert that is slow or expensive: a number (threads), processes:N,
    or ray:N (actors on a Ray cluster). Such an expert is asked about a state once, after the round, and is
    not played for its return."""
    expert_timeout: float | None = _least(None, 0.0)
    """Seconds after which a slow expert's answer is given up (default: none)."""
    expert_retries: int = _least(2, 0)
    """How often a slow expert is asked again where it fails; then the state stays without a label."""
    learner: str | AnyLearner = "ftl"
    """ftl (DAgger), adaftrl, ftrl, alt_ftrl, ogd, adagrad, bc (the expert drives), or module:function."""
    eta: float | None = _of("learner")
    """Step size η of ftrl, alt_ftrl and ogd."""
    alpha: float | None = _of("learner")
    """Scale α of adaftrl and adagrad."""
    schedule: str | None = _of("learner")
    """How η moves with the rounds: sqrt (η/√t), constant or adaptive."""
    start: int | None = _of("learner")
    """First round that the schedule counts."""
    radius: float | None = _of("learner")
    """Keep the parameters in the L2 ball of this radius."""
    diagonal: bool = _of("learner", False)
    """AdaGrad per coordinate instead of by the norm."""
    policy: str | Policy = "auto"
    """auto (mlp; camera for an image with numbers beside it; linear on the expert's features of images), mlp,
    gru (remembers the episode), linear, tabular, nature_cnn, camera, or module:function."""
    widths: tuple[int, ...] | None = _of("policy")
    """Widths of the network's hidden layers (256 256)."""
    init: Source = None
    """Start from the parameters of a shipped expert, a policy's file, a run's folder or an archive."""
    encoder: Source = "auto"
    """Whose features a linear policy on images has: auto (the expert's), none (the pixels), or another's
    name or file."""
    label_kind: str = _among("auto", "auto", "action", "distribution")
    """What is learned: auto (as the expert answers), action (its most likely one) or distribution (of an
    expert that answers with one)."""
    loss: str | Loss = "auto"
    """auto (squared for Box actions, huber for networks with a budget of labels, else cross-entropy),
    squared, absolute, huber, cross-entropy, binary-cross-entropy, or module:function."""
    solver: str | AnySolver = "auto"
    """auto, closed-form, newton, lbfgs, gd, adam, sls, proximal-sgd, interior-point, or module:function."""
    learning_rate: float | None = _of("solver")
    """First step size of adam or proximal-sgd."""
    max_iterations: int | None = _of("solver")
    """Steps of the solver in a round."""
    batch_size: int | None = _of("solver")
    """Samples (gru: sequences) per step of a solver that can take minibatches."""
    weight_decay: float | None = _of("solver")
    """Adam also shrinks the parameters by this times the step size in every step."""
    lasso: float | None = _of("solver")
    """Adam also shortens the weights of each input of a network by this times the step size in every step, so
    that inputs that say little drop out."""
    tolerance: float | None = _of("solver")
    """The solver stops at this gradient norm of (whole objective)/t."""
    preset: str = _among("practical", "practical", "paper")
    """practical (round 1 expert-driven, standardised observations, squashed head) or paper."""
    rounds: int | None = _least(None, 0, 1_000_000)
    """Rounds (default: 25, or with a budget as many as that takes); 0 learns from demonstrations alone."""
    demos: str | None = None
    """Recorded demonstrations, as a first round that costs nothing: an .npz with observations and actions,
    minari:ID, lerobot:FOLDER, or the folder of another run."""
    steps_per_round: int | None = _least(None, 1, 1_000_000_000)
    """Environment steps in a round (default: 1000; in a pure environment 50 for each of `num_envs`, if that
    is more)."""
    first_steps: int | None = _least(None, 1, 1_000_000_000)
    """Environment steps in round 1, where they are not as many."""
    num_envs: int = _least(1, 1, 100_000)
    """Environments side by side."""
    stagger: bool | None = None
    """Whether pure environments side by side begin at different ages, so that a round shows all phases of an
    episode (default: yes, but in the preset paper)."""
    budget: int | None = _least(None, 1)
    """Stop after so many labels; the last round asks for what is left. With `until`, the most labels that it
    may take (5000)."""
    until: float | str | None = None
    """Train until the policy is proved to be this good: 0.95 (that share of the expert's return),
    agreement:0.98 (the expert's action in that share of its own states) or loss:0.05 (its loss there). The
    run ends with the statement, or with how far it came. Labels of the test count."""
    return_limits: tuple[float, ...] | None = None
    """The least and the largest return that an episode can have, where you know them: then what `until` says
    of returns is exact, else approximate. Some environments have known ones."""
    ask: str | Rule | None = None
    """Which states of a round the expert is asked about: all (the default, but with a budget and without
    rounds the preset practical spreads it), random:K, fraction:P, distance:K, radius:R,
    disagreement:K, leverage:C (linear policies), or module:function. A state where the expert acts is asked
    about whatever the rule."""
    random_share: float | None = _of("ask")
    """Share of a round's labels that is asked at random beside those that the rule chooses."""
    weigh: str | None = _among(None, "rounds", "labels")
    """What weighs alike in the sum of losses: rounds, each with the mean over its labels (the default), or
    labels, so that a round with five times as many weighs five times as much (networks only; the default with
    a budget)."""
    moment: str = _among("after", "after", "spot")
    """When the rule is asked: after the round, or on the spot: the expert takes over where the rule's score
    is above its threshold (disagreement:0.05, distance:0.05) until it is safe again, and labels what it
    drives."""
    beta: float | str = 0.0
    """Probability that the expert acts: a number, linear:ROUNDS or exponential:RATE."""
    first_round: str | None = _among(None, "expert", "agent")
    """Who acts in round 1: expert or agent."""
    noise: float | None = _least(None, 0.0)
    """What the agent adds while collecting: normal noise of this deviation (Box), or, for choices, the
    temperature at which it samples from its policy: 0 plays the mode, 1 samples. The preset paper has 0.1
    and 1."""
    standardise: bool | None = None
    """Standardise observations by the first round's statistics: yes or no."""
    squash: bool | None = None
    """A tanh head stretched to the action bounds: yes or no."""
    average: int | None = _least(None, 1)
    """Act with, evaluate and keep the mean of the last so many rounds' policies, which are linear. Losses and
    regret are those of the last policy alone."""
    ensemble: int | None = _least(None, 1)
    """Evaluate and keep the mean of so many networks. The learner trains one, which acts and whose losses and
    regret the ledger has; the others are trained apart, from starts of their own, on the same labels. Where
    the best policy is kept, the mean and the network that acts are both judged."""
    keep_best: bool | None = None
    """Keep the policy with the highest mean return of those that were evaluated, not the last one: yes or no.
    All play the same episodes: one that is clearly behind the best stops soon, the others play on until they
    are behind or known to 1 %, for up to three times the episodes; what is kept is then evaluated anew, as
    long, on episodes that did not choose it."""
    episodes: int | None = _least(None, 0, 1_000_000)
    """Evaluation episodes (default: 10 on the way, and of the policy that is kept 20, or 30 where it is the
    best one). The policy that is kept plays the same ones in every run of an environment."""
    evaluate_every: int = _least(0, 0)
    """Evaluate also after every so many rounds."""
    expert_episodes: int | None = _least(None, 0)
    """Episodes to measure the expert by (default: as many as evaluation episodes)."""
    episode_limit: int | None = _least(None, 1)
    """Most steps of an evaluation episode, for an environment that has no limit of its own. A run may be
    resumed with another."""
    comparator: str | Sequence[int] | None = None
    """After which rounds to find the best in hindsight: last, every, none, or round numbers (5,10). Default:
    last, and none for a network on images, where the search takes longer than the training."""
    comparator_steps: int = _least(2000, 0)
    """Steps of Adam in the search for the best network in hindsight."""
    memory_limit: int = _least(2 << 30, 0)
    """Bytes of samples that are kept in memory; beyond, they are mapped from files."""
    memory: str = "all"
    """What the learner learns from: all rounds, the last W (window:W; window:1 is the current round alone),
    or K past samples, a uniform choice among all (reservoir:K)."""
    seed: int = _least(0, 0)
    """Seed of everything."""
    env_kwargs: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Keywords for the environment, as JSON: '{"max_episode_steps": 200}'."""
    learner_options: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Other options of the learner, as JSON."""
    policy_options: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Other options of the policy, as JSON: '{"activation": "tanh"}'."""
    loss_options: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Options of the loss, as JSON: '{"delta": 0.5}'."""
    solver_options: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Other options of the solver, as JSON: '{"decay": "cosine"}'."""
    ask_options: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Other options of the ask rule, as JSON: '{"on": "observations"}'."""
    expert_options: Mapping[str, Setting] = dataclasses.field(default_factory=dict[str, "Setting"])
    """Other options of the expert, as JSON: '{"filename": "model.zip"}'."""


FIELDS: dict[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(Settings)}
"""Every setting of a run, by name."""


OPTIONS = {
    part: tuple(name for name, field in FIELDS.items() if field.metadata.get("of") == part) for part in PARTS
}
"""The settings that are options of a part, by part."""
OLD_NAMES = {
    "interactions": "steps_per_round",
    "first_interactions": "first_steps",
    "envs": "num_envs",
    "stack": "frame_stack",
    "members": "ensemble",
    "best": "keep_best",
    "search": "comparator_steps",
    "floor": "random_share",
    "labels": "label_kind",
}
"""What settings were called before they had the words of the field."""
WORLD = (
    *("env", "env_kwargs", "student_sees", "expert", "experts", "route", "expert_options", "demos"),
    *OPTIONS["expert"],
    *("expert_workers", "expert_timeout", "expert_retries"),
)
"""The settings that say where a run happens and who is its expert."""


def default(name: str) -> Setting:
    """The value of a setting that was not given."""
    value = FIELDS[name].default
    return {} if value is dataclasses.MISSING else value


def refuse_old_name(name: str, *, option: bool = False) -> None:
    """Refuses what a setting was called before with the name it has now.

    >>> refuse_old_name("interactions")
    Traceback (most recent call last):
    understudy.errors.UserError: interactions: the setting is called steps_per_round now.
    """
    if new := OLD_NAMES.get(name):
        now = f"the option is called --{new.replace('_', '-')}" if option else f"the setting is called {new}"
        shown = f"--{name.replace('_', '-')}" if option else name
        raise UserError(f"{shown}: {now} now.")


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RunSpec(Settings):
    """A run, before it begins, as it was said. None and auto stand for what `understudy.defaults` decides.

    Names are checked against the registries, numbers against their limits; what does not fit is refused with
    one sentence. Objects (a learner, a policy, a loss, a solver, an expert, a function that makes the
    environment) are accepted in place of names; config.json then describes them.

    >>> spec = RunSpec(env="CartPole-v1", learner="ftrl", eta=0.1, rounds=3, steps_per_round=50)
    >>> spec.options("learner"), spec.changes()["eta"], spec.noise
    ({'eta': 0.1}, 0.1, None)
    >>> RunSpec(env="CartPole-v1", eta=0.1)
    Traceback (most recent call last):
    understudy.errors.UserError: learner: 'ftl' does not take eta; it takes radius.
    """

    def __post_init__(self) -> None:
        for field in FIELDS.values():
            self._spell(field.name, checked(field, getattr(self, field.name)))
        for part in PARTS:
            self._gather(part)
        if isinstance(self.expert, str) and self.expert.startswith("person:"):
            door = self.expert.removeprefix("person:")
            self._spell("expert_options", {**self.expert_options, "door": door})
            self._spell("expert", "person")
        self._refuse_experts()
        if isinstance(self.expert, str) and self.expert.startswith("ray:"):
            count = str(self.expert_workers)
            if not count.isdecimal():
                raise UserError(
                    f"expert_workers: {self.expert!r} needs a number of actors, as in expert_workers 32; it "
                    f"is {self.expert_workers!r}."
                )
            self._spell("expert", self.expert.removeprefix("ray:"))
            self._spell("expert_workers", f"ray:{count}")
        if not isinstance(self.env, str) and not callable(self.env) and not hasattr(self.env, "reset"):
            what = "none was named; give" if self.env is None else f"{self.env!r} is not"
            raise UserError(f"env: {what} the id of an environment, such as 'Hopper-v5'.")
        self._spell("beta", number_or_word(self.beta))
        self._spell("until", None if self.until is None else number_or_word(self.until))
        if self.goal is not None and self.by_person:
            raise UserError(f"until: a person says when it is enough; {self.until!r} is not accepted.")
        limits = self.return_limits
        if limits is not None and (len(limits) != 2 or not limits[0] < limits[1]):
            raise UserError(f"return_limits: {limits!r} are not a least and a larger return, as in (0, 500).")
        self._spell("encoder", "none" if self.encoder is None else self.encoder)
        if self.comparator is not None and self.comparator not in COMPARATORS:
            self._spell("comparator", tuple(sorted(comparator_rounds(self.comparator))))
        _ = mixing(self.beta), self.workers, self.student_infos
        if self.expert_sees is not None:
            _sight(self.expert_sees, "expert_sees")
        if self.rounds == 0 and self.demos is None:
            raise UserError("rounds: 0 is not accepted without demonstrations (demos) to learn from.")
        if not is_pure(self.env) and self.stagger:
            raise UserError("stagger: it is for pure environments, such as mjx:Hopper; leave it out here.")
        if self.init is not None and self.standardise:
            raise UserError("standardise: with init the observations are standardised as init was; say no.")
        if self.by_person and self.expert_episodes:
            raise UserError(
                f"expert_episodes: a person is not measured; {self.expert_episodes} is not accepted."
            )
        if self.moment == "spot" and self.by_person and self.num_envs > 1:
            raise UserError(f"num_envs: a person who takes over on the spot drives one, not {self.num_envs}.")
        if self.moment == "spot" and self.ask == "driven" and not self.by_person:
            raise UserError("ask: 'driven' on the spot is for a person (--expert person), who takes over.")
        if self.memory != "all":
            from .objectives import parse_memory

            parse_memory(self.memory)
        for part in PARTS[:4]:
            fits(part, getattr(self, part), self.options(part))
        if not isinstance(self.policy, str):  # a student of somebody's own, in the place of one
            self._spell("policy", registries()["policy"].resolve(self.policy))

    def _refuse_experts(self) -> None:
        """Refuses what does not go with several experts."""
        if self.experts is None:
            if not self.unsaid("route"):
                raise UserError(f"route: {self.route!r} is for several experts; name them (experts).")
            return
        if self.expert is not None:
            raise UserError(f"experts: {describe(self.expert)!r} is the expert already; leave one of them.")
        if any(isinstance(one, str) and one.startswith("ray:") for _, one in self.experts):
            raise UserError("experts: a pool on Ray is one for all of them; say expert_workers ray:N.")
        if self.route is None:
            raise UserError(
                "route: it says which of the experts labels a state; give a key of the observation, "
                "info:NAME or a function."
            )
        if options := self.options("expert"):
            name = next(iter(options))
            raise UserError(
                f"{name}: each of several experts has options of its own: experts={{'walk': {{'expert': …, "
                f"{name!r}: …}}, …}}."
            )

    def _spell(self, name: str, value: Setting) -> None:
        """The same setting in its one spelling."""
        object.__setattr__(self, name, value)

    def _gather(self, part: str) -> None:
        """Moves options that have a field of their own out of the mapping: one spelling for one run."""
        options = getattr(self, f"{part}_options")
        given = {name: value for name, value in options.items() if value is not None}
        for name in [name for name in given if name in OPTIONS[part]]:
            value = checked(FIELDS[name], given.pop(name))
            if getattr(self, name) not in (None, False, value):
                raise UserError(f"{name}: it is {getattr(self, name)!r} and, in {part}_options, {value!r}.")
            self._spell(name, value)
        self._spell(f"{part}_options", given)

    @classmethod
    def of(cls, settings: Mapping[str, Setting]) -> RunSpec:
        """The spec of named settings; None counts as not given, and a name that does not exist is refused."""
        for name in settings:
            refuse_old_name(name)
            if name not in FIELDS:
                raise unknown("run", name, FIELDS)
        return cls(**stated(settings))

    @classmethod
    def read(cls, path: str | os.PathLike[str], **changes: Setting) -> RunSpec:
        """The spec in a TOML file, with `changes` that win over it."""
        return cls.of(read_toml(path, "config") | changes)

    def replace(self, **changes: Setting) -> RunSpec:
        """The same spec with other settings."""
        return RunSpec.of({name: getattr(self, name) for name in FIELDS} | changes)

    def options(self, part: str) -> dict[str, Any]:
        """The options that were given for a part, by name."""
        fields = {name: getattr(self, name) for name in OPTIONS[part]}
        # By identity: a step size of 0.0 equals False, and must reach what refuses it.
        given = {name: value for name, value in fields.items() if value is not None and value is not False}
        return given | dict(getattr(self, f"{part}_options"))

    def unsaid(self, name: str) -> bool:
        """Whether a setting has its default value."""
        return getattr(self, name) == default(name)

    @property
    def by_person(self) -> bool:
        """Whether the expert is a person."""
        return self.expert == "person" or getattr(self.expert, "person", None) is not None

    @property
    def goal(self) -> Goal | None:
        """What `until` says."""
        return None if self.until is None else goal(self.until)

    @property
    def workers(self) -> tuple[int, str] | None:
        """How many questions to a slow expert are under way at once, and where: in threads, processes or
        actors of ray.
        """
        if self.expert_workers is None:
            return None
        kind, _, count = str(self.expert_workers).rpartition(":")
        if kind not in ("", "threads", "processes", "ray") or not count.isdecimal() or int(count) < 1:
            raise UserError(
                f"expert_workers: {self.expert_workers!r} is not a whole number ≥ 1, processes:N or ray:N."
            )
        return int(count), kind or "threads"

    @property
    def name(self) -> str:
        """What the learner is called."""
        if isinstance(self.learner, str):
            return self.learner
        return getattr(self.learner, "name", type(self.learner).__name__)

    @property
    def student_infos(self) -> tuple[str, ...]:
        """The entries of the environment's info that the policy sees."""
        return () if self.student_sees is None else _sight(self.student_sees, "student_sees").infos

    def key(self, *names: str) -> str:
        """A text that two specs share where they agree in these settings."""
        return repr([describe(getattr(self, name)) for name in names])

    def plain(self) -> dict[str, Json]:
        """Every setting as plain data, objects described: what config.json keeps and resuming compares."""
        return {name: describe(getattr(self, name)) for name in FIELDS}

    def changes(self, but: Sequence[str] = ()) -> dict[str, Json]:
        """The settings that differ from their defaults, with env, learner and seed always: enough to make it
        again with `RunSpec.of`. Objects cannot be written down so, and are refused, `but` for those that are
        given again.
        """
        changed: dict[str, Json] = {}
        for name in FIELDS:
            value = getattr(self, name)
            if name in but or (name not in ("env", "learner", "seed") and self.unsaid(name)):
                continue
            try:
                changed[name] = json.loads(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError):
                raise UserError(
                    f"{name}: {describe(value)!r} is an object, which a study cannot keep or send to a "
                    "worker; give its name, or module:name."
                ) from None
            if changed[name] != disk.to_plain(value):
                raise UserError(
                    f"{name}: {value!r} has keys that are not text, which JSON cannot keep for a study."
                )
        return changed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSpec) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(json.dumps(self.plain(), sort_keys=True, default=str))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.plain().items() if not self.unsaid(name)}
        return f"RunSpec({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _sight(text: str, field: str) -> Sight:
    from .policies.sight import Sight

    return Sight.of(text, field)


LIBRARIES = ("brax", "gymnax", "mjx", "playground")
"""What the names of pure environments begin with, as in gymnax:CartPole-v1."""


def is_pure(env: Environment | None) -> bool:
    """Whether a name is one of a pure environment, or an object has its shape and is none of Gymnasium's.

    >>> is_pure("gymnax:CartPole-v1"), is_pure("CartPole-v1"), is_pure("my_module:make")
    (True, False, False)
    """
    if isinstance(env, str):
        library, _, name = env.partition(":")
        return bool(name) and library in LIBRARIES
    import gymnasium as gym

    if isinstance(env, type | gym.Env | gym.vector.VectorEnv):
        return False
    return hasattr(env, "reset") and hasattr(env, "step")


COMPARATORS = ("every", "last", "none")


def comparator_rounds(asked: str | int | Sequence[int], rounds: int | None = None) -> frozenset[int]:
    """The rounds, of so many where that is known, after which `comparator` asks for the best in hindsight.

    >>> sorted(comparator_rounds("every", 3)), sorted(comparator_rounds("1,3"))
    ([1, 2, 3], [1, 3])
    """
    if isinstance(asked, str) and asked in COMPARATORS and rounds is not None:
        return frozenset({"every": range(1, rounds + 1), "last": (rounds,), "none": ()}[asked])
    numbers = asked.split(",") if isinstance(asked, str) else asked
    listed: Iterable[str | int] = numbers if isinstance(numbers, Iterable) else (numbers,)
    try:
        # Through text, so that 1.5 and True are refused.
        chosen = [int(str(t)) for t in listed]
    except ValueError:
        chosen = []
    if not chosen or not all(1 <= t <= (rounds or t) for t in chosen):
        shown = [*listed] if isinstance(asked, tuple) else asked
        accepted = "numbers of rounds" if rounds is None else f"rounds among 1 … {rounds}"
        raise UserError(f"comparator: {shown!r} is not 'every', 'last', 'none' or {accepted}.")
    return frozenset(chosen)


def _word_and_number(said: float | str, alone: str) -> tuple[str, float]:
    """What "word:number" says, `alone` where there is no word; nan in place of what is no number."""
    word, _, text = said.partition(":") if isinstance(said, str) and ":" in said else (alone, "", said)
    try:
        return word, math.nan if isinstance(text, bool) else float(text)
    except (TypeError, ValueError, OverflowError):
        return word, math.nan


@final
@dataclasses.dataclass(frozen=True)
class Mixing:
    """Who acts: with probability β_t the expert, else the agent; drawn for every environment and step.

    β_t: `constant` value; `linear` max(0, 1 − (t−1)/value); `exponential` value^(t−1). Round 1 may be
    the expert's.

    >>> [Mixing("linear", 2, False).beta(t) for t in (1, 2, 3)]
    [1.0, 0.5, 0.0]
    """

    kind: str
    value: float
    expert_first: bool

    def beta(self, t: int) -> float:
        """The probability that the expert acts in round t = 1, 2, …"""
        if t == 1 and self.expert_first:
            return 1.0
        if self.kind == "linear":
            return max(0.0, 1.0 - (t - 1) / self.value)
        return self.value ** (t - 1) if self.kind == "exponential" else self.value


def mixing(beta: float | str, *, first_round: str = "expert") -> Mixing:
    """From a number in [0, 1], "linear:ROUNDS" or "exponential:RATE".

    >>> mixing("exponential:0.5", first_round="agent").beta(3), mixing(1).beta(7)
    (0.25, 1.0)
    """
    kind, value = _word_and_number(beta, "constant")
    if kind not in ("constant", "linear", "exponential"):
        raise UserError(f"beta: {beta!r} is not a number in [0, 1], linear:ROUNDS or exponential:RATE.")
    if kind == "linear" and not 1.0 <= value < math.inf:
        raise UserError(f"beta: {beta!r} needs a number of rounds ≥ 1, as in linear:15.")
    if kind != "linear" and not 0.0 <= value <= 1.0:
        raise UserError(f"beta: {beta!r} is not accepted; β is a probability, a number in [0, 1].")
    return Mixing(kind, value, first_round == "expert")


@final
@dataclasses.dataclass(frozen=True)
class Goal:
    """How good a policy has to be: a share of the expert's return, its agreement with the expert in its own
    states, or its loss there.
    """

    kind: Literal["share", "agreement", "loss"]
    wanted: float

    def __str__(self) -> str:
        return f"{self.wanted:g}" if self.kind == "share" else f"{self.kind}:{self.wanted:g}"


def goal(until: Any) -> Goal:
    """From a share, "agreement:SHARE" or "loss:LOSS".

    >>> goal(0.95), str(goal("agreement:0.98"))
    (Goal(kind='share', wanted=0.95), 'agreement:0.98')
    """
    until = number_or_word(until)
    kind, wanted = _word_and_number(until, "share")
    most = {"share": 100.0, "agreement": 1.0, "loss": math.inf}.get(kind, 0.0)
    if not 0.0 < wanted <= most or wanted in (math.inf, most):
        raise UserError(
            f"until: {until!r} is not a share of the expert's return above 0, as in 0.95, agreement:0.98 "
            "(below 1) or loss:0.05."
        )
    return Goal(kind, wanted)  # type: ignore[arg-type]


_KNOWN: set[tuple[str, str, str]] = set()
"""Names and options that were found to fit; a study has many runs and few learners."""


def read_toml(path: str | os.PathLike[str], field: str) -> dict[str, Any]:
    """A TOML file, or one sentence about `field`."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))  # some editors begin with a mark
    except OSError as error:
        raise UserError(f"{field}: cannot read {str(path)!r} ({error.strerror or error}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{field}: {str(path)!r} is not TOML ({error}).") from None


def is_mapping(value: Setting) -> TypeGuard[Mapping[str, Setting]]:
    """`isinstance`, for type checkers too: with values of any setting's type."""
    return isinstance(value, Mapping)


def is_sequence(value: Setting) -> TypeGuard[Sequence[Setting]]:
    """`isinstance`, for type checkers too: a sequence of settings; text does not count as one."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def is_path(value: Setting) -> TypeGuard[os.PathLike[str]]:
    """`isinstance`, for type checkers too: of text."""
    return isinstance(value, os.PathLike)


def stated(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The settings that were given. None counts as not given, but an encoder of None is the pixels."""
    return {name: value for name, value in settings.items() if value is not None or name == "encoder"}


def describe(part: Setting) -> Json:
    """A part of a run as plain data, for the record and to compare when a run is resumed.

    >>> from understudy import ftrl
    >>> describe(ftrl(eta=0.5))["name"]
    'ftrl'
    """
    if isinstance(part, (str, int, float, bool)) or part is None:
        return part
    if is_mapping(part):
        return {str(name): describe(value) for name, value in part.items()}
    if is_sequence(part):
        return [describe(value) for value in part]
    if is_path(part):
        return os.fspath(part)
    # An expert, which may hold a network, or a student.
    if hasattr(part, "label") or hasattr(part, "predict") or hasattr(part, "student"):
        return str(getattr(part, "name", type(part).__qualname__))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: describe(getattr(part, field.name)) for field in dataclasses.fields(part)}
        return {"kind": type(part).__name__, **fields}
    if (plain := getattr(part, "tolist", None)) is not None:
        return plain()
    name = getattr(part, "__qualname__", None)
    return f"{part.__module__}:{name}" if name else type(part).__qualname__


def checked(field: dataclasses.Field[Any], value: Setting) -> Setting:
    """The value in its one spelling, by the field's type and limits, or one sentence."""
    if value is None and field.default is None:
        return None
    listed = None if isinstance(value, type) else getattr(value, "tolist", None)
    value = value if listed is None else listed()  # NumPy's numbers and arrays
    read = READERS.get(str(field.type).removesuffix(" | None"))
    return value if read is None else read(field.name, value, field.metadata)


def _number(
    name: str, value: Setting, rules: Mapping[str, float], kind: type[int | float] = float
) -> int | float:
    low, high = rules.get("least", -math.inf), rules.get("most", math.inf)
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    within = low <= number <= high and abs(number) <= sys.float_info.max
    if within and (kind is float or number == int(number)):
        return kind(number)
    limit = f" ≤ {high:,}" if number > high else f" ≥ {low:g}" if "least" in rules else ""
    raise UserError(f"{name}: {value!r} is not a {'whole' if kind is int else 'finite'} number{limit}.")


def _truth(name: str, value: Setting, rules: Mapping[str, float]) -> bool:
    if value not in ("yes", "no") and not isinstance(value, bool):
        raise UserError(f"{name}: {value!r} is not accepted; say yes or no.")
    return value is True or value == "yes"


def _word(name: str, value: Setting, rules: Mapping[str, tuple[str, ...]]) -> str:
    if "among" in rules and value not in rules["among"]:
        raise unknown(name, value, rules["among"])
    if not isinstance(value, str) and not is_path(value):
        raise UserError(f"{name}: {value!r} is not a word.")
    return str(os.fspath(value))


def _widths(name: str, value: Setting, rules: Mapping[str, float]) -> tuple[int, ...]:
    listed = value if is_sequence(value) else (value,)
    try:
        return tuple([check_int(name, width) for width in listed])
    except UserError:
        raise UserError(f"{name}: {value!r} must be positive whole numbers, as in (256, 256).") from None


def _numbers(name: str, value: Setting, rules: Mapping[str, float]) -> tuple[float, ...]:
    listed: Sequence[Setting] = value if is_sequence(value) else (value,)
    return tuple(_number(name, one, rules) for one in listed)


def mapping(name: str, value: Setting, rules: Mapping[str, float] | None = None) -> dict[str, Setting]:
    """A mapping, or the JSON of one."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if not is_mapping(value):
        raise UserError(f"{name}: {value!r} is not a JSON object such as '{{\"max_episode_steps\": 200}}'.")
    return {str(key): entry for key, entry in value.items()}


def _experts(name: str, value: Setting, rules: Mapping[str, float]) -> tuple[tuple[str, Setting], ...]:
    """Pairs, in their order, which JSON with sorted keys would not keep of a table."""
    pairs: Any = value if is_sequence(value) else list(mapping(name, value).items())
    if not pairs or not all(is_sequence(pair) and len(pair) == 2 for pair in pairs):
        raise UserError(f"{name}: {describe(value)!r} is not a table such as {{'walk': 'walk.zip', …}}.")
    names = [str(key) for key, _ in pairs]
    if twice := [key for key in names if names.count(key) > 1]:
        raise UserError(f"{name}: {twice[0]!r} is there twice.")
    return tuple((str(key), expert) for key, expert in pairs)


READERS: dict[str, Callable[[str, Setting, Mapping[str, Any]], Setting]] = {
    "int": functools.partial(_number, kind=int),
    "float": _number,
    "bool": _truth,
    "str": _word,
    "tuple[int, ...]": _widths,
    "tuple[float, ...]": _numbers,
    "Mapping[str, Setting]": mapping,
    "Experts": _experts,
}
"""What checks a value, by the field's type. Other types, such as a learner, are checked by their registry."""


def number_or_word(value: float | str) -> float | str:
    """A number as a float; anything else unchanged.

    >>> number_or_word("0.5"), number_or_word(1), number_or_word("linear:3")
    (0.5, 1.0, 'linear:3')
    """
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            return float(value)
    return value


@functools.cache
def registries() -> dict[str, Registry[AnyLearner] | Registry[Loss] | Registry[Policy] | Registry[AnySolver]]:
    """The registry of each part but the expert."""
    from .learners import LEARNERS
    from .losses import LOSSES
    from .policies import POLICIES
    from .solvers import SOLVERS

    return {"learner": LEARNERS, "policy": POLICIES, "loss": LOSSES, "solver": SOLVERS}


def fits(part: str, value: Setting, given: Mapping[str, Setting]) -> None:
    """Refuses a name that no registry knows, an object of another kind, and options that do not fit."""
    registry = registries()[part]
    if not isinstance(value, str):
        if given:
            raise UserError(f"{part}: it is an object, so {', '.join(given)} cannot be passed on to it.")
        registry.resolve(value)
        return
    if (part, value, repr(given)) in _KNOWN:
        return
    if part == "learner" and value == "bc":
        if given:
            raise UserError("learner: 'bc' takes no options; it is FTL on expert-driven rounds.")
    elif value == "auto" and part != "learner":
        if part == "policy" and given:
            registry.refuse_foreign("mlp", given)
    else:
        if part == "learner" and ":" not in value and value not in registry:
            raise unknown("learner", value, [*registry.names(), "bc"])  # which is FTL, expert-driven
        # What a run decides for a learner is a number.
        registry.try_out(value, given, missing=1.0 if part == "learner" else None)
    _KNOWN.add((part, value, repr(given)))
