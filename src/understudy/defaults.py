"""What a run means: everything that was not said is decided here, and nowhere else.

`RunSpec` holds what was said. The steps below stand in the order in which they decide: `person`, `budget`,
`preset` and `timetable`, which need no environment; then, with the spaces and the expert, `policy`, `loss`,
`learner`, `solver`, `ensemble`, `weights` and `views`; at last `check`. A setting that was said, or that an
earlier step has decided, stays. `Resolved` is what they come to, with the reason for every choice. What only
data can decide is here as a rule, and `Choice.when` says when it is applied. Nothing here starts JAX.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, final

from .errors import UserError
from .spec import (
    OPTIONS,
    Goal,
    Mixing,
    RunSpec,
    comparator_rounds,
    describe,
    is_mapping,
    is_pure,
    is_sequence,
    mixing,
)
from .spec import goal as goal_of

if TYPE_CHECKING:  # importing this file is cheap
    from .asking import Rule
    from .disk import Json
    from .experts import Expert, Source, Space
    from .learners import AnyLearner
    from .losses import Loss
    from .policies import Actions, Policy
    from .policies.guest import Host
    from .solvers import AnySolver
    from .spec import Setting

ROUNDS = 25
"""Rounds of a run with neither a budget nor a goal, where `rounds` is not given."""
STEPS, EACH = 1000, 50
"""Interactions of a round where nothing is said, and those of each environment where thousands are cheap."""
LOOKS, JUDGING, CHOSEN = 10, 20, 30
"""Default numbers of episodes: of an evaluation during the run (a look); of the final evaluation; and of the
final evaluation if a race chose the policy that is kept."""
COURSE, SURE = 3, 6
"""Looks that a race has at most; of a policy that has been as good as the expert in all of these, since no
other is raced after one that passes: one that falls in a tenth of its episodes passes 30 with 4 %, 60 with
0.2 %."""
SHARE_TO_REACH = 0.95
"""The share of the expert's return that a run has to reach where nothing is said of how long it is."""
CEILING, SMALL, GROWTH = 5000, 20, 0.15
"""With `until`: `CEILING`, the default budget; a round asks for the share `GROWTH` of the labels so far, and
for at least `SMALL`."""
LENGTH = (
    *("rounds", "budget", "until", "ask", "steps_per_round", "first_steps", "num_envs", "learner", "beta"),
    *("preset", "moment", "memory", "demos", "expert_workers", "episodes", "expert_episodes", "keep_best"),
)
"""Settings that say how long a run is, or what it is for. If any of them is given, `until` has no default."""
MOST_ROUNDS = 100_000
"""No plan has more rounds."""
SAID = "as you said"
BEGUN = "as the run was begun"
PORTIONS = ("ask", "first_steps", "steps_per_round", "evaluate_every", "keep_best")
"""Settings that are decided from the budget when a run begins and stay the same when the run is extended."""

RECORDED = (
    *PORTIONS,
    "budget",
    "until",
    "rounds",
    "first_round",
    "noise",
    "standardise",
    "weigh",
    "average",
    "stagger",
)
"""What config.json keeps of the choices, beside the parts."""


class Choice(NamedTuple):
    """A setting, what it is, and why.

    when: "now", or the moment at which data decide; then `value` is the rule, and `candidates` are what it
    chooses among, where they can be listed.
    """

    setting: str
    value: Setting
    reason: str
    when: str = "now"
    candidates: tuple[str, ...] = ()


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """What a preset decides. squash: a tanh head for networks. bias: linear policies get one. automatic:
    networks are trained as below, on schedules that start after a round without a penalty.
    """

    first_round: str = "expert"
    standardise: bool = True
    squash: bool = True
    bias: bool = True
    noise: float = 0.0
    automatic: bool = True


PAPER = Preset(first_round="agent", standardise=False, squash=False, bias=False, noise=0.1, automatic=False)
PRESETS = {"practical": Preset(), "paper": PAPER}


UNCOMPARED = "on images the search for the best network in hindsight takes longer than the training"
"""Why the regret of a network on images is not estimated where nothing was said."""


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Timetable:
    """The rounds of a run and what is due after them: all that is known without its environment.

    rounds: steps and most labels of each. last: how many rounds at most, demonstrations apart; None:
    as many as the budget takes. ask, rule: which states are asked about, as it was decided and as what
    chooses them, None where all are. num_envs: environments side by side, no more than an ordinary round has
    steps. comparator_rounds, evaluated: the rounds after which the best in hindsight is found and the
    policy evaluated; what is due after the last one is due after the one that spends the budget.
    looks, judging: episodes of an evaluation on the way, and of the policy that is kept.
    insists: whether even an expensive expert is measured. goal: what can end the run early. grows: whether
    the labels of a round grow with the labels so far.
    """

    rounds: tuple[tuple[int, int], ...]
    last: int | None
    steps_per_round: int
    budget: int | None
    num_envs: int
    ask: str | Rule
    rule: Rule | None
    mixing: Mixing
    comparator_rounds: frozenset[int]
    evaluated: frozenset[int]
    keep_best: bool
    looks: int
    judging: int
    expert_episodes: int
    insists: bool
    goal: Goal | None
    grows: bool

    sizes: tuple[int, ...] = dataclasses.field(init=False)
    """Interactions of every round."""
    total: int = dataclasses.field(init=False)
    """Interactions of the whole run."""
    compares_last: bool = dataclasses.field(init=False)
    """Whether the best in hindsight of all rounds is asked for."""

    def __post_init__(self) -> None:
        sizes = tuple(size for size, _ in self.rounds)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "total", sum(sizes))
        object.__setattr__(self, "compares_last", len(sizes) in self.comparator_rounds)

    def measures(self, *, expensive: bool) -> int:
        """Episodes to measure the expert by; an expensive one is measured where that was asked for."""
        return 0 if expensive and not self.insists else self.expert_episodes


@final
@dataclasses.dataclass(frozen=True)
class Scale:
    """The scale of a regularised learner on a network, which is found from the first rounds.

    name: alpha or eta. Round 1 is solved without a penalty, and the distance D = ||w_2 − w_1|| it travels is
    the scale of the parameters: α = factor·D. For η_t = η/√t the gradient's size G is needed too, that of
    round 2, the first of a trained network: η = factor·D/G. The schedule counts from the round after.

    factor 10 was measured with benchmarks/scores.py on Hopper-v5 and Walker2d-v5, five seeds each, 256-256
    nets and proximal Adam: with 10 the mean score is within 4 % of FTL's at 5,000 and at 25,000 labels in
    both; 3 is too stiff for Walker2d (0.64 against 0.82 at 5,000), 30 is hardly a penalty any more.
    """

    name: str
    factor: float = 10.0

    @property
    def start(self) -> int:
        """The first round that the schedule counts."""
        return 2 if self.name == "alpha" else 3


class Limits(TypedDict):
    """Of a call of a slow expert: seconds, and how often it is tried again."""

    timeout: float
    retries: int


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Resolved:
    """A run as it will be played.

    plan: its rounds. automatic: what finds the learner's scale from the first rounds, None where it is known.
    solver, solver_options: for `online.make_game`. ensemble: networks whose mean is evaluated and kept, the
    learner's own among them. weigh: what weighs alike, rounds or labels; ordinary: where labels do, how many
    weigh as much as a round otherwise does, else None. noise: a deviation, or the temperature at which
    choices are sampled. standardise: by the first round's statistics. stagger: whether
    environments side by side begin at different ages. average: of how many of the last
    policies the mean acts. encoder: whose features of images the policy has: "auto" is the expert, None
    nobody. frame_stack: observations that the policy sees, None where it sees the last one alone. limits:
    of a call of a slow expert. choices: every decision, in the order in which it was made.
    """

    spec: RunSpec
    plan: Timetable
    policy: Policy
    loss: Loss
    learner: AnyLearner
    automatic: Scale | None
    solver: str | AnySolver
    solver_options: Mapping[str, Any]
    ensemble: int
    weigh: str
    ordinary: int | None
    noise: float
    standardise: bool
    stagger: bool
    average: int
    encoder: Source
    frame_stack: int | None
    limits: Limits
    choices: tuple[Choice, ...]

    def record(self) -> dict[str, Json]:
        """The decisions as plain data, for config.json; `resolve` takes them as `before`."""
        record: dict[str, Json] = {"policy": self.policy.config(), "loss": describe(self.loss)}
        record |= {"ensemble": self.ensemble, "automatic": self.automatic is not None}
        for choice in self.choices:
            if choice.setting in RECORDED:
                record[choice.setting] = describe(choice.value)
        return record


FEW_LABELS = {
    "max_iterations": 1500,
    "passes": 100.0,
    "most_passes": 1600.0,
    "learning_rate": 3e-3,
    "batch_size": 64,
    "weight_decay": 0.3,
}
"""How networks on vectors are trained where labels are few: steps of Adam a round, but at least `passes` over
the labels so far, and at most `most_passes`."""
MANY = 64
SPARSE = {"weight_decay": 0.1, "lasso": 0.1}
"""And what changes where inputs are more than `MANY`, most of which may say little."""
NARROW, WIDE, LONG = (128, 128), (256, 256), 5000
"""Widths of networks that learn from up to `ENOUGH` labels, and from more, with the steps of these."""
ENOUGH = 2500


class Spending(NamedTuple):
    """How a budget of labels is spent and learnt from, see `spending`.

    ask, first_steps: what asks in an ordinary round, and the labels of the first, expert-driven one. widths,
    training: of networks on vectors, and their solver's options.
    """

    ask: str
    first_steps: int
    widths: tuple[int, ...]
    training: Mapping[str, float]


def spending(labels: int, inputs: int = 1, *, near: bool = True, until: bool = False) -> Spending:
    """How a budget of so many labels is spent, by a policy with so many inputs; `near`: whether distances
    between these say which states are alike; `until`: as few of them as a goal takes.

    *First round and portions.* A quarter of the labels, but at least 200 or half, on a first, expert-driven
    round, the rest in twentieths, on the states farthest from those with a label. Nobody knows how many
    labels a goal takes: 200 in the first round, then `GROWTH` of those so far, a round at least `SMALL`.

    *Width and steps.* 128-128 up to `ENOUGH` labels, 256-256 with more, where a narrow network errs too much:
    with 5,000 labels of HalfCheetah it keeps 0.88, a wide one 0.95. A round takes 1,500 steps, of a wide one
    5,000 (HalfCheetah, seed 1, one network with 3,000 and 3,500 labels: 0.89 and 0.92 so), but as many as
    draw every label 100 times, and at most 1,600 times. A goal may take few labels or thousands, so that its
    networks are wide and take 1,500 steps too: `train Hopper-v5` (seed 1) is done with 348 labels in 38 CPU
    seconds, where the first two rounds of 5,000 steps took 30. Seconds of solving on one core, labels to 90 %
    and score of what is kept, five networks trained anew every round, seeds 71 to 75:

    | | 256-256, 5,000 steps | 128-128, 1,500 steps |
    |---|---|---|
    | Hopper, 400 | 130 to 158; 260 to 360; 0.99 to 1.00 | 12; 240 to 320; 0.99 to 1.00 |
    | Walker2d, 1,000 | 225 to 230; 400 to 800; 0.99 to 1.04 | 19; 400 to 600; 1.00 to 1.06 |

    64-64 is enough for Walker2d and too small for Hopper. Ant's 1,500 labels teach 128-128 with 2,500 steps
    as much as 256-256 with 5,000, in 40 s of solving for 280.

    *Optimiser.* A larger step and weight decay: with 1,500 labels the score on Ant was 0.46 without (3,000
    steps of 256) and is 0.79 so, with 5,000 on HalfCheetah 0.64 and 0.87. With more than `MANY` inputs a
    lasso: Ant has 105, 78 of them forces of contact, and the squared error on states in which a student runs
    is 0.18 without it and 0.14 with it; robots with 11 and 17 inputs, which all say something, lose by it
    (docs/studies/queries.md).

    >>> spending(400).ask, spending(400).first_steps, spending(400).widths
    ('distance:20', 200, (128, 128))
    """
    each = max(SMALL, math.ceil(GROWTH * labels)) if until else max(1, labels // 20)
    training = FEW_LABELS | (SPARSE if inputs > MANY else {})
    return Spending(
        ask=f"{'distance' if near else 'random'}:{each}",
        first_steps=max(1, min(labels // 2, 200 if until else max(200, labels // 4))),
        widths=NARROW if labels <= ENOUGH else WIDE,
        training=training | ({} if until or labels <= ENOUGH else {"max_iterations": LONG}),
    )


def plan_of(spec: RunSpec, before: Mapping[str, Setting] | None = None) -> Timetable:
    """The rounds of a spec, which need no environment; `before` is what a run was begun with (its `record`).

    >>> plan = plan_of(RunSpec(env="Hopper-v5", budget=400))
    >>> plan.rounds[:3], plan.ask, plan.total
    (((200, 200), (1000, 20), (1000, 20)), 'distance:20', 10200)
    """
    return _planned(Decisions(spec, before))


def resolve(
    spec: RunSpec,
    space: Space,
    actions: Actions,
    teacher: Expert,
    before: Mapping[str, Setting] | None = None,
) -> Resolved:
    """What a spec means for a policy that sees `space`, for these actions and this expert."""
    decisions = Decisions(spec, before)
    plan = _planned(decisions)
    chosen = policy(decisions, space, actions, teacher)
    losing = loss(decisions, chosen, actions, teacher)
    learning, automatic = learner(decisions, chosen)
    solving, options = solver(decisions, space, chosen, losing, learning)
    plan = compared(decisions, plan, chosen, space)
    count = ensemble(decisions, chosen, learning)
    weigh = weights(decisions, chosen, plan)
    encoder, stack, standardise, noise = views(decisions, space, chosen, actions, teacher)
    check(decisions, plan, chosen, actions, teacher)
    asks = SMALL if plan.grows else None if plan.rule is None else plan.rule.count
    # Workers other than threads keep the limit themselves: the time in which they start is not the expert's.
    kept = spec.workers is not None and spec.workers[1] != "threads"
    seconds = math.inf if spec.expert_timeout is None or kept else spec.expert_timeout
    return Resolved(
        spec=spec,
        plan=plan,
        policy=chosen,
        loss=losing,
        learner=learning,
        automatic=automatic,
        solver=solving,
        solver_options=options,
        ensemble=count,
        weigh=weigh,
        ordinary=min(asks or plan.steps_per_round, plan.steps_per_round) if weigh == "labels" else None,
        noise=noise,
        standardise=standardise,
        stagger=decisions["stagger"],
        average=decisions["average"],
        encoder=encoder,
        frame_stack=stack,
        limits={"timeout": seconds, "retries": 0 if spec.workers is None else spec.expert_retries},
        choices=tuple(decisions.made.values()),
    )


@final
class Decisions:
    """What was said, and what the steps have decided so far: the first to decide a setting wins."""

    def __init__(self, spec: RunSpec, before: Mapping[str, Setting] | None = None):
        self.spec, self.preset, self.by = spec, PRESETS[spec.preset], f"the preset {spec.preset}"
        self.before, self.goal = dict(before or {}), spec.goal
        begun = self.before.get("policy")
        if is_mapping(begun) and is_sequence(widths := begun.get("widths")):
            self.before["widths"] = tuple(widths)  # a network goes on as wide as it is
        self.made: dict[str, Choice] = {}

    def __getitem__(self, name: str) -> Any:
        return self.made[name].value if name in self.made else getattr(self.spec, name)

    def decide(
        self,
        name: str,
        value: Setting,
        reason: str,
        *,
        when: str = "now",
        candidates: tuple[str, ...] = (),
    ) -> Any:
        """The setting, which is `value` where nothing was said or decided before."""
        if name not in self.made:
            choice = Choice(name, value, reason, when, candidates)
            if not self.spec.unsaid(name):
                choice = Choice(name, getattr(self.spec, name), SAID)
            elif name in (*PORTIONS, "widths") and name in self.before:
                choice = Choice(name, self.before[name], BEGUN)
            self.made[name] = choice
        return self.made[name].value

    def note(self, name: str, value: Setting, reason: str, *, when: str = "now") -> None:
        """Writes down what a decision comes to, in place of what was written before."""
        self.made[name] = Choice(name, value, reason, when)

    def options(self, part: str) -> dict[str, Any]:
        """The options of a part: those that were said, and those that were decided."""
        decided = {name: self.made[name].value for name in OPTIONS[part] if name in self.made}
        return decided | self.spec.options(part)


def _planned(decisions: Decisions) -> Timetable:
    person(decisions)
    goal(decisions)
    budget(decisions)
    preset(decisions)
    return timetable(decisions)


def person(decisions: Decisions) -> None:
    """Where the expert is a person: few labels, short rounds that are learnt from at once, and no round that
    the person drives from its first step on.

    Fifty labels, ten a round, are spread by `distance` over 200 steps of a policy that samples its actions. A
    rule of the thumb in the place of a person (push the cart to where the pole falls) made a linear policy
    hold CartPole's pole for 454 of 500 steps with them, 361 with thirty (means of four seeds, ten episodes
    each); the rule `random` gave 401 and 253, a network of 64 × 64 428 and 287. On the spot a person drives
    up to 300 steps in ten rounds.
    """
    spec, decide = decisions.spec, decisions.decide
    if not spec.by_person:
        return
    if spec.moment == "spot":
        decide("ask", "driven", "you watch, and what you drive is what is learnt from")
        decide("rounds", 10, "ten short rounds, each learnt from at once")
        decide("budget", 300, "up to 300 steps that you drive")
    else:
        each = 10 if spec.budget is None else max(1, min(10, spec.budget // 3))
        name = "distance" if spec.policy not in ("nature_cnn", "camera", "tabular") else "random"
        how = "the states farthest from those you have answered" if name == "distance" else "drawn at random"
        decide("ask", f"{name}:{each}", f"you are asked about {each} states a round, {how}")
        if spec.rounds is None:
            decide("budget", 50, "a person gives few labels")
    decide("steps_per_round", 200, "short rounds, so that the policy soon acts on what you answered")
    decide("evaluate_every", 1, "you see after every round what your answers have changed")
    if spec.episodes != 0:
        decide("keep_best", True, "an answer may spoil what was better before")
    decide("first_round", "agent", "the policy acts, and you answer, from the first round on")
    decide("expert_episodes", 0, "a person is not measured")
    decide("noise", 0.1, "a policy that knows nothing yet must not repeat itself")
    if spec.policy == "mlp":
        decide("widths", (64, 64), "a small network learns from few labels while you wait")
        if spec.solver == "auto":
            decide("max_iterations", 500, "a short training, while you wait")


def open_ended(spec: RunSpec) -> bool:
    """Whether nothing was said of how long a run is, and its policy is a network. It then has a goal.

    >>> open_ended(RunSpec(env="Hopper-v5", seed=3)), open_ended(RunSpec(env="Hopper-v5", rounds=5))
    (True, False)
    """
    network = spec.policy in ("auto", "mlp") and not is_pure(spec.env) and not spec.by_person
    played = not (isinstance(spec.env, str) and spec.env.startswith("ALE/"))  # episodes are long
    return network and played and all(spec.unsaid(name) for name in LENGTH)


def goal(decisions: Decisions) -> None:
    """With `until`, or where nothing was said of how long a run is (`open_ended`): a ceiling of labels, and
    an evaluation after every round to find policies worth a test. If the goal is an agreement or a loss,
    randomly drawn labels find them instead, and returns are not used.
    """
    spec, decide = decisions.spec, decisions.decide
    wanted, why = spec.goal, "a test that may be looked at at any time ends the run"
    before = decisions.before
    if wanted is None and before:
        begun = before.get("until")
        wanted, why = None if begun is None else goal_of(begun), BEGUN
    elif wanted is None and open_ended(spec):
        wanted = Goal("share", SHARE_TO_REACH)
        why = f"nothing was said of how long: {why}; --rounds {ROUNDS} plays as many rounds instead"
    decisions.goal = wanted
    if wanted is None:
        return
    decisions.note("until", str(wanted), why)
    most = CEILING if spec.rounds is None else None
    if (most := before.get("budget") if before else most) is not None:
        decide("budget", most, "no more labels than this, wherever the test stands")
    most = decisions["budget"]
    if most is not None and spec.rounds is None and spec.demos is None and spec.preset == "practical":
        decide("first_steps", max(1, min(200, most // 2)), "200 labels, or half of the most")
    if wanted.kind != "share":
        decide("evaluate_every", 0, "labels decide, and not returns")
        decide("keep_best", False, "the policy that is tested is kept")
        return
    if spec.episodes == 0 or spec.expert_episodes == 0:
        raise UserError(
            "until: a share of the expert's return needs episodes of policy and expert, and "
            f"{'episodes' if spec.episodes == 0 else 'expert_episodes'} is 0."
        )
    decide("evaluate_every", 1, "every policy is evaluated, to find one that is worth a test")
    decide("keep_best", True, "a later policy may be worse than an earlier one")
    decide("episodes", JUDGING, "of the policy that is kept, beside those of its test")


def budget(decisions: Decisions) -> None:
    """Where the preset practical has a budget and nothing was said about asking: as `spending` says. With so
    few labels a policy may stumble again in a later round: all are evaluated, which costs no labels, and the
    best one is kept. Demonstrations take the place of the large first round.
    """
    spec, labels, decide = decisions.spec, decisions["budget"], decisions.decide
    free = decisions["ask"] is None and decisions["rounds"] is None and spec.beta == 0.0
    free = free and spec.learner != "bc" and spec.preset == "practical" and spec.moment == "after"
    if labels is None or not free:
        return
    near = spec.policy not in ("nature_cnn", "tabular", "gru")  # distances between their inputs mean nothing
    until = decisions.goal is not None
    if decisions.goal is not None and decisions.goal.kind != "share":
        near = False  # labels at random say how good it is
    spent = spending(labels, near=near, until=until)
    states = "on new states" if near else "at random"
    many = f"{GROWTH:.0%} of the labels so far, at least {SMALL}," if until else "a twentieth of the budget"
    decide("ask", spent.ask, f"{many} a round, {states}")
    if spec.demos is None:
        why = "200 labels" if until else "a quarter of the budget, at least 200 labels"
        why += ", or half of all"
        decide("first_steps", spent.first_steps, why)
    if spec.keep_best is not False and spec.episodes != 0:
        decide("keep_best", True, "with few labels a later policy may be worse than an earlier one")
        decide("evaluate_every", 1, "every policy is evaluated, to keep the best; that costs no labels")


def preset(decisions: Decisions) -> None:
    """What is left: who acts first, what is asked and kept, and how long a round is.

    Pure environments are stepped together, so fewer of them would not be cheaper; each has `EACH` steps a
    round.
    """
    spec, decide, first = decisions.spec, decisions.decide, decisions.preset.first_round
    many = EACH * spec.num_envs if is_pure(spec.env) else 0
    decide("ask", "all", "every state of a round is asked about, as in DAgger")
    decide("budget", None, "labels are not limited")
    decide("until", None, "the run ends after its last round")
    long = f"{EACH} steps of each of {spec.num_envs:,} environments" if many > STEPS else "the usual length"
    decide("steps_per_round", max(STEPS, many), long)
    ages = "a round shows all phases of an episode" if is_pure(spec.env) else "each has its own pace"
    decide("stagger", is_pure(spec.env) and spec.num_envs > 1 and decisions.preset.automatic, ages)
    decide("first_steps", None, "round 1 is as long as the others")
    decide("first_round", first, f"the preset {spec.preset}: the {first} acts in round 1")
    decide("keep_best", False, "the last policy is kept")
    decide("evaluate_every", 0, "the policy is evaluated after the last round")
    judging = decide("episodes", CHOSEN if decisions["keep_best"] else JUDGING, "of the policy that is kept")
    decide("expert_episodes", judging, "the same as of the policy; an expensive expert is not measured")
    decide("average", 1, "the last policy acts alone")


def timetable(decisions: Decisions) -> Timetable:
    """The rounds: `ROUNDS`, or as many as the budget takes. Demonstrations are one without steps, and
    behavioural cloning from them needs no other. The expert is measured by as many episodes as the policy.

    Where the rule does not say how many states it asks about, the budget may be spent in fewer rounds.
    """
    from .asking import rule

    spec, asked, labels = decisions.spec, decisions["ask"], decisions["budget"]
    every, options = asked == "all", spec.options("ask")
    asks = None if every and not options else rule(asked, options)
    count, best, often = asks and asks.count, decisions["keep_best"], decisions["evaluate_every"]
    beta = 1.0 if isinstance(spec.learner, str) and spec.learner == "bc" else spec.beta
    who = mixing(beta, first_round=decisions["first_round"])
    ends = every or (count is not None and who.beta(10_000) in (0.0, 1.0))
    if spec.demos is not None and spec.name == "bc":
        last = decisions.decide("rounds", 0, "the demonstrations alone are cloned")
    elif labels is None or not ends:
        last = decisions.decide("rounds", ROUNDS, "the usual number")
    else:
        last = decisions.decide("rounds", None, "as many as the budget takes")
    each, demos = decisions["steps_per_round"], int(spec.demos is not None)
    most, left = (math.inf if limit is None else limit for limit in (last, labels))
    grows = decisions.goal is not None and spec.ask is None and None not in (count, labels)
    rounds = _rounds(decisions["first_steps"] or each, each, most, demos, left, who, every, count, grows)
    if rounds is None:
        named = f"budget: {labels}" if last is None else f"rounds: {last}"
        raise UserError(f"{named} takes more than {MOST_ROUNDS:,} rounds; let a round be larger.")
    if last is None:
        decisions.note("rounds", None, f"as many as the budget takes: {len(rounds)}")
    judging = decisions["episodes"]
    looks = LOOKS if spec.episodes is None else spec.episodes
    if best and not looks:
        raise UserError(
            "keep_best: yes needs evaluations to choose by, and episodes is 0; give episodes, or no."
        )
    if best:
        long = f"up to {COURSE * looks}, {SURE * looks} where it is as good as the expert"
        why = "a race on the same episodes: until behind the best, or known to 1 %"
        decisions.note("looks", long, why, when="in every evaluation on the way")
    if spec.moment == "spot" and (count is not None or not hasattr(asks, "gate")):
        raise UserError(
            f"moment: 'spot' needs a rule with a threshold, as in disagreement:0.05; ask is {spec.ask!r}."
        )
    played = len(rounds)
    evaluated = {played, *(range(often, played + 1, often) if often else ())} if looks else ()
    return Timetable(
        rounds=rounds,
        last=last,
        steps_per_round=each,
        budget=labels,
        num_envs=min(spec.num_envs, each),
        ask=asked,
        rule=None if every else asks,
        mixing=who,
        comparator_rounds=comparator_rounds("last" if spec.comparator is None else spec.comparator, played),
        evaluated=frozenset(evaluated),
        keep_best=best,
        looks=looks,
        judging=judging,
        expert_episodes=decisions["expert_episodes"],
        insists=spec.expert_episodes is not None,
        goal=decisions.goal,
        grows=grows,
    )


@functools.lru_cache(maxsize=64)  # thousands of runs of a study have the same rounds
def _rounds(
    first: int,
    each: int,
    last: float,
    before: int,
    left: float,
    who: Mixing,
    every: bool,
    count: int | None,
    grows: bool,
) -> tuple[tuple[int, int], ...] | None:
    """Interactions and the most labels of every round; None where there would be more than `MOST_ROUNDS`."""
    rounds, whole_budget = [(0, 0)] * before, left
    while len(rounds) < last + before and left > 0:
        size = first if len(rounds) == before else each
        if len(rounds) >= MOST_ROUNDS:
            return None
        beta = who.beta(len(rounds) + 1)
        most, whole = min(size, left), every or beta == 1.0
        exact = whole or (beta == 0.0 and count is not None)
        if count is not None and beta == 0.0 and not whole:
            portion = max(SMALL, int(GROWTH * (whole_budget - left))) if grows else count
            most = min(most, count, portion)
        rounds.append((int(most if whole else size), int(most)))
        left -= most if exact else 0
    return tuple(rounds)


def policy(decisions: Decisions, space: Space, actions: Actions, teacher: Expert) -> Policy:
    """The policy: a network; linear on the expert's features where observations are images, and on vectors
    where the expert is a person, who gives few labels; `camera` for an image with other things beside it. By
    name it has the preset's bias or tanh head, objects stay as they are.
    """
    from .policies import GRU, MLP, POLICIES, Camera, Observations

    spec, options, squash = decisions.spec, decisions.options("policy"), decisions.spec.squash
    name, by = spec.policy, decisions.by
    if spec.expert is None and spec.experts is None:
        decisions.note("expert", teacher.name, "it comes with the package for this environment")
    if not isinstance(name, str):
        chosen = POLICIES.resolve(name)
        decisions.note("policy", _name(chosen), SAID)
        return _squashed(chosen, actions) if squash else chosen
    name = decisions.decide("policy", *_architecture(space, teacher, options))
    if name == "linear":
        options = {"bias": decisions.preset.bias} | options
    elif name == "tabular":
        options = {"states": Observations.of(space, tabular=True).leaves[0].counts[0]} | options
    elif name == "nature_cnn":
        options = _pixels(space) | options
    elif name == "camera":
        options = _picture(space) | options
    elif name == "mlp" and decisions["budget"] and decisions.preset.automatic and spec.init is None:
        wide = f"up to {ENOUGH:,} labels a narrow network is quicker, and needs no more of them"
        widths = decisions.decide("widths", spending(decisions["budget"]).widths, wide)
        options = {"widths": widths} | options
    chosen = POLICIES.make(name, options)
    fits = isinstance(chosen, MLP | Camera | GRU) and not actions.categorical and actions.bounded
    if fits and decisions.preset.squash:
        squash = decisions.decide("squash", True, "a tanh head keeps actions within their bounds")
    elif fits:
        squash = decisions.decide("squash", False, by)
    return _squashed(chosen, actions) if squash else chosen


def _architecture(space: Space, teacher: Expert, options: Mapping[str, Setting]) -> tuple[str, str]:
    """The name of the policy where none was given, and why."""
    from .experts.networks import find_encoder

    if _beside(space):
        return "camera", "the observations are an image with other things beside it"
    if _images(space) and find_encoder(teacher) is not None and not options:
        return "linear", "the expert's own features of an image are known"
    if not _images(space) and teacher.person is not None and not options:
        return "linear", "a person gives few labels, and a linear policy needs fewer"
    return "mlp", "a network fits most experts"


def _squashed(policy: Policy, actions: Actions) -> Policy:
    from .policies import GRU, MLP, Camera

    if not isinstance(policy, MLP | Camera | GRU):
        raise UserError(f"squash: the policy {policy.name!r} has no tanh head; mlp, gru and camera have.")
    if actions.categorical or not actions.bounded:
        raise UserError("squash: a tanh head needs Box actions with finite bounds.")
    low, high = (tuple(edge.astype(float).tolist()) for edge in (actions.low, actions.high))  # type: ignore[union-attr]
    return dataclasses.replace(policy, head="tanh", low=low, high=high)


def compared(decisions: Decisions, plan: Timetable, chosen: Policy, space: Space) -> Timetable:
    """The plan without a search for the best network in hindsight, where nothing was said of one and it sees
    images: regret of a network is an estimate, and must not cost more than its training.
    """
    if decisions.spec.comparator is not None or chosen.linear or not (_images(space) or _beside(space)):
        return plan
    decisions.decide("comparator", "none", UNCOMPARED)
    return dataclasses.replace(plan, comparator_rounds=frozenset())


def _images(space: Space) -> bool:
    """Whether observations are images of bytes."""
    return len(getattr(space, "shape", None) or ()) == 3 and getattr(space, "dtype", None) == "uint8"


def _beside(space: Space) -> bool:
    """Whether an image, not too small, has other things beside it."""
    from .policies import Observations
    from .policies.camera import LEAST_SIDE

    leaves = Observations.of(space).leaves
    images = [leaf for leaf in leaves if leaf.kind == "byte" and len(leaf.shape) == 3]
    return len(images) == 1 < len(leaves) and min(sorted(images[0].shape)[1:]) >= LEAST_SIDE


def _picture(space: Space) -> dict[str, tuple[int, ...] | int]:
    """Where in a row the image is."""
    from .policies import Observations

    place, image = 0, None
    for leaf in Observations.of(space).leaves:
        if leaf.kind == "byte" and len(leaf.shape) == 3:
            if image is not None:
                raise UserError("policy: 'camera' sees one image; student_sees chooses among several.")
            image = {"shape": tuple(leaf.shape), "place": place}
        place += leaf.width
    if image is None:
        raise UserError(f"policy: 'camera' needs an image of bytes among the observations {space}.")
    return image


def _pixels(space: Space) -> dict[str, int | str]:
    """A stack and size of frames; the solver's loop is inside a compiled program, where products are fast."""
    shape = tuple(space.shape or ())
    if not _images(space) or shape[1] != shape[2]:
        raise UserError(
            "policy: 'nature_cnn' sees stacks of square frames of bytes, (stack, size, size), "
            f"as Atari's; these observations are {space}."
        )
    return {"stack": int(shape[0]), "size": int(shape[1]), "method": "matmul"}


EDGE = 0.1
"""Where the Huber loss turns from a square to a line: a share of the range of the actions."""


def loss(decisions: Decisions, policy: Policy, actions: Actions, teacher: Expert) -> Loss:
    """The loss: cross-entropy for choices and squared for Box actions, or Huber's, which a few labels that do
    not fit disturb less, where networks learn from a budget of them.

    Labels to 90 % in the median of five seeds with the squared loss, Huber's with an edge of 0.1 and of 0.05,
    while the mean of five policies acted: Hopper 360, 340, 320; Walker2d 700, 650, 850; HalfCheetah above
    5,000, 4,500, 4,500 (docs/studies/queries.md).
    """
    from .losses import LOSSES, CrossEntropy

    spec, options = decisions.spec, decisions.options("loss")
    if spec.loss == "auto":
        name, reason = "squared", "the actions are numbers"
        if actions.categorical:
            name, reason = "cross-entropy", "the actions are choices"
        elif _few(decisions, policy) and actions.bounded and not options:
            assert actions.low is not None and actions.high is not None
            options = {"delta": EDGE * float((actions.high - actions.low).mean())}
            name, reason = "huber", "few labels: those that do not fit disturb a network less"
        chosen = LOSSES.make(decisions.decide("loss", name, reason), options)
    else:
        chosen = LOSSES.make(spec.loss, options) if isinstance(spec.loss, str) else LOSSES.resolve(spec.loss)
        decisions.note("loss", _name(chosen), SAID)
    if not actions.categorical and chosen.logits:
        raise UserError("loss: cross-entropy is for Discrete and MultiDiscrete actions, these are Box.")
    if (
        teacher.kind == "distribution"
        and spec.label_kind != "action"
        and not chosen.logits
        and spec.loss != "auto"
    ):
        raise UserError(
            f"loss: {spec.loss!r} does not fit an expert that gives distributions; cross-entropy does."
        )
    if isinstance(chosen, CrossEntropy) and actions.kind == "multi":
        return CrossEntropy(groups=actions.counts)
    return chosen


SCALES = {"ftrl": "eta", "alt_ftrl": "eta", "adaftrl": "alpha"}
"""Regularised learners and the number that sets how strong their penalty is."""


def learner(decisions: Decisions, policy: Policy) -> tuple[AnyLearner, Scale | None]:
    """The learner, and what finds its scale where a name comes without one.

    Where its `start` was not given, the schedule starts in round 1 for a policy that is linear in its
    parameters: without a penalty, separable data would send the first solve to infinity, and the certificate
    with it. A network of the practical preset starts in round 2: the first gradient of an untrained network
    says nothing about the later ones. For such a network a regularised learner given by name finds its own
    scale (`Scale`) and uses the mean centre, in which errors of inexact solves do not add up. For a linear
    policy α = 1 or η = 1.
    """
    import numpy as np

    from .learners import LEARNERS, Learner, free, started

    spec, options, scale = decisions.spec, decisions.options("learner"), None
    network = decisions.preset.automatic and not policy.linear
    chosen = spec.learner
    if isinstance(chosen, str):
        name = "ftl" if chosen == "bc" else LEARNERS.aliases.get(chosen, chosen)
        number = SCALES.get(name)
        if number is not None and number not in options and decisions.preset.automatic:
            scale = Scale(number) if network else None
            # A scale is found in the rounds before its start, and it is that of α or of η/√t.
            early = scale is not None and options.get("start", scale.start) < scale.start
            scale = None if early or options.get("schedule", "sqrt") != "sqrt" else scale
            if scale is not None:
                rule = f"{scale.factor:g} D" + ("" if number == "alpha" else "/G")
                why = "D is how far round 1 moves the parameters, G the size of a gradient"
                decisions.note(number, rule, why, when=f"after round {scale.start - 1}")
            elif not network:
                decisions.note(number, 1.0, "the scale of standardised observations is one")
            options |= {number: 1.0} if scale is not None or not network else {}
        chosen = LEARNERS.make(name, options)
        if scale is not None:
            assert isinstance(chosen, Learner)
            chosen = dataclasses.replace(chosen, around_last=np.asarray(False))
    chosen = LEARNERS.resolve(chosen)
    if (host := _host(policy)) is not None:
        chosen = _held(chosen, host, scale)
    solves = network and not getattr(chosen, "linear", False)
    first = 1 if not solves else 2 if scale is None else scale.start
    chosen = started(chosen, first)
    if isinstance(spec.learner, str) and not free(chosen) and "start" not in options:
        why = "a network learns round 1 without a penalty" if solves else "the penalty keeps round 1 bounded"
        decisions.note("start", first, f"the first round that the schedule counts: {why}")
    return chosen, scale


def _held(learner: AnyLearner, host: Host, scale: Scale | None) -> AnyLearner:
    """The learner of a student that is fitted by itself: around the mean centre, so that weight and centre
    are all of the penalty; or one sentence.
    """
    import numpy as np

    from .learners import Learner

    name = getattr(learner, "name", type(learner).__name__)
    if not isinstance(learner, Learner) or learner.linear or learner.radius is not None:
        what = (
            f"{name!r}" if not isinstance(learner, Learner) or learner.linear else f"{name!r} with a radius"
        )
        raise UserError(
            f"learner: {what} steps or solves by itself, and the student {host.name!r} is fitted by its own "
            "fit; ftl, bc, ftrl, alt_ftrl and adaftrl are accepted."
        )
    if learner.schedule.zero:
        return learner
    if not host.parametric:
        raise UserError(
            f"learner: {name!r} penalises parameters, and the student {host.name!r} has none; ftl and bc are "
            "accepted."
        )
    if (np.any(learner.schedule.adaptive) or scale is not None) and not host.has("gradient"):
        raise UserError(
            f"learner: {name!r} is scaled by gradients, and the student {host.name!r} has no "
            "gradient(rows, labels, weights); ftl, and ftrl with an eta, are accepted."
        )
    return dataclasses.replace(learner, around_last=np.asarray(False))


WHY = {
    "batch_size": "samples of a step: a round costs the same however many there are",
    "measure": "the gradient on all samples is not needed, and would cost much",
    "decay": "the steps fall to nothing in every round, which lowers the loss",
    "proximal": "whether a penalty is taken exactly, which Adam would magnify",
}


def solver(
    decisions: Decisions, space: Space, policy: Policy, loss: Loss, learner: AnyLearner
) -> tuple[str | AnySolver, dict[str, Setting]]:
    """What to hand to `make_game`: the exact solver of a linear policy (`solvers.auto_name`); for networks
    Adam on minibatches, at a cost per round that does not grow.

    In the practical preset Adam's step falls to zero along a cosine in every round (Hopper, seed 0, loss of
    round 22: 0.0034 with a constant step, 0.0015 so), and the penalty of a regularised learner is taken by
    proximal steps, since Adam would magnify it (AdaFTRL's mean score on Walker2d at 5,000 labels: 0.33 with
    neither, 0.84 with both).
    """
    from .learners import free
    from .solvers import NEWTON_LIMIT, SOLVERS, auto_name

    spec, options = decisions.spec, decisions.options("solver")
    name = spec.solver
    if (host := _host(policy)) is not None:
        return "adam", _fitting(decisions, host, learner, options)
    if not isinstance(name, str):
        decisions.note("solver", _name(name), SAID)
        return name, options
    small, large = (auto_name(policy, loss, size) for size in (0, NEWTON_LIMIT + 1))
    if policy.linear:
        if small == large:
            decisions.decide("solver", small, "it solves this loss exactly")
        else:
            why = f"it solves this loss exactly; {large} beyond {NEWTON_LIMIT:,} parameters"
            decisions.decide("solver", small, why, candidates=(small, large))
        return name, options
    name = decisions.decide("solver", small, "a network has no exact solver")
    takes = SOLVERS.takes(name)
    if takes is not None and "batch_size" not in takes:
        return name, options
    more: dict[str, float | str] = {"batch_size": policy.minibatch, "measure": False}
    more = {option: value for option, value in more.items() if takes is None or option in takes}
    if spec.solver == "auto" and decisions.preset.automatic:
        more |= {"decay": "cosine", "proximal": not free(learner)}
        if policy.memory:
            # 33,000 labels of Hopper without velocities: held-out error 0.063 so, with 1e-3 0.108.
            more["learning_rate"] = 3e-3
        if _few(decisions, policy):
            from .policies import Observations

            more |= spending(
                decisions["budget"], Observations.of(space).width, until=decisions.goal is not None
            ).training
            if "max_iterations" in options:
                del more["passes"], more["most_passes"]  # as many steps as were asked for
    SOLVERS.refuse_foreign(name, options)
    for option, value in more.items():
        if option not in options:
            why = WHY.get(option, "few labels: a longer training with smaller weights")
            decisions.note(option, value, why)
    return name, more | options


def _fitting(
    decisions: Decisions, host: Host, learner: AnyLearner, said: Mapping[str, Setting]
) -> dict[str, Setting]:
    """The options of Adam for a student that is trained with them, as a network of this package is; a student
    with its own way of learning takes none.
    """
    from .learners import free

    takes = host.options
    foreign = [] if decisions.spec.solver in ("auto", "adam") else ["solver"]
    if foreign := [*foreign, *(name for name in said if name not in takes)]:
        offer = f"; it takes {', '.join(takes)}" if takes else ""
        raise UserError(f"{foreign[0]}: the student {host.name!r} learns by its own fit{offer}.")
    decisions.note("fit", host.way, "the student is fitted by itself")
    more: dict[str, Setting] = {"batch_size": 256, "decay": "cosine", "proximal": not free(learner)}
    if not decisions.preset.automatic:
        more = {"batch_size": 256}
    if decisions["budget"] is not None and decisions.preset.automatic:
        more |= dict(spending(decisions["budget"]).training)
        if "max_iterations" in said:
            del more["passes"], more["most_passes"]
    for option, value in more.items():
        if option in takes and option not in said:
            decisions.note(
                option, value, WHY.get(option, "few labels: a longer training with smaller weights")
            )
    return more | dict(said)


MEMBERS = 5
"""Networks of the ensemble that is kept where labels are few."""


def ensemble(decisions: Decisions, policy: Policy, learner: AnyLearner) -> int:
    """Networks whose mean is evaluated and kept: `MEMBERS` where a network learns from few labels without a
    penalty, else one. What cannot be one of several is refused.

    Scores of what is kept with one and with five, means of seeds 20 to 24: Hopper 0.952 and 0.995, Walker2d
    1.010 and 1.004; and of seeds 5 to 9, with rounds weighing alike: HalfCheetah 0.908 and 0.929, Ant 0.845
    and 0.931. One of them acts: where the mean did, Hopper needed more labels in three seeds of four
    (docs/studies/queries.md).
    """
    from .learners import free
    from .policies import MLP

    spec = decisions.spec
    if decisions["average"] > 1 and not policy.linear:
        raise UserError(
            f"average: {spec.average!r} is for policies that are linear in their parameters, and "
            f"{policy.name!r} is not; ensemble trains several networks."
        )
    host = _host(policy)
    if spec.init is not None and host is not None:
        raise UserError(f"init: the student {host.name!r} starts from where it is when it is given.")
    begins = host is not None and host.has("begin")  # so that others have starts of their own
    apart = (type(policy) is MLP or begins) and free(learner) and spec.init is None
    few = apart and not begins and _few(decisions, policy)
    reason = "few labels: the mean of several networks is better" if few else "the network that acts"
    when = "until the best is as good as the expert" if few and decisions["keep_best"] else "now"
    count = decisions.decide("ensemble", MEMBERS if few else 1, reason, when=when)
    if count > 1 and not apart:
        raise UserError(
            f"ensemble: {count!r} is for networks (mlp), and students that begin(job), which FTL or BC "
            f"trains without init; the policy is {policy.name!r}, the learner {spec.name!r}."
        )
    return count


def weights(decisions: Decisions, policy: Policy, plan: Timetable) -> str:
    """Whether every round or every label has the same weight: labels, where a network learns from few. The
    first, expert-driven round has several times as many labels as the others; if each of them weighed less,
    a robot could forget how to start. Demonstrations, which may be many, weigh as one round.
    """
    if decisions.spec.weigh == "labels" and policy.linear:
        raise UserError(
            f"weigh: 'labels' is for networks, and {policy.name!r} is linear; 'rounds' is accepted."
        )
    counted = plan.rule is None or plan.rule.count is not None
    few = decisions["budget"] is not None and decisions.preset.automatic and _host(policy) is not None
    if (few or _few(decisions, policy)) and counted and decisions.spec.demos is None:
        return decisions.decide("weigh", "labels", "those of the large first round must not weigh less")
    return decisions.decide("weigh", "rounds", "every round counts once in the regret")


def views(
    decisions: Decisions, space: Space, policy: Policy, actions: Actions, teacher: Expert
) -> tuple[Source, int | None, bool, float]:
    """What the policy sees and what it adds to its actions: encoder, stack, whether observations are
    standardised, noise.

    A linear policy on images has the expert's features of them, where the expert has any. A policy with
    memory sees two observations, the last and its change. A policy that starts from another's parameters
    keeps that one's statistics. Noise on choices is the temperature at which they are sampled.
    """
    from .experts.networks import find_encoder
    from .policies import Observations

    spec, decide = decisions.spec, decisions.decide
    encoder = spec.encoder
    image = sum(leaf.kind == "byte" and len(leaf.shape) == 3 for leaf in Observations.of(space).leaves) == 1
    own = policy.name == "linear" and image and find_encoder(teacher) is not None
    if encoder == "none" or (encoder == "auto" and not own):
        encoder = None
    elif not image or policy.name != "linear":
        raise UserError(f"encoder: {encoder!r} is for a linear policy on images; this one is {policy.name}.")
    else:
        decide("encoder", "auto", f"a linear policy sees the features that {teacher.name} makes of an image")
    stack = spec.frame_stack
    if stack is None and policy.memory:
        stack = decide("frame_stack", 2, "the last observation and its change")
    if spec.init is not None:
        standardise = decide("standardise", False, "the statistics of what it starts from are kept")
    else:
        when = "after round 1" if decisions.preset.standardise else "now"
        standardise = decide("standardise", decisions.preset.standardise, decisions.by, when=when)
    noise = decide("noise", decisions.preset.noise, decisions.by)
    if spec.noise is None and noise and actions.categorical:
        noise = 1.0
        decisions.note("noise", noise, "the policy samples its choices, and does not repeat itself")
    return encoder, stack, standardise, noise


def _reachable(wanted: Goal, plan: Timetable, policy: Policy, actions: Actions, teacher: Expert) -> None:
    """Refuses what nothing here could test."""
    why = ""
    if teacher.name == "none":
        why = "needs an expert to compare with, and there are demonstrations alone"
    elif wanted.kind == "share" and plan.measures(expensive=teacher.workers is not None) == 0:
        why = (
            "needs episodes of the expert, and it is slow or expensive; agreement and loss need labels only,"
        )
        why += " and --expert-episodes 20 plays it all the same"
    elif wanted.kind != "share" and (policy.memory or teacher.on_reset is not None):
        why = f"is asked about single states, and the {'policy' if policy.memory else 'expert'} remembers"
    elif wanted.kind == "agreement" and actions.kind != "discrete":
        why = "is of one choice among several; loss:0.05 is accepted for these actions"
    if why:
        raise UserError(f"until: {str(wanted)!r} {why}.")


def check(decisions: Decisions, plan: Timetable, policy: Policy, actions: Actions, teacher: Expert) -> None:
    """Refuses a rule that the policy does not fit, and settings with which an expert that remembers would not
    be asked state after state.
    """
    if (fits := getattr(plan.rule, "fits", None)) is not None:
        fits(policy)
    if plan.goal is not None:
        _reachable(plan.goal, plan, policy, actions, teacher)
    if teacher.on_reset is None:
        return
    spec = decisions.spec
    for name, value, accepted in (
        ("num_envs", spec.num_envs, 1),
        ("ask", plan.ask, "all"),
        ("expert_workers", spec.workers, None),
    ):
        if value != accepted:
            raise UserError(
                f"{name}: an expert with on_reset remembers, so it is asked state after state in one "
                f"environment; {value!r} is not accepted, {accepted!r} is."
            )


def _name(part: Setting) -> str:
    return str(getattr(part, "name", type(part).__name__))


def _few(decisions: Decisions, policy: Policy) -> bool:
    """Whether a network on vectors learns from few labels, and the preset decides how."""
    from .policies import MLP

    host = _host(policy)
    network = isinstance(policy, MLP) or (host is not None and bool(host.options))
    return decisions["budget"] is not None and decisions.preset.automatic and network


def _host(policy: Policy) -> Host | None:
    """Whose student the policy is, where it is computed elsewhere."""
    from .policies import Guest

    return policy.host if isinstance(policy, Guest) else None
