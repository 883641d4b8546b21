"""DAgger of `imitation` 1.0.1 against FTL here: seconds and queries until 90 % of the expert's return.

    python benchmarks/peers/against_imitation.py --seeds 0 1 2 --out runs/against-imitation

Both imitate the shipped Hopper expert on Hopper-v4 with a 256-256 ReLU network, in rounds of at least 1000
steps, each with its own defaults otherwise. The sides take turns, seed by seed, in processes of their own on
this machine: understudy with an empty cache of compiled programs (cold), again with the one that it left
(warm), `imitation`. The last lives in a virtual environment that is made on the first run, since it needs
older versions of Gymnasium and Stable-Baselines3. Counted are collecting and solving, compiling included; the
evaluation after every round (10 episodes) is not, and imports are not. Seconds are of the clock and, in
brackets, of all processors: on a busy machine the second is the one to look at, with --cores 1, since threads
that wait for each other use up processor time too. Results are kept seed by seed in --out, and what is there
is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WEIGHTS = ROOT / "src" / "understudy" / "experts" / "weights" / "sac-Hopper-v5.safetensors"
VENV = ROOT / ".venv-imitation"
NEEDS = ("imitation==1.0.1", "torch==2.13.0", "mujoco", "imageio", "safetensors")
SIDES = ("cold", "warm", "imitation")
GOALS = {"queries": (2.5, 4), "cold seconds": (4.5, 8), "warm seconds": (8, 16)}


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


def play(side: str, seed: int, options: argparse.Namespace) -> dict:
    """One side's run for one seed, from the folder or played now."""
    suffix = f"-{options.round_episodes}" if side == "imitation" else ""
    kept = options.out / f"{options.env}-{side}-{options.interactions}{suffix}-{seed}.json"
    if kept.is_file():
        return json.loads(kept.read_text())
    peer = side == "imitation"
    python = peer_python(options.venv) if peer else sys.executable
    script = [python, str(HERE / f"{'imitation' if peer else 'understudy'}_side.py")]
    cache = options.out / f"programs-{seed}"
    if side == "cold":
        shutil.rmtree(cache, ignore_errors=True)
    if side == "imitation":
        script += [str(WEIGHTS), "--round-episodes", str(options.round_episodes)]
    numbers = {"seed": seed, "episodes": options.episodes, "interactions": options.interactions}
    for name, value in {"env": options.env, **numbers}.items():
        script += [f"--{name}", str(value)]
    print(f"{side}, seed {seed} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", file=sys.stderr)
    cores = sorted(os.sched_getaffinity(0))[-options.cores :] if options.cores else os.sched_getaffinity(0)
    around = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    answer = subprocess.run(
        script,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=around | {"UNDERSTUDY_CACHE": str(cache.resolve())},
        # Both sides see as many cores as they may use, and start as many threads.
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    found = {**json.loads(answer.stdout.splitlines()[-1]), "load": os.getloadavg()[1], "cores": len(cores)}
    kept.write_text(json.dumps(found) + "\n")
    return found


def reached(found: dict, share: float = 0.9) -> tuple[float, float, float] | None:
    """Queries, seconds and processor seconds at the first look at or above the share; None without one."""
    for queries, value, wall, cpu in found["curve"]:
        if value >= share * found["expert"]:
            return queries, wall, cpu
    return None


def table(results: dict[int, dict[str, dict]]) -> str:
    """Seed by seed and in the middle, with the verdicts."""
    lines = ["| seed | side | queries | seconds (cpu) | times fewer queries | times fewer seconds (cpu) |"]
    lines.append("|---" * 6 + "|")
    ratios: dict[str, list[float]] = {name: [] for name in GOALS}
    for seed, sides in results.items():
        at = {side: reached(found) for side, found in sides.items()}
        for side, found in at.items():
            theirs = at["imitation"]
            if found is None:
                last = sides[side]["curve"][-1]
                lines.append(f"| {seed} | {side} | not there: {last[1]:.0f} at {last[0]:,} | | | |")
                continue
            told = f"| {seed} | {side} | {found[0]:,} | {found[1]:.1f} ({found[2]:.1f}) |"
            if side == "imitation" or theirs is None:
                lines.append(f"{told} | |")
                continue
            queries, wall, cpu = (a / b for a, b in zip(theirs, found, strict=True))
            ratios[f"{side} seconds"].append(wall)
            ratios["queries"] += [queries] if side == "cold" else []
            lines.append(f"{told} {queries:.1f} | {wall:.1f} ({cpu:.1f}) |")
    for name, (floor, aim) in GOALS.items():
        if ratios[name]:
            middle = median(ratios[name])
            verdict = "aim reached" if middle >= aim else "reached" if middle >= floor else "MISSED"
            lines.append(
                f"\n{name}: {middle:.1f} × less in the median of {len(ratios[name])} seeds, {floor} × "
                f"wanted, {aim} aimed for: {verdict}."
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--interactions", type=int, default=1000, help="least number of steps in a round")
    parser.add_argument("--round-episodes", type=int, default=1, help="imitation's least episodes in a round")
    parser.add_argument(
        "--cores", type=int, default=0, help="give both sides so many cores; 0: all there are"
    )
    parser.add_argument("--venv", type=Path, default=VENV, help="where the peer's environment is or will be")
    parser.add_argument("--out", type=Path, default=Path("runs/against-imitation"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    peer_python(options.venv)
    results = {}
    for seed in options.seeds:
        results[seed] = {side: play(side, seed, options) for side in SIDES}
        print(table(results), flush=True)


if __name__ == "__main__":
    main()
