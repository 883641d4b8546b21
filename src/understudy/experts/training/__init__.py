"""Training an expert with SBX: `recipes` has the settings, `algorithms` the models, `run` the training itself
and `checkpoint` what resuming needs.
"""

from __future__ import annotations

from .run import Evaluated, Trained, require_sbx, train

__all__ = ["Evaluated", "Trained", "require_sbx", "train"]
