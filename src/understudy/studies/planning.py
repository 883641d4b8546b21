"""What a study will cost, before it begins: runs, steps, shards, and time as measured here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..defaults import plan_of
from ..errors import UserError, check_int
from ..machine import count_cores
from ..progress import format_duration
from ..spec import WORLD, RunSpec
from .engines import ENGINES, Work, accelerator, engine, local
from .shard import Result
from .study import Entry

MOST_RUNS = 512
"""Most runs in a shard of an accelerator, which has room for many; a CPU plays one run after another."""
LANES = 65_536
"""Most environments of a shard with more than one run: they fill a large GPU."""
SIDE_BY_SIDE = (
    *WORLD,
    "rounds",
    "steps_per_round",
    "first_steps",
    "budget",
    "num_envs",
    "encoder",
    "label_kind",
)
SIDE_BY_SIDE += (
    "ask",
    "ask_options",
    "random_share",
    "moment",
    "episode_limit",
    "policy",
    "widths",
    "episodes",
)
SIDE_BY_SIDE += ("evaluate_every", "preset")
"""Runs that agree in these can be played side by side."""
CALIBRATION, CALIBRATED_ROUNDS = 6, 2
"""Runs and rounds that are played to measure this machine."""


def evaluation(spec: RunSpec) -> int:
    """Most environment steps of a run's evaluations, the expert's included; 0 where there is no limit."""
    import gymnasium

    plan = plan_of(spec)
    known = gymnasium.registry.get(str(spec.env).rpartition(":")[2])
    own = spec.env_kwargs.get("max_episode_steps") or getattr(known, "max_episode_steps", None)
    limit = min(filter(None, (own, spec.episode_limit)), default=0)
    # Where nothing is chosen the last look is a part of the evaluation at the end.
    looks = len(plan.evaluated) - (not plan.keep_best)
    return limit * (looks * plan.looks + plan.judging + plan.expert_episodes)


def divide(entries: Sequence[Entry], workers: int, most: int | None = None) -> list[list[Entry]]:
    """Shards: on a CPU a run each, which a worker plays one after another; on an accelerator runs of one
    environment, size and policy, split evenly over workers, at most `most` in each.

    >>> from .study import Study
    >>> study = Study("CartPole-v1", grid={"rounds": [1, 2]}, seeds=5, policy="linear")
    >>> [len(shard) for shard in divide(study.runs, workers=2, most=4)]
    [3, 2, 3, 2]
    """
    if most is not None:
        check_int("shard", most)
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.spec.key(*SIDE_BY_SIDE), []).append(entry)
    shards = []
    for group in groups.values():
        room = max(1, min(MOST_RUNS, LANES // group[0].spec.num_envs)) if accelerator() else 1
        limit = most or room
        pieces = min(len(group), workers * -(-len(group) // (limit * workers)))
        # Dealt like cards: neighbours in a grid, such as all runs of the slowest loss, go to all workers.
        shards += [group[piece::pieces] for piece in range(pieces)]
    return shards


def how_many(workers: int | None) -> int:
    """Worker processes: as many as cores unless said otherwise, and one on an accelerator."""
    if workers is None:
        return 1 if accelerator() else count_cores()
    check_int("workers", workers)
    return workers


class Rate(NamedTuple):
    """What was measured on this machine, and how: seconds per interaction of a worker that works beside the
    others, and seconds that a worker needs to start and compile. `evaluates`: evaluations are in it already.
    """

    seconds: float
    start: float
    evaluates: bool
    how: str


class Plan(NamedTuple):
    """What will be done. `rate` is None where nothing was measured."""

    asked: int
    runs: int
    finished: int
    left_out: dict[str, list[str]]
    steps: int
    shards: list[list[Entry]]
    engine: str
    workers: int
    rate: Rate | None

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Estimated wall time, without evaluations and with all their episodes at full length."""
        if self.rate is None:
            return None
        found = []
        for evaluating in (False, not self.rate.evaluates):
            free = [self.rate.start] * (1 if self.engine == "inline" else self.workers)
            for shard in self.shards:
                first = free.index(min(free))
                steps = sum(one.plan.total for one in shard)
                steps += sum(evaluation(one.spec) for one in shard) if evaluating else 0
                free[first] += steps * self.rate.seconds
            found.append(max(free))
        return found[0], found[1]

    def rows(self) -> list[tuple[str, str]]:
        """The plan in words, as it is printed."""
        finished = f", {self.finished:,} of them finished" if self.finished else ""
        rows = [("runs", f"{self.runs:,}{finished}")]
        if self.asked > self.runs:
            names = "; ".join(f"{', '.join(who)}: no {name}" for name, who in self.left_out.items())
            rows.append(("joined", f"{self.asked:,} combinations were asked for ({names})"))
        if not self.shards:
            return [*rows, ("left to do", "nothing")]
        rows.append(("steps", f"{self.steps:,}"))
        sizes = sorted({len(shard) for shard in self.shards})
        if sizes[-1] > 1:
            spread = f"{sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "")
            rows.append(("shards", f"{len(self.shards):,} of {spread} runs"))
        workers = f", {self.workers} worker{'s' if self.workers > 1 else ''}"
        rows.append(("engine", self.engine + ("" if self.engine == "inline" else workers)))
        if self.rate is None or self.seconds is None:
            return [*rows, ("estimated time", "not measured")]
        least, most = (format_duration(one) for one in self.seconds)
        more = "" if least == most else f", up to {most} with evaluation episodes of full length"
        return [*rows, ("estimated time", f"{least}{more} ({self.rate.how})")]


def from_finished(done: Sequence[dict[str, Any]]) -> Rate | None:
    """The rate of shards that have ended in this folder."""
    shards = {one["name"]: one for one in done}
    steps = sum(one["steps"] for one in shards.values())
    if not steps:
        return None
    seconds = sum(one["seconds"] for one in shards.values())
    how = f"{steps / seconds:,.0f} steps/s a worker in {len(shards)} finished shards"
    return Rate(seconds / steps, 0.0, True, how)


def calibrate(
    shards: Sequence[Sequence[Entry]], workers: int, progress: Callable[[str, int, int], None] | None = None
) -> Rate | None:
    """Plays the first rounds of the first runs without evaluation, at once on as many workers as the study
    will have, and takes the time; twice, since the first time compiles. None where the study is as short.
    ``progress(stage, done, total)`` is called as the rounds are played.
    """
    quiet = {"rounds": CALIBRATED_ROUNDS, "budget": None, "episodes": 0, "expert_episodes": 0}
    quiet["comparator"] = "none"
    first = [entry for shard in shards for entry in shard][:CALIBRATION]
    short = [entry.spec.replace(**quiet) for entry in first]
    plans = [plan_of(one) for one in short]
    steps = sum(plan.total for plan in plans)
    if sum(one.plan.total for shard in shards for one in shard) < 10 * steps * workers:
        return None
    count = min(workers, len(shards))
    found: list[float] = []

    reached, rounds = [0] * (2 * count), sum(len(plan.sizes) for plan in plans)

    def tell(number: int, played: int) -> None:
        reached[number] = played
        if progress is not None:
            progress("measuring this machine", sum(reached), rounds * len(reached))

    def done(number: int, results: list[Result], seconds: float) -> None:
        if number >= count:  # what was given out first was compiled, whenever it ended
            found.append(seconds)
        tell(number, rounds)

    began = time.perf_counter()
    tell(0, 0)
    work = Work(done=done, progress=tell, workers=count, retries=0)
    local([[one.changes() for one in short]] * len(reached), work)
    took = time.perf_counter() - began
    second = sum(found) / count
    how = f"{steps / second:,.0f} steps/s a worker in a calibration of {took:.0f} s"
    # What a worker needed beside both plays is what it takes to start.
    return Rate(second / steps, max(0.0, took - 2 * second), False, how)


def check_engine(name: str, address: str | None) -> None:
    """Refuses, before anything runs, an engine that does not exist or cannot start here."""
    engine(name)
    if address is not None and name != "ray":
        raise UserError(f"address: it is for the engine ray; this is {name} ({', '.join(sorted(ENGINES))}).")
    if name == "ray":
        from .cluster import connect

        connect(address)
