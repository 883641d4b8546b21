"""The arena: published rules of interactive imitation, judged alike: labels and seconds to a proof of done.

A *rule* (`arena_rules`) trains one student in a world (`arena_worlds`), portion by portion. After every
portion its policy is looked at in a few episodes; where these are good enough it becomes a candidate and is
tested on fresh episodes, which it shares with the expert and with random actions (`understudy.acceptance`).
The labels of the first candidate that is accepted are the rule's labels to done. Judging costs no labels,
and its seconds are not the rule's. Seconds are those that the process computed, not those that it waited.

Every run is one file of JSON, and one that is there is not played again.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import itertools
import json
import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from understudy import disk, evaluate, use_cache
from understudy.acceptance import Acceptance
from understudy.errors import UserError, check_name, damaged

from .arena_rules import RULES, STUDENTS, Rule, Stage
from .arena_worlds import EXPERTS, WORLDS, Teacher, Walk, World, teacher
from .protocol import Progress, silent

WANTED = (0.9, 0.95)
"""The scores that are to be proved: shares of the expert's return above that of random actions."""
MARGIN = 0.25
"""A policy is a candidate where its look is above the wanted score by this share of what is missing to 1."""
LOOK, BATCH = 3, 10
"""Episodes of a look at a policy, and those that are added to a test at once."""
LEAST = 20
"""No candidate is given up before so many episodes."""
LOOKS, TESTS, AFTER, RANGE = 71, 72, 73, 74
"""Seeds of the episodes of looks, of tests, of those that are played after an acceptance, and of those in
which expert and random actions show the range of the returns. They are the same for all rules; no candidate
of a run has episodes that an earlier one had."""
MORE = 20
"""Episodes that an accepted policy plays on, which change nothing and say how often the test was wrong; and
those of the range."""
OFFLINE, HUNDRED = 1000, 100
"""CRSAIL's protocol: the states that are given, and the episodes over which the mean return counts."""
PROTOCOLS = {
    "done": "labels until the test accepts that the score is 0.9, and 0.95",
    "offline": f"{OFFLINE:,} expert-driven states are given; labels after them until the mean return over "
    f"{HUNDRED} episodes is 0.95 of the expert's",
}
ROUNDS, IDLE = 80, 10
"""A run ends after so many rounds, or after so many in a row without a label."""
FOLDER, MEASURED = "runs", "measured"


class Setting(NamedTuple):
    """A run of the arena, all of it plain data."""

    part: str
    rule: str
    seed: int
    expert: str = "clean"
    student: str = "network"
    protocol: str = "done"

    @property
    def id(self) -> str:
        """The name of its file."""
        return "-".join((*self[:2], *self[3:], str(self.seed)))


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of the arena is played."""

    parts: tuple[str, ...] = tuple(WORLDS)
    rules: tuple[str, ...] = tuple(name for name in RULES if name != "alt-ftrl")  # on networks it is FTRL
    seeds: tuple[int, ...] = tuple(range(101, 111))
    experts: tuple[str, ...] = ("clean",)
    students: tuple[str, ...] = ("network",)
    protocols: tuple[str, ...] = ("done",)
    minutes: float = math.inf

    def settings(self) -> Iterator[Setting]:
        """Every run: a part with all seeds and rules before the next one."""
        groups = itertools.product(self.protocols, self.experts, self.students, self.parts)
        for protocol, expert, student, part in groups:
            for seed, rule in itertools.product(self.seeds, self.rules):
                yield Setting(part, rule, seed, expert, student, protocol)


NAMES = {"part": WORLDS, "rule": RULES, "expert": EXPERTS, "student": STUDENTS, "protocol": PROTOCOLS}
"""By field of a `Setting` what it may be."""
SCALES = {
    "full": Scale(),
    "small": Scale(parts=("cartpole", "double-pendulum", "hopper"), seeds=(1, 2, 3), minutes=14.0),
}
"""The seeds of the small arena are for development: they chose settings, and nothing is published of them."""


class Late(Exception):
    """The time is over."""


class Judge:
    """Who says when a run is done: looks, candidates, tests, and the labels and seconds at which they passed.

    The returns of the expert and of random actions are played once, and kept in `folder`.
    """

    def __init__(self, world: World, setting: Setting, guide: Teacher, folder: Path | None, until: float):
        self._world, self._setting, self._guide, self._folder = world, setting, guide, folder
        self._until = until
        self.wanted = WANTED if setting.protocol == "done" else WANTED[-1:]
        self.candidates, self._tried = 0, dict.fromkeys(self.wanted, 0)
        self.done: dict[float, tuple[int, float]] = {}
        self.tests: list[dict[str, Any]] = []
        self._seen: list[float] = []

    @property
    def over(self) -> bool:
        """Whether everything wanted is proved."""
        return len(self.done) == len(self.wanted)

    def see(self, player: Callable[[Any], Any], number: int, labels: int, seconds: float) -> float:
        """Looks at the policy after round `number`, and tests it where it seems good; its score there."""
        score = self._score(player, LOOKS, number, LOOK)
        marks = {wanted: wanted + MARGIN * (1.0 - wanted) for wanted in self.wanted}
        promised = [one for one, mark in marks.items() if one not in self.done and score >= mark]
        for wanted in self._test(player, promised, labels):
            self.done[wanted] = labels, seconds
        return score

    def _score(self, player: Callable[[Any], Any], seed: int, number: int, episodes: int) -> float:
        """The share of the expert's return above that of random actions, in the same episodes."""
        mine, expert, random = (float(np.mean(one)) for one in self._play(player, seed, number, episodes))
        return (mine - random) / (expert - random)

    def _test(self, player: Callable[[Any], Any], scores: Sequence[float], labels: int) -> list[float]:
        """Which of these scores are accepted of a new candidate."""
        if not scores:
            return []
        self.candidates += 1
        if self._setting.protocol == "offline":
            return self._hundred(player, labels)
        for score in scores:
            self._tried[score] += 1
        how = {"limits": self._limits, "assumed": self._world.limits is None}
        tests = [Acceptance(q, candidate=self._tried[q], **how) for q in scores]
        for batch in range(self._world.most // BATCH):
            more = self._play(player, TESTS, 1000 * self.candidates + batch, BATCH)
            for test in tests:
                test.add(*more)
            if all(self._settled(test) for test in tests):
                break
        accepted = [test.wanted for test in tests if test.state == "accepted"]
        after = self._score(player, AFTER, 0, MORE) if accepted else None
        for test in tests:
            score, low, high, *_ = test.interval()
            self.tests.append(
                {
                    "candidate": test.candidate,
                    "labels": labels,
                    "wanted": test.wanted,
                    "state": test.state,
                    "episodes": test.count,
                    "score": _finite(score),
                    "low": _finite(low),
                    "high": _finite(high),
                    "exact": test.exact,
                    "after": after,
                }
            )
        return accepted

    @property
    def _limits(self) -> tuple[float, float]:
        """The range of the returns: where it is not known, that of all that were seen before."""
        if self._world.limits is not None:
            return self._world.limits
        seen = list(itertools.chain(self._seen, *self._measured(RANGE, 0, MORE)))
        return min(seen), max(seen)

    def _settled(self, test: Acceptance) -> bool:
        """Whether a test is decided, or will hardly be by as many episodes as there are."""
        return test.state != "open" or (test.count >= LEAST and test.needed() > self._world.most)

    def _hundred(self, player: Callable[[Any], Any], labels: int) -> list[float]:
        """Whether the mean of a hundred episodes is good enough; the end where the best return so far in all
        that are missing would not make it so.
        """
        numbers = range(1000 * self.candidates, 1000 * self.candidates + HUNDRED // BATCH)
        expert = np.ravel([self._measured(TESTS, number, BATCH)[0] for number in numbers])
        mine: list[float] = []
        for number in numbers:
            mine += self._play(player, TESTS, number, BATCH)[0]
            most = sum(mine) + (HUNDRED - len(mine)) * max(self._seen)
            if most < WANTED[-1] * float(expert.sum()):
                break
        share = float(np.mean(mine) / expert[: len(mine)].mean())
        passed = len(mine) == HUNDRED and share >= WANTED[-1]
        row = {"candidate": self.candidates, "labels": labels, "wanted": WANTED[-1], "episodes": len(mine)}
        self.tests.append(row | {"state": "accepted" if passed else "rejected", "score": share})
        return [WANTED[-1]] if passed else []

    def _play(self, player: Any, seed: int, number: int, episodes: int) -> tuple[list[float], ...]:
        """Returns of the policy, of the expert and of random actions in the same episodes."""
        if time.time() > self._until:
            raise Late
        how: dict[str, Any] = {"episodes": episodes, "seed": seed, "number": number}
        mine = evaluate(player, self._world.env, **how).returns.tolist()
        found = mine, *self._measured(seed, number, episodes)
        self._seen += itertools.chain.from_iterable(found)
        return found

    def _measured(self, seed: int, number: int, episodes: int) -> Any:
        how: dict[str, Any] = {"episodes": episodes, "seed": seed, "number": number}
        kind = "clean" if self._setting.expert == "noisy" else self._setting.expert  # it is measured as clean
        name = f"{self._setting.part}-{kind}-{seed}-{number}-{episodes}.json"
        place = None if self._folder is None else self._folder / MEASURED / name
        if place is not None and place.is_file():
            with damaged(f"arena: {place}"):
                kept = disk.read_json(place, "arena")
                return kept["expert"], kept["random"]
        with gym.make(self._world.env) as env:
            space = env.action_space
            space.seed(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
            random = evaluate(lambda observation: space.sample(), self._world.env, **how).returns.tolist()
        expert = evaluate(self._guide.player, self._world.env, **how).returns.tolist()
        if place is not None:
            _write(place, {"expert": expert, "random": random})
        return expert, random


def play(setting: Setting, folder: Path | None = None, until: float = math.inf) -> dict[str, Any] | None:
    """Plays a run and, with a folder, writes its file; None where the time `until` came before its end."""
    if time.time() > until:
        return None
    try:
        return _play(setting, folder, until)
    except Late:
        return None


def _play(setting: Setting, folder: Path | None, until: float) -> dict[str, Any]:
    for field, names in NAMES.items():
        check_name(field, getattr(setting, field), names)
    world, offline = WORLDS[setting.part], OFFLINE if setting.protocol == "offline" else 0
    guide = teacher(world, setting.expert, setting.seed)
    judge = Judge(world, setting, guide, folder, until)
    walk = Walk(world.env, setting.seed)
    began, seconds, labels, idle = time.process_time(), 0.0, 0, 0
    rows: list[dict[str, Any]] = []
    error = None
    try:
        rule: Rule = RULES[setting.rule].begin(
            Stage(world, guide, walk, STUDENTS[setting.student], setting.seed, offline)
        )
        for number in range(ROUNDS):
            if time.time() > until:
                raise Late
            start = time.process_time()
            if number:
                asked = rule.round()
            else:
                asked = 0 * rule.demonstrate(offline) if offline else rule.begin()  # offline states are given
            player = rule.player
            seconds += time.process_time() - start
            labels, idle = labels + asked, 0 if asked else idle + 1
            score = judge.see(player, number, labels, seconds)
            rows.append({"labels": labels, "seconds": round(seconds, 3), "score": _finite(score)})
            if judge.over or labels >= world.budget or rule.done or idle > IDLE:
                break
    except UserError as wrong:  # such as a solver that left the finite numbers: the run is not done
        error = str(wrong)
    walk.close()
    made = {
        **setting._asdict(),
        "budget": world.budget,
        "labels_to": {str(q): judge.done[q][0] if q in judge.done else None for q in judge.wanted},
        "seconds_to": {str(q): round(judge.done[q][1], 3) if q in judge.done else None for q in judge.wanted},
        "exact": world.limits is not None,
        "rounds": rows,
        "tests": judge.tests,
        "error": error,
        "total_seconds": round(time.process_time() - began, 3),
    }
    if folder is not None:
        _write(folder / FOLDER / f"{setting.id}.json", made)
    return made


def _write(place: Path, made: dict[str, Any]) -> None:
    """Several processes may measure the same episodes, and then write the same file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    own = place.with_suffix(f".{os.getpid()}")
    disk.write_file(own, json.dumps(made, allow_nan=False) + "\n")
    own.replace(place)


def _finite(number: float) -> float | None:
    """A number as a file has it: None where it is not finite."""
    return float(number) if math.isfinite(number) else None


def id_of(run: Mapping[str, Any]) -> str:
    """The id of the setting of a finished run."""
    return Setting(**{name: run[name] for name in Setting._fields}).id


def read(folder: Path) -> list[dict[str, Any]]:
    """The finished runs of a folder, in the order of their names."""
    if not (folder / FOLDER).is_dir():
        raise UserError(f"tables: {folder} has no finished runs; name a folder of --keep.")
    found = []
    for place in sorted((folder / FOLDER).glob("*.json")):
        with damaged(f"arena: {place}"):
            found.append(disk.read_json(place, "arena"))
    return found


def study(
    settings: Sequence[Setting],
    folder: Path,
    *,
    jobs: int = 1,
    minutes: float = math.inf,
    progress: Progress = silent,
) -> int:
    """Plays the runs that are not in `folder` yet, in `jobs` processes of one core each; how many ended.

    After so many minutes no run is begun, and those under way end at their next round without a file.
    """
    missing = [one for one in settings if not (folder / FOLDER / f"{one.id}.json").is_file()]
    if not missing:
        return 0
    until, ended = time.time() + 60.0 * minutes, 0
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    context = multiprocessing.get_context("spawn")
    cores = context.Value("i", 0)
    pool = concurrent.futures.ProcessPoolExecutor(
        min(jobs, len(missing)), mp_context=context, initializer=_alone, initargs=(cores,)
    )
    try:
        tasks = [pool.submit(functools.partial(play, one, folder, until)) for one in missing]
        for task in concurrent.futures.as_completed(tasks):
            ended += task.result() is not None
            progress("arena", ended, len(missing))
    finally:
        pool.shutdown(cancel_futures=True)
    return ended


def _alone(cores: Any) -> None:
    """Gives a worker process one core, so that neither its numbers nor its seconds depend on the others; it
    ends with its parent.
    """
    threading.Thread(target=_follow, daemon=True).start()
    use_cache()
    if not hasattr(os, "sched_setaffinity"):
        return
    with cores.get_lock():
        number, cores.value = cores.value, cores.value + 1
    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {mine[number % len(mine)]})


def _follow() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
