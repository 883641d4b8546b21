"""The parts of `bench_pure`: each takes what was asked for and returns plain numbers."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
from fastest import fastest
from pure_loops import Bench, settings

import understudy

BEGAN = time.perf_counter()
LARGE = 0.5
_COMPILED: list[float] = []


def listen() -> None:
    """Notes the seconds of every program that XLA compiles, or that comes from the cache."""

    def heard(event: str, seconds: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            _COMPILED.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(heard)


def made() -> int:
    """Programs made so far."""
    return len(_COMPILED)


def programs(since: int) -> dict[str, Any]:
    """How many programs were made after so many, how many of them took long, and the seconds of all."""
    mine = _COMPILED[since:]
    large = sum(one > LARGE for one in mine)
    return {"programs": len(mine), "large_programs": large, "program_seconds": sum(mine)}


class _Shared:
    """One run under way for all parts that need one."""

    bench: Bench | None = None

    @classmethod
    def of(cls, asked: argparse.Namespace) -> Bench:
        cls.bench = cls.bench or Bench(asked)
        return cls.bench


def collect(asked: argparse.Namespace) -> dict[str, Any]:
    bench = _Shared.of(asked)
    began, bare = time.perf_counter(), bench.bare_scan()
    jax.block_until_ready(bare())
    compiled = time.perf_counter() - began
    rates = {name: bench.size / fastest(call) for name, call in (("bare", bare), ("ours", bench.ours()))}
    return {
        "first_round_seconds": bench.first,
        "bare_compile_seconds": compiled,
        **{f"{name}_steps_per_second": rate for name, rate in rates.items()},
        "collecting_over_bare": rates["ours"] / rates["bare"],
        "wanted_at_least": 0.9,
    }


def round_(asked: argparse.Namespace) -> dict[str, Any]:
    bench = _Shared.of(asked)
    times = {"bare_collect": fastest(bench.bare_scan()), "bare_adam": fastest(bench.bare_adam())}
    bench.run.step()
    mine = []
    for _ in range(3):
        began = time.perf_counter()
        bench.run.step()
        mine.append((time.perf_counter() - began, dict(bench.run.times[-1])))
    total, laps = min(mine, key=lambda one: one[0])
    over = total / (times["bare_collect"] + times["bare_adam"])
    return times | {"round": total, **laps, "round_over_bare": over, "wanted_at_most": 1.15}


def run(asked: argparse.Namespace) -> dict[str, Any]:
    _Shared.bench = None
    began, ends = time.perf_counter(), []
    done = understudy.imitate(
        asked.env,
        episodes=asked.episodes,
        progress=lambda t, row: ends.append(time.perf_counter() - began),
        **settings(asked),
    )
    # The last round's end is after the evaluation.
    whole, each = time.perf_counter() - began, (ends[-2] - ends[1]) / (len(ends) - 3)
    assert done.evaluation is not None and done.expert_evaluation is not None
    return {
        "steps": int(done.ledger["steps"][-1]),
        "seconds_total": whole,
        "seconds_round_1_and_2": ends[1],
        "seconds_a_round_after": each,
        "seconds_of_all_rounds_after_compiling": each * len(ends),
        "return": done.evaluation.mean,
        "expert_return": done.expert_evaluation.mean,
        "losses": done.ledger["loss"].tolist(),
        **{f"{name}_seconds": value for name, value in done.seconds.items()},
    }


def cached(asked: argparse.Namespace) -> dict[str, Any]:
    """The first rounds in a new process, twice: nothing compiled yet, and everything in the cache."""
    call = [sys.executable, str(Path(__file__).with_name("bench_pure.py")), "--parts", "first"]
    for name in ("env", "expert", "envs", "rounds", "steps", "adam", "batch"):
        value = getattr(asked, name)
        call += [] if value is None else [f"--{name}", str(value)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"JAX_COMPILATION_CACHE_DIR": folder}
        env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        env |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
        for name in ("cold", "warm"):
            left = max(60.0, asked.seconds + 120.0 - (time.perf_counter() - BEGAN))
            done = subprocess.run(call, env=env, capture_output=True, text=True, check=False, timeout=left)
            if done.returncode:
                return {"error": done.stderr[-2000:]}
            found[name] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def first(asked: argparse.Namespace) -> dict[str, Any]:
    """For `cached`: the first three rounds of a process."""
    bench, since, again = Bench(asked), made(), []
    for _ in range(2):
        began = time.perf_counter()
        bench.run.step()
        again.append(time.perf_counter() - began)
    return {
        "round_1": bench.first,
        "round_2": again[0],
        "round_3": again[1],
        "compiling": bench.first - again[1],
        "programs_after_round_1": made() - since,
    }


def students(asked: argparse.Namespace) -> dict[str, Any]:
    """Whether the run's student is an expert with every seed, and with how many steps of Adam."""
    from understudy.studies import play

    one = settings(asked) | {"env": asked.env, "episodes": asked.episodes}
    steps = asked.students or [asked.adam]
    wanted = [(many, seed) for many in steps for seed in range(asked.student_seeds)]
    done = play([one | {"max_iterations": many, "seed": seed} for many, seed in wanted])
    return {
        "rounds": asked.rounds,
        "batch": asked.batch,
        "expert_return": [result.summary["expert_return"] for result in done][: asked.student_seeds],
        "seconds": {name: sum(result.seconds[name] for result in done) for name in done[0].seconds},
        "students": [
            {
                "adam": many,
                "seed": seed,
                "return": result.summary["return_mean"],
                "std": result.summary["return_std"],
                "losses": [float(f"{row['loss']:.3g}") for row in result.rows],
                "error": result.error,
            }
            for (many, seed), result in zip(wanted, done, strict=True)
        ],
    }


def seeds(asked: argparse.Namespace) -> dict[str, Any]:
    """Many seeds in one program, and one of them alone."""
    from understudy.studies import play

    one = {"env": "gymnax:CartPole-v1", "policy": "mlp", "num_envs": 16, "steps_per_round": 1600, "rounds": 5}
    try:
        import gymnax  # noqa: F401
    except ImportError:
        one |= {"env": "pure_loops:toy", "expert": "pure_loops:toy_expert"}
    one |= {"episodes": 5, "comparator": "none", "max_iterations": asked.adam // 2, "expert_episodes": 0}
    found: dict[str, Any] = {"env": one["env"]}
    for name, count in (("one", 1), (f"{asked.seeds}", asked.seeds)):
        began, since = time.perf_counter(), made()
        done = play([one | {"seed": seed} for seed in range(count)], together=True)
        found[f"seconds_{name}"] = time.perf_counter() - began
        found |= {f"{what}_{name}": value for what, value in programs(since).items()}
        found[f"returns_{name}"] = [one.summary["return_mean"] for one in done][:8]
        found[f"errors_{name}"] = [one.error for one in done if one.error]
    return found


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """All sizes of the study that fit into the time; the report of those that are there."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from paper import aggregation, aggregation_report, claims

    scale = aggregation.SCALES[asked.scale]
    if asked.study_seeds:
        scale = dataclasses.replace(scale, seeds=asked.study_seeds)
    folder, done, lasted = Path(asked.folder or "."), [], 0.0
    for total in asked.size or scale.totals:
        if time.perf_counter() - BEGAN + 1.3 * lasted > asked.seconds and done:
            break
        began = time.perf_counter()
        done.append(aggregation.part(total, scale, folder / "study", engine="inline"))
        lasted = time.perf_counter() - began
        print(f"study: {total:,} interactions in {lasted:.1f} s", flush=True)
    judged = aggregation_report.judged(done)
    (folder / "report").mkdir(parents=True, exist_ok=True)
    aggregation_report.write(folder / "report", done, judged)
    return {
        "unfinished": len(done) < len(asked.size or scale.totals),
        "facts": dict(aggregation_report.facts(done)),
        "claims": [one[:2] for one in claims.together(judged)],
    }


PARTS = {
    "collect": collect,
    "round": round_,
    "run": run,
    "cached": cached,
    "students": students,
    "seeds": seeds,
    "study": study,
}
