"""What it all came to, in one sentence for each environment."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..progress import spelled
from .sources import UNKNOWN
from .summaries import Interval
from .tables import many, returned

ENOUGH = 6
"""Of fewer values not even the interval from the least to the greatest covers a median with 95 %: it does so
with 1 − 2^(1−n)."""


def verdicts(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One verdict per environment: its sentence, and what the numbers in it are over."""
    envs = dict.fromkeys(one["labels"]["env"] for one in groups)
    return [_verdict(env, [one for one in groups if one["labels"]["env"] == env]) for env in envs]


def _verdict(env: str, groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    best = groups[0]
    runs = [one for group in groups for one in group["sources"]]
    counted = best["counted"]
    failed = [one for one in runs if one.state in ("failed", "unreadable")]
    trouble = f"{many(len(failed), 'run')} of {len(runs)} failed or cannot be read." if failed else ""
    if not counted:
        text = "Every run failed" if len(failed) == len(runs) else "No round is finished yet"
        text = f"{text} on {env}." if env != UNKNOWN else "Nothing of this can be read."
        note = f"{trouble} The first: {failed[0].trouble}" if failed else ""
        return {"env": env, "text": text, "note": note}
    who = best["name"] if len(groups) == 1 else f"{best['name']}, the best of {len(groups)},"
    text = f"{who} {_reached(best, env)}, with {many(best['labels_count'], 'label')}"
    if math.isfinite(best["seconds"]):
        text += f" in {spelled(best['seconds'])}" + (" a run" if counted > 1 else "")
    unfinished = [one for one in runs if one.state == "unfinished"]
    if len(runs) == 1 and unfinished:
        of = f" of {runs[0].planned}" if runs[0].planned else ""
        text = f"Round {runs[0].rounds}{of} is done. So far {text}"
    notes = [_over(best)]
    same = sum(bool(one.rounds) and one.state in ("finished", "unfinished") for one in best["sources"])
    if same > counted:
        notes.append(f"Runs of the same seed with the same losses count once: {same} runs are {counted}.")
    if len(groups) > 1:
        notes.append(_rivals(best, groups[1:]))
    if len(runs) > 1 and unfinished:
        are = "is" if len(unfinished) == 1 else "are"
        notes.append(f"{many(len(unfinished), 'run')} of {len(runs)} {are} not finished.")
    return {"env": env, "text": text + ".", "note": " ".join(one for one in [*notes, trouble] if one)}


def _reached(best: Mapping[str, Any], env: str) -> str:
    score, share, expert = best["return"], best["share"], best["expert"]
    if not math.isfinite(score.middle):
        why = "its returns are not finite" if best["episodes"] else "was not evaluated"
        return f"has an average loss of {best['average loss'].middle:.3g} on {env} and {why}"
    if math.isfinite(share.middle):
        spell = functools.partial(percent, beside=share)
        return f"reaches {spell(share.middle)} of the expert's return on {env}{_span(best, share, spell)}"
    spell = functools.partial(returned, beside=(*score, expert))
    against = f", the expert {spell(expert)}" if math.isfinite(expert) else ""
    return f"returns {spell(score.middle)} on {env}{_span(best, score, spell)}{against}"


def _span(best: Mapping[str, Any], one: Interval, spell: Callable[[float], str]) -> str:
    if not math.isfinite(one.low):
        return ""
    if one.low == one.high:
        return " in every episode" if best["over"] == "episodes" else " in every run"
    return f" (95 % interval {spell(one.low)} to {spell(one.high)})"


def _over(best: Mapping[str, Any]) -> str:
    """What score and interval are over."""
    score: Interval = best["return"]
    runs = best["measured"]
    if not math.isfinite(score.middle):
        return ""
    if best["over"] == "episodes":
        text = f"Mean and bootstrap interval over {best['episodes']} episodes"
        if score.low == score.high:
            text = f"All {best['episodes']} episodes returned the same, so the interval is a point"
    elif runs == 1:
        text = "One run, so there is no interval"
    else:
        text = f"Interquartile mean and bootstrap interval over {runs} runs"
    count = best["episodes"] if best["over"] == "episodes" else runs
    if math.isfinite(score.low) and score.low < score.high and count < ENOUGH:
        text += f", which are too few to cover 95 %: {ENOUGH} or more are needed"
    if not best["expert measured"] and math.isfinite(best["expert"]):
        text += "; the expert's return is that of its card"
    return text + "."


def _rivals(best: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Whether the best is set apart from the others by its interval."""
    score = best["return"]
    if not math.isfinite(score.low):
        return ""
    known = [one for one in others if math.isfinite(one["return"].middle)]
    near = [one["name"] for one in known if not one["return"].high < score.low]
    if not known:
        return "No other has a return to compare with."
    if not near:
        return "Its interval lies above all others."
    shown = ", ".join(near[:3]) + (f" and {len(near) - 3} more" if len(near) > 3 else "")
    return f"Its interval does not lie above that of {shown}."


def percent(share: float, *, beside: Iterable[float] = ()) -> str:
    """A share in per cent, with a decimal where it or one that stands `beside` it has one.

    >>> percent(0.9912), percent(1.0), percent(0.9, beside=[0.873])
    ('99.1 %', '100 %', '90.0 %')
    """
    finite = [one for one in (share, *beside) if math.isfinite(one)]
    whole = all(f"{100 * one:.1f}".endswith(".0") for one in finite)
    return f"{100 * share:.{0 if whole else 1}f} %"
