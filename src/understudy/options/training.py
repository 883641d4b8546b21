"""The options of the commands that train, play and measure."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ..spec import FIELDS
from .common import OF_LEARNER, UNSET, Flag, Folder, Name, Names, Number, Repeated, Whole, settings


@settings(OF_LEARNER)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Replay:
    """Play a recorded stream of losses to a learner, and report its regret.

    The stream is an npz file with X (rounds, samples, features) and Y (rounds, samples, outputs), or labels
    Y (rounds, samples) for the cross-entropy loss. Rounds of unequal size: X (N, features) and Y (N, ...),
    with `sizes` (rounds,) that add up to N.
    """

    stream: Positional[Annotated[Path, arg(metavar="STREAM")]]
    """The npz file with the stream."""
    learner: str = "ftl"
    """ftl, ftrl, alt_ftrl, adaftrl, ogd, adagrad, or your own as module:function."""
    policy: str = "linear"
    """linear or mlp."""
    bias: Flag = False
    """Give the linear policy a bias."""
    loss: str = "squared"
    """squared, absolute, huber or cross-entropy."""
    solver: str = "auto"
    """auto, closed-form, newton, lbfgs, gd, adam, sls, proximal-sgd, interior-point, or module:function."""
    tolerance: Number = None
    """The solver stops at this gradient norm of (whole objective)/t."""
    max_iterations: Whole = None
    """The solver stops after this many iterations."""
    batch_size: Whole = None
    """Samples per step of a solver that can take minibatches."""
    memory: str = "all"
    """What the learner may learn from: all, window:ROUNDS (the last) or reservoir:SAMPLES (of all)."""
    seed: int = 0
    """Seed of everything random: first parameters of a network, minibatches, reservoirs."""
    out: Folder = None
    """Write ledger.csv, times.csv, certificate.json and regret.png to this new folder."""
    keep_iterates: Flag = False
    """Also write every iterate, w_1 to w_{T+1}, to iterates.npz."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@settings(OF_LEARNER)
@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckLearner:
    """Put a learner through the conformance suite."""

    learner: Positional[Annotated[str, arg(metavar="LEARNER")]]
    """A learner's name, or your own as module:function."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckSolver:
    """Put a solver through the conformance suite."""

    solver: Positional[Annotated[str, arg(metavar="SOLVER")]]
    """A solver's name, or your own as module:function."""


@settings(OF_LEARNER)
@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckCertificate:
    """Search for streams on which the regret is above its certified bound."""

    learner: Positional[Annotated[str, arg(metavar="LEARNER")]] = "all"
    """A learner's name, your own as module:function, or all: every shipped learner, solver and memory."""
    minutes: float = 1.0
    """How long to search."""
    seed: int = 0
    """Seed of the first restart; the table says which seed found the worst stream."""
    kind: Name = None
    """Search one kind of game only, by its name in the table, and restart once."""
    out: Folder = None
    """Write the streams on which a claim is false to this folder, as `understudy replay` reads them."""


@settings(name for name in FIELDS if name != "env")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    """Imitate an expert in a Gymnasium environment, round by round."""

    env: Annotated[Positional[str | None], UNSET] = None
    """A Gymnasium id such as Hopper-v5, or module:Id to import a package first."""
    config: Folder = None
    """Read settings from this TOML file; those typed here win."""
    out: Folder = None
    """Keep the run in this folder: config, ledger, times, samples, policy, checkpoint."""
    resume: Flag = False
    """Continue the unfinished run in that folder."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@settings(name for name in FIELDS if name not in ("env", "learner", "seed"))
@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """Train a whole grid of runs on every core, in a folder that a kill does not harm.

    The same command again goes on where it was. A plan is printed first.
    """

    study: Positional[Annotated[str, arg(metavar="ENV|STUDY.toml")]]
    """A Gymnasium id such as Hopper-v5, or a file that says it all (options given here win)."""
    out: Folder = None
    """The folder that keeps the study: every run, results.csv, summary.csv."""
    learners: Names = ()
    """The axis of learners: ftl, ftrl, alt_ftrl, adaftrl, ogd, adagrad, bc."""
    grid: Repeated = ()
    """One more axis, NAME=VALUES: step=1e-5:1e5:log11, loss=squared,huber, noise=0:1:lin5. `step` is η or α,
    whichever the learner has. Again for each axis."""
    seeds: Whole = None
    """Seeds per setting, from 0."""
    tune: Names = ()
    """Tune these axes: a coarse pass, the best three in full, the best of those."""
    keep: Whole = None
    """How many candidates of the coarse pass are played in full (3)."""
    engine: str = "local"
    """local (worker processes), ray (a cluster, extra `ray`) or inline (this process)."""
    address: Name = None
    """The Ray cluster, such as auto or HOST:6379; one of this machine alone if it is not given."""
    workers: Whole = None
    """Processes at once (default: one per core; one on an accelerator)."""
    shard: Whole = None
    """Most runs played side by side in a process."""
    retries: int = 2
    """How often a shard is played again when its worker dies."""
    retry_failed: Flag = False
    """Play again the runs that have failed; without it they count as finished."""
    plan: Flag = False
    """Print the plan and stop."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Play episodes with the policy of a run, in fresh seeded environments."""

    run: Positional[Path]
    """The folder of a run."""
    env: Name = None
    """Another environment than the run's."""
    episodes: int = 20
    """Episodes."""
    seed: int = 1
    """Seed of the episodes."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Play:
    """Make a video of a run's policy, side by side with its expert where that one can be had by name."""

    run: Positional[Path]
    """The folder of a run."""
    video: Path = Path("play.mp4")
    """The file to write."""
    seed: int = 0
    """Seed of the episode."""
    steps: int = 1000
    """Longest video, in environment steps."""
    alone: Flag = False
    """The policy only, without its expert."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertsList:
    """The experts that come with the package."""

    json: Flag = False
    """Print the cards as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExpertTrain:
    """Train an expert with SBX (extra `train`): the best network, its card and curve, ready for --expert."""

    env: Name = None
    """A Gymnasium id with vector observations, such as Hopper-v5."""
    algo: Name = None
    """sac, td3, ppo or dqn (default: sac for continuous actions, ppo for choices)."""
    steps: Whole = None
    """Environment steps (default: the recipe's; 250,000 for sac on Hopper)."""
    out: Folder = None
    """The .safetensors file to write; its card goes beside it (default: experts/ALGO-ENV.safetensors)."""
    seed: int = 0
    """Seed of everything."""
    episodes: int = 5
    """Episodes of every evaluation; the best network is played for 20 more at the end."""
    evaluate_every: Whole = None
    """Evaluate after so many steps (default: 10,000, or a tenth of a shorter run)."""
    target: Number = None
    """Stop as soon as an evaluation's mean return is this high."""
    settings: Name = None
    """Changes to the recipe, as JSON: '{"batch_size": 256, "gamma": 0.98}'."""
    env_kwargs: Name = None
    """Keywords for the environment, as JSON: '{"max_episode_steps": 200}'."""
    resume: Flag = False
    """Go on from the checkpoint that Ctrl-C, or a kill, has left beside the file."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demo:
    """Hopper with the shipped expert: FTL, AdaFTRL and behavioural cloning; table, plot and video."""

    out: Path = Path("demo-out")
    """Where plot, video and runs go; made anew."""
    rounds: int = 8
    """Rounds of 1000 queries for each."""
    seed: int = 0
    """Seed of everything."""
    episodes: int = 5
    """Evaluation episodes after every second round."""
