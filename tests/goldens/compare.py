"""Plays the golden runs (`golden_runs.py`) with two trees on this machine, and compares the files they write.

    python tests/goldens/compare.py OLD NEW [--only PATTERN] [--jobs 2] [--keep FOLDER] [--list]

OLD and NEW are git revisions, or folders with a src/ (`.` is the working tree). What a revision wrote is
kept, by the contents of its src/ and the definition of the run, so that OLD is played once. What may differ,
such as seconds, is one table: `files.RULES`. The exit code is 0 where everything is equal.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import hashlib
import importlib.metadata
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from files import compared, read  # noqa: E402
from golden_runs import RENAMED, RUNS, Run, missing  # noqa: E402

LIMIT = 300.0
"""Seconds after which a process that plays is given up."""
FLAGS = {
    "JAX_PLATFORMS": "cpu",
    # As in conftest.py: nearly all of the time is compiling.
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_backend_extra_options="
    "xla_cpu_disable_new_fusion_emitters --xla_cpu_parallel_codegen_split_count=1",
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "SDL_VIDEODRIVER": "dummy",
    "BROWSER": "",
}


class Tree(NamedTuple):
    """What is compared: its name as given, the folder that has its src/, and the digest of that, if there is
    one to keep its results by.
    """

    name: str
    folder: Path
    digest: str | None


def git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(HERE), *words], capture_output=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.decode().strip()}")
    return done.stdout


def tree(name: str, within: Path) -> Tree:
    """A folder as it is, or a revision's src/ under `within`."""
    if (Path(name) / "src" / "understudy").is_dir():
        return Tree(name, Path(name).resolve(), None)
    digest = git("rev-parse", "--verify", f"{name}:./../../src").decode().strip()
    folder = within / digest
    if not folder.exists():
        commit = git("rev-parse", "--verify", f"{name}^{{commit}}").decode().strip()
        top = git("rev-parse", "--show-toplevel").decode().strip()
        packed = subprocess.run(["git", "-C", top, "archive", commit, "src"], capture_output=True, check=True)
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
            files.extractall(folder, filter="data")
    return Tree(name, folder, digest)


def definition(run: Run) -> str:
    """A digest of all that decides what a run writes, beside the tree: a change of it is another run."""
    parts = [
        repr(run),
        repr(RENAMED),
        repr(sorted(FLAGS.items())),
        platform.python_version(),
        platform.machine(),
    ]
    parts += [f"{one} {importlib.metadata.version(one)}" for one in ("jax", "jaxlib", "numpy", "gymnasium")]
    parts += [(HERE / name).read_text() for name in ("world.py", "play.py")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class Played(NamedTuple):
    """The folder of a run; the sentence that says why it did not end as it should, if so; its seconds, or nan
    where it was kept from before.
    """

    folder: Path
    error: str | None
    seconds: float


def chunk(tree: Tree, runs: list[Run], folder: Path, programs: Path) -> dict[str, Played]:
    """Plays runs one after the other in one process; in one more after each that was killed or broke."""
    env = os.environ | FLAGS | {"JAX_COMPILATION_CACHE_DIR": str(programs), "GOLDENS_TREE": str(tree.folder)}
    env["PYTHONPATH"] = os.pathsep.join([str(tree.folder / "src"), str(HERE)])
    left, found = list(runs), {}
    while left:
        run, began = left[0], time.perf_counter()
        kills = _lines(folder / run.name / "kills")
        command = [sys.executable, str(HERE / "play.py"), str(folder), *(one.name for one in left)]
        with open(folder / f"{run.group}.log", "ab") as log:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                code: int | None = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = None
        seconds = dict(line.split() for line in _lines(folder / "seconds.txt"))
        while left and left[0].name in seconds:
            one = left.pop(0)
            found[one.name] = Played(
                folder / one.name, wrong(one, folder / one.name), float(seconds[one.name])
            )
        if not left:
            break
        # The process ended in the midst of a run: killed, as it should be, or broken.
        last = left[0]
        before = kills if last is run else []
        meant = code == -signal.SIGKILL and len(_lines(folder / last.name / "kills")) > len(before)
        if not meant:
            text = f"the process ended with {code}" if code is not None else f"no end after {LIMIT:.0f} s"
            tail = " / ".join(_lines(folder / f"{run.group}.log")[-3:])
            found[last.name] = Played(folder / last.name, f"{text}: {tail}", time.perf_counter() - began)
            left.pop(0)
    return found


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.is_file() else []


def wrong(run: Run, folder: Path) -> str | None:
    """Why a run did not end as it should; None where it did."""
    for number in range(1, len(run.steps) + 1):
        text = " ".join(_lines(folder / f"raised-{number}.txt"))
        meant = run.fails.get(number)
        if meant is None and text:
            said = [line for line in _lines(folder / "log.txt") if line.startswith("error")]
            return " / ".join([text, *said])
        if meant is not None and f": {meant}" not in text:
            return f"step {number} was to be refused with {meant!r}: {text or 'it was not'}"
    kills, wanted = len(_lines(folder / "kills")), sum(map(len, run.dies.values()))
    return None if kills == wanted else f"was to be killed {wanted} times, and was {kills} times"


def played(tree: Tree, runs: list[Run], at: Path, here: Path, *, jobs: int, kept: bool) -> dict[str, Played]:
    """All runs with one tree: those that are kept under `at` from before, and the others, played in `here`,
    which is on the same disk.
    """
    store = at / "runs" / tree.digest if kept and tree.digest else None
    found: dict[str, Played] = {}
    for run in runs if store is not None else ():
        assert store is not None
        folder = store / f"{run.name}-{definition(run)}"
        if folder.is_dir():
            found[run.name] = Played(folder, None, float("nan"))
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.name not in found:
            groups.setdefault(run.group, []).append(run)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = []
        for name, some in sorted(groups.items(), key=lambda item: -len(item[1])):
            (here / name).mkdir(parents=True)
            waiting.append(pool.submit(chunk, tree, some, here / name, at / "programs"))
        for one in waiting:
            found |= one.result()
    for run in runs if store is not None else ():
        assert store is not None
        made = found[run.name]
        if made.error is None and made.seconds == made.seconds:
            store.mkdir(parents=True, exist_ok=True)
            target = store / f"{run.name}-{definition(run)}"
            if not target.exists():
                made.folder.rename(target)
            found[run.name] = made._replace(folder=target)
    return found


def shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= 60 else f"{text[:57]}..."


def report(run: Run, old: Played, new: Played, but: str | None) -> tuple[str, bool]:
    """A line of the table for a run, and whether all is well."""
    if errors := [f"{side}: {one.error}" for side, one in (("OLD", old), ("NEW", new)) if one.error]:
        return f"{run.name:<28}       BROKEN   {'; '.join(errors)}", False
    one, other = read(old.folder, but), read(new.folder, but)
    differs = compared(one, other)
    text = f"{run.name:<28} {len({*one, *other}):>5} "
    if not differs:
        return f"{text} equal", True
    text += f" {len(differs)} DIFFER"
    for name, place, mine, theirs in differs[:3]:
        text += f"\n{'':>36}{name}: {place}: {shown(mine)} -> {shown(theirs)}"
    return text, False


def main(words: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("trees", nargs="*", metavar="OLD NEW")
    options.add_argument("--only", default="*", help="runs whose name or group fits this pattern")
    options.add_argument("--but", help="leave out the files whose name fits this pattern, as in '*/rounds/*'")
    options.add_argument("--jobs", type=int, default=2, help="processes at once")
    options.add_argument("--keep", help="keep both sides' files in this new folder")
    options.add_argument("--no-cache", choices=("old", "new", "both"), help="play this side again")
    options.add_argument("--list", action="store_true", help="list the runs, and play none")
    given = options.parse_args(words)
    fits = [run for run in RUNS if any(fnmatch.fnmatchcase(one, given.only) for one in (run.name, run.group))]
    runs = [run for run in fits if not missing(run)]
    left_out = [f"{run.name} (needs {', '.join(missing(run))})" for run in fits if missing(run)]
    if given.list:
        for run in fits:
            print(f"{run.name:<28} {run.group:<10} {'; needs '.join(['', *missing(run)])}".rstrip())
        return 0
    if len(given.trees) != 2 or not runs:
        options.error("give OLD and NEW, and a pattern that some run fits")
    at = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "understudy-goldens"
    at.mkdir(parents=True, exist_ok=True)
    began, sides = time.perf_counter(), []
    with tempfile.TemporaryDirectory(prefix="playing-", dir=at) as within:
        for side, name in zip(("old", "new"), given.trees):
            one, start = tree(name, Path(within)), time.perf_counter()
            kept = given.no_cache not in (side, "both")
            done = played(one, runs, at, Path(within) / side, jobs=given.jobs, kept=kept)
            fresh = sum(made.seconds == made.seconds for made in done.values())
            print(
                f"{side.upper()} {name}: {fresh} runs played, {len(done) - fresh} kept from before, "
                f"{time.perf_counter() - start:.0f} s",
                flush=True,
            )
            sides.append(done)
        good = 0
        print(f"\n{'run':<28} {'files':>5}  outcome")
        for run in runs:
            text, well = report(run, sides[0][run.name], sides[1][run.name], given.but)
            good += well
            print(text)
        for one in left_out:
            print(f"left out: {one}")
        print(f"\n{good} of {len(runs)} runs are equal; {time.perf_counter() - began:.0f} s")
        if given.keep:
            for side, done in zip(("old", "new"), sides):
                for name, made in done.items():
                    if made.folder.is_dir():
                        shutil.copytree(made.folder, Path(given.keep) / side / name)
    return int(good < len(runs))


if __name__ == "__main__":
    sys.exit(main())
