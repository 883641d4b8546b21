"""The Atari study: Pong and Breakout from pixels, linear on the expert's features and NatureCNN end to end.

Every learner and seed of one game and policy runs in lockstep. Agent-driven from the first round (β = 0), but
for BC; the agent samples as it collects and plays its mode in evaluation. Step sizes are tuned on the game
itself: 2,000 interactions, rounds of 100, the least average loss; on networks the regularised learners find
their own scale.
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
from ..interaction.automatic import Automatic
from ..interaction.lockstep import LinearStudents, Lockstep, Member, evaluate
from ..interaction.pixels import PixelStudents
from ..learners import Learner, adaftrl, adagrad, alt_ftrl, ftl, ftrl, ogd

GAMES = ("pong", "breakout")
POLICIES = ("linear", "nature_cnn")
LEARNERS = ("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd", "adagrad", "bc")
UNTUNED = "adaftrl_untuned"
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the study is run.

    games: evaluation games a run at the end; early: the same after round `early_round`; grid: exponents of
    the step sizes tried; steps: Adam's steps a round (networks); limit: agent steps after which an evaluation
    game is cut.
    """

    rounds: int = 10
    size: int = 1000
    seeds: tuple[int, ...] = (0, 1, 2)
    linear: tuple[str, ...] = (*LEARNERS, UNTUNED)
    networks: tuple[str, ...] = LEARNERS
    network_games: tuple[str, ...] = GAMES
    games: int = 20
    network_evaluation: int = 10
    early: int = 3
    early_round: int = 3
    grid: tuple[int, ...] = (-3, -2, -1, 0, 1, 2, 3)
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
        games=20,
        network_evaluation=8,
        early=0,
        grid=(-2, -1, 0, 1, 2),
        tuning=10,
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
    policy: str, expert: Any, members: list[Member], *, capacity: int, size: int, scale: Scale, steps: int
):
    if policy == "linear":
        # Forming the Hessian is a matter of milliseconds on a GPU, and of many seconds on a CPU.
        solver = "newton" if jax.default_backend() == "gpu" else "auto"
        return LinearStudents(expert, members, capacity=capacity, size=size, solver=solver)
    return PixelStudents(expert, members, capacity=capacity, size=size, steps=steps)


def tune(game: str, policy: str, scale: Scale, names: Sequence[str], say: Say) -> dict[str, float]:
    """The step of each learner with the least average loss over `tuning` rounds of 100 interactions."""
    tuned = [name for name in names if name in ("ftrl", "adaftrl", "ogd", "adagrad")]
    if policy != "linear":
        tuned = [name for name in tuned if name in ("ogd", "adagrad")]
    if not tuned:
        return {}
    # Networks leave the rails at steps that a convex problem forgives.
    grid = [10.0 ** (power - (0 if policy == "linear" else 2)) for power in scale.grid]
    members = [Member(name, _learner(name, step), 1000) for name in tuned for step in grid]
    expert = experts.get(f"ppo-{game}")
    students = _students(
        policy, expert, members, capacity=100 * scale.tuning, size=100, scale=scale, steps=100
    )
    loop = Lockstep(game, students, size=100, threads=scale.threads)
    rows: list[dict[str, Any]] = []
    for _ in range(scale.tuning):
        rows = loop.advance()
    loop.close()
    chosen = {}
    for i, name in enumerate(tuned):
        found = [rows[i * len(grid) + j]["average_loss"] for j in range(len(grid))]
        chosen[name] = grid[int(np.nanargmin(found))]
        say(f"{game}, {policy}: {name} tuned to {chosen[name]:g} ({', '.join(f'{x:.4g}' for x in found)})")
    if "ftrl" in chosen:
        chosen["alt_ftrl"] = chosen["ftrl"]  # the same learner, written otherwise
    return chosen


def part(
    game: str,
    policy: str,
    scale: Scale,
    say: Say = print,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """One game with one kind of policy, all learners and seeds: rows of rounds, games played, its cost.

    `keep` is given what there is so far before the long evaluation at the end.
    """
    began = time.perf_counter()
    names = scale.linear if policy == "linear" else scale.networks
    steps = tune(game, policy, scale, names, say)
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
        scale=scale,
        steps=scale.steps,
    )
    loop = Lockstep(game, students, size=scale.size, threads=scale.threads)
    rows, played = [], []
    where = {"game": game, "policy": policy}

    def judge(t: int, games: int, seed: int) -> None:
        results = evaluate(game, students, games, seed=seed, made=scale.evaluation, threads=scale.threads)
        for member, result in zip(members, results, strict=True):
            for number, value in enumerate(result.returns):
                one = {
                    "learner": member.name,
                    "seed": member.seed,
                    "round": t,
                    "number": number,
                    "return": float(value),
                }
                played.append({**where, **one, "agreement": result.agreement})

    for t in range(1, scale.rounds + 1):
        rows += [{**where, **row} for row in loop.advance(judge=t == scale.rounds)]
        slow = max(row["seconds_solve"] for row in rows[-len(members) :])
        say(
            f"{game}, {policy}: round {t} of {scale.rounds}, {time.perf_counter() - began:.0f} s; "
            f"slowest solve {slow:.1f} s"
        )
        if scale.early and t == scale.early_round:
            judge(t, scale.early, 500)
    loop.close()

    def outcome() -> dict[str, Any]:
        stores = students.stores if isinstance(students, PixelStudents) else []
        return {
            **where,
            "rows": rows,
            "played": played,
            "steps": steps,
            "seconds": time.perf_counter() - began,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "frames_bytes": max((one.nbytes for one in stores), default=0),
            "runs": len(members),
            "backend": jax.default_backend(),
            "scale": dataclasses.asdict(scale),
        }

    if keep is not None:
        keep(outcome())
    judge(scale.rounds, scale.games if policy == "linear" else scale.network_evaluation, 700)
    say(f"{game}, {policy}: evaluated, {time.perf_counter() - began:.0f} s")
    if policy == "linear":
        # The expert meets the same games, and more: it is one for all members.
        alone = _students(policy, expert, members[:1], capacity=1, size=1, scale=scale, steps=1)
        found = evaluate(
            game, alone, 3 * scale.games, seed=700, made=scale.evaluation, threads=scale.threads, expert=True
        )
        for number, value in enumerate(found[0].returns):
            one = {"learner": "expert", "seed": 0, "round": scale.rounds, "number": number}
            played.append({**where, **one, "return": float(value), "agreement": 1.0})
    return outcome()
