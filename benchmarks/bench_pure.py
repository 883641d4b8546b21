"""Runs that stay on the device, against a bare scan and bare Adam in the same process; whole runs; a study.

    python benchmarks/bench_pure.py                                a minute on a CPU (a toy)
    python benchmarks/bench_pure.py FOLDER --env mjx:Hopper        every part, as on a GPU
    python benchmarks/bench_pure.py FOLDER --parts collect run     some
    python benchmarks/bench_pure.py FOLDER --env gymnax:CartPole-v1 --tiny        every part, minutes on a CPU

Parts are: collect (steps a second of a bare scan and of ours), round (bare collecting and bare Adam against
ours), run (a whole run: seconds and return), cached (compiling, from the cache), students (the run with every
number of Adam steps in --students and --student-seeds seeds each, in one program: their returns), seeds (64
runs in one program), study (all rounds against the current one alone, with --size interactions). Each part
that ends leaves FOLDER/PART.json and is not done again; one that fails leaves its error in the output and the
others go on; no part begins after --seconds. `programs` are those that were compiled or read from the cache
in a part, `large_programs` those that took more than half a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
NAMES = ("collect", "round", "run", "cached", "students", "seeds", "study")


def asked_for() -> argparse.Namespace:
    reader = argparse.ArgumentParser()
    reader.add_argument("folder", nargs="?")
    reader.add_argument("--env", default=None)
    reader.add_argument("--expert", default=None)
    reader.add_argument("--envs", type=int, default=4096)
    reader.add_argument("--rounds", type=int, default=24)
    reader.add_argument("--steps", type=int, default=50, help="of every environment, a round")
    reader.add_argument("--episodes", type=int, default=64)
    reader.add_argument("--seeds", type=int, default=64)
    reader.add_argument("--scale", default="full", help="of the study: full or small")
    reader.add_argument("--study-seeds", type=int, default=None)
    reader.add_argument("--size", type=int, nargs="*", help="of the study: interactions of a run")
    reader.add_argument("--students", type=int, nargs="*", help="steps of Adam a round")
    reader.add_argument("--student-seeds", type=int, default=3)
    reader.add_argument("--seconds", type=float, default=450.0, help="no part begins later")
    reader.add_argument("--adam", type=int, default=1000, help="steps of Adam a round")
    reader.add_argument("--batch", type=int, default=None, help="samples in a minibatch")
    reader.add_argument("--parts", nargs="*", default=None, choices=[*NAMES, "first"])
    reader.add_argument("--tiny", action="store_true", help="the least that every part can be tried with")
    asked = reader.parse_args()
    if asked.tiny:
        asked.envs, asked.steps, asked.adam, asked.episodes, asked.seeds, asked.rounds = 64, 20, 20, 2, 4, 5
        asked.scale, asked.study_seeds = "small", 2
    if asked.env is None:
        asked.env, asked.expert = "pure_loops:toy", "pure_loops:toy_expert"
        asked.envs, asked.parts = min(asked.envs, 64), asked.parts or ["collect", "round", "run"]
    asked.parts = asked.parts or list(NAMES)
    return asked


def main() -> int:
    asked = asked_for()
    sys.path.insert(0, str(HERE))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    # Processes of its own share the device with this one, and parts share their compiled programs.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir(), "understudy-bench")))
    import jax
    from pure_parts import BEGAN, PARTS, first, listen, made, programs

    listen()
    device = jax.devices()[0].device_kind
    plan = f"{asked.rounds} rounds of {asked.steps} steps"
    print(f"{asked.env}, {asked.envs} environments, {plan}, {device}", flush=True)
    failed = 0
    for part in asked.parts:
        file = None if asked.folder is None else Path(asked.folder, f"{part}.json")
        if file is not None and file.exists():
            print(f"{part}: {file} is there", flush=True)
            continue
        if time.perf_counter() - BEGAN > asked.seconds:
            print(f"{part}: no time left; the same command goes on", flush=True)
            continue
        began, since = time.perf_counter(), made()
        try:
            found = (PARTS | {"first": first})[part](asked)
        except Exception as error:  # a part that fails must not take the others' time on a lent machine
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        failed += "error" in found
        found |= programs(since) | {"part_seconds": time.perf_counter() - began}
        line = json.dumps({"part": part, "device": device, **found}, default=float)
        print(line, flush=True)
        if file is not None and not found.get("unfinished") and "error" not in found:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(line + "\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
