"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

# Numbers are compared bit for bit in places, so the device must not depend on the machine.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import pytest
from hypothesis import settings

HERE = Path(__file__).parent

# The first example compiles, which takes seconds; a deadline would only measure that.
settings.register_profile("understudy", deadline=None, print_blob=True)
settings.load_profile("understudy")

collect_ignore = [] if importlib.util.find_spec("stable_baselines3") else ["sb3"]
collect_ignore += [] if importlib.util.find_spec("ray") else ["ray"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything under tests/sb3 and tests/ray carries the marker of that name by itself."""
    for item in items:
        for name in ("sb3", "ray"):
            if HERE / name in item.path.parents:
                item.add_marker(getattr(pytest.mark, name))


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
