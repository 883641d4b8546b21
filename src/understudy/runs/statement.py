"""What a run says of its goal in the end."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, final


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """What a run says of its goal in the end.

    until: the goal. reached: whether a policy was accepted. score, low, high: its share of the expert's return,
    agreement or loss, with the interval; nan where nothing was tested. episodes: of the test; labels: of the
    run; candidates: policies that were tested. exact: whether the test rests on known limits alone. more: about
    how many more episodes would decide; infinite where none would, 0 where it is decided. text: the sentence.
    """

    until: str
    reached: bool
    score: float
    low: float
    high: float
    episodes: int
    labels: int
    candidates: int
    exact: bool
    more: float
    text: str

    def plain(self) -> dict[str, Any]:
        """As plain data; None for what is not finite."""
        values = dataclasses.asdict(self)
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}

    def numbers(self) -> dict[str, Any]:
        """What a summary says of it."""
        named = {"until": self.until, "reached": self.reached, "score": self.score, "score_low": self.low}
        return named | {"score_high": self.high, "tested": self.episodes, "statement": self.text}

    @classmethod
    def read(cls, plain: dict[str, Any] | None) -> Statement | None:
        """What `plain` gave; None where there is nothing."""
        if plain is None:
            return None
        ends = {"score": math.nan, "low": -math.inf, "high": math.inf, "more": math.inf}
        return cls(**{k: ends.get(k, v) if v is None else v for k, v in plain.items()})
