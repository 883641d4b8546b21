"""The machine that computes: its cores, its memory, and the versions of the libraries."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os


def cores() -> int:
    """The number of cores this process may use; sums over many samples depend on it in their last bits."""
    with contextlib.suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int | None:
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
