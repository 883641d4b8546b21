"""What it all came to, in one sentence for each environment."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..intervals import LEVEL, Interval
from ..progress import format_duration
from .compared import between
from .sources import UNKNOWN
from .tables import many, returned

BRACKETS = "In brackets are Student's 95 % intervals"
ELSEWHERE = "its loss is on the expert's states, so it is not ranked by it"


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
    by = "highest mean return" if math.isfinite(best["return"].middle) else "least average loss"
    who = best["name"] if len(groups) == 1 else f"{best['name']}, with the {by} of {len(groups)},"
    text = f"{who} {_reached(best, env)}, with {many(best['labels_count'], 'label')}"
    if math.isfinite(best["seconds"]):
        text += f" in {format_duration(best['seconds'])}" + (" a run" if counted > 1 else "")
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
        stopped = sum(not one.going for one in unfinished)
        more = f", {stopped} of them stopped" if stopped else ""
        notes.append(f"{many(len(unfinished), 'run')} of {len(runs)} {are} not finished{more}.")
    return {"env": env, "text": text + ".", "note": " ".join(one for one in [*notes, trouble] if one)}


def _reached(best: Mapping[str, Any], env: str) -> str:
    score, share = best["return"], best["share"]
    if not math.isfinite(score.middle):
        why = "its returns are not finite" if best["not finite"] else "was not evaluated"
        return f"has an average loss of {best['average loss'].middle:.3g} on {env} and {why}"
    if math.isfinite(share.middle):
        spell = functools.partial(percent, beside=share[:3])
        return f"reaches {spell(share.middle)} of the expert's return on {env}{span(share, spell)}"
    spell = functools.partial(returned, beside=(*score[:3], best["expert"].middle))
    return f"returns {spell(score.middle)} on {env}{span(score, spell)}"


def span(one: Interval, spell: Callable[[float], str], said: str = "95 % interval ") -> str:
    """An interval in brackets; nothing where there is none, and words where nothing varied."""
    if one.low == one.high:
        return " each time"
    return f" ({said}{spell(one.low)} to {spell(one.high)})" if math.isfinite(one.low + one.high) else ""


def _over(best: Mapping[str, Any]) -> str:
    """The returns behind the sentence, the expert's beside them, and what all of them are over."""
    score, expert, gap = best["return"], best["expert"], best["difference"]
    if not math.isfinite(score.middle):
        return ""
    spell = functools.partial(returned, beside=(*score[:3], *expert[:3]))
    text = f"Mean return {spell(score.middle)}{span(score, spell)}"
    if math.isfinite(gap.middle):
        text += f", the expert's {spell(expert.middle)}{span(expert, spell, '')}"
        text += f"; the mean difference in pairs is {spell(gap.middle)}{span(gap, spell, '')}. "
    elif math.isfinite(expert.middle):
        where = "on other episodes" if best["expert measured"] else "by its card, on other episodes"
        text += f"; the expert's {spell(expert.middle)} is {where}, and not compared. "
    else:
        text += "; the expert's was not measured" + (f": {best['why']}. " if best["why"] else ". ")
    return text + _counted(best, spell)


def _counted(best: Mapping[str, Any], spell: Callable[[float], str]) -> str:
    """How many episodes and runs, and the least return, which a mean and its interval may hide."""
    played = many(best["episodes"], "episode")
    least = f"the least return is {spell(best['least'])}" if math.isfinite(best["least"]) else ""
    if best["over"] == "episodes":
        text = f"{BRACKETS} over {played}" if best["episodes"] > 1 else "One episode, so no interval"
    elif best["measured"] == 1:
        text = "One run, so no interval"
    else:
        text = f"{BRACKETS} over {best['measured']} runs"
        text += f" of {played} each" if best["episodes"] else ""
        text += ", the expert's over the episodes" if math.isfinite(best["expert"].low) else ""
    return "; ".join(one for one in (text, least) if one) + "."


def _rivals(best: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Whether the best returns more than the others on the same episodes, as far as the intervals show."""
    score = best["return"]
    if not math.isfinite(score.middle):
        behind = [one["name"] for one in others if one["by expert"]]
        return "" if best["by expert"] or not behind else f"{_listed(behind)}: {ELSEWHERE}."
    known = [one for one in others if math.isfinite(one["return"].middle)]
    if not known:
        return "No other has a return to compare with."
    # The best was found by these returns, so that the intervals hold for all pairs at once.
    pairs = len(known) * (len(known) + 1) // 2
    found = [
        (one["name"], between(best["sources"], one["sources"], 1 - (1 - LEVEL) / pairs)) for one in known
    ]
    more = [(name, gap, over) for name, (gap, over) in found if gap.low > 0]
    near = [(name, gap, over) for name, (gap, over) in found if gap.low <= 0]
    apart = [(name, over) for name, (gap, over) in found if math.isnan(gap.middle)]
    said = "95 % interval " if pairs == 1 else f"95 % interval for all {pairs} pairs at once "
    notes = []
    for words, listed in (("It returns more than", more), ("It is not clearly above", near)):
        if listed:
            name, gap, over = min(listed, key=lambda one: one[1].low)
            spell = functools.partial(returned, beside=gap[:3])
            least = "" if len(listed) == 1 else f"; the least clear, {name}"
            shown = f"by {spell(gap.middle)}{span(gap, spell, said)} over {over}"
            if not math.isfinite(gap.low):
                shown = f"by {spell(gap.middle)} over {over}, without an interval"
            notes.append(f"{words} {_listed([one for one, *_ in listed])}{least}: {shown}.")
    for why in dict.fromkeys(why for _, why in apart):
        notes.append(f"Not compared with {_listed([name for name, one in apart if one == why])}: {why}.")
    return " ".join(notes)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def percent(share: float, *, beside: Iterable[float] = ()) -> str:
    """A share in per cent, with a decimal where it or one that stands `beside` it has one.

    >>> percent(0.9912), percent(1.0), percent(0.9, beside=[0.873])
    ('99.1 %', '100 %', '90.0 %')
    """
    finite = [one for one in (share, *beside) if math.isfinite(one)]
    whole = all(f"{100 * one:.1f}".endswith(".0") for one in finite)
    return f"{100 * share:.{0 if whole else 1}f} %"
