"""The options of the studies of the paper."""

from __future__ import annotations

import dataclasses

from .common import Flag, Folder, Name, Names, Whole


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperTheorem:
    """The theorem on FTL under interpolation, exhibited without sampling on tabular MDPs."""

    gamma: float = 0.9
    """Discount factor, in [0, 1)."""
    rounds: int = 40
    """Rounds played."""
    seed: int = 0
    """Seed of the random MDP."""
    out: Folder = None
    """Write the numbers and the figure to this new folder."""
    json: Flag = False
    """Print the result as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAtari:
    """Pong and Breakout from pixels: linear on the expert's features, and NatureCNN end to end."""

    scale: str = "small"
    """small (one seed; end to end Pong alone, FTL and AdaFTRL, 300 steps a round) or full."""
    game: Name = None
    """pong or breakout; both by default."""
    policy: Name = None
    """linear or nature_cnn; both by default."""
    threads: int = 0
    """Threads that step the games; 0: as many as there are cores."""
    keep: Folder = None
    """Keep every part's numbers in this folder, GAME-POLICY.json, as soon as it is done."""
    parts: Folder = None
    """Run nothing, and report on the parts kept in this folder."""
    out: Folder = None
    """Write figures, every number and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperMujoco:
    """Hopper and Walker2d: linear policies and networks, two losses and drives, tuned; the claims checked."""

    scale: str = "small"
    """small (Hopper, two seeds, fewer steps tried; nine minutes on two cores) or full."""
    part: Names = ()
    """linear, linear-100 (rounds of 100), network or network-sls; by default all that the scale has."""
    seeds: Whole = None
    """Seeds of the final runs; 3, or 2 in the small study."""
    keep: Folder = None
    """Keep every run in this folder, from which the same command goes on after a kill."""
    engine: str = "local"
    """local (worker processes), ray (a cluster) or inline (this process)."""
    workers: Whole = None
    """Worker processes (default: one per core, or one on a GPU)."""
    address: Name = None
    """Address of the Ray cluster."""
    out: Folder = None
    """Write figures, every number and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperToy:
    """The toy figure: six learners, four losses, tuned on ten rounds and run for 250; the claims checked."""

    seeds: Whole = None
    """Seeds per setting; 20, or 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute: 3 seeds, 50 rounds."""
    seed: int = 0
    """Seed of the whole study; the same seed gives the same bytes in every CSV."""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperGridworld:
    """The gridworld figure: an expert that turns in every round, 1000 rounds; the claims checked."""

    seeds: Whole = None
    """Seeds per setting; 10, or 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute: 3 seeds, 100 rounds."""
    seed: int = 0
    """Seed of the whole study; the same seed gives the same bytes in every CSV."""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperQuestions:
    """The paper's open questions, answered on frozen loss streams that every learner sees alike.

    Streams are recorded from linear runs on Hopper and Walker2d (extra `mujoco`), beside the toy problem.
    Asked are: inexact and stochastic solves, limited memory, parameterisation, replay against interactive
    runs, AdaFTRL untuned.
    """

    seeds: Whole = None
    """Seeds per stream; 5, or 3 with --quick."""
    quick: Flag = False
    """A small study that takes a minute or two: 3 seeds, 30 rounds, Hopper and toy alone."""
    seed: int = 0
    """First seed of the study; the same seed gives the same bytes in every CSV."""
    out: Folder = None
    """Write figures (PNG, SVG), every number (CSV) and the claims to this new folder."""
    json: Flag = False
    """Print the verdicts as one last line of JSON."""
