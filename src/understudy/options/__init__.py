"""What each command can be told: frozen dataclasses, read by tyro. Nothing here may import jax or NumPy."""

from .common import ExpertOptions, LearnerOptions, SolverOptions
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
    "ExpertOptions",
    "ExpertTrain",
    "ExpertsList",
    "LearnerOptions",
    "PaperAtari",
    "PaperGridworld",
    "PaperMujoco",
    "PaperQuestions",
    "PaperTheorem",
    "PaperToy",
    "Play",
    "Replay",
    "SolverOptions",
    "Sweep",
    "Train",
]
