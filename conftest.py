"""What all tests share."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

# Numbers are compared bit for bit in places, so the device must not depend on the machine.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Nearly all of the time goes into compiling programs that run for milliseconds. Without optimisation, with
# the older emitter of fused loops, and without cutting each program into 32 modules for as many threads, that
# is less than a third. `XLA_FLAGS= make test` compiles as users do.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters "
    "--xla_cpu_parallel_codegen_split_count=1",
)
# Nobody reads from which line of which file an operation of a program came.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# The processes of one run of the tests share what they compile; nothing is kept for the next run.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _programs = tempfile.TemporaryDirectory(prefix="understudy-programs-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

import jax
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# Workers and children share the bytecode of the sources, which takes longer to make than a small test.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Nothing that is imported or collected is garbage; from `pytest_collection_finish` on there is some.
gc.disable()

TESTS = Path(__file__).parent / "tests"
_thread = threading.local()


def _few_contexts() -> None:
    """JAX makes an MLIR context for every program, a quarter of what a small one costs. Here a hundred
    programs share one. Where JAX has no such function any more, every program has its own again.
    """
    from jax._src.interpreters import mlir

    make = getattr(mlir, "make_ir_context", None)
    if make is None:
        return

    def shared() -> Any:
        _thread.made = getattr(_thread, "made", -1) + 1
        if _thread.made % 100 == 0:
            _thread.context = make()
        return _thread.context

    mlir.make_ir_context = shared


_few_contexts()

# The first example compiles, which takes seconds; a deadline would only measure that.
settings.register_profile("understudy", deadline=None, print_blob=True)
settings.load_profile("understudy")

collect_ignore = [] if importlib.util.find_spec("stable_baselines3") else ["tests/sb3"]
if not importlib.util.find_spec("rsl_rl"):
    collect_ignore += ["tests/distillation", "src/understudy/rsl_rl.py"]
collect_ignore += [] if importlib.util.find_spec("ray") else ["tests/ray"]


# Rooms that take longest, the longest first, so that no worker is left with one of them at the end.
LONG = ("runs", "core", "solvers", "paper", "studies", "checks", "cli", "tests", "docs", "envs", "policies")
LONG += ("objectives", "experts", "losses")
CORE = ("learners", "regret", "replay")
"""Rooms that play the same games."""


def _room(path: Path) -> str:
    """The room that a file is in or tests; of a path from the root or from anywhere."""
    if path.parts[-3:-1] == ("paper", "tests"):
        return "paper"
    return "core" if path.parent.name in CORE else path.parent.name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long rooms first; everything under tests/sb3 and tests/ray carries the marker of that name."""
    places = {room: place for place, room in enumerate(LONG)}
    rooms = {path: _room(path) for path in {item.path for item in items}}
    marked = {path: [name for name in ("sb3", "ray") if TESTS / name in path.parents] for path in rooms}
    items.sort(key=lambda item: places.get(rooms[item.path], len(LONG)))
    for item in items:
        for name in marked[item.path]:
            item.add_marker(getattr(pytest.mark, name))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path):
    """With --doctest-modules every name of every test is searched for examples, in each worker. Where the
    text of a file has none, nothing is to be found.
    """
    found = yield
    if file_path.suffix == ".py" and b">>>" not in file_path.read_bytes():
        found = [one for one in found if not isinstance(one, DoctestModule)]
    return found


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than there are cores: tests that wait for a child, a browser or a clock leave one."""
    from understudy.machine import count_cores

    return count_cores() + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but the files of a room, and the examples in its sources, stay on one worker, where
    they share compiled programs.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Rooms(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            room = _room(Path(file))
            return file if room in ("tests", "understudy") else room

    return Rooms(config, log)


def pytest_collection_finish() -> None:
    """What was imported stays, so that the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Compiled programs are dropped before the kernel's limit on a process's memory maps (65,530) ends it."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 40_000:
        jax.clear_caches()


@pytest.fixture
def compilations():
    """How many programs were compiled, as a list that grows."""
    from jax._src import monitoring

    seen = []

    def listen(name: str, duration: float, **_: object) -> None:
        if name == "/jax/core/compile/backend_compile_duration":
            seen.append(name)

    monitoring.register_event_duration_secs_listener(listen)
    yield seen
    monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty memory of compiled streams, for a test that counts them. To empty the one that all tests share
    would have those after it compile again.
    """
    from understudy import programs

    empty = functools.lru_cache(maxsize=64)(programs._streamed.__wrapped__)
    monkeypatch.setattr(programs, "_streamed", empty)
    return empty
