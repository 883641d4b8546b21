"""The size of the runs that tests play: runs of one size share their compiled programs."""

from __future__ import annotations

SIZE = {"rounds": 3, "steps_per_round": 40}
"""Another size on the same environment is another program: seconds of compiling for milliseconds of a run."""
