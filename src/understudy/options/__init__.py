"""The options of each command: frozen dataclasses, read by tyro. Nothing here may import jax or NumPy."""

from .paper import PaperAtari, PaperGridworld, PaperMujoco, PaperQuestions, PaperTheorem, PaperToy
from .training import (
    CheckCertificate,
    CheckLearner,
    CheckSolver,
    Demo,
    Evaluate,
    ExpertsList,
    ExpertTrain,
    Play,
    Replay,
    Sweep,
    Train,
)

__all__ = [
    "CheckCertificate",
    "CheckLearner",
    "CheckSolver",
    "Demo",
    "Evaluate",
    "ExpertTrain",
    "ExpertsList",
    "PaperAtari",
    "PaperGridworld",
    "PaperMujoco",
    "PaperQuestions",
    "PaperTheorem",
    "PaperToy",
    "Play",
    "Replay",
    "Sweep",
    "Train",
]
