"""DAgger of `imitation` 1.0.1 against FTL here: seconds and queries until 90 % of the expert's return.

    python benchmarks/peers/against_imitation.py --seeds 0 1 2 --out runs/against-imitation

Both imitate the shipped Hopper expert on Hopper-v4 with a 256-256 ReLU network, in rounds of at least 1000
steps, each with its own defaults otherwise. The sides take turns, seed by seed, in processes of their own on
this machine; `imitation` lives in a virtual environment that is made on the first run, since it needs older
versions of Gymnasium and Stable-Baselines3. Counted are collecting and solving, compiling included; the
evaluation after every round (10 episodes) is not, and imports are not. Seconds are of the clock and, in
brackets, of all processors: on a busy machine the second is the one to look at, with --cores 1, since threads
that wait for each other use up processor time too. Results are kept seed by seed in --out, and what is there
is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WEIGHTS = ROOT / "src" / "understudy" / "experts" / "weights" / "sac-Hopper-v5.safetensors"
VENV = ROOT / ".venv-imitation"
NEEDS = ("imitation==1.0.1", "torch==2.13.0", "mujoco", "imageio", "safetensors")
GOALS = {"seconds": (10, 20), "queries": (2.5, 4)}


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
    kept = options.out / f"{options.env}-{side}-{options.interactions}-{seed}.json"
    if kept.is_file():
        return json.loads(kept.read_text())
    python = peer_python(options.venv) if side == "imitation" else sys.executable
    script = [python, str(HERE / f"{side}_side.py")]
    script += [str(WEIGHTS)] if side == "imitation" else []
    numbers = {"seed": seed, "episodes": options.episodes, "interactions": options.interactions}
    for name, value in {"env": options.env, **numbers}.items():
        script += [f"--{name}", str(value)]
    print(f"{side}, seed {seed} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", file=sys.stderr)
    cores = sorted(os.sched_getaffinity(0))[-options.cores :] if options.cores else os.sched_getaffinity(0)
    answer = subprocess.run(
        script,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
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
    lines = [
        "| seed | imitation: queries | seconds (cpu) | understudy: queries | seconds (cpu) | queries × | "
    ]
    lines[0] += "seconds × (cpu) |"
    lines.append("|---" * 7 + "|")
    ratios: dict[str, list[float]] = {"queries": [], "seconds": [], "cpu": []}
    for seed, sides in results.items():
        theirs, ours = reached(sides["imitation"]), reached(sides["understudy"])
        if theirs is None or ours is None:
            who = "imitation" if theirs is None else "understudy"
            last = sides[who]["curve"][-1]
            lines.append(
                f"| {seed} | {who} has not got there: {last[1]:.0f} at {last[0]:,} queries | | | | | |"
            )
            continue
        for name, a, b in zip(("queries", "seconds", "cpu"), theirs, ours, strict=True):
            ratios[name].append(a / b)
        cells = [f"{q:,} | {wall:.1f} ({cpu:.1f})" for q, wall, cpu in (theirs, ours)]
        last = f"{ratios['queries'][-1]:.1f} | {ratios['seconds'][-1]:.1f} ({ratios['cpu'][-1]:.1f})"
        lines.append(f"| {seed} | {' | '.join(cells)} | {last} |")
    for name, (floor, aim) in GOALS.items():
        if ratios[name]:
            middle = median(ratios[name])
            verdict = "aim reached" if middle >= aim else "reached" if middle >= floor else "MISSED"
            lines.append(
                f"\n{name}: {middle:.1f} × less in the median, {floor} × wanted, {aim} aimed for: {verdict}."
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--interactions", type=int, default=1000, help="least number of steps in a round")
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
        results[seed] = {side: play(side, seed, options) for side in ("understudy", "imitation")}
        print(table(results), flush=True)


if __name__ == "__main__":
    main()
