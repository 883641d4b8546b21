"""Scores (R − random)/(expert − random) of every learner, at every evaluated number of labels.

    python benchmarks/scores.py --out runs/scores --envs Hopper-v5 Walker2d-v5 --learners ftl adaftrl
    python benchmarks/scores.py --out runs/scores --table
    python benchmarks/scores.py --out runs/tuning --tuning --seeds 0 1 2 --learners adaftrl@10 adaftrl@30

One JSON file per (env, learner, seed) appears in the folder when its run has ended, and what is there is
not run again: stop and start as you like. `--workers N` runs N side by side. A variant is a learner with
settings: "adaftrl@10" is AdaFTRL with 10 times the automatic scale, "ftl+cosine" the solver's step with
that decay. Seeds that chose settings (benchmarks/seeds.py) are refused without `--tuning`, others with it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import seeds


def variant(name: str) -> tuple[str, dict[str, object]]:
    """ "adaftrl@10+cosine" → the learner's name and its settings."""
    head, *rest = name.split("+")
    learner, _, factor = head.partition("@")
    options: dict[str, object] = {"proximal": True} if "prox" in rest else {}
    for one in rest:
        options |= {} if one == "prox" else {"decay": one}
    return learner, {"factor": float(factor) if factor else None, "solver_options": options}


def one(
    env: str, name: str, seed: int, rounds: int, interactions: int, every: int, episodes: int
) -> dict[str, object]:
    """One run, with its return at every evaluation."""
    import understudy
    from understudy import automatic

    learner, settings = variant(name)
    made: object = learner
    if settings["factor"] is not None:
        if learner in ("ogd", "adagrad"):  # these have no automatic scale: the number is the step itself
            step = {"eta": settings["factor"]} if learner == "ogd" else {"alpha": settings["factor"]}
            made = getattr(understudy, learner)(**step)
        else:
            automatic.FACTOR = settings["factor"]
    began = time.perf_counter()
    run = understudy.imitate(
        env,
        learner=made,
        seed=seed,
        rounds=rounds,
        steps_per_round=interactions,
        episodes=episodes,
        evaluate_every=every,
        comparator="none",
        solver_options=settings["solver_options"],
    )
    seen = [
        t for t in range(run.ledger.rounds) if run.ledger["return_mean"][t] == run.ledger["return_mean"][t]
    ]
    return {
        "env": env,
        "learner": name,
        "seed": seed,
        "labels": [int(run.ledger["labels"][t]) for t in seen],
        "returns": [float(run.ledger["return_mean"][t]) for t in seen],
        "losses": [float(x) for x in run.ledger["loss"]],
        "weights": [float(x) for x in run.ledger["weight"]],
        "expert": run.summary()["expert_return_mean"],
        "seconds": run.seconds | {"wall": time.perf_counter() - began},
        "episodes": episodes,
    }


def random_return(env: str, episodes: int = 200) -> float:
    """The mean return of uniformly random actions, seeded."""
    import copy

    from understudy.envs.gymnasium import derive, maker
    from understudy.runs.players import evaluate

    make = maker(env)
    space = copy.deepcopy(make().action_space)
    space.seed(derive(0, "random"))
    return evaluate(lambda observation, info: space.sample(), make, episodes=episodes, stream="random").mean


def table(folder: Path) -> str:
    """Mean score over seeds, how many seeds reach 0.95 and 0.9, and the median number of labels to 0.9."""
    files = [
        json.loads(file.read_text()) for file in sorted(folder.glob("*.json")) if file.name != "random.json"
    ]
    chance = json.loads((folder / "random.json").read_text())
    lines = [
        "| env | learner | seeds | 5,000 | ≥ 0.95 | 25,000 | ≥ 0.95 | ≥ 0.9 | labels to 0.9 |",
        "|---" * 9 + "|",
    ]
    for env, name in sorted({(one["env"], one["learner"]) for one in files}):
        runs = [one for one in files if (one["env"], one["learner"]) == (env, name)]

        def score(run: dict, labels: int, env: str = env) -> float:
            at = dict(zip(run["labels"], run["returns"], strict=True)).get(labels, float("nan"))
            return (at - chance[env]) / (run["expert"] - chance[env])

        early, late = ([score(run, labels) for run in runs] for labels in (5000, 25_000))
        firsts = [next((q for q in run["labels"] if score(run, q) >= 0.9), None) for run in runs]
        known = sorted(q if q is not None else 10**9 for q in firsts)
        middle = known[len(known) // 2]
        lines.append(
            f"| {env} | {name} | {len(runs)} | {sum(early) / len(early):.3f} ({min(early):.2f}) "
            f"| {sum(x >= 0.95 for x in early)} | {sum(late) / len(late):.3f} ({min(late):.2f}) "
            f"| {sum(x >= 0.95 for x in late)} | {sum(x >= 0.9 for x in late)} "
            f"| {'never' if middle == 10**9 else f'{middle:,}'} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/scores"))
    parser.add_argument("--envs", nargs="+", default=["Hopper-v5"])
    parser.add_argument("--learners", nargs="+", default=["ftl"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[*seeds.REPORTING[:5]])
    parser.add_argument("--tuning", action="store_true", help="to choose a setting, not to publish")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--interactions", type=int, default=1000)
    parser.add_argument("--every", type=int, default=5, help="evaluate after so many rounds")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print the table of what is there, run nothing")
    options = parser.parse_args()
    (seeds.tuning if options.tuning else seeds.reporting)(options.seeds)
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = (
        []
        if options.table
        else [(e, n, s) for s in options.seeds for n in options.learners for e in options.envs]
    )
    todo = [job for job in jobs if not (options.out / "{}-{}-{}.json".format(*job)).is_file()]
    chance = options.out / "random.json"
    known = json.loads(chance.read_text()) if chance.is_file() else {}
    missing = [env for env in options.envs if env not in known]
    if missing and not options.table:
        chance.write_text(json.dumps(known | {env: random_return(env) for env in missing}))
    rest = (options.rounds, options.interactions, options.every, options.episodes)
    # A fresh process for every run: variants set numbers of their own, and memory goes back.
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context, max_tasks_per_child=1) as pool:
        futures = {pool.submit(one, *job, *rest): job for job in todo}
        for future in as_completed(futures):
            job = futures[future]
            try:
                found = future.result()
            except Exception as error:
                print(job, "failed:", error, flush=True)
                continue
            file = options.out / "{}-{}-{}.json".format(*job)
            draft = file.with_suffix(".tmp")
            draft.write_text(json.dumps(found))
            os.replace(draft, file)
            print(*job, [round(x) for x in found["returns"]], f"{found['seconds']['wall']:.0f} s", flush=True)
    print(table(options.out))


if __name__ == "__main__":
    main()
