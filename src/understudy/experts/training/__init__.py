"""Training an expert with SBX: `recipes` has the settings, `algorithms` the models, `loop` the training
itself, `looks` the evaluations on the way and `checkpoint` what resuming needs.
"""

from __future__ import annotations

from .looks import Evaluated
from .loop import Trained, require_sbx, train

__all__ = ["Evaluated", "Trained", "require_sbx", "train"]
