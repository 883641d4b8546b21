"""A cluster of two nodes on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes with one core each; the head is where we are."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # Nodes hand their environment on to workers, which must find the tests' own modules.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.other = made.add_node(num_cpus=1)  # type: ignore[attr-defined]
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()
