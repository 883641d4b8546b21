"""`understudy doctor`: what is installed, what it runs on, and where it keeps things."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path

from .. import __version__
from ..errors import shorten
from ..machine import count_cores, total_memory, use_cache, versions
from .options import Json, Options

CORE = (
    *("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "gymnasium", "safetensors"),
    *("tyro", "rich", "matplotlib"),
)
ASKED = ("JAX_PLATFORMS", "XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "MUJOCO_GL", "UNDERSTUDY_CACHE")
"""Variables that change what a run does or where it runs; shown where they are set."""


class Doctor(Options):
    """Versions, devices, extras, and where compiled programs are kept; code 1 where JAX cannot compute."""

    json: Json = False


def run(options: Doctor) -> int:
    """Prints the findings; 0 where JAX computes."""
    from ..report import tables

    works, devices = _devices()
    cache, there = use_cache(), total_memory()
    has = "memory unknown" if there is None else f"{there / 2**30:.0f} GiB"
    facts = {
        "understudy": f"{__version__}, in {Path(__file__).parents[1]}",
        "python": f"{platform.python_version()}, {sys.executable}",
        "system": f"{platform.system()} {platform.machine()}, {count_cores()} cores, {has}",
        "libraries": ", ".join(f"{name} {version}" for name, version in versions(CORE).items()),
        "devices": devices,
        "cache": "off, or its folder cannot be written" if cache is None else f"{cache}, {_size(cache)}",
        "settings": ", ".join(f"{name}={os.environ[name]}" for name in ASKED if name in os.environ) or "none",
    }
    extras = {name: _extra(needs) for name, needs in extras_of().items()}
    tables.show(tables.facts("understudy doctor", facts.items()))
    tables.show(tables.facts("extras: pip install 'understudy[NAME]'", extras.items()))
    tables.json_line({**facts, "extras": extras, "works": works})
    return 0 if works else 1


def _devices() -> tuple[bool, str]:
    """Whether JAX computes a number here, and the devices that it has."""
    try:
        import jax

        computes = float(jax.numpy.add(1.0, 1.0)) == 2.0
        names = [f"{device.platform}:{device.id} ({device.device_kind})" for device in jax.devices()]  # pyright: ignore[reportUnknownVariableType]
        return computes, ", ".join(names)
    except Exception as error:
        return False, f"JAX does not compute here ({shorten(error)})"


def extras_of(package: str = "understudy") -> dict[str, list[str]]:
    """The extras of an installed package, and the names of what each needs.

    >>> "mujoco" in extras_of().get("mujoco", ["mujoco"])
    True
    """
    try:
        listed = importlib.metadata.requires(package) or []
    except importlib.metadata.PackageNotFoundError:  # run from its sources
        return {}
    extras: dict[str, list[str]] = {}
    for line in listed:
        if extra := re.search(r"extra == ['\"]([\w-]+)['\"]", line):
            extras.setdefault(extra[1], []).append(re.split(r"[^\w.-]", line, maxsplit=1)[0])
    return extras


def _extra(needs: list[str]) -> str:
    there = versions(tuple(needs))
    missing = [name for name in needs if name not in there]
    if missing:
        return f"not installed: {', '.join(dict.fromkeys(missing))}"
    return ", ".join(f"{name} {version}" for name, version in there.items())


def _size(folder: Path) -> str:
    sizes = [file.stat().st_size for file in folder.glob("*") if file.is_file()]
    return f"{len(sizes)} programs, {sum(sizes) / 2**20:.0f} MiB"
