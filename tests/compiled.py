"""How the tests compile."""

from __future__ import annotations

import os

# Without optimisation two programs of one formula may round differently (`conftest.py`).
PLAIN = "xla_backend_optimization_level=0" in os.environ["XLA_FLAGS"]
