"""What a run says of its goal in the end."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import Any, final

from ..disk import Json


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """What a run says of its goal in the end.

    until: the goal. reached: whether a policy was accepted. score, low, high: its share of the expert's
    return, agreement or loss, with the interval; nan where nothing was tested. episodes: of the test; labels:
    of the run; candidates: policies that were tested. exact: whether the test rests on known limits alone.
    more: about how many more episodes would decide; infinite where none would, 0 where it is decided. text:
    the sentence.
    """

    until: str
    reached: bool
    episodes: int
    labels: int
    candidates: int
    exact: bool
    text: str
    score: float = math.nan
    low: float = -math.inf
    high: float = math.inf
    more: float = math.inf

    def plain(self) -> dict[str, Json]:
        """As plain data; None for what is not finite."""
        values = dataclasses.asdict(self)
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}

    def numbers(self) -> dict[str, Json]:
        """What a summary says of it."""
        return {
            "until": self.until,
            "reached": self.reached,
            "score": self.score,
            "score_low": self.low,
            "score_high": self.high,
            "tested": self.episodes,
            "statement": self.text,
        }

    def lines(self, width: int = 50) -> list[str]:
        """The sentence in lines of at most so many characters."""
        return textwrap.wrap(self.text, width)

    @classmethod
    def read(cls, plain: dict[str, Any]) -> Statement:
        """What `plain` gave."""
        return cls(**{name: value for name, value in plain.items() if value is not None})
