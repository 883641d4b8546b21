"""The machine that computes: its cores, its memory, the versions of the libraries, and the compiled programs
that are kept from one process to the next, in the platform's cache folder.

The command line keeps programs by itself; a script does so where it calls `use_cache`. What a program
computes does not depend on it: a kept program has the bits of a new one.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Paces: TypeAlias = "dict[str, list[tuple[int, float]]]"
"""Seconds that a unit of each phase of a run took, with the round."""


def count_cores() -> int:
    """The number of cores this process may use; sums over many samples depend on it in their last bits."""
    with contextlib.suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def total_memory() -> int | None:
    """Bytes of memory that the machine has; None where the system does not say."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def versions(
    names: tuple[str, ...] = ("jax", "jaxlib", "numpy", "gymnasium", "mujoco"),
) -> dict[str, str]:
    """The versions of the installed libraries among `names`.

    >>> "numpy" in versions()
    True
    """
    found = {name: _version(name) for name in names}
    return {name: version for name, version in found.items() if version is not None}


@functools.cache  # every run asks, and each answer is a file of thousands of lines, read and parsed
def _version(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


@contextlib.contextmanager
def importing() -> Generator[None]:
    """Inside the block nothing is collected, and what is there after it never is: modules stay as long as the
    process, and looking through JAX's again and again is a tenth of a start. Where JAX is imported already,
    nothing changes.
    """
    first = gc.isenabled() and "jax" not in sys.modules
    if first:
        gc.disable()
    try:
        yield
    finally:
        if first:
            gc.freeze()
            gc.set_threshold(10_000)  # tracing a program makes many small objects, all of which are used
            gc.enable()


VARIABLE = "UNDERSTUDY_CACHE"
"""A folder in place of the platform's, or "off"."""
OFF = ("", "0", "off", "no", "none", "false")
MOST_BYTES = 2**30
"""Bytes above which the oldest programs go, down to three quarters."""
MOST_KINDS = 100
"""Kinds of runs whose pace is kept."""
paces: Path | None = None
"""The file that keeps how long runs took; None where nothing is kept."""


def use_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keeps compiled programs in `folder` and finds them there; returns where, or None where it cannot.

    Without `folder`, JAX's own variable JAX_COMPILATION_CACHE_DIR is left as it is; else UNDERSTUDY_CACHE
    names the folder or switches the cache off ("off"); else it is the platform's cache folder. A folder that
    cannot be written to means no cache, and an entry that cannot be read is compiled anew.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     print(use_cache(file.name))  # not a folder
    None
    """
    if folder is None:
        if given := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
            return Path(given)
        folder = os.environ.get(VARIABLE, _platform_folder())
        if str(folder).strip().lower() in OFF:
            return None
    global paces
    try:
        place = Path(folder).expanduser() / f"programs-{_machine()}"
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
        _prune(place, MOST_BYTES)
    except (OSError, RuntimeError):  # the latter where a user, as in some containers, has no home
        return None
    paces = place.parent / f"paces-{_machine()}.json"
    # JAX warns of entries that it cannot read or write, and goes on.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    settings = {"jax_compilation_cache_dir": str(place), "jax_persistent_cache_min_compile_time_secs": 0.0}
    for name, value in settings.items():  # read when jax is imported, here or in a worker process
        os.environ[name.upper()] = str(value)
    if "jax" in sys.modules:
        import jax
        from jax.experimental.compilation_cache import compilation_cache

        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # whether there is one is decided at the first compilation
    return place


def recall_pace(kind: str) -> Paces:
    """How long the phases of the last run of a kind took on this machine; empty where nothing is kept."""
    return _read_paces().get(kind, {})


def keep_pace(kind: str, pace: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """Keeps the pace of a run for the next of its kind, where `use_cache` keeps programs. Only the time that
    is shown as left depends on it.
    """
    if paces is None or not pace:
        return
    others = {name: known for name, known in _read_paces().items() if name != kind}
    latest = dict([*others.items(), (kind, pace)][-MOST_KINDS:])
    draft = paces.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        draft.write_text(json.dumps(latest))
        os.replace(draft, paces)


def _read_paces() -> dict[str, Paces]:
    """What is kept; nothing where it is not of the shape that is written."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        return {
            str(kind): {
                str(phase): [(int(place), max(0.0, float(each))) for place, each in points]
                for phase, points in pace.items()
                if points
            }
            for kind, pace in json.loads(Path(paces or os.devnull).read_text()).items()
        }
    return {}


def _platform_folder() -> Path:
    if sys.platform == "darwin":
        base = Path("~/Library/Caches")
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base / "understudy"


def _machine() -> str:
    """A name for what programs are compiled for: homes are shared by machines whose processors differ."""
    known = [platform.machine()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known += next(([line] for line in lines if line.startswith(("flags", "Features"))), [])
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:8]


def _prune(place: Path, most: int) -> None:
    """Removes the oldest files where all together are larger than `most` bytes."""
    found = []
    for file in os.scandir(place):
        with contextlib.suppress(OSError):
            found.append((file.stat().st_mtime, file.stat().st_size, file.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found) if total > most else []:
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
        if total <= 0.75 * most:
            break
