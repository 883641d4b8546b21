"""The settings of a run: their names, types, limits and defaults, each with the text that `--help` prints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .presets import PRESETS

if TYPE_CHECKING:  # importing this room is cheap
    import gymnasium

    from ..asking import Rule
    from ..envs.pure import PureEnv
    from ..learners import AnyLearner
    from ..losses import Loss
    from ..policies import Policy
    from ..solvers import AnySolver

Environment: TypeAlias = "str | Callable[..., Any] | gymnasium.Env[Any, Any] | PureEnv"
"""An id, a function that makes an environment, or an environment."""

PARTS = ("learner", "policy", "loss", "solver", "ask", "expert")
"""Parts that a run has by name or as an object, each with options."""


def _of(part: str, default: Any = None) -> Any:
    """A field that is an option of a part."""
    return dataclasses.field(default=default, metadata={"of": part})


def _least(default: Any, least: float, most: float = math.inf) -> Any:
    """A number from `least` to `most`."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most})


def _among(default: Any, *accepted: str) -> Any:
    return dataclasses.field(default=default, metadata={"among": accepted})


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """The fields of `RunSpec`. None stands for what the preset, the policy or the solver decides."""

    env: Environment | None = None
    """A Gymnasium id such as Hopper-v5, module:Id to import a package first, or module:function."""
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
    expert_workers: int | str | None = None
    """Questions under way at once, for an expert that is slow or dear: a number (threads), or processes:N.
    Such an expert is asked about a state once, after the round, and is not played for its return."""
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
    init: Any = None
    """Start from the parameters of a shipped expert, a policy's file, a run's folder or an archive."""
    encoder: Any = "auto"
    """Whose features a linear policy on images has: auto (the expert's), none (the pixels), or another's
    name or file."""
    labels: str = _among("expert", "expert", "mode")
    """What is learned: the expert's answer (a distribution where it gives one), or its mode."""
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
    preset: str = _among("practical", *PRESETS)
    """practical (round 1 expert-driven, standardised observations, squashed head) or paper."""
    rounds: int | None = _least(None, 0, 1_000_000)
    """Rounds (default: 25, or with a budget as many as that takes); 0 learns from demonstrations alone."""
    demos: str | None = None
    """Recorded demonstrations, as a first round that costs nothing: an .npz with observations and actions,
    minari:ID, or the folder of another run."""
    interactions: int = _least(None, 1, 1_000_000_000)
    """Environment steps in a round (default: 1000; in a pure environment 50 for each of `envs`, if that is
    more)."""
    first_interactions: int | None = _least(None, 1, 1_000_000_000)
    """Environment steps in round 1, where they are not as many."""
    envs: int = _least(1, 1, 100_000)
    """Environments side by side."""
    budget: int | None = _least(None, 1)
    """Stop after so many queries; the last round asks for what is left."""
    ask: str | Rule | None = None
    """Which states of a round the expert is asked about: all (the default, but with a budget and without
    rounds the preset practical spreads it), random:K, fraction:P, distance:K,
    disagreement:K, leverage:C (linear policies), or module:function. A state where the expert acts is asked
    about whatever the rule."""
    floor: float | None = _of("ask")
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
    members: int | None = _least(None, 1)
    """Evaluate and keep the mean of so many networks. The learner trains one, which acts and whose losses and
    regret the ledger has; the others are trained apart, from starts of their own, on the same labels."""
    best: bool | None = None
    """Keep the policy with the highest mean return of those that were evaluated, not the last one: yes or no.
    What would be the best plays on until it is behind or its mean is known to 1 %, for up to five times the
    episodes; what is kept is then evaluated anew on episodes that did not choose it."""
    episodes: int | None = _least(None, 0, 1_000_000)
    """Evaluation episodes (default: 10 on the way, and of the policy that is kept 20, or 50 where it is the
    best one). The policy that is kept plays the same ones in every run of an environment."""
    evaluate_every: int = _least(0, 0)
    """Evaluate also after every so many rounds."""
    expert_episodes: int | None = _least(None, 0)
    """Episodes to measure the expert by, the same ones (default: as many as of the policy that is kept)."""
    episode_limit: int | None = _least(None, 1)
    """Most steps of an evaluation episode, for an environment that has no limit of its own. A run may be
    resumed with another."""
    comparator: str | Sequence[int] = "last"
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


FIELDS: dict[str, dataclasses.Field[Any]] = {field.name: field for field in dataclasses.fields(Settings)}
"""Every setting of a run, by name."""


OPTIONS = {
    part: tuple(name for name, one in FIELDS.items() if one.metadata.get("of") == part) for part in PARTS
}
"""The settings that are options of a part, by part."""
WORLD = ("env", "env_kwargs", "student_sees", "expert", "expert_options", "demos")
WORLD += (*OPTIONS["expert"], "expert_workers", "expert_timeout", "expert_retries")
"""The settings that say where a run happens and who is its expert."""


def default(field: dataclasses.Field[Any]) -> Any:
    """The value of a field that was not given."""
    return {} if field.default is dataclasses.MISSING else field.default
