"""Runs of pure environments over a grid: named axes, configurations, the fastest mapping, a tidy table."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from understudy.errors import UserError, check_int, check_name
from understudy.machine import count_cores
from understudy.programs import Static
from understudy.studies.study import check_seeds

from .configs import Config, Group, grid, groups
from .methods import METHODS, Task, each, pick, program, tasks
from .table import Table, write_csv

__all__ = ["METHODS", "Config", "Table", "grid", "map_runs", "write_csv"]


def map_runs(
    run: Callable[..., Mapping[str, Any]],
    configs: Sequence[Config] | Mapping[str, Any],
    *,
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    method: str = "auto",
    workers: int | None = None,
    double: bool = True,
    progress: Callable[[int, Any], None] | None = None,
) -> Table:
    """Runs ``run(key, **values)`` for every configuration and seed, by the fastest method known; a `Table`.

    Args:
      run: a pure function of a key and the values of a configuration that returns a dict of arrays. Numbers
        among the values are traced; everything else selects the program.
      configs: named axes (their grid is taken), or a list made by `grid`.
      seeds: how many seeds, or which. The same seed gives every configuration the same key, so runs can be
        compared in pairs.
      seed: the seed of the whole map, from which the key of each seed is folded.
      method: "auto", "serial", "threads" or "vmap". What was chosen, and why, is in ``table.info``.
      workers: threads for the methods that spread over cores; by default one per core.
      double: float64 inside the runs.
      progress: called as ``progress(done, labels)`` after every call of a compiled program.

    Results do not depend on the number of workers. Every method gives the numbers of "serial" to rounding.

    >>> import jax.numpy as jnp
    >>> def walk(key, eta):
    ...     return {"end": eta * jnp.sum(jax.random.normal(key, (3,)))}
    >>> table = map_runs(walk, {"eta": [1.0, 10.0]}, seeds=2)
    >>> table["seed"].tolist(), table["end"].shape
    ([0, 1, 0, 1], (4,))
    >>> bool(np.allclose(table.where(eta=10.0)["end"], 10 * table.where(eta=1.0)["end"]))
    True
    """
    if isinstance(configs, Mapping):
        configs = grid(**configs)
    if not configs:
        raise UserError("configs: the list is empty; at least one configuration is needed.")
    if others := [one for one in configs if not isinstance(one, Config)]:
        raise UserError(f"configs: {others[0]!r} is not a configuration; `grid` makes a list of them.")
    check_name("method", method, [*METHODS, "auto"])
    if workers is not None:
        check_int("workers", workers)
    check_int("seed", seed, 0)
    chosen = check_seeds(seeds)
    if max(chosen) >= 2**32:  # folded into a key, it would be the seed that is 2³² less
        raise UserError(f"seeds: {max(chosen)} is too large; the seeds of a map are below 2**32.")
    names = set(configs[0].labels)
    for config in configs:
        if set(config.labels) != names or "seed" in names:
            raise UserError("configs: every configuration needs the same names, none of them 'seed'.")
    wanted = [config for config in configs for _ in chosen]
    labels: dict[str, Any] = {name: [one.labels[name] for one in wanted] for name in configs[0].labels}
    labels["seed"] = np.tile(chosen, len(configs))
    with jax.enable_x64(double):
        began = time.perf_counter()
        platform = jax.default_backend()
        root = jax.random.key(seed)
        folded = jax.vmap(lambda number: jax.random.fold_in(root, number))(np.asarray(chosen))
        keys = np.tile(jax.random.key_data(folded), (len(configs), 1))
        entry = _entry(run)
        found = groups(wanted)
        auto = method == "auto"
        methods = [pick(entry, one, keys[0], platform) if auto else (method, "asked for") for one in found]
        spread = any(name == "threads" for name, _ in methods)
        threads = (workers or count_cores()) if spread and platform == "cpu" else 1
        plans = [tasks(one, keys, name, platform) for one, (name, _) in zip(found, methods, strict=True)]
        # The compiler does not hold Python's lock.
        compile_one = functools.partial(_compiled, entry, double)
        compiled = list(each(compile_one, list(zip(found, plans, strict=True)), threads, double))
        ready = time.perf_counter()
        results: dict[int, Any] = {}
        calls = [(one, task) for one, plan in zip(compiled, plans, strict=True) for task in plan]
        # Single runs go several at a time. Vectorised ones go one at a time: two batched decompositions (SVD,
        # QR) at once wait for each other for ever in the CPU client's own pool of threads.
        for vectorised, together in ((True, 1), (False, threads)):
            some = [call for call in calls if call[1].vectorised == vectorised]
            for (_, task), result in zip(some, each(_called, some, together, double), strict=True):
                for row, place in enumerate(task.places):
                    results[place] = {k: v[row] for k, v in result.items()} if vectorised else result
                if progress is not None:
                    progress(len(results), wanted[task.places[-1]].labels)
        ended = time.perf_counter()
        rows = [results[place] for place in range(len(wanted))]
        shapes = {name: np.shape(result) for name, result in rows[0].items()}
        if any({k: np.shape(v) for k, v in row.items()} != shapes for row in rows):
            raise UserError("run: every configuration must give the same results, in the same shapes.")
        columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        info = {
            "methods": [
                {"method": name, "why": why, "runs": len(one.places)}
                for one, (name, why) in zip(found, methods, strict=True)
            ],
            "programs": len(found),
            "workers": threads,
            "platform": platform,
            "compile_seconds": ready - began,
            "run_seconds": ended - ready,
        }
        return Table(labels, columns, info)


@functools.lru_cache(maxsize=64)
def _entry(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` taking raw key data, which NumPy can slice; one object per run, to find programs again."""

    def entry(data: Any, /, **values: Any) -> dict[str, Any]:
        found = run(jax.random.wrap_key_data(data), **values)
        if not isinstance(found, Mapping) or not found:
            raise UserError(f"run: expected a dict of arrays, got {type(found).__name__}.")
        if twice := sorted({*values, "seed"}.intersection(found)):
            raise UserError(f"run: {twice[0]!r} names a column already; give the result another name.")
        return dict(found)

    return entry


def _compiled(entry: Callable[..., Any], double: bool, planned: tuple[Group, list[Task]]) -> Any:
    """The compiled program of a group."""
    group, (task, *_) = planned
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), task.arguments)
    return program(entry, group.static, task.vectorised, double, Static(shapes))


def _called(call: tuple[Any, Task]) -> Any:
    compiled, task = call
    return jax.device_get(compiled(*task.arguments))
