"""FTL here against DAgger of `imitation` 1.0.1: labels and seconds until 90 % of the expert's return.

    python benchmarks/peers/against_imitation.py --jobs 1 --table docs/figures/imitation/runs.csv
    python benchmarks/peers/against_imitation.py --tune --jobs 1           # chooses the peer's settings anew

All imitate the shipped Hopper expert on Hopper-v4 with a 256-256 ReLU network. Each package has its own
defaults; the peer also has the best settings of a grid, which seeds chose that report nothing: those with the
fewest labels and those with the fewest seconds (`tuned.json`, from `tuning.csv` beside it). Both packages
also clone. After every round 20 episodes judge the policy, the same for all sides and the expert; a run ends
at 90 %, and its last policy plays 20 others.

Every run has a process and a core of its own, `--jobs` at a time. Counted are collecting and solving,
compiling included; evaluations and imports are not. understudy plays with an empty cache of compiled programs
(cold) and again with the one that it left (warm). `imitation` lives in a virtual environment that is made on
the first run, since it needs older versions of Gymnasium and Stable-Baselines3. Results are kept run by run
in --out, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import seeds as known  # noqa: E402

from understudy import intervals  # noqa: E402
from understudy.envs.gymnasium import derive  # noqa: E402

WEIGHTS = ROOT / "src" / "understudy" / "experts" / "weights" / "sac-Hopper-v5.safetensors"
NEEDS = ("imitation==1.0.1", "torch==2.13.0", "mujoco", "imageio", "safetensors")
TUNED = HERE / "tuned.json"
OURS = ("budget", "default", "bc")
TITLES = {
    "default": "`train Hopper-v4`, rounds of 1,000, every state labelled",
    "budget": "`train Hopper-v4 --budget 400`",
    "bc": "`--learner bc`: cloning",
    "imitation": "imitation, its defaults",
    "imitation_labels": "imitation, tuned for labels",
    "imitation_seconds": "imitation, tuned for seconds",
    "imitation_bc": "imitation, cloning, its defaults",
    "imitation_labels_bc": "imitation, cloning, tuned for labels",
}
FEW = 6  # seeds; fewer bound no median
COLUMNS = ("labels", "seconds", "warm_seconds", "kept")
CLONE = ["--beta", "always"]
JUDGE, FRESH, EPISODES = 1 << 20, (1 << 20) + 1, 20
"""As in understudy_side.py: the numbers of the episodes that judge, and of those of the last policy."""


def peers() -> dict[str, list[str]]:
    """The peer's sides, by the options of imitation_side.py."""
    tuned = json.loads(TUNED.read_text())
    sides = {"imitation": [], "imitation_labels": tuned["labels"], "imitation_seconds": tuned["seconds"]}
    return {"imitation_bc": CLONE, "imitation_labels_bc": [*tuned["labels"], *CLONE]} | sides


def grid() -> dict[str, list[str]]:
    """What the peer is tuned over: normalised inputs and β = 0 after round 0, and three without."""
    found = {}
    for (steps, epochs), batch, lr, how in itertools.product(
        [(250, 10), (250, 40), (1000, 10), (1000, 40), (1000, 100)], (32, 128), (1e-3, 3e-4), range(4)
    ):
        if how and (steps, epochs, batch, lr) != (1000, 40, 32, 1e-3):
            continue
        normalise, beta = how in (0, 1), "first" if how in (0, 2) else "linear"
        made = ["--steps", steps, "--epochs", epochs, "--batch", batch, "--lr", lr, "--beta", beta]
        made += ["--round-episodes", 1, *(["--normalise"] if normalise else [])]
        found[f"{steps}_{epochs}_{batch}_{lr:g}_{beta}_{normalise:d}"] = [str(one) for one in made]
    return found


def peer_python(folder: Path) -> str:
    """The interpreter of the peer's environment, which is made where there is none."""
    python, stamp = folder / "bin" / "python", folder / ".made"
    if not stamp.is_file():
        import mujoco

        # The same simulator on both sides.
        needs = [f"mujoco=={mujoco.__version__}" if need == "mujoco" else need for need in NEEDS]
        print(f"making {folder} with {', '.join(needs)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *needs], check=True)
        stamp.touch()
    return str(python)


class Players:
    """Plays runs in processes of their own, each on a core that no other run has meanwhile."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.cores, self.began = options, queue.SimpleQueue(), time.monotonic()
        for core in sorted(os.sched_getaffinity(0))[-options.jobs :]:
            self.cores.put(core)

    def play(self, name: str, script: list[str], **around: str) -> dict[str, Any] | None:
        """What a side printed, from the folder or played now; None: too late to begin."""
        kept = self.options.out / f"{self.options.env}-{name}.json"
        if kept.is_file():
            return json.loads(kept.read_text())
        inherited = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        core = self.cores.get()
        try:
            if time.monotonic() - self.began > self.options.stop_after:
                return None
            answer = subprocess.run(
                ["taskset", "-c", str(core), *script],
                capture_output=True,
                text=True,
                env=inherited | threads | around,
            )
        finally:
            self.cores.put(core)
        if answer.returncode:
            raise RuntimeError(f"{name} failed:\n{answer.stderr[-2000:]}")
        found = {**json.loads(answer.stdout.splitlines()[-1]), "shared": self.options.shared}
        draft = kept.with_suffix(".tmp")
        draft.write_text(json.dumps(found) + "\n")
        os.replace(draft, kept)
        print(name, found["curve"][-1], flush=True)
        return found

    def peer(self, side: str, seed: int, settings: Iterable[str]) -> dict[str, Any] | None:
        script = [peer_python(self.options.venv), str(HERE / "imitation_side.py"), str(WEIGHTS), *settings]
        for name, number in (("judge", JUDGE), ("fresh", FRESH)):
            script += [f"--{name}", *(str(derive(seed, "evaluate", number, j)) for j in range(EPISODES))]
        return self.play(f"{side}-{seed}", [*script, "--env", self.options.env, "--seed", str(seed)])

    def ours(self, side: str, seed: int) -> dict[str, Any] | None:
        """The cold run, with the seconds of the warm one as `warm`."""
        cache = self.options.out / f"programs-{side}-{seed}"
        if not (self.options.out / f"{self.options.env}-{side}-cold-{seed}.json").is_file():
            shutil.rmtree(cache, ignore_errors=True)
        script = [sys.executable, str(HERE / "understudy_side.py"), side]
        script += ["--env", self.options.env, "--seed", str(seed)]
        around = {"UNDERSTUDY_CACHE": str(cache.resolve())}
        cold = self.play(f"{side}-cold-{seed}", script, **around)
        if cold is None:
            return None
        known = (self.options.out / f"{self.options.env}-{side}-warm-{seed}.json").is_file()
        if not known and self.options.shared:
            return cold | {"warm": [math.nan] * 2}
        labels = reached(cold)[0]
        until = str(int(labels if math.isfinite(labels) else cold["curve"][-1][0]))
        warm = self.play(f"{side}-warm-{seed}", [*script, "--until", until], **around)
        return warm and cold | {"warm": warm["curve"][-1][2:]}


def reached(found: dict[str, Any], share: float = 0.9) -> tuple[float, float, float]:
    """Labels, seconds and processor seconds at the first look at or above the share; infinite without one."""
    for labels, value, wall, cpu in found["curve"]:
        if value >= share * found["expert"]:
            return labels, wall, cpu
    return math.inf, math.inf, math.inf


def row(side: str, seed: int, found: dict[str, Any]) -> dict[str, Any]:
    """One line of the table of all runs."""
    labels, wall, cpu = reached(found)
    if found.get("shared"):
        wall = cpu = math.nan
    warm = found.get("warm", [wall, cpu]) if math.isfinite(labels) else [math.inf] * 2
    return {
        "side": side,
        "seed": seed,
        "labels": labels,
        "seconds": round(wall, 3),
        "cpu": round(cpu, 3),
        "warm_seconds": round(warm[0], 3),
        "warm_cpu": round(warm[1], 3),
        "kept": round(found["kept"] / found["kept_expert"], 4),
        "last_labels": found["curve"][-1][0],
        "expert": round(found["expert"], 1),
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def told(values: Iterable[float], form: str = ",.0f", never: str = "never") -> str:
    """Median, extremes, and in brackets the median's interval; of how many where some are missing."""
    found = sorted(value for value in values if not math.isnan(value))
    if not found:
        return "not measured"
    middle, low, high, count = intervals.median(found)
    cells = [format(x, form) if math.isfinite(x) else never for x in (middle, found[0], found[-1])]
    ends = [format(x, form) if math.isfinite(x) else never for x in (low, high)]
    text = cells[0] if len({*cells}) == 1 else f"{cells[0]} ({cells[1]} to {cells[2]})"
    text += f" [{ends[0]}, {ends[1]}]" if count >= FEW else ""
    return text if count == len(known.REPORTING) else f"{text}, {count} seed{'s' * (count > 1)}"


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of the two published tables: every side, and the peer's over ours, paired by seed."""
    sides = {side: {int(r["seed"]): r for r in rows if r["side"] == side} for side in TITLES}
    yield "| | labels | seconds | seconds, warm | score afterwards, median (least) |"
    yield "|---" * 5 + "|"
    for side, title in TITLES.items():
        if mine := sides[side].values():
            numbers = {name: [float(r[name]) for r in mine] for name in COLUMNS}
            kept = sorted(numbers["kept"])
            cells = [told(numbers["labels"]), told(numbers["seconds"], ".1f")]
            cells += [told(numbers["warm_seconds"], ".1f") if side in OURS else ""]
            yield f"| {title} | {' | '.join(cells)} | {median(kept):.2f} ({kept[0]:.2f}) |"
    for base in ("default", "budget"):
        if len(sides[base]) < FEW:
            continue
        yield f"\n| times as much as {TITLES[base]} | labels | seconds | seconds, warm |"
        yield "|---" * 4 + "|"
        for side in TITLES:
            if side != base and sides[side]:
                cells = (told(ratios(rows, side, base, what), ".1f", "∞") for what in COLUMNS[:3])
                yield f"| {TITLES[side]} | {' | '.join(cells)} |"


def ratios(rows: Iterable[dict[str, Any]], side: str, base: str, what: str) -> list[float]:
    """A column of a side over that of another, paired by seed: nan where one was not measured."""
    # The peer has no cold start, so its seconds stand against warm ones too.
    beside = "seconds" if what == "warm_seconds" and side not in OURS else what
    theirs = {int(r["seed"]): float(r[beside]) for r in rows if r["side"] == side}
    ours = {int(r["seed"]): float(r[what]) for r in rows if r["side"] == base}
    return [theirs[s] / ours[s] if math.isfinite(ours[s]) else math.nan for s in ours if s in theirs]


def tune(players: Players, seeds: Iterable[int]) -> None:
    """Plays the grid, and writes its table and the two best settings."""
    settings, caps = grid(), ["--limit", "10000", "--seconds", "45"]
    jobs = [(name, seed) for seed in seeds for name in settings]
    with ThreadPoolExecutor(players.options.jobs) as pool:
        found = list(pool.map(lambda job: players.peer(job[0], job[1], [*settings[job[0]], *caps]), jobs))
    rows = [row(*job, one) for job, one in zip(jobs, found, strict=True) if one]
    # Settings are compared on the same seeds: those that all of them have played.
    whole = [seed for seed in seeds if sum(one["seed"] == seed for one in rows) == len(settings)]
    write(HERE / "tuning.csv", [{k: v for k, v in one.items() if "warm" not in k} for one in rows])

    def middle(name: str, *measures: str) -> list[float]:
        mine = [one for one in rows if one["side"] == name and one["seed"] in whole]
        return [median(float(one[what]) for one in mine) for what in measures]

    best = {
        what: min(settings, key=lambda name: middle(name, what, other))
        for what, other in (("labels", "seconds"), ("seconds", "labels"))
    }
    for name in settings:
        print(name, *middle(name, "labels", "seconds"))
    print(best)
    TUNED.write_text(json.dumps({what: settings[name] for what, name in best.items()}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seeds", nargs="+", type=int, help="101 to 110; 0 to 2 with --tune")
    parser.add_argument("--sides", nargs="+", metavar="SIDE", help="some of the sides, in this order")
    parser.add_argument("--tune", action="store_true", help="choose the peer's settings instead")
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at a time, each on its own core")
    parser.add_argument(
        "--stop-after", type=float, default=math.inf, help="begin no run after so many seconds"
    )
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-imitation", help="the peer's environment")
    parser.add_argument("--out", type=Path, default=Path("runs/against-imitation"))
    parser.add_argument("--shared", action="store_true", help="the machine does other work: keep no seconds")
    parser.add_argument("--table", type=Path, help="write the table of all runs to this file")
    options = parser.parse_args()
    if options.tune:
        seeds = known.tuning(options.seeds or range(3))
    else:
        seeds = known.reporting(options.seeds or known.REPORTING)
    options.out.mkdir(parents=True, exist_ok=True)
    peer_python(options.venv)
    players = Players(options)
    if options.tune:
        return tune(players, seeds)
    theirs = peers()
    jobs = [(side, seed) for side in options.sides or (*theirs, *OURS) for seed in seeds]

    def one(job: tuple[str, int]) -> dict[str, Any] | None:
        side, seed = job
        return players.peer(side, seed, theirs[side]) if side in theirs else players.ours(side, seed)

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row(*job, run) for job, run in zip(jobs, pool.map(one, jobs), strict=True) if run]
    if options.table:
        write(options.table, rows)
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
