"""Shards as tasks of a Ray cluster: one core each, played again when a worker or a whole node is lost."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError, import_extra
from ..registry import register_again, registered
from .engines import FEW, Shard, Work, accelerator, environment
from .shard import Result, play

PASSED_ON = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "JAX_PLATFORMS")


def connect(address: str | None) -> Any:
    """Ray, connected to the cluster at `address`, or to one of this machine alone that ends with us."""
    ray = import_extra("ray", "engine: ray", "ray")
    if ray.is_initialized():
        return ray
    _knock(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=True)
    except (ConnectionError, ValueError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"address: no Ray cluster at {address!r} ({first}).") from None
    return ray


def _knock(address: str | None) -> None:
    """Refuses an address where no server answers: Ray itself would wait for minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UserError(f"address: no Ray cluster at {address!r} ({error.strerror or error}).") from None


def play_on(shards: Sequence[Shard], work: Work) -> None:
    """Hands out every shard and passes results on as they come; what is finished stays finished."""
    ray = connect(work.address)
    env = environment()
    variables = {name: env[name] for name in PASSED_ON if name in env}
    if "PYTHONPATH" in os.environ:  # as it was set, not our own places: those are this machine's
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
    task = ray.remote(
        num_cpus=1,
        num_gpus=1 if accelerator() else 0,
        max_retries=work.retries,
        runtime_env={"env_vars": variables},
    )(_task)
    waiting = {
        task.remote([dict(run) for run in shard], registered(), work.keep and work.keep.absolute()): number
        for number, shard in enumerate(shards)
    }
    lost: list[str] = []
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            number = waiting.pop(ready[0])
            try:
                results, seconds = ray.get(ready[0])
            except ray.exceptions.RayError as error:
                said = str(error).strip().splitlines()
                lost.append(f"a shard of {len(shards[number])} runs failed ({said[-1] if said else '?'})")
                continue
            work.done(number, [Result(*one) for one in results], seconds)
    finally:
        for left in waiting:
            ray.cancel(left, force=True)
    if lost:
        raise UserError(f"ray: {lost[0]}; {FEW}.")


def _task(
    runs: list[dict[str, Any]], names: dict[str, Any], keep: Path | None
) -> tuple[list[tuple[Any, ...]], float]:
    register_again(names)
    began = time.perf_counter()
    return [tuple(one) for one in play(runs, threads=1, keep=keep)], time.perf_counter() - began
