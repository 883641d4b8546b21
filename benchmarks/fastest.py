"""The seconds of the fastest of some calls, which several benchmarks compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def fastest(call: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest call, its arrays waited for; a first call compiles and is not counted."""
    import jax  # some benchmarks set its flags before

    jax.block_until_ready(call())
    laps = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        laps.append(time.perf_counter() - began)
    return min(laps)
