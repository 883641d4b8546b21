"""All settings of a run: one frozen dataclass with its defaults, its presets and its checks.

`imitate` builds it from keywords, the command line from options, a study from the points of a grid, a worker
process from JSON; ``--config`` reads it from TOML and config.json keeps it. Importing this file is cheap: the
registries of learners, losses, policies and solvers are imported when a spec is made.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, final

from ..errors import UserError, unknown
from .fit import fits
from .mixing import Mixing, mixing
from .presets import PRESETS, for_person, spread
from .values import checked, describe, number_or_word, read_toml

ROUNDS = 25
"""Rounds of a run for which neither rounds nor a budget is given."""
PARTS = ("learner", "policy", "loss", "solver", "ask", "expert")
"""Parts that a run has by name or as an object, each with options."""
MOST = 100_000
"""No plan has more rounds."""


def _of(part: str, default: Any = None) -> Any:
    """A field that is an option of a part."""
    return dataclasses.field(default=default, metadata={"of": part})


def _least(default: Any, least: float, most: float = math.inf) -> Any:
    """A number from `least` to `most`."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most})


def _among(default: Any, *accepted: str) -> Any:
    return dataclasses.field(default=default, metadata={"among": accepted})


@final
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RunSpec:
    """A run, before it begins. None stands for what the preset, the policy or the solver decides.

    Names are checked against the registries, numbers against their limits; what does not fit is refused with
    one sentence. Objects (a learner, a policy, a loss, a solver, an expert, a function that makes the
    environment) are accepted in place of names; config.json then describes them.

    >>> spec = RunSpec(env="CartPole-v1", learner="ftrl", eta=0.1, rounds=3, interactions=50)
    >>> spec.total, spec.options("learner"), spec.changes()["eta"]
    (150, {'eta': 0.1}, 0.1)
    >>> RunSpec(env="CartPole-v1", eta=0.1)
    Traceback (most recent call last):
    understudy.errors.UserError: learner: 'ftl' does not take eta; it takes radius.
    """

    env: Any = None
    """A Gymnasium id such as Hopper-v5, or module:Id to import a package first."""
    expert: Any = None
    """A shipped expert's name (default: the one for the environment), a .zip archive, a .safetensors file,
    org/repo on the hub, module:function, or person: you, on a page (person:page) or in a terminal
    (person:terminal)."""
    expert_sees: str | None = _of("expert")
    """What the expert is asked about, where it is not the whole observation: keys, slices and entries of the
    info, as in joints,camera[0:3],info:target (a dict of these) or joints+info:target (one vector)."""
    student_sees: str | None = None
    """What the policy sees, written in the same way; the rest is hidden from it."""
    stack: int | None = _least(None, 1, 10_000)
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
    expert_workers: Any = None
    """Questions under way at once, for an expert that is slow or dear: a number (threads), or processes:N.
    Such an expert is asked about a state once, after the round, and is not played for its return."""
    expert_timeout: float | None = _least(None, 0.0)
    """Seconds after which a slow expert's answer is given up (default: none)."""
    expert_retries: int = _least(2, 0)
    """How often a slow expert is asked again where it fails; then the state stays without a label."""
    learner: Any = "ftl"
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
    policy: Any = "auto"
    """auto (mlp; camera for an image with numbers beside it; linear on the expert's features of images), mlp,
    gru (remembers the episode), linear, tabular, nature_cnn, camera, or module:function."""
    widths: tuple[int, ...] | None = _of("policy")
    """Widths of the network's hidden layers (256 256)."""
    init: Any = None
    """Start from the parameters of a shipped expert, a policy's file, a run's folder or an archive."""
    encoder: Any = "auto"
    """Whose features a linear policy on images has: auto (the expert's), none (the pixels), or another's
    name or file."""
    labels: str = _among("expert", "expert", "mode")
    """What is learned: the expert's answer (a distribution where it gives one), or its mode."""
    loss: Any = "auto"
    """auto (squared for Box actions, else cross-entropy), squared, absolute, huber, cross-entropy, or
    module:function."""
    solver: Any = "auto"
    """auto, closed-form, newton, lbfgs, gd, adam, sls, proximal-sgd, interior-point, or module:function."""
    learning_rate: float | None = _of("solver")
    """First step size of adam or proximal-sgd."""
    max_iterations: int | None = _of("solver")
    """Steps of the solver in a round."""
    batch_size: int | None = _of("solver")
    """Samples (gru: sequences) per step of a solver that can take minibatches."""
    weight_decay: float | None = _of("solver")
    """Adam also shrinks the parameters by this times the step size in every step."""
    fresh: bool | None = _of("solver")
    """Adam starts every round from new random parameters, not from the last ones: yes or no."""
    tolerance: float | None = _of("solver")
    """The solver stops at this gradient norm of (whole objective)/t."""
    preset: str = _among("practical", *PRESETS)
    """practical (round 1 expert-driven, standardised observations, squashed head) or paper."""
    rounds: int | None = _least(None, 0, 1_000_000)
    """Rounds (default: 25, or with a budget as many as that takes); 0 learns from demonstrations alone."""
    demos: str | None = None
    """Recorded demonstrations, as a first round that costs nothing: an .npz with observations and actions,
    minari:ID, or the folder of another run."""
    interactions: int = _least(1000, 1, 1_000_000_000)
    """Environment steps in a round."""
    first_interactions: int | None = _least(None, 1, 1_000_000_000)
    """Environment steps in round 1, where they are not as many."""
    envs: int = _least(1, 1, 100_000)
    """Environments side by side."""
    budget: int | None = _least(None, 1)
    """Stop after so many queries; the last round asks for what is left."""
    ask: Any = None
    """Which states of a round the expert is asked about: all (the default, but with a budget and without
    rounds the preset practical chooses, see `spec.presets.spread`), random:K, fraction:P, distance:K,
    disagreement:K, leverage:C (linear policies), or module:function. A state where the expert acts is asked
    about whatever the rule."""
    floor: float | None = _of("ask")
    """Share of a round's labels that is asked at random beside those that the rule chooses."""
    moment: str = _among("after", "after", "spot")
    """When the rule is asked: after the round, or on the spot: the expert takes over where the rule's score
    is above its threshold (disagreement:0.05, distance:0.05) until it is safe again, and labels what it
    drives."""
    beta: Any = 0.0
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
    """Act with, evaluate and keep the mean of the last so many rounds' policies: of the outputs of networks,
    of the parameters of linear policies. Losses and regret are those of the last policy alone."""
    best: bool | None = None
    """Keep the policy with the highest mean return of those that were evaluated, not the last one; it is then
    evaluated anew on episodes that did not choose it: yes or no."""
    episodes: int = _least(10, 0, 1_000_000)
    """Evaluation episodes."""
    evaluate_every: int = _least(0, 0)
    """Evaluate also after every so many rounds."""
    expert_episodes: int | None = _least(None, 0)
    """Episodes to measure the expert by (default: as many as evaluation episodes)."""
    episode_limit: int | None = _least(None, 1)
    """Most steps of an evaluation episode, for an environment that has no limit of its own. A run may be
    resumed with another."""
    comparator: Any = "last"
    """After which rounds to find the best in hindsight: last, every, none, or round numbers (5,10)."""
    search: int = _least(2000, 0)
    """Steps of Adam in the search for the best network in hindsight."""
    memory_limit: int = _least(2 << 30, 0)
    """Bytes of samples that are kept in memory; beyond, they are mapped from files."""
    memory: str = "all"
    """What the learner learns from: all rounds, the last W (window:W; window:1 is the current round alone),
    or K past samples, a uniform choice among all (reservoir:K)."""
    seed: int = _least(0, 0)
    """Seed of everything."""
    env_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keywords for the environment, as JSON: '{"max_episode_steps": 200}'."""
    learner_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other options of the learner, as JSON."""
    policy_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other options of the policy, as JSON: '{"activation": "tanh"}'."""
    loss_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the loss, as JSON: '{"delta": 0.5}'."""
    solver_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other options of the solver, as JSON: '{"decay": "cosine"}'."""
    ask_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other options of the query rule, as JSON: '{"on": "observations"}'."""
    expert_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other options of the expert, as JSON: '{"filename": "model.zip"}'."""

    def __post_init__(self) -> None:
        for field in FIELDS.values():
            object.__setattr__(self, field.name, checked(field, getattr(self, field.name)))
        for part in PARTS:
            self._gather(part)
        if isinstance(self.expert, str) and self.expert.startswith("person:"):
            door = self.expert.removeprefix("person:")
            object.__setattr__(self, "expert", "person")
            object.__setattr__(self, "expert_options", {**self.expert_options, "door": door})
        if not isinstance(self.env, str) and not callable(self.env) and not hasattr(self.env, "reset"):
            what = "none was named; give" if self.env is None else f"{self.env!r} is not"
            raise UserError(f"env: {what} the id of an environment, such as 'Hopper-v5'.")
        object.__setattr__(self, "beta", number_or_word(self.beta))
        object.__setattr__(self, "encoder", "none" if self.encoder is None else self.encoder)
        if self.by_person:
            self._for_person()
        self._spread()
        _ = self.mixing, self.workers, self.student_infos
        if self.expert_sees is not None:
            _sight(self.expert_sees, "expert_sees")
        if self.rounds == 0 and self.demos is None:
            raise UserError("rounds: 0 is not accepted without demonstrations (demos) to learn from.")
        if self.init is not None and self.standardise:
            raise UserError("standardise: with init the observations are standardised as init was; say no.")
        if self.init is not None and self.fresh:
            raise UserError("fresh: with init the parameters start there; say no.")
        if self.judged and self.comparator not in ("every", "last"):
            object.__setattr__(self, "comparator", tuple(sorted(self.judged)))
        from ..objectives import parse_memory

        parse_memory(self.memory)
        if self.moment == "spot" and (self.rule.count is not None or not hasattr(self.rule, "gate")):
            raise UserError(
                f"moment: 'spot' needs a rule with a threshold, as in disagreement:0.05; ask is {self.ask!r}."
            )
        if self.by_person and self.expert_episodes:
            raise UserError(
                f"expert_episodes: a person is not measured; {self.expert_episodes} is not accepted."
            )
        if self.moment == "spot" and self.by_person and self.envs > 1:
            raise UserError(f"envs: a person who takes over on the spot drives one, not {self.envs}.")
        if self.moment == "spot" and self.ask == "driven" and not self.by_person:
            raise UserError("ask: 'driven' on the spot is for a person (--expert person), who takes over.")
        for part in PARTS[:4]:
            fits(part, getattr(self, part), self.options(part))

    def _gather(self, part: str) -> None:
        """Moves options that have a field of their own out of the mapping: one spelling for one run."""
        given = dict(getattr(self, f"{part}_options"))
        for name in [name for name in given if name in OPTIONS[part]]:
            value = checked(FIELDS[name], given.pop(name))
            if getattr(self, name) not in (None, False, value):
                raise UserError(f"{name}: it is {getattr(self, name)!r} and, in {part}_options, {value!r}.")
            object.__setattr__(self, name, value)
        object.__setattr__(self, f"{part}_options", given)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> RunSpec:
        """The spec of named settings; None counts as not given, and a name that does not exist is refused."""
        for name in settings:
            if name not in FIELDS:
                raise unknown("run", name, FIELDS)
        # An encoder of None is the pixels themselves.
        given: dict[str, Any] = {
            name: value for name, value in settings.items() if value is not None or name == "encoder"
        }
        return cls(**given)

    @classmethod
    def read(cls, path: str | os.PathLike[str], **changes: Any) -> RunSpec:
        """The spec in a TOML file, with `changes` that win over it."""
        return cls.of(read_toml(path, "config") | changes)

    def replace(self, **changes: Any) -> RunSpec:
        """The same spec with other settings."""
        return RunSpec.of({name: getattr(self, name) for name in FIELDS} | changes)

    def options(self, part: str) -> dict[str, Any]:
        """The options that were given for a part, by name."""
        fields = {name: getattr(self, name) for name in OPTIONS[part]}
        # By identity: a step size of 0.0 equals False, and must reach what refuses it.
        given = {name: value for name, value in fields.items() if value is not None and value is not False}
        return given | dict(getattr(self, f"{part}_options"))

    def decided(self, name: str) -> Any:
        """A setting, or what the preset decides where it was not given."""
        value, preset = getattr(self, name), PRESETS[self.preset]
        if self.by_person:
            preset = dataclasses.replace(preset, first_round="agent", noise=0.1)
        return getattr(preset, name) if value is None else value

    @property
    def by_person(self) -> bool:
        """Whether the expert is a person."""
        return self.expert == "person" or getattr(self.expert, "person", None) is not None

    def _for_person(self) -> None:
        """Sets what nobody said about a run whose expert is a person, see `presets.for_person`."""
        made = for_person(
            self.budget,
            self.rounds,
            spot=self.moment == "spot",
            vectors=self.policy not in ("nature_cnn", "camera", "tabular"),
        )
        if self.policy == "mlp":
            made["widths"] = (64, 64)
            made |= {"max_iterations": 500} if self.solver == "auto" else {}
        for name, value in made.items():
            if getattr(self, name) == _default(FIELDS[name]):
                object.__setattr__(self, name, value)

    def _spread(self) -> None:
        """Sets how a budget of labels is spent, where the preset practical decides and nothing was said about
        asking. It is part of the spec from then on, so that a run that is extended goes on in the same way.
        """
        free = self.ask is None and self.rounds is None and self.beta == 0.0 and self.learner != "bc"
        if self.budget is None or self.preset != "practical" or not free or self.moment != "after":
            return
        made = spread(self.budget, vectors=self.policy not in ("nature_cnn", "tabular", "gru"))
        if self.policy == "gru":
            del made["average"]
        if self.demos is not None:
            del made["first_interactions"]
        if self.best is False or not self.episodes:
            del made["best"], made["evaluate_every"]
        for name, value in made.items():
            if getattr(self, name) == _default(FIELDS[name]):
                object.__setattr__(self, name, value)

    @functools.cached_property
    def rule(self) -> Any:
        """The query rule."""
        from ..asking import rule

        return rule(self.decided("ask"), self.options("ask"))

    @functools.cached_property
    def rounds_planned(self) -> tuple[tuple[int, int], ...]:
        """Interactions and the most queries of every round; demonstrations are one without. A rule that asks
        about a number of states that nobody knows before may spend the budget in fewer rounds.
        """
        every, count, who = self.decided("ask") == "all", self.rule.count, self.mixing
        first = self.decided("first_interactions") or self.interactions
        ends = every or (count is not None and who.beta(10_000) in (0.0, 1.0))
        last = self.rounds
        if last is None:
            last = ROUNDS if self.budget is None or not ends else math.inf
            last = 0 if self.demos is not None and self.name == "bc" else last
        found: list[tuple[int, int]] = [] if self.demos is None else [(0, 0)]
        before = len(found)
        left = math.inf if self.budget is None else self.budget
        while len(found) < last + before and left > 0:
            size = first if len(found) == before else self.interactions
            if len(found) >= MOST:
                field = "budget" if self.rounds is None else "rounds"
                value = getattr(self, field)
                raise UserError(f"{field}: {value} takes more than {MOST:,} rounds; let a round be larger.")
            beta = who.beta(len(found) + 1)
            most, whole = min(size, left), every or beta == 1.0
            exact = whole or (beta == 0.0 and count is not None)
            if count is not None and beta == 0.0 and not whole:
                most = min(most, count)
            found.append((int(most if whole else size), int(most)))
            left -= most if exact else 0
        return tuple(found)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Interactions of every round."""
        return tuple(size for size, _ in self.rounds_planned)

    @property
    def total(self) -> int:
        """Interactions of the whole run."""
        return sum(self.sizes)

    @property
    def mixing(self) -> Mixing:
        """Who acts, round by round."""
        beta = 1.0 if isinstance(self.learner, str) and self.learner == "bc" else self.beta
        return mixing(beta, first_round=self.decided("first_round"))

    @property
    def judged(self) -> frozenset[int]:
        """The rounds after which the best in hindsight is found."""
        asked, rounds = self.comparator, len(self.sizes)
        named = {"every": range(1, rounds + 1), "last": (rounds,), "none": ()}
        if isinstance(asked, str) and asked in named:
            return frozenset(named[asked])
        listed = asked.split(",") if isinstance(asked, str) else asked
        try:
            chosen = [int(one) for one in (listed if isinstance(listed, Iterable) else (listed,))]
        except (TypeError, ValueError):
            chosen = []
        if not chosen or not all(1 <= t <= rounds for t in chosen):
            raise UserError(
                f"comparator: {asked!r} is not 'every', 'last', 'none' or a list of rounds 1 … {rounds}."
            )
        return frozenset(chosen)

    @property
    def evaluated(self) -> frozenset[int]:
        """The rounds after which the policy is evaluated."""
        every, rounds = self.evaluate_every, len(self.sizes)
        also = set(range(every, rounds + 1, every)) if every else set()
        return frozenset({rounds} | also) if self.episodes else frozenset()

    @property
    def workers(self) -> tuple[int, bool] | None:
        """How many questions to a slow expert are under way at once, and whether in processes."""
        if self.expert_workers is None:
            return None
        kind, _, count = str(self.expert_workers).rpartition(":")
        if kind not in ("", "threads", "processes") or not count.isdigit() or int(count) < 1:
            raise UserError(
                f"expert_workers: {self.expert_workers!r} is not a whole number ≥ 1 or processes:N."
            )
        return int(count), kind == "processes"

    @property
    def name(self) -> str:
        """What the learner is called."""
        if isinstance(self.learner, str):
            return self.learner
        return getattr(self.learner, "name", type(self.learner).__name__)

    @property
    def expert_measured(self) -> int:
        """Episodes that the expert is measured by."""
        return self.episodes if self.expert_episodes is None else self.expert_episodes

    @property
    def student_infos(self) -> tuple[str, ...]:
        """The entries of the environment's info that the policy sees."""
        return () if self.student_sees is None else _sight(self.student_sees, "student_sees").infos

    def key(self, *names: str) -> str:
        """A text that two specs share where they agree in these settings."""
        return repr([describe(getattr(self, name)) for name in names])

    def plain(self) -> dict[str, Any]:
        """Every setting as plain data, objects described: what config.json keeps and resuming compares."""
        return {name: describe(getattr(self, name)) for name in FIELDS}

    def changes(self) -> dict[str, Any]:
        """The settings that differ from their defaults, with env, learner and seed always: enough to make it
        again with `RunSpec.of`. Objects cannot be written down so, and are refused.
        """
        found = {}
        for name, field in FIELDS.items():
            value = getattr(self, name)
            if name not in ("env", "learner", "seed") and value == _default(field):
                continue
            try:
                found[name] = json.loads(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError):
                raise UserError(
                    f"{name}: {describe(value)!r} is an object, which a study cannot keep or send to a "
                    "worker; give its name, or module:name."
                ) from None
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSpec) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(json.dumps(self.plain(), sort_keys=True, default=str))

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.plain().items() if value != _default(FIELDS[name])}
        return f"RunSpec({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


FIELDS: dict[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(RunSpec)}
"""Every setting of a run, by name."""


OPTIONS = {
    part: tuple(name for name, one in FIELDS.items() if one.metadata.get("of") == part) for part in PARTS
}
"""The settings that are options of a part, by part."""
WORLD = ("env", "env_kwargs", "student_sees", "expert", "expert_options", "demos")
WORLD += (*OPTIONS["expert"], "expert_workers", "expert_timeout", "expert_retries")
"""The settings that say where a run happens and who is its expert."""


def _sight(text: str, field: str) -> Any:
    from ..policies.sight import Sight

    return Sight.of(text, field)


def _default(field: dataclasses.Field[Any]) -> Any:
    return {} if field.default is dataclasses.MISSING else field.default
