"""The Atari study: Pong and Breakout from pixels, linear on the expert's features and NatureCNN end to end.

Every learner and seed of one game and policy runs in lockstep. Agent-driven from the first round (β = 0), but
for BC; the agent samples as it collects and plays its mode in evaluation. Step sizes are tuned on the game
itself: 2,000 interactions, rounds of 100, the least average loss; on networks the regularised learners find
their own scale, and take the mean form of FTRL, which is Alt-FTRL: it is not run twice.
"""

from __future__ import annotations

import dataclasses
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .. import experts
from ..envs import atari
from ..learners import Learner, adaftrl, adagrad, alt_ftrl, ftl, ftrl, ogd
from ..runs.automatic import Automatic
from ..runs.lockstep import LinearStudents, Lockstep, Member, evaluate
from ..runs.pixels import PixelStudents

GAMES = ("pong", "breakout")
POLICIES = ("linear", "nature_cnn")
LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad", "bc")
UNTUNED = "adaftrl_untuned"
ORDER = ("ftl", "ftrl", "adaftrl", "bc", UNTUNED, "adagrad", "ogd", "alt_ftrl")
"""In which their games are played at the end: what a reader asks for first."""
TUNED = {
    "pong": {"ftrl": 1e5, "alt_ftrl": 1e5, "adaftrl": 1e4, "ogd": 1.0, "adagrad": 0.01},
    "breakout": {"ftrl": 1e5, "alt_ftrl": 1e5, "adaftrl": 1e3, "ogd": 0.1, "adagrad": 0.01},
}
"""The steps of linear policies that the full study's tuning chose; the small one takes them as they are."""
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run.

    games: evaluation games a run at the end; early: the same after round `early_round`; grid: exponents of
    the step sizes tried, `network_grid` those of networks, which leave the rails at steps that a convex
    problem forgives; steps: Adam's steps a round (networks); limit: agent steps after which an evaluation
    game is cut; tuning: rounds of 100 interactions that step sizes are tried on, or 0 for those of `TUNED`.
    """

    rounds: int = 10
    size: int = 1000
    seeds: tuple[int, ...] = (0, 1, 2)
    linear: tuple[str, ...] = (*LEARNERS, UNTUNED)
    networks: tuple[str, ...] = ("ftl", "ftrl", "adaftrl", "ogd", "adagrad", "bc")
    network_games: tuple[str, ...] = GAMES
    games: int = 20
    network_evaluation: int = 10
    early: int = 0
    early_round: int = 3
    grid: tuple[int, ...] = (-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5)
    network_grid: tuple[int, ...] = (-5, -4, -3, -2, -1, 0, 1)
    tuning: int = 20
    steps: int = 2000
    limit: int = 2500
    threads: int = 0

    @property
    def evaluation(self) -> atari.Settings:
        return atari.Settings(max_frames=4 * self.limit)


SCALES = {
    "full": Scale(),
    "small": Scale(
        seeds=(0,),
        network_games=("pong",),
        networks=("ftl", "adaftrl"),
        games=10,
        network_evaluation=8,
        tuning=0,
        steps=300,
    ),
}


def _learner(name: str, step: float) -> Learner:
    made = {
        "ftl": lambda: ftl(),
        "bc": lambda: ftl(),
        "ftrl": lambda: ftrl(eta=step),
        "alt_ftrl": lambda: alt_ftrl(eta=step),
        "adaftrl": lambda: adaftrl(alpha=step),
        UNTUNED: lambda: adaftrl(alpha=1.0),
        "ogd": lambda: ogd(eta=step),
        "adagrad": lambda: adagrad(alpha=step, diagonal=True),
    }
    return made[name]()


def _member(name: str, step: float, seed: int, network: bool) -> Member:
    beta = 1.0 if name == "bc" else 0.0
    if not network or name in ("ftl", "bc", "ogd", "adagrad"):
        return Member(name, _learner(name, step), seed, beta)
    found = Automatic(adaptive=name == "adaftrl")
    makers = {"ftrl": ftrl, "alt_ftrl": alt_ftrl}
    made = adaftrl(start=found.start) if found.adaptive else makers[name](eta=1.0, start=found.start)
    made = eqx.tree_at(lambda one: one.around_last, made, np.asarray(False))
    return Member(name, made, seed, beta, found)


def _students(
    policy: str, expert: Any, members: list[Member], *, capacity: int, size: int, steps: int
) -> LinearStudents | PixelStudents:
    if policy == "linear":
        return LinearStudents(expert, members, capacity=capacity, size=size, solver="newton")
    return PixelStudents(expert, members, capacity=capacity, size=size, steps=steps)


def tune(
    game: str, policy: str, scale: Scale, names: Sequence[str], say: Say
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The step of each learner with the least average loss over `tuning` rounds of 100, and every loss."""
    tuned = [name for name in names if name in ("ftrl", "adaftrl", "ogd", "adagrad")]
    if policy != "linear":
        tuned = [name for name in tuned if name in ("ogd", "adagrad")]
    if not tuned or not scale.tuning:
        return dict(TUNED[game]) if policy == "linear" else {}, {}
    grid = [10.0**power for power in (scale.grid if policy == "linear" else scale.network_grid)]
    members = [Member(name, _learner(name, step), 1000) for name in tuned for step in grid]
    expert = experts.get(f"ppo-{game}")
    students = _students(policy, expert, members, capacity=100 * scale.tuning, size=100, steps=100)
    loop = Lockstep(game, students, size=100, threads=scale.threads)
    rows: list[dict[str, Any]] = []
    for _ in range(scale.tuning):
        rows = loop.advance()
    loop.close()
    chosen, table = {}, {}
    for i, name in enumerate(tuned):
        found = [rows[i * len(grid) + j]["average_loss"] for j in range(len(grid))]
        chosen[name] = grid[int(np.nanargmin(found))]
        table[name] = {f"{step:g}": float(x) for step, x in zip(grid, found, strict=True)}
        edge = ", at the grid's edge" if chosen[name] in (grid[0], grid[-1]) else ""
        told = ", ".join(f"{x:.4g}" for x in found)
        say(f"{game}, {policy}: {name} tuned to {chosen[name]:g}{edge} ({told})")
    if "ftrl" in chosen:
        chosen["alt_ftrl"] = chosen["ftrl"]  # the same learner, written otherwise
    return chosen, table


def part(
    game: str,
    policy: str,
    scale: Scale,
    say: Say = print,
    keep: Callable[[dict[str, Any]], None] | None = None,
    tuned: tuple[dict[str, float], dict[str, dict[str, float]]] | None = None,
) -> dict[str, Any]:
    """One game with one kind of policy, all learners and seeds: rows of rounds, games played, its cost.

    `keep` is given what there is so far before the long evaluation at the end and after each learner's games;
    `tuned` is what `tune` gave, where that was done before.
    """
    began = time.perf_counter()
    names = scale.linear if policy == "linear" else scale.networks
    steps, table = tune(game, policy, scale, names, say) if tuned is None else tuned
    say(f"{game}, {policy}: tuned in {time.perf_counter() - began:.0f} s")
    members = [
        _member(name, steps.get(name, 1.0), seed, policy != "linear")
        for name in names
        for seed in scale.seeds
    ]
    expert = experts.get(f"ppo-{game}")
    students = _students(
        policy,
        expert,
        members,
        capacity=scale.rounds * scale.size,
        size=scale.size,
        steps=scale.steps,
    )
    loop = Lockstep(game, students, size=scale.size, threads=scale.threads)
    rows, played, params = [], [], {}
    where = {"game": game, "policy": policy}

    def outcome() -> dict[str, Any]:
        stores = students.stores if isinstance(students, PixelStudents) else []
        return {
            **where,
            "rows": rows,
            "params": params,
            "played": played,
            "steps": steps,
            "tuning": table,
            "seconds": time.perf_counter() - began,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "frames_bytes": max((one.nbytes for one in stores), default=0),
            "runs": len(members),
            "backend": jax.default_backend(),
            "scale": dataclasses.asdict(scale),
        }

    def judge(name: str, t: int, games: int, seed: int, theirs: bool = False) -> bool:
        """Games of one learner (or of the expert); whether all its moves were the expert's."""
        which = [j for j, member in enumerate(members) if member.name == name]
        some, made = students.choose(which), scale.evaluation
        found = evaluate(game, some, games, seed=seed, made=made, threads=scale.threads, expert=theirs)
        for j, result in zip(which, found, strict=True):
            who = {"learner": "expert" if theirs else name, "seed": members[j].seed, "round": t}
            played.extend(
                {**where, **who, "number": i, "return": float(x), "agreement": result.agreement}
                for i, x in enumerate(result.returns)
            )
        say(f"{game}, {policy}: {who['learner']} played, {time.perf_counter() - began:.0f} s")
        if keep is not None:
            keep(outcome())
        return all(result.agreement == 1.0 for result in found)

    for t in range(1, scale.rounds + 1):
        rows += [{**where, **row} for row in loop.advance(judge=t == scale.rounds)]
        slow = max(row["seconds_solve"] for row in rows[-len(members) :])
        say(
            f"{game}, {policy}: round {t} of {scale.rounds}, {time.perf_counter() - began:.0f} s; "
            f"slowest solve {slow:.1f} s"
        )
        if scale.early and t == scale.early_round:
            for name in names:
                judge(name, t, scale.early, 500)
    loop.close()
    if isinstance(students, LinearStudents):
        params |= {f"{one.name}-{one.seed}": students.params(j) for j, one in enumerate(members)}
    if keep is not None:
        keep(outcome())
    # Learner after learner: games that are over soon are not stepped on with the rest.
    same, games = False, scale.games if policy == "linear" else scale.network_evaluation
    for name in sorted(names, key=ORDER.index):
        equal = judge(name, scale.rounds, games, 700)
        if equal and not same:  # then they are the expert's games, move for move
            same, theirs = True, [one for one in played if one["learner"] == name]
            played += [{**one, "learner": "expert"} for one in theirs if one["round"] == scale.rounds]
    if policy == "linear" and not same:
        judge(names[0], scale.rounds, games, 700, theirs=True)
    return outcome()
