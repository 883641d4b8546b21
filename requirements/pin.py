"""Writes constraints.txt: what pip resolves for every extra on every supported Python, merged into one file.

    python requirements/pin.py python3.11 python3.12 python3.13
    python requirements/pin.py --lock python3.11

Nothing is installed: each interpreter is asked for a dry run in a throwaway virtual environment. A package
whose version differs between Pythons gets one line per version, with a marker.

With --lock it writes what `make test` installs, at the versions of constraints.txt and with the SHA-256 of
the very files, to a lock of that Python and platform: lock-cp311-linux-x86_64.txt.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "mujoco,atari,sb3,train,minari,hub,ray,tables,docs,dev,person,browser"
DEVELOPMENT = "dev,mujoco,atari,person,browser"
# Torch is pinned in pyproject.toml. What it brings depends on its build (CPU or CUDA); nightly builds vanish.
LEFT_FREE = re.compile(r"^(understudy|torch|triton|nvidia-.*|cuda-.*|.*-nightly)$")
HEADER = """\
# Development versions, made by requirements/pin.py; the bounds that matter to users are in pyproject.toml.
"""


def report(python: str, extras: str, *more: str) -> dict[str, Any]:
    """What pip would install for an interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "report.json")
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        pip = [
            f"{folder}/venv/bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
        ]
        subprocess.run([*pip, *more, "--report", str(kept), f"{ROOT}[{extras}]", "editables"], check=True)
        return json.loads(kept.read_text())


def name_of(item: dict[str, Any]) -> str:
    return re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()


def resolve(python: str) -> tuple[tuple[int, int], dict[str, str]]:
    """(major, minor) of an interpreter and the versions that pip would install for it."""
    answer = report(python, EXTRAS)
    major, minor = answer["environment"]["python_version"].split(".")
    found = {}
    for item in answer["install"]:
        name = name_of(item)
        if not LEFT_FREE.match(name):
            found[name] = item["metadata"]["version"].split("+")[0]
    return (int(major), int(minor)), found


def merge(answers: dict[tuple[int, int], dict[str, str]]) -> list[str]:
    """One line per package and version; the newest Python's version also serves all later Pythons."""
    pythons = sorted(answers)
    lines = []
    for name in sorted(set().union(*answers.values())):
        runs: list[tuple[str, list[tuple[int, int]]]] = []
        for python in pythons:
            version = answers[python].get(name)
            if version is None:
                continue
            if runs and runs[-1][0] == version:
                runs[-1][1].append(python)
            else:
                runs.append((version, [python]))
        for index, (version, served) in enumerate(runs):
            bounds = []
            if index > 0:
                bounds.append(f'python_version >= "{served[0][0]}.{served[0][1]}"')
            if index < len(runs) - 1:
                after = runs[index + 1][1][0]
                bounds.append(f'python_version < "{after[0]}.{after[1]}"')
            lines.append(f"{name}=={version}" + (f" ; {' and '.join(bounds)}" if bounds else ""))
    return lines


def lock(python: str) -> None:
    """Writes the lock of an interpreter on this platform."""
    answer = report(python, DEVELOPMENT, "--constraint", str(ROOT / "requirements" / "constraints.txt"))
    about, lines = answer["environment"], []
    for item in sorted(answer["install"], key=name_of):
        if name_of(item) != "understudy":
            hashes = item["download_info"]["archive_info"]["hashes"]
            lines.append(f"{name_of(item)}=={item['metadata']['version']} --hash=sha256:{hashes['sha256']}")
    tag = f"cp{about['python_version'].replace('.', '')}-{about['sys_platform']}-{about['platform_machine']}"
    (ROOT / "requirements" / f"lock-{tag}.txt").write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{len(lines)} files for {tag}")


def main() -> None:
    if "--lock" in sys.argv:
        for python in sys.argv[2:] or [sys.executable]:
            lock(python)
        return
    answers = dict(resolve(python) for python in sys.argv[1:] or [sys.executable])
    lines = merge(answers)
    (ROOT / "requirements" / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{len(lines)} lines for Python {', '.join(f'{a}.{b}' for a, b in sorted(answers))}")


if __name__ == "__main__":
    main()
